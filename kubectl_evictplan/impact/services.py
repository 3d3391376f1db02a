"""Services: who is behind them, and how many of those are ready, and answer, over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.fates import Fate, is_counted
from kubectl_evictplan.impact.listed import (
    dropped_early,
    while_published,
    while_unready_or_dropped,
)
from kubectl_evictplan.impact.node_lives import thawed
from kubectl_evictplan.impact.stretches import FOREVER_NS, Absence, Between
from kubectl_evictplan.impact.world import World, away, dead
from kubectl_evictplan.kube.infrastructure import EndpointSlice, Service
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.impact_document import BlackHole, ServiceImpact, Spell
from kubectl_evictplan.prediction.records import CERTAIN, POSSIBLE

SELECTOR, ENDPOINT_SLICES, LABELS = "selector", "endpointSlices", "labels"
SILENT, NODE_DELETED = "silent", "node-deleted"
# Labels by which people name an application, where the input holds no Services.
APP_LABELS = ("app.kubernetes.io/name", "app", "k8s-app")


# The node, why, since when and until when.
_Place = tuple[str, str, Between, Between]


class _Behind(NamedTuple):
    """The pods behind a service: how many are ready at the start, and those that move."""

    namespace: str
    name: str
    source: str
    before: int
    fates: list[Fate]
    # It offers pods that are not ready, too (publishNotReadyAddresses).
    publishes: bool = False


def service_impacts(world: World) -> tuple[ServiceImpact, ...]:
    """Every service with a ready endpoint that something happens to, sorted."""
    found = [_impact(world, behind) for behind in _behind(world)]
    return tuple(sorted(found, key=lambda one: (one.namespace, one.service)))


def _impact(world: World, behind: _Behind) -> ServiceImpact:
    # A Service that publishes addresses offers them whatever becomes of the node.
    dropped = {} if behind.publishes else dropped_early(behind.fates)
    unlisted: Callable[[Fate], Absence] = while_published if behind.publishes else away
    if dropped:
        unlisted = while_unready_or_dropped(dropped)
    ready = world.availability(behind.before, behind.fates, unlisted, endpoints=True)
    answering = world.availability(behind.before, behind.fates, dead)
    holes, undetected = _black_holes(world, behind.fates, dropped)
    owners = {world.owner_of(one.pod) for one in behind.fates}
    # Whoever was one too many is not missed.
    surplus = sum(one.counted and world.is_surplus(one.pod) for one in behind.fates)
    return ServiceImpact(
        namespace=behind.namespace,
        service=behind.name,
        source=behind.source,
        workloads=tuple(sorted({world.workload_of(owner)[1] for owner in owners})),
        endpoints_before=behind.before,
        fewest_ready=telling.fewest(ready),
        fewest_answering=telling.fewest(answering),
        black_holes=holes,
        nobody_ready=telling.spells(ready, 1),
        nobody_answers=telling.spells(answering, 1),
        undetected=undetected,
        whole_again=telling.whole_again(ready, behind.before - surplus),
        steps=telling.steps(ready),
    )


# -- black holes ------------------------------------------------------------------------------------------


def _black_holes(
    world: World, fates: Iterable[Fate], dropped: Mapping[str, int]
) -> tuple[tuple[BlackHole, ...], Spell | None]:
    by_place: dict[_Place, list[str]] = {}
    # Alike pods of one node share what they are made of, and then their holes.
    known: dict[tuple[int, int], list[list[str]]] = {}
    for fate in fates:
        if not fate.counted:
            continue
        token = id(fate.life), id(fate.leaves)
        if (holes_of := known.get(token)) is None:
            leaves = thawed(fate.leaves, world.frozen)
            earliest_ns = min(leaves.earliest_ns, dropped.get(fate.pod.node_name, FOREVER_NS))
            places = _places(fate, leaves._replace(earliest_ns=earliest_ns))
            holes_of = known[token] = [by_place.setdefault(place, []) for place in places]
        for names in holes_of:
            names.append(fate.pod.name)
    holes = tuple(
        BlackHole(node, tuple(sorted(pods)), why, telling.instant(since), telling.instant(until))
        for (node, why, since, until), pods in sorted(by_place.items())
    )
    return holes, _undetected(list(by_place))


def _places(fate: Fate, leaves: Between) -> Iterator[_Place]:
    node = fate.pod.node_name
    for silence in fate.life.silences:
        if silence.since.earliest_ns < leaves.latest_ns:
            # The kubelet may be back before anybody notices.
            earliest_ns = min(leaves.earliest_ns, silence.until.earliest_ns)
            until = Between(earliest_ns, min(leaves.latest_ns, silence.until.latest_ns))
            if until.latest_ns > silence.since.earliest_ns:
                yield node, SILENT, silence.since, until
    deleted = fate.life.deleted
    if deleted.earliest_ns < leaves.latest_ns:
        yield node, NODE_DELETED, deleted, leaves


def _undetected(places: Sequence[_Place]) -> Spell | None:
    """From the first silence to the end of the last black hole."""
    if not places:
        return None
    certain = any(why == SILENT for _, why, _, _ in places)
    since = Between(*(min(place[2][end] for place in places) for end in (0, 1)))
    until = Between(*(max(place[3][end] for place in places) for end in (0, 1)))
    lasts = max(place[3].earliest_ns - place[2].latest_ns for place in places)
    return Spell(
        CERTAIN if certain else POSSIBLE,
        telling.instant(since),
        telling.instant(until),
        telling.seconds_or_null(max(lasts, 0)) if certain else 0.0,
        None if until.latest_ns >= FOREVER_NS else seconds(until.latest_ns - since.earliest_ns),
    )


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
    listed = {(one.namespace, one.name): one for one in infrastructure.services}
    touched = {fate.pod.namespace for fate in world.fates.values()}
    pods = _by_name(world, {namespace for namespace, _ in slices} & touched)
    for key, some in slices.items():
        if key[0] in touched and key[1]:
            service = listed.get(key)
            publishes = service is not None and service.publish_not_ready_addresses
            behind = _of_slices(world, key, some, pods)
            yield from _some(behind._replace(publishes=publishes))
    selected = [
        service
        for key, service in listed.items()
        if key not in slices and service.selector and key[0] in touched
    ]
    yield from _of_selectors(world, selected)


def _some(behind: _Behind) -> Iterator[_Behind]:
    """Only what something happens to."""
    if any(fate.away.possible or fate.dead.possible for fate in behind.fates):
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
    fates = [fate for fate in moving if fate.pod.key in ready or not fate.counted]
    return _Behind(*key, ENDPOINT_SLICES, len(ready), fates)


def _of_selectors(world: World, services: Sequence[Service]) -> Iterator[_Behind]:
    by_namespace: dict[str, list[tuple[Service, list[Pod]]]] = {}
    for service in services:
        by_namespace.setdefault(service.namespace, []).append((service, []))
    for (namespace, _), pods in world.by_labels.items():
        for service, behind in by_namespace.get(namespace, ()):
            if (service.selector or {}).items() <= pods[0].labels.items():
                behind.extend(pods)
    for some in by_namespace.values():
        for service, behind in some:
            found = _of_pods(world, service.name, SELECTOR, behind)
            yield from _some(found._replace(publishes=service.publish_not_ready_addresses))


def _of_pods(world: World, name: str, source: str, pods: Sequence[Pod]) -> _Behind:
    fates = [fate for pod in pods if (fate := world.fate_of(pod)) is not None]
    namespace = pods[0].namespace if pods else ""
    return _Behind(namespace, name, source, sum(map(is_counted, pods)), fates)


def _by_app_labels(world: World) -> Iterator[_Behind]:
    groups: dict[tuple[str, str], list[Pod]] = {}
    for (namespace, _), pods in world.by_labels.items():
        labels = pods[0].labels
        name = next((labels[label] for label in APP_LABELS if label in labels), "")
        if name:
            groups.setdefault((namespace, name), []).extend(pods)
    for (_, name), pods in groups.items():
        yield from _some(_of_pods(world, name, LABELS, pods))


def services_listed(snapshot: ClusterSnapshot) -> bool:
    """Whether the input tells which Services there are."""
    return "Service" in snapshot.kinds_seen or "EndpointSlice" in snapshot.kinds_seen
