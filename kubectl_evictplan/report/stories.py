"""How evictions come about, for a table that tells it of every row: what they share is told once."""

from __future__ import annotations

from kubectl_evictplan.prediction.document import Because
from kubectl_evictplan.prediction.grouped_evictions import Chain, Evictions
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Moment, Stories

_Link = tuple[float | None, str, str, str]


def stories(evictions: Evictions) -> Stories:
    """Return the chain of causes of each eviction; the row's own pod is not named in them."""
    links: dict[_Link, int] = {}
    # Pods of one node share most links, as the same objects: those are looked at once.
    shared: dict[int, int] = {}
    chains: dict[tuple[int, ...], int] = {}
    # What leads to all evictions of one node is one object, and names no pod of the rows.
    leading: dict[int, list[int]] = {}

    def number(link: Because, own: str) -> int:
        """``own``: the row's pod as an object; groups call it ""."""
        if (at := shared.get(id(link))) is None:
            mine = link.object in ("", own)
            told = link.offset_seconds, link.what, "" if mine else link.object, link.rule
            at = links.setdefault(told, len(links))
            if not mine:
                shared[id(link)] = at
        return at

    def before(links: Chain, own: str) -> list[int]:
        if not evictions.grouped:
            return [number(link, own) for link in links]
        if (found := leading.get(id(links))) is None:
            found = leading[id(links)] = [number(link, own) for link in links]
        return found

    of_row = []
    of_group: dict[int, int] = {}
    for names, group in evictions.in_order:
        if (place := of_group.get(id(group))) is None:
            own, parts = f"pod/{names.key}", group.chain
            chain = (*before(parts.before, own), *[number(link, own) for link in parts.rest])
            place = of_group[id(group)] = chains.setdefault(chain, len(chains))
        of_row.append(place)
    moments = [
        Moment("", words.offset(at), f"{_of(subject)}{what or words.UNKNOWN}", rule)
        for at, what, subject, rule in links
    ]
    return Stories(moments, list(chains), of_row)


def _of(subject: str) -> str:
    kind, slash, name = subject.partition("/")
    return f"{words.name(kind)} {words.name(name)}: " if slash else ""
