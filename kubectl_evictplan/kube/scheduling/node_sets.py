"""Sets of nodes as bits of one integer: bit i is the i-th node.

Every filter answers with the nodes it lets pass. Intersections and counts over thousands of nodes then cost
about as much as one comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_

NodeSet = int


def nodes_where(flags: Iterable[bool]) -> NodeSet:
    """Return the set of the nodes whose flag is true; flags come in the order of the nodes."""
    text = "".join(["1" if flag else "0" for flag in flags])
    return int(text[::-1], 2) if text else 0


def places(nodes: NodeSet) -> Iterator[int]:
    """Yield the places of the nodes, lowest first."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def first_place(nodes: NodeSet) -> int:
    """Return the place of the first node of a set that is not empty."""
    return (nodes & -nodes).bit_length() - 1


def set_of(listed: Iterable[int]) -> NodeSet:
    """Return the set of the nodes at these places."""
    nodes = 0
    for place in listed:
        nodes |= 1 << place
    return nodes


def union(sets: Iterable[NodeSet]) -> NodeSet:
    """Return the nodes that are in any of these sets."""
    return reduce(or_, sets, 0)
