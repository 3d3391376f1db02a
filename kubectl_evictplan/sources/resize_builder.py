"""From a decoded pod to what it holds of its node where it was resized in place.

Hot code: every pod of a release with that feature says in its status what its containers have. What decides is
compared as the bytes in which it arrived, and read once for each distinct combination of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from kubectl_evictplan.kube.needs import CPU
from kubectl_evictplan.kube.pod_requests import (
    INIT,
    ContainerRequests,
    Requests,
    Resized,
    effective,
    in_order,
    whole,
)
from kubectl_evictplan.sources import wire, wire_needs
from kubectl_evictplan.sources.needs_builder import (
    MEMO_SIZE_MAX,
    NeedsBuilder,
    all_containers,
    amounts,
    how_it_runs,
)

# What can be changed in place.
RESIZABLE = (CPU, "memory")
# The condition PodResizePending with this reason, and before 1.33 status.resize: the kubelet refuses the resize.
_PENDING, _INFEASIBLE = "PodResizePending", "Infeasible"


class _Container(msgspec.Struct, frozen=True):
    """What one container requests by its spec, and what its status says; None: nothing."""

    name: str
    how: str
    spec: Mapping[str, int]
    allocated: Mapping[str, int] | None
    actuated: Mapping[str, int] | None


class ResizeBuilder:
    """Reads resizes and remembers them."""

    def __init__(self, needs: NeedsBuilder) -> None:
        self._requested = needs.requested
        self._known: dict[object, Resized] = {}
        # Whether what a status tells is what the spec asks, by both.
        self._same: dict[object, bool] = {}

    def resized(self, decoded: wire.WirePod, requests: Requests) -> Resized | None:
        """Return what is known of a pod's resizes; None where there was none. ``requests``: those of its spec."""
        spec, status = decoded.spec, decoded.status
        # A pod is created with generation 1; being bound to a node does not count.
        rewritten = decoded.metadata.generation > 1
        if not spec.node_name or not (rewritten or self._differs(spec, status, requests)):
            return None
        advised = any(mark is not None for mark in _marks(decoded.metadata.annotations))
        key = (
            advised,
            _refused(status),
            bytes(status.resources),
            bytes(status.allocated_resources),
            bytes(spec.resources),
            bytes(spec.overhead),
            *[(one.name, how_it_runs(one), bytes(one.resources)) for one in all_containers(spec)],
            *[(one.name, *_told(one)) for one in _statuses(status)],
        )
        found = self._known.get(key)
        if found is None:
            if len(self._known) > MEMO_SIZE_MAX:
                self._known.clear()
            found = self._known[key] = self._read(spec, status, advised=advised)
        return found

    def _differs(self, spec: wire.PodSpec, status: wire.PodStatus, requests: Requests) -> bool:
        """Whether anything in the status is not as the spec asks."""
        null = wire_needs.NULL
        if status.allocated_resources is not null or status.resources is not null:
            whole_key = bytes(status.allocated_resources), bytes(status.resources), requests
            if (same := self._same.get(whole_key)) is None:
                told = _known(status.allocated_resources), self._actuated(status.resources)
                same = self._same[whole_key] = _alike(dict(requests), told)
            # Their overhead is not in it: then it is looked at.
            if not same:
                return True
        for statuses, containers in (
            (status.container_statuses, spec.containers),
            (status.init_container_statuses, spec.init_containers),
        ):
            for one in statuses:
                if one.resources is null and one.allocated_resources is null:
                    continue
                container = next((some for some in containers if some.name == one.name), None)
                if container is not None and not self._as_asked(container, one):
                    return True
        return False

    def _as_asked(self, container: wire.Container, status: wire.ContainerStatus) -> bool:
        key = (bytes(container.resources), *_told(status))
        same = self._same.get(key)
        if same is None:
            if len(self._same) > MEMO_SIZE_MAX:
                self._same.clear()
            told = _known(status.allocated_resources), self._actuated(status.resources)
            same = self._same[key] = _alike(self._requested(container.resources), told)
        return same

    def _read(
        self,
        spec: wire.PodSpec,
        status: wire.PodStatus,
        *,
        advised: bool,
    ) -> Resized:
        containers = list(self._containers(spec, status))
        refused, of_pod = _refused(status), self._requested(spec.resources)
        overhead = amounts(bytes(spec.overhead))
        pod_level = self._pod_level(status, of_pod, refused=refused)

        def held(of_containers: Mapping[str, int]) -> Requests:
            return in_order(whole(of_containers, pod_level, overhead))

        by_container = held(effective(_by_container(containers, refused=refused)))
        by_pod = held(self._by_pod(containers, status, refused=refused))
        return Resized(
            by_container,
            by_pod,
            tuple(ContainerRequests(one.name, in_order(one.spec), one.how) for one in containers),
            in_order(of_pod),
            in_order(overhead),
            advised,
        )

    def _containers(self, spec: wire.PodSpec, status: wire.PodStatus) -> Iterable[_Container]:
        told = {one.name: one for one in _statuses(status)}
        for one in all_containers(spec):
            found = told.get(one.name)
            yield _Container(
                one.name,
                how_it_runs(one),
                self._requested(one.resources),
                _known(None if found is None else found.allocated_resources),
                None if found is None else self._actuated(found.resources),
            )

    def _actuated(self, resources: wire_needs.AnyResources) -> Mapping[str, int] | None:
        found = wire_needs.RESOURCES.decode(resources)
        return self._requested(resources) if found is not None and found.requests else None

    def _pod_level(
        self, status: wire.PodStatus, of_pod: Mapping[str, int], *, refused: bool
    ) -> Mapping[str, int]:
        """``effectivePodLevelResources``: of a pod that requests something as a whole."""
        actuated = self._actuated(status.resources)
        if not of_pod or actuated is None:
            return of_pod
        allocated = _known(status.allocated_resources) or {}
        return _most(() if refused else (of_pod,), (actuated, allocated))

    def _by_pod(
        self, containers: Iterable[_Container], status: wire.PodStatus, *, refused: bool
    ) -> Mapping[str, int]:
        """``AggregateContainerRequests`` of 1.37: each kind of request is added up by itself."""
        containers = list(containers)
        spec = effective((one.how, one.spec) for one in containers)
        fallback: Mapping[str, int] | None = {} if refused else None
        allocated: Mapping[str, int] | None = _known(status.allocated_resources)
        actuated = self._actuated(status.resources)
        if allocated is None or actuated is None:
            allocated = effective(
                (one.how, _first(one.allocated, fallback, one.spec)) for one in containers
            )
            actuated = effective(
                (one.how, _first(one.actuated, one.allocated, fallback, one.spec))
                for one in containers
            )
        return _most(() if refused else (spec,), (allocated, actuated))


