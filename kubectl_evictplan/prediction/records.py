"""What all records of the answer have in common, and the rows that are about one pod each."""

from __future__ import annotations

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
