"""The words that name nodes, as kubectl reads them: ``node n1 n2``, ``node/n1``, ``nodes/n1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kubectl_evictplan.errors import InputError, Problem

if TYPE_CHECKING:
    from kubectl_evictplan.kube.objects import Node

NODE_WORDS = ("node", "nodes", "no")


def node_name(word: str) -> str:
    """Return the name in ``NAME`` or ``node/NAME``; InputError for another type or no name."""
    kind, slash, name = word.partition("/")
    if not slash:
        name = word
    elif kind.lower() not in NODE_WORDS or "/" in name:
        raise InputError(Problem("only nodes can be named here", got=word, expected="node/NAME"))
    if not name or name.startswith("-"):
        raise InputError(Problem("not the name of a node", got=repr(word)))
    return name


def select_nodes(
    nodes: Mapping[str, Node],
    names: Sequence[str],
    *,
    selector: str = "",
    all_nodes: bool = False,
) -> list[Node]:
    """Return the nodes that names, a label selector or ``--all`` mean, sorted by name.

    InputError for an unknown name (with the nearest), bad syntax, or a selector without a match.
    """
    from kubectl_evictplan.scenarios.targets import nodes_by_name, nodes_by_selector

    try:
        if selector:
            return nodes_by_selector(nodes, selector)
        if all_nodes:
            return [nodes[name] for name in sorted(nodes)]
        return nodes_by_name(nodes, [node_name(word) for word in names])
    except ValueError as error:
        raise InputError(Problem(str(error), location="--selector" if selector else "")) from None


def refuse_mixed_targets(names: Sequence[str], selector: str, all_nodes: bool = False) -> None:
    """Raise unless exactly one of names, selector and --all says which nodes are meant."""
    given = [bool(names), bool(selector), all_nodes]
    if sum(given) == 0:
        raise InputError(Problem("which nodes? give names or --selector"))
    if sum(given) > 1:
        raise InputError(Problem("cannot specify both a node name and --selector or --all"))
