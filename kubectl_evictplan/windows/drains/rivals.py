"""Pods that several processes of kubectl may evict: whoever is first, and who finds them terminating, or made anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.delays import ARRIVAL, CONFLICT, GRANTED, RETRY, Range
from kubectl_evictplan.windows.drains.instants import Within
from kubectl_evictplan.windows.outcome import EvictionKey
from kubectl_evictplan.windows.spans import Span


class RowBounds(NamedTuple):
    """The eviction of one pod. ``exact``: every instant of ``spans`` can be, and nothing was left out."""

    node: str
    spans: tuple[Span, ...]
    certain: bool
    gone: Within | None
    exact: bool


class Rival(NamedTuple):
    """One process that may evict a pod, under the name ``controller``, within these instants (None: perhaps never).

    ``goes``: by the latest of them it is evicted, by whomever. ``gone`` is from its eviction to its object's end. ``begun_ns``: by that offset
    it has come to the node, and asks for the pod again and again; None: not known. ``deleted_meanwhile_ns``: so much later only if somebody
    else has deleted the pod before. ``granted``: its first request surely finds a disruption, and is answered ``heard_late_ns`` after the latest
    instant at most.
    """

    controller: str
    earliest_ns: int
    latest_ns: int | None
    goes: bool
    gone: Range | None
    begun_ns: int | None = None
    deleted_meanwhile_ns: int = 0
    granted: bool = False
    heard_late_ns: int = 0

    @property
    def deleted_by_ns(self) -> int | None:
        """By when it, or somebody else, has surely deleted the pod; None: perhaps nobody ever does."""
        if self.latest_ns is None or not self.goes:
            return None
        return self.latest_ns - self.deleted_meanwhile_ns

    def asked_by_ns(self, deleted_ns: int) -> int | None:
        """By when it has asked for a pod that terminates from that offset on, or has given up, which no budget keeps any more; None: not known."""
        if self.begun_ns is None:
            return self.latest_ns
        asked_ns = max(self.begun_ns + ARRIVAL[1], deleted_ns + RETRY[1]) + CONFLICT[1] + GRANTED[1]
        if self.latest_ns is None or (self.goes and not self.granted):
            # By its latest instant it may be somebody else who has just deleted the pod.
            return asked_ns
        return min(self.latest_ns + self.heard_late_ns, asked_ns)


class Rivals:
    """Fills itself node by node."""

    def __init__(self) -> None:
        self._of_pod: dict[tuple[str, str], tuple[Pod, list[Rival]]] = {}
        # By name: whoever evicts the pod may, of a StatefulSet, meet its replacement.
        self._of_name: dict[str, list[Rival]] = {}
        self._known = True

    def add(self, pod: Pod, rival: Rival) -> None:
        """A pod that is there at the start."""
        self._of_pod.setdefault((pod.key, pod.uid), (pod, []))[1].append(rival)
        self.add_replacement(pod, rival)

    def add_replacement(self, pod: Pod, rival: Rival) -> None:
        """A pod that may be made in its stead: of it only instants are told."""
        self._of_name.setdefault(pod.key, []).append(rival)

    def forget_names(self) -> None:
        """Not all are known that may be made anew and evicted."""
        self._known = False

    def rows(self) -> Iterator[tuple[EvictionKey, RowBounds]]:
        """The first deletion of each pod by each controller, where there is a latest instant."""
        for (key, uid), (pod, rivals) in self._of_pod.items():
            for controller, own in _by_controller(rivals):
                by_ns = _first_by_ns(own)
                # Nobody else comes before it is surely evicted.
                others = (one for one in rivals if one.controller != controller)
                certain = by_ns is not None and all(one.earliest_ns > by_ns for one in others)
                latest_ns = by_ns if certain else _latest_ns(own, rivals)
                earliest_ns = min(one.earliest_ns for one in own)
                # Who comes when the object is surely gone deletes nobody.
                if latest_ns is not None and earliest_ns <= latest_ns:
                    span = earliest_ns, latest_ns
                    row = RowBounds(pod.node_name, (span,), certain, _gone(span, rivals), False)
                    yield EvictionKey(key, uid, controller, 0), row

    def unbounded(self) -> Iterator[tuple[EvictionKey, RowBounds]]:
        """Deletions of which nobody knows by when they are: within the longest horizon, or never."""
        bounded = {key for key, _ in self.rows()}
        for (name, uid), (pod, rivals) in self._of_pod.items():
            for controller, own in _by_controller(rivals):
                if (key := EvictionKey(name, uid, controller, 0)) not in bounded:
                    span = min(one.earliest_ns for one in own), HORIZON_DEFAULT_MAX_NS
                    if span[0] <= span[1]:
                        gone = _gone(span, rivals)
                        yield key, RowBounds(pod.node_name, (span,), False, gone, False)

    def again(self) -> dict[tuple[str, str, str], Span]:
        """By (pod, uid, controller), where the controller may delete it more often than once; uid "": whoever was made in its stead."""
        found: dict[tuple[str, str, str], Span] = {}
        for (key, uid), (_, rivals) in self._of_pod.items():
            for controller, own in _by_controller(rivals):
                later = [one for one in own if not _is_first(one, rivals)]
                if len(own) < 2 or not later:
                    continue
                known_ns = _latest_ns(later, rivals)
                latest_ns = HORIZON_DEFAULT_MAX_NS if known_ns is None else known_ns
                every_ns = sorted(one.earliest_ns for one in own)
                if every_ns[1] <= latest_ns:
                    found[key, uid, controller] = every_ns[1], latest_ns
        for key, rivals in self._of_name.items() if self._known else ():
            for controller, own in _by_controller(rivals):
                last_ns = _last_ns(own)
                if last_ns is not None:
                    earliest_ns = min(one.earliest_ns for one in own)
                    found[key, "", controller] = earliest_ns, last_ns
        return found


def _by_controller(rivals: Sequence[Rival]) -> Iterator[tuple[str, Sequence[Rival]]]:
    for controller in sorted({one.controller for one in rivals}):
        yield controller, [one for one in rivals if one.controller == controller]


def _is_first(one: Rival, rivals: Sequence[Rival]) -> bool:
    """Whether it has surely deleted the pod before anybody else comes: then it only waits for its end."""
    by_ns = one.deleted_by_ns
    return by_ns is not None and all(other is one or other.earliest_ns > by_ns for other in rivals)


def _first_by_ns(rivals: Iterable[Rival]) -> int | None:
    """By when the pod is evicted at the latest, by one of them; None: perhaps it never is."""
    return min((by_ns for one in rivals if (by_ns := one.deleted_by_ns) is not None), default=None)


def _last_ns(rivals: Sequence[Rival]) -> int | None:
    """The latest of their instants; None: perhaps there is none."""
    known = [one.latest_ns for one in rivals if one.latest_ns is not None]
    return max(known) if len(known) == len(rivals) else None


def _latest_ns(own: Sequence[Rival], rivals: Sequence[Rival]) -> int | None:
    """When the last of one's own deletions is at the latest: it needs its time, and an object."""
    by_ns = _first_by_ns(rivals)
    if by_ns is None:
        return _last_ns(own)
    found = [_last_of(one, by_ns, rivals) for one in own]
    known = [one for one in found if one is not None]
    return max(known) if len(known) == len(found) else None


