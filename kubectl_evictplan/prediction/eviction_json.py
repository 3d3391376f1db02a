"""Rows of evictions as JSON: what the rows of a group share is encoded once.

The bytes are those that encoding every row gives. Of each group the row of a pod without names is encoded, those of many
groups together, and cut where the names belong; names are encoded as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, repeat
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import fields

from kubectl_evictplan.prediction.grouped_evictions import (
    EvictionGroup,
    Evictions,
    OneOfGroup,
)
from kubectl_evictplan.prediction.records import Because, Eviction

Encode = Callable[[Any], bytes]

# What groups share, and names, are encoded for so many rows together.
_ROWS_LEARNT_AT_ONCE = 160
# So many are joined: some 100 KB, which the processor still has at hand when they are written.
_ROWS_AT_ONCE = 40
# So many texts are kept of what leads to evictions on a node, and of names that come again.
_TEXTS_MAX = 6_000
# What a row begins with; its owner and the objects of its chain follow.
_NAMES = ("namespace", "pod", "uid")
# Where no string has an escaped quote, this stands only between the strings of a list.
_BETWEEN_STRINGS, _ESCAPED_QUOTE = b'","', b'\\"'


# What stands in the rows of a group behind the uid, behind the owner, and then, cut where a link names the pod.
_GroupTexts = tuple[bytes, bytes, Sequence[bytes]]
_names_of = attrgetter("namespace", "pod", "uid", "owner")


class _Strings(dict[str, bytes]):
    """Strings that many rows have, as they stand between their quotes."""

    def __init__(self, encode: Encode) -> None:
        super().__init__()
        self._encode = encode

    def __missing__(self, value: str) -> bytes:
        if len(self) >= _TEXTS_MAX:
            self.clear()
        found = self[value] = self._encode(value)[1:-1]
        return found


def inside(compact: bytes, depth: int) -> bytes:
    """Return a list that is not empty as it stands so many indents of two blanks deep, without its brackets.

    Each value stands on a line of its own; the first line begins with its line break.
    """
    # In so many lists it stands where it belongs.
    text = msgspec.json.format(b"[" * depth + compact + b"]" * depth, indent=2)
    opening = sum(len("[\n") + 2 * level for level in range(1, depth + 1)) + len("[")
    closing = sum(len("\n]") + 2 * level for level in range(depth + 1))
    return text[opening : len(text) - closing]


class EvictionTexts:
    """JSON of rows that are ``grouped``. ``encode`` makes compact JSON of a value."""

    def __init__(self, encode: Encode, indents: int) -> None:
        """``indents``: how many indents of two blanks stand before each row."""
        self._encode, self._indents = encode, indents
        keys = {field.name: field.encode_name for field in (*fields(Eviction), *fields(Because))}
        line = "\n" + "  " * indents
        inside = line + "  "
        self._separator = f",{line}".encode()
        # Strings stand between quotes: these are those of the texts around them. Quotes in strings
        # are escaped, so that a key with its quotes is nowhere else.
        before = [f'"{keys[name]}": "' for name in _NAMES]
        self._before_namespace = f"{{{inside}{before[0]}".encode()
        self._before_pod, self._before_uid = (f'",{inside}{each}'.encode() for each in before[1:])
        self._no_names = self._before_namespace + self._before_pod + self._before_uid
        self._before_owner = f'"{keys["owner"]}": "'.encode()
        self._before_chain = f'",{inside}"{keys["because"]}": ['.encode()
        self._no_owner = self._before_owner + self._before_chain
        before_object = f'"{keys["object"]}": "'
        self._no_object = f'{before_object}"'.encode()
        self._around_key = f"{before_object}pod/".encode(), b'"'
        self._common = _Strings(encode)
        # What leads there, which groups share by identity.
        self._befores: dict[int, bytes] = {}

    def chunks(self, evictions: Evictions) -> Iterator[bytes]:
        """Yield the rows, with what separates them: joined they are the inside of the list."""
        rows = evictions.in_order
        texts: dict[int, _GroupTexts] = {}
        for start in range(0, len(rows), _ROWS_LEARNT_AT_ONCE):
            some = rows[start : start + _ROWS_LEARNT_AT_ONCE]
            groups = {id(group): group for _, group in some}
            # Rows of groups at one instant mix: some of these groups were met before.
            texts = {known: texts[known] for known in groups.keys() & texts.keys()}
            self._learn([groups[one] for one in groups.keys() - texts.keys()], texts)
            pieces = self._pieces(some, texts)
            for at in range(start, start + len(some), _ROWS_AT_ONCE):
                text = b"".join(chain.from_iterable(islice(pieces, _ROWS_AT_ONCE)))
                is_last = at + _ROWS_AT_ONCE >= len(rows)
                yield text[: -len(self._separator)] if is_last else text

    def _learn(self, groups: Sequence[EvictionGroup], texts: dict[int, _GroupTexts]) -> None:
        """Encode what the rows of these groups share."""
        if not groups:
            return
        rows = b",".join(map(self._row, groups))
        text = inside(b"[%b]" % rows, self._indents - 1)
        _, *texts_of_rows = (text + self._separator).split(self._no_names)
        no_owner, no_object = self._no_owner, self._no_object
        for group, row in zip(groups, texts_of_rows, strict=True):
            behind_uid, told = row.split(no_owner)
            texts[id(group)] = behind_uid, self._before(group), told.split(no_object)

    def _row(self, group: EvictionGroup) -> bytes:
        """A row of the group as pods have it that share the beginning of their chains: told of the object ""."""
        row, told = group.json(self._encode)
        return b"%b%b]}" % (row, told or self._encode(group.chain.before)[1:-1])

    def _before(self, group: EvictionGroup) -> bytes:
        """From behind the owner on what leads to what is told of the pods."""
        before, rest = group.chain
        if not before or not rest:
            return self._before_chain
        if (found := self._befores.get(id(before))) is None:
            if len(self._befores) >= _TEXTS_MAX:
                self._befores.clear()
            found = self._before_chain + self._inside(before, 1) + b","
            self._befores[id(before)] = found
        return found

    def _inside(self, values: Sequence[Any], deeper: int) -> bytes:
        """The JSON of a list so many indents deeper than a row, without what opens and closes it."""
        return inside(self._encode(values), self._indents + deeper)

    def _pieces(
        self, rows: Sequence[OneOfGroup], texts: dict[int, _GroupTexts]
    ) -> Iterator[tuple[bytes, ...]]:
        """Of each row the pieces that its text is joined from, a separator at its end."""
        columns = list(zip(*[_names_of(names) for names, _ in rows], strict=True))
        namespaces, owners = ([self._common[name] for name in columns[at]] for at in (0, 3))
        pods, uids = self._strings(columns[1]), self._strings(columns[2])
        shared = zip(*[texts[id(group)] for _, group in rows], strict=True)
        behind_uids, behind_owners, told = shared
        before_key, behind_key = self._around_key
        return zip(
            repeat(self._before_namespace),
            namespaces,
            repeat(self._before_pod),
            pods,
            repeat(self._before_uid),
            uids,
            behind_uids,
            repeat(self._before_owner),
            owners,
            behind_owners,
            [
                (before_key + namespace + b"/" + pod + behind_key).join(each)
                for namespace, pod, each in zip(namespaces, pods, told, strict=True)
            ],
        )

    def _strings(self, values: Sequence[str]) -> list[bytes]:
        """Each of many strings as it stands between its quotes."""
        text = self._encode(values)
        if _ESCAPED_QUOTE in text:
            return [self._encode(value)[1:-1] for value in values]
        return text[2:-2].split(_BETWEEN_STRINGS)
