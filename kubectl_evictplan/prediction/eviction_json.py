"""Rows of evictions as JSON: what the rows of a group share is encoded once.

The bytes are those that encoding every row gives. Of each group the row of a pod without names is encoded, those of many
groups together, and cut where the names belong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import fields, replace

from kubectl_evictplan.prediction.grouped_evictions import (
    EvictionGroup,
    Evictions,
    OneOfGroup,
)
from kubectl_evictplan.prediction.records import Because, Eviction

Encode = Callable[[Any], str]

_ROWS_AT_ONCE = 200
# What a row begins with; its owner and the objects of its chain follow.
_NAMES = ("namespace", "pod", "uid")
# Quotes in strings are escaped: so this stands only between the strings of a list.
_BETWEEN_STRINGS = '","'


class _GroupTexts(NamedTuple):
    """What stands in the rows of a group before the owner, behind it, and then, cut where a link names the pod."""

    before_owner: str
    before_chain: str
    chain: Sequence[str]


class EvictionTexts:
    """JSON of rows that are ``grouped``. ``encode`` makes compact JSON of a value."""

    def __init__(self, encode: Encode, indents: int | None = None) -> None:
        """``indents``: how many indents of two blanks stand before each row; None for compact texts."""
        self._encode, self._indents = encode, indents
        keys = {field.name: field.encode_name for field in (*fields(Eviction), *fields(Because))}
        line, blank = ("", "") if indents is None else ("\n" + "  " * indents, " ")
        inside = line and line + "  "
        self._separator = f",{line}"
        # Strings stand between quotes: these are those of the texts around them. Quotes in strings
        # are escaped, so that a key with its quotes is nowhere else.
        before = [f'"{keys[name]}":{blank}"' for name in _NAMES]
        self._before_namespace = f"{{{inside}{before[0]}"
        self._before_pod, self._before_uid = (f'",{inside}{each}' for each in before[1:])
        self._no_names = self._before_namespace + self._before_pod + self._before_uid + '"'
        self._before_owner = f'"{keys["owner"]}":{blank}"'
        self._before_chain = f'",{inside}"{keys["because"]}":{blank}['
        self._no_owner = self._before_owner + self._before_chain
        self._before_object = f'"{keys["object"]}":{blank}"'
        self._no_object = f'{self._before_object}"'
        # Of groups at one instant, whose rows mix: each is met again for every one of its pods. And what
        # leads there, which groups share by identity.
        self._groups: dict[int, _GroupTexts] = {}
        self._befores: dict[int, str] = {}

    def chunks(self, evictions: Evictions) -> Iterator[str]:
        """Yield the rows, with what separates them: joined they are the inside of the list."""
        rows, offset_seconds = evictions.in_order, None
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[at : at + _ROWS_AT_ONCE]
            if offset_seconds != some[0][1].shared.offset_seconds:
                self._groups.clear()
                self._befores.clear()
            offset_seconds = some[-1][1].shared.offset_seconds
            self._learn([group for _, group in some])
            yield (self._separator if at else "") + self._some(some)

    def _learn(self, groups: Sequence[EvictionGroup]) -> None:
        """Encode what the rows of these groups share."""
        new = {id(group): group for group in groups if id(group) not in self._groups}
        if not new:
            return
        text = self._json([_without_names(group) for group in new.values()], 1)
        # The list's own bracket stands behind the last row.
        _, *rows = f"{text[: text.rindex('}') + 1]}{self._separator}".split(self._no_names)
        for (known, group), row in zip(new.items(), rows, strict=True):
            before_owner, behind = row.removesuffix(self._separator).split(self._no_owner)
            chain = behind.split(self._no_object)
            self._groups[known] = _GroupTexts(before_owner, self._before(group), chain)

    def _before(self, group: EvictionGroup) -> str:
        """From behind the owner on what leads to what is told of the pods."""
        before, rest = group.chain
        if not before or not rest:
            return self._before_chain
        if (found := self._befores.get(id(before))) is None:
            text = self._json(before, -1)
            found = f"{self._before_chain}{text[1 : text.rindex('}') + 1]},"
            self._befores[id(before)] = found
        return found

    def _json(self, value: Any, outwards: int) -> str:
        """The JSON of a list that stands so many indents outwards of the inside of a row."""
        text = self._encode(value)
        if self._indents is None:
            return text
        line = "\n" + "  " * (self._indents - outwards)
        return msgspec.json.format(text, indent=2).replace("\n", line)

    def _some(self, rows: Sequence[OneOfGroup]) -> str:
        namespaces = self._strings([names.namespace for names, _ in rows])
        pods = self._strings([names.pod for names, _ in rows])
        uids = self._strings([names.uid for names, _ in rows])
        owners = self._strings([names.owner for names, _ in rows])
        before_namespace, before_pod = self._before_namespace, self._before_pod
        before_uid, own = self._before_uid, self._before_owner
        before_object, groups = f"{self._before_object}pod/", self._groups
        texts = []
        for (_, group), namespace, pod, uid, owner in zip(
            rows, namespaces, pods, uids, owners, strict=True
        ):
            before_owner, before_chain, chain = groups[id(group)]
            told = f'{before_object}{namespace}/{pod}"'.join(chain)
            texts.append(
                f'{before_namespace}{namespace}{before_pod}{pod}{before_uid}{uid}"'
                f"{before_owner}{own}{owner}{before_chain}{told}"
            )
        return self._separator.join(texts)

    def _strings(self, values: list[str]) -> list[str]:
        """Each of many strings as it stands between its quotes."""
        return self._encode(values)[2:-2].split(_BETWEEN_STRINGS)


def _without_names(group: EvictionGroup) -> Eviction:
    """A row of the group as pods have it that share the beginning of their chains: told of the object ""."""
    before, rest = group.chain
    return replace(group.shared, namespace="", pod="", uid="", owner="", because=rest or before)
