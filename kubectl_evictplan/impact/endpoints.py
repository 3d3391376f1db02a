"""Who is behind each service at the start, found out once for any number of failures.

Says of a failure which services have nobody ready, as ``service_impacts`` does, at the cost of the pods it touches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.fates import Fate, is_counted
from kubectl_evictplan.impact.services import app_of, by_dns, listing_of, offered
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.infrastructure import EndpointSlice, Service
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.prediction.impact_document import Spell


class ServiceKey(NamedTuple):
    """One service, or the pods of one app label where no Services are listed."""

    namespace: str
    name: str


class Endpoints:
    """The endpoints of every service of a cluster. Read only."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        # How many endpoints are ready at the start, and by a pod's key the services that it is one of.
        self._before: Counter[ServiceKey] = Counter()
        self._services_of: dict[str, tuple[ServiceKey, ...]] = {}
        listed = snapshot.infrastructure.services
        self._listed = {(one.namespace, one.name): one for one in listed}
        names = {(one.namespace, one.name) for one in listed if by_dns(one)}
        slices = _by_service(
            one
            for one in snapshot.infrastructure.endpoint_slices
            if (one.namespace, one.service) not in names
        )
        by_app = not slices and "Service" not in snapshot.kinds_seen
        selectors = _SelectorIndex(
            service
            for service in listed
            if (service.namespace, service.name) not in slices and not by_dns(service)
        )
        memo: dict[tuple[str, int], tuple[ServiceKey, ...]] = {}
        for pod in snapshot.pods:
            if not is_counted(pod):
                continue
            # Pods of one template share their labels.
            token = pod.namespace, id(pod.labels)
            services = memo.get(token)
            if services is None:
                services = tuple(_by_app_label(pod) if by_app else selectors.matching(pod))
                memo[token] = services
            if services:
                self._services_of[pod.key] = services
                self._before.update(services)
        self._add_slices(slices, {pod.key: is_counted(pod) for pod in snapshot.pods})

    def nobody_ready(self, world: World) -> Iterator[tuple[ServiceKey, tuple[Spell, ...]]]:
        """Yield the services that have nobody ready at some time, perhaps, and when."""
        moving: dict[ServiceKey, list[Fate]] = {}
        for key, fate in world.fates.items():
            for service in self._services_of.get(key, ()):
                moving.setdefault(service, []).append(fate)
        for service, fates in moving.items():
            # Endpoints that nothing happens to stay.
            if len(fates) == self._before[service]:
                listing = listing_of(self._listed.get(service))
                there = offered(world, len(fates), fates, listing)
                if spells := telling.spells(there, 1):
                    yield service, spells

    def _add_slices(
        self, slices: dict[ServiceKey, list[EndpointSlice]], counted: dict[str, bool]
    ) -> None:
        """A pod counts once, whatever the number of its addresses; what is no pod is always there."""
        for service, some in slices.items():
            if not service.name:
                continue
            ready = [one for slice_ in some for one in slice_.endpoints if one.ready is not False]
            pods = {f"{service.namespace}/{one.pod}" for one in ready if one.pod}
            # An endpoint whose pod is not in the input stays as it is.
            there = [key for key in sorted(pods) if counted.get(key, True)]
            self._before[service] = len(there) + sum(not one.pod for one in ready)
            for key in there:
                self._services_of[key] = (*self._services_of.get(key, ()), service)


class _SelectorIndex:
    """Which services select a pod: kept by the one of their labels that the fewest of them ask for."""

    def __init__(self, services: Iterable[Service]) -> None:
        wanted = [service for service in services if service.selector]
        asked = Counter(
            (service.namespace, label)
            for service in wanted
            for label in (service.selector or {}).items()
        )
        self._by_label: dict[tuple[str, tuple[str, str]], list[Service]] = {}
        for service in wanted:
            labels = (service.selector or {}).items()
            space = service.namespace
            rarest = min(labels, key=lambda label: (asked[space, label], label))
            self._by_label.setdefault((space, rarest), []).append(service)

    def matching(self, pod: Pod) -> list[ServiceKey]:
        """The services whose selector matches the pod's labels."""
        labels = pod.labels.items()
        return [
            ServiceKey(service.namespace, service.name)
            for label in labels
            for service in self._by_label.get((pod.namespace, label), ())
            if (service.selector or {}).items() <= labels
        ]


def _by_service(slices: Iterable[EndpointSlice]) -> dict[ServiceKey, list[EndpointSlice]]:
    found: dict[ServiceKey, list[EndpointSlice]] = {}
    for one in slices:
        found.setdefault(ServiceKey(one.namespace, one.service), []).append(one)
    return found


def _by_app_label(pod: Pod) -> list[ServiceKey]:
    name = app_of(pod)
    return [ServiceKey(pod.namespace, name)] if name else []