def _last_of(one: Rival, by_ns: int, rivals: Sequence[Rival]) -> int | None:
    """When one of them deletes a pod at the latest that somebody has deleted by an offset: it, or another one, whose time to end the pod has then."""
    asked_ns = one.asked_by_ns(by_ns)
    gone = [other.gone for other in rivals if other is not one] or [one.gone]
    ends = [each[1] for each in gone if each is not None]
    if len(ends) < len(gone) or by_ns + max(ends) >= HORIZON_DEFAULT_MAX_NS:
        return asked_ns
    there_ns = by_ns + max(ends)
    return there_ns if asked_ns is None else min(asked_ns, there_ns)


def _gone(span: Span, rivals: Iterable[Rival]) -> Within | None:
    """When the object ends, whoever has deleted it first; one that is deleted within the span is there by then."""
    ends = [(one.earliest_ns, one.gone) for one in rivals]
    known = [(first_ns, gone) for first_ns, gone in ends if gone is not None]
    if len(known) < len(ends):
        return None
    least_ns = min(first_ns + gone[0] for first_ns, gone in known)
    most_ns = max(gone[1] for _, gone in known)
    latest_ns = HORIZON_DEFAULT_MAX_NS if most_ns >= HORIZON_DEFAULT_MAX_NS else span[1] + most_ns
    return Within(max(span[0], least_ns), latest_ns)
