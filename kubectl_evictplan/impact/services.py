"""Services: who is behind them, and how many of those are ready, and answer, over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.availability import Availability
from kubectl_evictplan.impact.black_holes import BlackHoles, Holes
from kubectl_evictplan.impact.ending import AbsenceOf, address_until_exit, answering_until_exit
from kubectl_evictplan.impact.fates import (
    Fate,
    ending_until_ns,
    is_counted,
    when_away,
    when_dead,
    when_leaving,
)
from kubectl_evictplan.impact.listed import (
    dead_until_others_act,
    dropped_early,
    leaves_by_others,
    leaves_published,
    while_left_to_others,
    while_published,
    while_unready_or_dropped,
)
from kubectl_evictplan.impact.members import Labelled
from kubectl_evictplan.impact.stretches import Absence, Between
from kubectl_evictplan.impact.successor_labels import hand_over, labels_lost, until_labelled
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.infrastructure import EndpointSlice, Service
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.prediction.impact_document import (
    Count,
    ServiceImpact,
)
from kubectl_evictplan.prediction.records import NotableRows

SELECTOR, ENDPOINT_SLICES, LABELS = "selector", "endpointSlices", "labels"
# Labels by which people name an application, where the input holds no Services.
APP_LABELS = ("app.kubernetes.io/name", "app", "k8s-app")


class Listing(msgspec.Struct, frozen=True):
    """Who writes a service's endpoints, and by which rule: when a pod is not offered, when it stops being, when it is dead.

    ``follows``: a pod that is not Ready is not offered, so what is offered again answers again. ``by_name``: clients ask DNS
    and not kube-proxy, which falls back to pods that are ending where nobody is ready.
    """

    unlisted: Callable[[Fate], Absence] = when_away
    leaves: Callable[[Fate], Between] = when_leaving
    dead: Callable[[Fate], Absence] = when_dead
    follows: bool = True
    # Kubernetes writes them: not while its controllers are away, and an owner's budget limits how many are missing.
    by_kubernetes: bool = True
    by_name: bool = False
    # Labels that its selector asks for and successors do not have: whoever sets them decides who is behind it.
    runtime_labels: tuple[str, ...] = ()


BY_READINESS = Listing()
_HEADLESS = Listing(by_name=True)
# publishNotReadyAddresses: pods that are not ready are offered, too, whatever becomes of their node.
_PUBLISHED = Listing(while_published, leaves_published, follows=False)
# No selector: whoever wrote the EndpointSlices changes them, or nobody does.
_BY_OTHERS = Listing(
    while_left_to_others,
    leaves_by_others,
    dead_until_others_act,
    follows=False,
    by_kubernetes=False,
)


class _Behind(msgspec.Struct, frozen=True):
    """The pods behind a service: how many are ready at the start, and those that move."""

    namespace: str
    name: str
    source: str
    before: int
    fates: list[Fate]
    listing: Listing = BY_READINESS
    # Until when (since the epoch) others that are on their way out at the start may answer; 0: there are none.
    ending_until_ns: int = 0


def service_impacts(world: World) -> Sequence[ServiceImpact]:
    """Every service with a ready endpoint that something happens to, sorted; notable are those that may have nobody."""
    return NotableRows(
        lambda: _impacts(world, _behind(world)),
        # Endpoints that nothing happens to stay.
        lambda: _impacts(world, (one for one in _behind(world) if one.before <= len(one.fates))),
    )


def _impacts(world: World, services: Iterable[_Behind]) -> tuple[ServiceImpact, ...]:
    holes = Holes(world.frozen)
    found = [_impact(world, behind, holes) for behind in services]
    return tuple(sorted(found, key=lambda one: (one.namespace, one.service)))


def _impact(world: World, behind: _Behind, holes: Holes) -> ServiceImpact:
    listing, known = behind.listing, (behind.before, behind.fates)
    dropped = dropped_early(behind.fates) if listing.follows and world.deletes_nodes else {}
    ready = offered(world, *known, listing, dropped)
    gone = until_labelled(listing.dead) if listing.runtime_labels else listing.dead
    answering = world.availability(*known, gone, limited=listing.by_kubernetes)
    reached = answering
    # Most services always have somebody.
    if answering.below(1) and (until_exit := _until_exit(world, behind)) is not None:
        until_exit = until_labelled(until_exit) if listing.runtime_labels else until_exit
        reached = world.availability(*known, until_exit, limited=listing.by_kubernetes)
    black_holes = BlackHoles(holes, behind.fates, dropped, listing.leaves)
    owners = {one.owner for one in behind.fates}
    # Whoever was one too many is not missed.
    missed = behind.before
    if world.has_surplus:
        missed -= sum(one.counted and world.is_surplus(one.key) for one in behind.fates)
    return ServiceImpact(
        namespace=behind.namespace,
        service=behind.name,
        source=behind.source,
        workloads=tuple(sorted({workload for _, workload in map(world.workload_of, owners)})),
        endpoints_before=behind.before,
        fewest_ready=telling.fewest(ready),
        fewest_answering=_fewest(answering, reached),
        black_holes=black_holes,
        nobody_ready=telling.spells(ready, 1),
        nobody_answers=telling.spells(reached, 1),
        undetected=black_holes.undetected,
        whole_again=telling.whole_again(ready if listing.follows else answering, missed),
        steps=telling.steps(ready),
        runtime_labels=listing.runtime_labels,
    )


def _until_exit(world: World, behind: _Behind) -> AbsenceOf | None:
    """When nobody answers for a pod, where clients are sent to those that are ending; None where they are not."""
    listing = behind.listing
    if listing.follows and (listing.by_name or not world.proxies_to_ending_pods):
        return None
    if not listing.by_kubernetes:
        return address_until_exit(listing.dead)
    others_ns = behind.ending_until_ns and behind.ending_until_ns - world.scenario.start_ns
    return answering_until_exit(listing.dead, others_ns)


def _fewest(answering: Availability, reached: Availability) -> Count:
    """Pods that are ending get clients only where nobody else is there."""
    found = telling.fewest(answering)
    return found if found.most else telling.fewest(reached)


def offered(
    world: World,
    before: int,
    fates: Sequence[Fate],
    listing: Listing,
    dropped: Mapping[str, int] | None = None,
) -> Availability:
    """How many of ``before`` endpoints are offered over time; ``dropped``: nodes whose pods may leave early."""
    ours = listing.by_kubernetes
    unlisted = while_unready_or_dropped(dropped) if dropped else listing.unlisted
    if listing.runtime_labels:
        unlisted = until_labelled(unlisted)
    return world.availability(before, fates, unlisted, endpoints=ours, limited=ours)


# -- who is behind a service ----------------------------------------------------------------------------


def _behind(world: World) -> Iterator[_Behind]:
    if not world.fates:
        return
    infrastructure, kinds = world.snapshot.infrastructure, world.snapshot.kinds_seen
    slices: dict[tuple[str, str], list[EndpointSlice]] = {}
    for one in infrastructure.endpoint_slices:
        slices.setdefault((one.namespace, one.service), []).append(one)
    if not slices and "Service" not in kinds:
        yield from _by_app_labels(world)
        return
    listed = services_of(world.snapshot)
    touched = {fate.pod.namespace for fate in world.fates.values()}
    pods = _by_name(world, {namespace for namespace, _ in slices} & touched)
    for key, some in slices.items():
        if key[0] in touched and key[1]:
            service = listed.get(key)
            if not by_dns(service):
                behind = _of_slices(world, key, some, pods)
                yield from _some(_listed(world, behind, service))
    selected = [
        service
        for key, service in listed.items()
        if key not in slices and service.selector and key[0] in touched and not by_dns(service)
    ]
    yield from _of_selectors(world, selected)


def by_dns(service: Service | None) -> bool:
    """Whether it is a DNS name only (ExternalName): it has no endpoints, whatever its selector."""
    return service is not None and service.type == "ExternalName"


def by_others(service: Service | None) -> bool:
    """Whether somebody else than Kubernetes writes its endpoints: it has no selector."""
    return service is not None and not service.selector


def clients_stay_near(snapshot: ClusterSnapshot) -> bool:
    """Whether clients of some Service are not sent to all of its endpoints."""
    infrastructure = snapshot.infrastructure
    return any(one.hinted for one in infrastructure.endpoint_slices) or any(
        one.traffic_distribution
        or "Local" in (one.internal_traffic_policy, one.external_traffic_policy)
        for one in infrastructure.services
    )


def services_of(snapshot: ClusterSnapshot) -> Mapping[tuple[str, str], Service]:
    """The Services of the input, by namespace and name."""
    return {(one.namespace, one.name): one for one in snapshot.infrastructure.services}


def remedy_of_down(service: Service | None, runtime_labels: Sequence[str]) -> str:
    """What gives a service somebody who answers where one replica more does not; "" where it does."""
    if runtime_labels:
        return hand_over(runtime_labels)
    if by_others(service):
        return "whoever manages its EndpointSlices has to put live addresses in before the change: Kubernetes does not"
    return ""


def remedy_of_dead(service: Service | None) -> str:
    """What takes a dead address out of a service where noticing the node does not; "" where it does."""
    if by_others(service):
        return (
            "whoever manages its EndpointSlices has to take dead addresses out: Kubernetes does not"
        )
    if service is not None and service.publish_not_ready_addresses:
        return "it publishes addresses of pods that are not ready: they leave only with the pods' objects"
    return ""


def listing_of(service: Service | None) -> Listing:
    """By which rule its endpoints are written."""
    if by_others(service):
        return _BY_OTHERS
    if service is not None and service.publish_not_ready_addresses:
        return _PUBLISHED
    return _HEADLESS if service is not None and service.headless else BY_READINESS


def _listed(world: World, behind: _Behind, service: Service | None) -> _Behind:
    """The same with the rule by which its endpoints are written."""
    listing = listing_of(service)
    if service is not None and (selector := service.selector):
        lost = labels_lost(
            ((fate.owner, fate.pod) for fate in behind.fates),
            world.workloads,
            selector,
            lambda labels: selector.items() <= labels.items(),
        )
        if lost:
            listing = msgspec.structs.replace(listing, runtime_labels=lost)
    return replace(behind, listing=listing)


def _some(behind: _Behind) -> Iterator[_Behind]:
    """Only what something happens to."""
    if any(fate.shared.away.possible or fate.shared.dead.possible for fate in behind.fates):
        yield behind


def _by_name(world: World, namespaces: set[str]) -> Mapping[str, Pod]:
    return {pod.key: pod for pod in world.snapshot.pods if pod.namespace in namespaces}


def _of_slices(
    world: World,
    key: tuple[str, str],
    slices: Iterable[EndpointSlice],
    pods: Mapping[str, Pod],
) -> _Behind:
    """A pod counts once, whatever the number of its addresses; what is no pod is always there."""
    names: set[str] = set()
    ready: set[str] = set()
    for place, endpoint in enumerate(endpoint for one in slices for endpoint in one.endpoints):
        name = f"{key[0]}/{endpoint.pod}" if endpoint.pod else f"{place}"
        names.add(name)
        # An endpoint whose pod is not in the input stays as it is.
        if endpoint.ready is not False and (name not in pods or is_counted(pods[name])):
            ready.add(name)
    moving = (world.fates[name] for name in sorted(names) if name in world.fates)
    # A Ready pod whose endpoint is not: whoever writes endpoints is late, and it does not count.
    fates = [fate for fate in moving if fate.key in ready or not fate.counted]
    ending = ending_until_ns(pods[name] for name in names if name in pods)
    return _Behind(*key, ENDPOINT_SLICES, len(ready), fates, ending_until_ns=ending)


def _of_selectors(world: World, services: Sequence[Service]) -> Iterator[_Behind]:
    by_namespace: dict[str, list[tuple[Service, list[Labelled]]]] = {}
    for service in services:
        by_namespace.setdefault(service.namespace, []).append((service, []))
    for (namespace, _), labelled in world.by_labels.items():
        for service, behind in by_namespace.get(namespace, ()):
            if (service.selector or {}).items() <= labelled.pods[0].labels.items():
                behind.append(labelled)
    for some in by_namespace.values():
        for service, behind in some:
            found = _of_pods(service.name, SELECTOR, behind)
            yield from _some(_listed(world, found, service))


def _of_pods(name: str, source: str, classes: Sequence[Labelled]) -> _Behind:
    fates = [fate for one in classes for fate in one.fates]
    namespace = classes[0].pods[0].namespace if classes else ""
    before = sum(one.counted for one in classes)
    ending = max((one.ending_until_ns for one in classes), default=0)
    return _Behind(namespace, name, source, before, fates, ending_until_ns=ending)


def _by_app_labels(world: World) -> Iterator[_Behind]:
    groups: dict[tuple[str, str], list[Labelled]] = {}
    for (namespace, _), labelled in world.by_labels.items():
        if name := app_of(labelled.pods[0]):
            groups.setdefault((namespace, name), []).append(labelled)
    for (_, name), some in groups.items():
        yield from _some(_of_pods(name, LABELS, some))


def app_of(pod: Pod) -> str:
    """By what name people know its application, "" where no label tells."""
    labels = pod.labels
    for label in APP_LABELS:
        if label in labels:
            return labels[label]
    return ""


def services_listed(snapshot: ClusterSnapshot) -> bool:
    """Whether the input tells which Services there are."""
    return "Service" in snapshot.kinds_seen or "EndpointSlice" in snapshot.kinds_seen
