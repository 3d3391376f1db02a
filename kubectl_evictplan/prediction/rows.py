"""Rows of the document that are made when somebody reads them: most answers show a few of tens of thousands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Rows(Sequence[T]):
    """Equal to a tuple of the same rows. Immutable; ``rows`` and ``__len__`` are the subclass's, who needs ``rows`` makes all."""

    rows: tuple[T, ...]

    def __iter__(self) -> Iterator[T]:
        return iter(self.rows)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        return self.rows[at]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Rows | tuple) and self.rows == tuple(other)

    def __hash__(self) -> int:
        return hash(self.rows)

    def __repr__(self) -> str:
        return repr(self.rows)


class RowsOnDemand(Rows[T], Generic[T]):
    """So many rows, by whoever can make them."""

    def __init__(self, number: int, make: Callable[[], Iterable[T]]) -> None:
        self._number, self._make = number, make

    @cached_property
    def rows(self) -> tuple[T, ...]:  # type: ignore[override]
        """All of them."""
        return tuple(self._make())

    def __len__(self) -> int:
        return self._number


def plain(value: object) -> tuple[object, ...]:
    """Rows as msgspec can encode them: an ``enc_hook``."""
    if isinstance(value, Rows):
        return value.rows
    raise NotImplementedError(f"no JSON of {type(value)}")
