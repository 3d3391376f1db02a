"""Rows of evictions as JSON: what the rows of a group share is encoded once.

The bytes are those that encoding every row gives. A row begins with three names of its own and ends with its owner and
its chain of causes; what stands in between is its group's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import starmap
from typing import Any

import msgspec

from kubectl_evictplan.prediction.grouped_evictions import (
    Chain,
    EvictionGroup,
    Evictions,
    OneOfGroup,
    SharedChain,
)

Encode = Callable[[Any], str]

_ROWS_AT_ONCE = 500
# Quotes in strings are escaped: so this stands only between the strings of a list.
_BETWEEN_STRINGS = '","'


class EvictionTexts:
    """JSON of rows that are ``grouped``. ``encode`` makes compact JSON of a value."""

    def __init__(self, encode: Encode, indents: int | None = None) -> None:
        """``indents``: how many indents of two blanks stand before each row; None for compact texts."""
        self._encode, self._indents = encode, indents
        blank = "" if indents is None else " "
        self._line = line = "" if indents is None else "\n" + "  " * indents
        inside = line and line + "  "
        self._separator = f",{line}"
        self._names = (
            f'{{{inside}"namespace":{blank}',
            f',{inside}"pod":{blank}',
            f',{inside}"uid":{blank}',
        )
        self._because = f',{inside}"because":{blank}'
        self._object = f'"object":{blank}'
        # By identity: pods of one node share them, and they live on in their groups.
        self._chains: dict[int, str] = {}
        self._groups: dict[int, tuple[str, Sequence[str]]] = {}

    def chunks(self, evictions: Evictions) -> Iterator[str]:
        """Yield the rows, with what separates them: joined they are the inside of the list."""
        rows = evictions.in_order
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            yield (self._separator if at else "") + self._some(rows[at : at + _ROWS_AT_ONCE])

    def _some(self, rows: Sequence[OneOfGroup]) -> str:
        namespaces, pods, uids, owners = map(
            self._strings, zip(*[names for names, _ in rows], strict=True)
        )
        objects = starmap('"pod/{}/{}"'.format, zip(namespaces, pods, strict=True))
        before_namespace, before_pod, before_uid = self._names
        texts: list[str] = []
        for (_, group), namespace, pod, uid, owner, own in zip(
            rows, namespaces, pods, uids, owners, objects, strict=True
        ):
            if (known := self._groups.get(id(group))) is None:
                known = self._groups[id(group)] = self._of_group(group)
            before_owner, ends = known
            texts += (before_namespace, f'"{namespace}"', before_pod, f'"{pod}"')
            texts += (before_uid, f'"{uid}"', before_owner, f'"{owner}"', ends[0])
            for end in ends[1:]:
                texts += (own, end)
            texts.append(self._separator)
        return "".join(texts[:-1])

    def _strings(self, values: Iterable[str]) -> list[str]:
        """Each of many strings as it stands between its quotes."""
        return self._encode(list(values))[2:-2].split(_BETWEEN_STRINGS)

    def _of_group(self, group: EvictionGroup) -> tuple[str, Sequence[str]]:
        """What stands before the owner of its rows, and what follows, cut where a pod is told of itself."""
        text = self._text(group.shared, 0)
        nameless = '""'.join((*self._names, ""))
        after_owner = f"{self._because}[]{self._line}}}"
        before_owner = text[len(nameless) : -len(f'""{after_owner}')]
        ends = f"{self._because}{self._chain(group.chain)}{self._line}}}".split(f'{self._object}""')
        return before_owner, [*(end + self._object for end in ends[:-1]), ends[-1]]

    def _chain(self, chain: SharedChain) -> str:
        before = self._chains.get(id(chain.before))
        if before is None:
            before = self._chains[id(chain.before)] = self._links(chain.before)
        links = ",".join(filter(None, (before, self._links(chain.rest))))
        return f"[{links}{self._line and self._line + '  '}]" if links else "[]"

    def _links(self, links: Chain) -> str:
        """The links as they stand in their list; "" when there are none."""
        closing = f"{self._line and self._line + '  '}]"
        return self._text(links, 1)[1 : -len(closing)] if links else ""

    def _text(self, value: Any, depth: int) -> str:
        text = self._encode(value)
        if self._indents is None:
            return text
        lines = msgspec.json.format(text, indent=2)
        return lines.replace("\n", "\n" + "  " * (self._indents + depth))
