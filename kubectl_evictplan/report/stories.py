"""How evictions come about, for a table that tells it of every row: what they share is told once."""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_evictplan.prediction.document import Because, Eviction
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Moment, Stories

_Link = tuple[float | None, str, str, str]


def stories(evictions: Sequence[Eviction]) -> Stories:
    """Return the chain of causes of each eviction; the row's own pod is not named in them."""
    links: dict[_Link, int] = {}
    # Pods of one node share most links, as the same objects: those are looked at once.
    shared: dict[int, int] = {}
    chains: dict[tuple[int, ...], int] = {}

    def new(link: Because, entry: Eviction) -> int:
        mine = link.object == f"pod/{entry.namespace}/{entry.pod}"
        told = link.offset_seconds, link.what, "" if mine else link.object, link.rule
        at = links.setdefault(told, len(links))
        if not mine:
            shared[id(link)] = at
        return at

    of_row = []
    # By the links before the last ones about the row's own pod, and by what those tell.
    alike: dict[tuple[object, ...], int] = {}
    for entry in evictions:
        because, mine = entry.because, f"pod/{entry.namespace}/{entry.pod}"
        before = len(because)
        while before and because[before - 1].object == mine:
            before -= 1
        own = [(link.offset_seconds, link.what, link.rule) for link in because[before:]]
        token = (*map(id, because[:before]), *own)
        if (number := alike.get(token)) is None:
            known = zip(map(shared.get, map(id, because)), because, strict=True)
            chain = tuple([new(link, entry) if at is None else at for at, link in known])
            number = alike[token] = chains.setdefault(chain, len(chains))
        of_row.append(number)
    moments = [
        Moment("", words.offset(at), f"{_of(subject)}{what or words.UNKNOWN}", rule)
        for at, what, subject, rule in links
    ]
    return Stories(moments, list(chains), of_row)


def _of(subject: str) -> str:
    kind, slash, name = subject.partition("/")
    return f"{words.name(kind)} {words.name(name)}: " if slash else ""
