"""Rows of evictions as JSON: what the rows of a group share is encoded once.

The bytes are those that encoding every row gives. A row begins with three names of its own and ends with its owner and
its chain of causes; what stands in between is its group's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import fields

from kubectl_evictplan.prediction.grouped_evictions import (
    EvictionGroup,
    Evictions,
    OneOfGroup,
    SharedChain,
)
from kubectl_evictplan.prediction.records import Because, Eviction

Encode = Callable[[Any], str]

_ROWS_AT_ONCE = 100
_NAMES = ("namespace", "pod", "uid", "owner")
# A row's fields in their order, without its pod's own.
_SHARED = [field.name for field in fields(Eviction) if field.name not in (*_NAMES, "because")]
# Quotes in strings are escaped: so this stands only between the strings of a list.
_BETWEEN_STRINGS = '","'


class EvictionTexts:
    """JSON of rows that are ``grouped``. ``encode`` makes compact JSON of a value."""

    def __init__(self, encode: Encode, indents: int | None = None) -> None:
        """``indents``: how many indents of two blanks stand before each row; None for compact texts."""
        self._encode, self._indents = encode, indents
        keys = {field.name: field.encode_name for field in (*fields(Eviction), *fields(Because))}
        line, blank = ("", "") if indents is None else ("\n" + "  " * indents, " ")
        inside, of_link = (line and line + "  " * depth for depth in (1, 3))

        def key(name: str, before: str = inside) -> str:
            return f'{before}"{keys[name]}":{blank}'

        self._separator, self._end = f",{line}", f"{line}}}"
        # What is a pod's own stands between quotes, which are those of the texts around it.
        before_pod, before_uid = (f'",{key(name)}"' for name in ("pod", "uid"))
        self._names = f'{{{key("namespace")}"', before_pod, before_uid
        self._shared = [("," + key(name), name) for name in _SHARED]
        self._owner, self._because = "," + key("owner"), "," + key("because") + "["
        self._link_before = f"{line and line + '    '}{{"
        self._link_keys = (
            key("offset_seconds", of_link),
            "," + key("what", of_link),
            "," + key("object", of_link),
            "," + key("rule", of_link),
        )
        self._link_end, self._chain_end = f"{line and line + '    '}}}", f"{inside}]"
        self._values: dict[object, str] = {}
        # By identity: pods of one node share them, and they live on in their groups.
        self._chains: dict[int, str] = {}
        self._groups: dict[int, tuple[str, str, Sequence[str]]] = {}

    def chunks(self, evictions: Evictions) -> Iterator[str]:
        """Yield the rows, with what separates them: joined they are the inside of the list."""
        rows = evictions.in_order
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            yield (self._separator if at else "") + self._some(rows[at : at + _ROWS_AT_ONCE])

    def _some(self, rows: Sequence[OneOfGroup]) -> str:
        namespaces, pods, uids, owners = (
            self._strings([getattr(names, name) for names, _ in rows]) for name in _NAMES
        )
        before_namespace, before_pod, before_uid = self._names
        texts: list[str] = []
        for (_, group), namespace, pod, uid, owner in zip(
            rows, namespaces, pods, uids, owners, strict=True
        ):
            if (known := self._groups.get(id(group))) is None:
                known = self._groups[id(group)] = self._of_group(group)
            before_owner, after_owner, own = known
            texts += (before_namespace, namespace, before_pod, pod, before_uid, uid)
            texts += (before_owner, owner, after_owner)
            for end in own:
                texts += (namespace, "/", pod, end)
            texts.append(self._separator)
        return "".join(texts[:-1])

    def _strings(self, values: list[str]) -> list[str]:
        """Each of many strings as it stands between its quotes."""
        return self._encode(values)[2:-2].split(_BETWEEN_STRINGS)

    def _of_group(self, group: EvictionGroup) -> tuple[str, str, Sequence[str]]:
        """What stands in its rows before the owner, behind it, and behind each further name of the pod."""
        shared, value = group.shared, self._value
        before = [key + value(getattr(shared, name)) for key, name in self._shared]
        after_owner, *own = self._ends(group.chain)
        return f'"{"".join(before)}{self._owner}"', after_owner, own

    def _ends(self, chain: SharedChain) -> Iterator[str]:
        """From the owner to the end of the row, cut where a link names the pod."""
        before = self._chains.get(id(chain.before))
        if before is None:
            links = [self._link_before + self._link(each) for each in chain.before]
            before = self._chains[id(chain.before)] = ",".join(links)
        text, comma = f'"{self._because}{before}', "," if before else ""
        for each in chain.rest:
            text += comma + self._link_before
            if each.object:
                text += self._link(each)
            else:
                told, rule = self._link_sides(each)
                yield f'{text}{told}"pod/'
                text = f'"{rule}'
            comma = ","
        yield f"{text}{self._chain_end if comma else ']'}{self._end}"

    def _link(self, each: Because) -> str:
        told, rule = self._link_sides(each)
        return told + self._value(each.object) + rule

    def _link_sides(self, each: Because) -> tuple[str, str]:
        """The link up to its object, and from there on."""
        value, (at, what, about, rule) = self._value, self._link_keys
        told = f"{at}{value(each.offset_seconds)}{what}{value(each.what)}{about}"
        return told, f"{rule}{value(each.rule)}{self._link_end}"

    def _value(self, value: Any) -> str:
        """The text of what one field of a row, or of a link, holds."""
        # Records are shared by identity, and live on in their groups; numbers hardly ever repeat.
        if isinstance(value, float):
            return self._encode(value)
        known = value if isinstance(value, str) else id(value)
        found = self._values.get(known)
        if found is None:
            text = self._encode(value)
            if self._indents is not None and not isinstance(value, str):
                text = msgspec.json.format(text, indent=2)
                text = text.replace("\n", "\n" + "  " * (self._indents + 1))
            found = self._values[known] = text
        return found
