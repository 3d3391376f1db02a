"""Whether nodes came or went while the cluster was read: one list more, of their metadata alone.

Lists of different kinds show different moments. What decides most is which nodes there are, so they
are asked for once more after everything else (``PartialObjectMetadataList``: little to send) and
compared by uid, because a node that was made anew under its old name is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.live.lists import Page, read_list
from kubectl_evictplan.live.resources import NODES
from kubectl_evictplan.live.transport import Transport
from kubectl_evictplan.scenarios.names import listed

_NAMES_MAX = 5


class Changes(NamedTuple):
    """Names of nodes that came and that went, in order; ``unknown`` says why that is not known."""

    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()
    unknown: str = ""

    def words(self) -> str:
        """Return words for a message; "" when nothing is to be said."""
        if self.unknown:
            return f"whether nodes came or went meanwhile is not known: {self.unknown}"
        parts = [
            f"{listed(names, _NAMES_MAX)} {verb}"
            for names, verb in ((self.came, "came"), (self.went, "went"))
            if names
        ]
        return f"while the cluster was read, nodes changed: {'; '.join(parts)}" if parts else ""


class _Metadata(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def changes_since(transport: Transport, nodes: Iterable[Node], *, chunk_size: int) -> Changes:
    """Ask for the nodes there are by now and compare them with ``nodes``; raises what lists raise."""
    now: set[tuple[str, str]] = set()
    decoder = msgspec.json.Decoder(_Item)

    def begin() -> Callable[[Page], None]:
        now.clear()
        return take

    def take(page: Page) -> None:
        for raw in page.items:
            try:
                found = decoder.decode(raw).metadata
            except msgspec.ValidationError:
                continue
            now.add((found.name, found.uid))

    metadata = NODES._replace(metadata_only=True)
    found = read_list(transport, metadata, chunk_size=chunk_size, begin=begin)
    if found.not_evaluated:
        return Changes(unknown=found.not_evaluated)
    before = {(node.name, node.uid) for node in nodes}
    return Changes(_names(now - before), _names(before - now))


def _names(nodes: set[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(sorted(name for name, _ in nodes))
