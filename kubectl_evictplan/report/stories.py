"""How evictions come about, for a table that tells it of every row: what they share is told once."""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_evictplan.prediction.document import Eviction
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Moment, Stories

_Link = tuple[float | None, str, str, str]


def stories(evictions: Iterable[Eviction]) -> Stories:
    """Return the chain of causes of each eviction; the row's own pod is not named in them."""
    links: dict[_Link, int] = {}
    chains: dict[tuple[int, ...], int] = {}
    of_row = []
    for entry in evictions:
        own = f"pod/{entry.namespace}/{entry.pod}"
        chain = tuple(
            links.setdefault(
                (
                    link.offset_seconds,
                    link.what,
                    "" if link.object == own else link.object,
                    link.rule,
                ),
                len(links),
            )
            for link in entry.because
        )
        of_row.append(chains.setdefault(chain, len(chains)))
    moments = [
        Moment("", words.offset(at), f"{_of(subject)}{what or words.UNKNOWN}", rule)
        for at, what, subject, rule in links
    ]
    return Stories(moments, list(chains), of_row)


def _of(subject: str) -> str:
    kind, slash, name = subject.partition("/")
    return f"{words.name(kind)} {words.name(name)}: " if slash else ""