def _alike(spec: Mapping[str, int], told: Iterable[Mapping[str, int] | None]) -> bool:
    return all(one.get(name) == spec.get(name) for one in told if one for name in RESIZABLE)


def _by_container(
    containers: Iterable[_Container], *, refused: bool
) -> Iterable[tuple[str, Mapping[str, int]]]:
    """``determineContainerReqs`` of 1.33 to 1.36: of each container the most."""
    for one in containers:
        if one.how == INIT or (one.allocated is None and one.actuated is None):
            yield one.how, one.spec
        else:
            told = [some for some in (one.allocated, one.actuated) if some is not None]
            yield one.how, _most(() if refused else (one.spec,), told)


def _most(*some: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    most = Counter[str]()
    for requests in (one for several in some for one in several):
        most |= Counter(requests)
    return most


def _first(*some: Mapping[str, int] | None) -> Mapping[str, int]:
    return next(one for one in some if one is not None)


def _known(quantities: wire_needs.AnyQuantities | None) -> Mapping[str, int] | None:
    if quantities is None or quantities is wire_needs.NULL:
        return None
    return amounts(bytes(quantities)) or None


def _refused(status: wire.PodStatus) -> bool:
    if status.resize == _INFEASIBLE:
        return True
    return any(one.type == _PENDING and one.reason == _INFEASIBLE for one in status.conditions)


def _statuses(status: wire.PodStatus) -> Iterable[wire.ContainerStatus]:
    return (*status.container_statuses, *status.init_container_statuses)


def _told(status: wire.ContainerStatus) -> tuple[bytes, bytes]:
    return bytes(status.resources), bytes(status.allocated_resources)


def _marks(annotations: wire.Annotations) -> tuple[str | None, str | None]:
    return annotations.vpa_updates, annotations.vpa_in_place_updated
