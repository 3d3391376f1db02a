"""Who of those that look for a place may keep whom off by being near: required anti-affinity, either way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from kubectl_evictplan.kube.needs import PodAffinityTerm, PodNeeds
from kubectl_evictplan.kube.scheduling.peers import selects


class Rival(msgspec.Struct, frozen=True):
    """Alike pods that look for a place."""

    labels: Mapping[str, str]
    needs: PodNeeds
    number: int


class Rivals:
    """Counts rivals; namespaces are not looked at, so it may be too many."""

    def __init__(self, rivals: Iterable[Rival]) -> None:
        self._rivals = list(rivals)

    @cached_property
    def _by_label(self) -> Mapping[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for place, rival in enumerate(self._rivals):
            for label in rival.labels.items():
                found.setdefault(label, []).append(place)
        return found

    @cached_property
    def _holders(self) -> Mapping[tuple[str, str] | None, list[tuple[PodAffinityTerm, int]]]:
        """Those that hold a term, by a label that it selects; None: it may select anything."""
        found: dict[tuple[str, str] | None, list[tuple[PodAffinityTerm, int]]] = {}
        for place, rival in enumerate(self._rivals):
            for term in rival.needs.pod_anti_affinity:
                found.setdefault(_label(term), []).append((term, place))
        return found

    def of(self, labels: Mapping[str, str], needs: PodNeeds) -> int:
        """How many may be in the way of one such pod, its own kind counted too."""
        found = set[int]()
        for term in needs.pod_anti_affinity:
            label = _label(term)
            listed = range(len(self._rivals)) if label is None else self._by_label.get(label, ())
            found.update(at for at in listed if selects(term.selector, self._rivals[at].labels))
        for term, place in self._holding(labels):
            if selects(term.selector, labels):
                found.add(place)
        return sum(self._rivals[place].number for place in found)

    def _holding(self, labels: Mapping[str, str]) -> Iterator[tuple[PodAffinityTerm, int]]:
        keys: Sequence[tuple[str, str] | None] = (*labels.items(), None)
        return (one for key in keys for one in self._holders.get(key, ()))


def _label(term: PodAffinityTerm) -> tuple[str, str] | None:
    """A label that a pod must have for the term to select it."""
    for key, operator, values in term.selector or ():
        if operator == "In" and len(values) == 1:
            return key, values[0]
    return None
