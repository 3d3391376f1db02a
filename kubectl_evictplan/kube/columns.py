"""What is asked of all pods of a cluster: single fields, and where those of one template stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubectl_evictplan.kube.objects import Pod

# Fields of which somebody asks all pods: what a file tells of them as columns is kept.
ASKED_OF_ALL = frozenset(
    {"node_name", "phase", "ready", "deletion_timestamp_ns", "resized", "deadline_ns"}
)


class PodColumns:
    """Fields of many pods. Each is found out once, when somebody asks for it, unless it is known before."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self._pods = pods
        self._columns: dict[str, Sequence[Any]] = {}
        self._distinct: dict[str, frozenset[Any]] = {}

    def know(self, field: str, column: Sequence[Any]) -> None:
        """What each of them has there, in their order."""
        self._columns[field] = column

    def know_all(self, field: str, value: object) -> None:
        """They all have the same there; there is at least one."""
        self._distinct[field] = frozenset((value,))

    def of(self, field: str) -> Sequence[Any]:
        """What each of them has there, in their order."""
        known = self._columns.get(field)
        if known is None:
            known = self._columns[field] = list(map(attrgetter(field), self._pods))
        return known

    def distinct(self, field: str) -> frozenset[Any]:
        """What any of them has there."""
        known = self._distinct.get(field)
        if known is None:
            column = self._columns.get(field)
            every = map(attrgetter(field), self._pods) if column is None else column
            known = self._distinct[field] = frozenset(every)
        return known


def stretches(pods: Sequence[Pod]) -> Iterator[slice]:
    """Yield where pods follow each other that have one namespace, and as one object their owners and their labels.

    Loaders give one object to all pods of a template, and pods come by name: those of a template mostly stand together.
    """
    namespace, owners, labels, begin = "", object(), object(), 0
    for place, pod in enumerate(pods):
        if not (
            pod.labels is labels and pod.owner_references is owners and pod.namespace == namespace
        ):
            if place:
                yield slice(begin, place)
            namespace, owners, labels = pod.namespace, pod.owner_references, pod.labels
            begin = place
    if pods:
        yield slice(begin, len(pods))
