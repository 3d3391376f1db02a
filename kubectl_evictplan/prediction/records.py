"""What all records of the answer have in common, the rows that are about one pod each, and rows that are made when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, overload

import msgspec

# In every admissible run, or in some.
CERTAIN = "certain"
POSSIBLE = "possible"


class Record(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Camel-cased frozen record; subclasses are the objects of the document."""


class Because(Record, frozen=True):
    """One link of a causal chain, oldest first. ``rule`` names the upstream function."""

    offset_seconds: float | None
    what: str
    object: str
    rule: str


class TaintReference(Record, frozen=True):
    """The taint that decided."""

    key: str
    effect: str
    value: str = ""


class TolerationReference(Record, frozen=True):
    """The toleration that decided: its place in the pod's list and its seconds (null: forever)."""

    index: int
    toleration_seconds: int | None


class Window(Record, frozen=True):
    """From when to when something can happen; null latest means "never, or not within reach"."""

    earliest_seconds: float | None
    latest_seconds: float | None
    stuck: str | None = None


class OutcomeWindow(Record, frozen=True):
    """One of several disjoint outcomes of an eviction; ``when`` says which timing leads there."""

    earliest_seconds: float
    latest_seconds: float
    when: str = ""


class PodRow(Record, frozen=True):
    """What happens to one pod object."""

    namespace: str
    pod: str
    uid: str
    node: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.pod}"


class Eviction(PodRow, frozen=True):
    """One DELETE that a controller issues for a pod.

    ``windows`` are the disjoint outcomes, in order; ``earliest_seconds`` and ``latest_seconds`` are
    their hull.
    """

    certainty: str
    offset_seconds: float
    earliest_seconds: float
    latest_seconds: float
    windows: tuple[OutcomeWindow, ...]
    time: str
    controller: str
    taint: TaintReference | None
    toleration: TolerationReference | None
    gone: Window
    owner: str = ""
    because: tuple[Because, ...] = ()


# -- rows that are made when somebody reads them: most answers show a few of tens of thousands ---------------

T = TypeVar("T")


if TYPE_CHECKING:
    RowsOf = Sequence
else:

    class RowsOf:
        """The type of a field whose rows may be made when they are read, as encoders, decoders and schemas are told of it."""

        def __class_getitem__(cls, row):
            return tuple[row, ...]


class Rows(Sequence[T]):
    """Equal to a tuple of the same rows. Immutable; ``rows`` and ``__len__`` are the subclass's, who needs ``rows`` makes all."""

    rows: tuple[T, ...]

    def passing(self) -> tuple[T, ...]:
        """``rows`` for who reads them once: they need not be kept."""
        return self.rows

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

    def passing(self) -> tuple[T, ...]:
        """All of them, made anew each time."""
        return tuple(self._make())

    def __len__(self) -> int:
        return self._number


class RowsLater(Rows[T], Generic[T]):
    """Rows by whoever can make them, all of them when the first is asked for; how many they are is not known before."""

    def __init__(self, make: Callable[[], Iterable[T]]) -> None:
        self._make = make

    @cached_property
    def rows(self) -> tuple[T, ...]:  # type: ignore[override]
        """All of them."""
        make, self._make = self._make, tuple
        return tuple(make())

    def __len__(self) -> int:
        return len(self.rows)


class NotableRows(RowsLater[T], Generic[T]):
    """Rows later, of which those that short answers tell of are found out without the others."""

    def __init__(self, make: Callable[[], Iterable[T]], find: Callable[[], Iterable[T]]) -> None:
        """``find``: those at least of which there is something to tell, in the order of ``make``."""
        super().__init__(make)
        self._find = find

    @cached_property
    def notable(self) -> tuple[T, ...]:
        """What is found."""
        return tuple(self._find())


class _Coded(Protocol):
    @property
    def code(self) -> str: ...


CodedT = TypeVar("CodedT", bound=_Coded)


class RowsByCode(RowsLater[CodedT], Generic[CodedT]):
    """Rows later, of which those of some codes are found without the others."""

    def __init__(
        self, find: Mapping[str, Callable[[], Iterable[CodedT]]], others: Iterable[CodedT]
    ) -> None:
        """``find``: by code, asked once each; ``others`` are known already, and stand behind all that are found."""
        self._find, self._others = find, tuple(others)
        self._found: dict[str, tuple[CodedT, ...]] = {}
        super().__init__(lambda: self.where(lambda _: True))

    def where(self, is_asked: Callable[[str], bool]) -> Iterator[CodedT]:
        """Those that have a code which is asked for."""
        for code in filter(is_asked, self._find):
            if (found := self._found.get(code)) is None:
                found = self._found[code] = tuple(self._find[code]())
            yield from found
        yield from (one for one in self._others if is_asked(one.code))

    def settle(self) -> None:
        """Find all of them, and let go what they are found from: that takes a while, and leaves room."""
        len(self)
        self._find = dict.fromkeys(self._find, tuple)


def where_code(rows: Iterable[CodedT], is_asked: Callable[[str], bool]) -> Iterator[CodedT]:
    """Those of the rows that have a code which is asked for; others need not be made."""
    if isinstance(rows, RowsByCode):
        return rows.where(is_asked)
    return (one for one in rows if is_asked(one.code))


def notable(rows: Sequence[T]) -> Sequence[T]:
    """Those of which there may be something to tell, as short as an answer is; all where that is not known of each."""
    return rows.notable if isinstance(rows, NotableRows) else rows


def plain(value: object) -> tuple[object, ...]:
    """Rows as msgspec can encode them: an ``enc_hook``."""
    if isinstance(value, Rows):
        return value.passing()
    raise NotImplementedError(f"no JSON of {type(value)}")
