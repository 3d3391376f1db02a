"""``assess_impact``: what a prediction costs, as the ``impact`` of the document. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.drain_timing import AssumeReady
from kubectl_evictplan.impact.budgets import budget_impacts
from kubectl_evictplan.impact.quorums import quorum_impacts
from kubectl_evictplan.impact.replacements import ASSUMPTION, replacement_fits
from kubectl_evictplan.impact.services import (
    by_others,
    clients_stay_near,
    service_impacts,
    services_listed,
)
from kubectl_evictplan.impact.successors import LEARNT, Assumed
from kubectl_evictplan.impact.volumes import SHARED_MODES, UNKNOWN
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.scheduling.answers import Unknown, Verdict
from kubectl_evictplan.kube.scheduling.storage_capacity import KIND as CAPACITIES
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.impact_document import (
    Finding,
    Impact,
    NotComingBack,
    VolumeImpact,
    WorkloadImpact,
)
from kubectl_evictplan.prediction.records import RowsLater
from kubectl_evictplan.scenarios.names import listed
from kubectl_evictplan.scenarios.scenario import Scenario


def assess_impact(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    prediction: Prediction,
    *,
    assume_ready: tuple[int, int | None] | None = None,
    quorums: Collection[str] = (),
) -> Impact:
    """What ``prediction``, made of the first three, costs services, workloads, budgets and volumes.

    What few answers show is found out when somebody reads it: workloads, volumes, pods that do not come back, findings;
    of services and replacements those that something may be wrong with without the others.

    ``assume_ready``: from when to when after its binding a replacement is Ready, in nanoseconds (latest None:
    perhaps never); None: learnt from the pods' own history, else the default. ``quorums``: owners
    ("namespace/name") whose pods need a majority.
    """
    given = assume_ready is not None
    ready = AssumeReady(*assume_ready) if assume_ready is not None else AssumeReady()
    world = World(snapshot, scenario, configuration, prediction, Assumed(ready, given))
    impact = Impact(
        services=service_impacts(world),
        workloads=RowsLater(partial(_workloads, world)),
        budgets=budget_impacts(world),
        volumes=RowsLater(partial(_volumes, world)),
        not_coming_back=RowsLater(partial(_not_coming_back, world)),
        quorums=quorum_impacts(world, frozenset(quorums)),
        findings=(),
        replacements=replacement_fits(world),
    )
    pushed = len(world.pushed.since_ns)
    return replace(
        impact,
        findings=RowsLater(partial(_findings, world, impact)),
        assumptions=RowsLater(partial(_assumptions, snapshot, impact, ready, given=given)),
        not_evaluated=RowsLater(partial(_not_evaluated, snapshot, impact, pushed)),
    )


# What is found out when somebody reads it is imported then: an answer that shows nothing of it may be over before.


def _workloads(world: World) -> Iterable[WorkloadImpact]:
    from kubectl_evictplan.impact.workloads import workload_impacts

    return workload_impacts(world)


def _volumes(world: World) -> Iterable[VolumeImpact]:
    from kubectl_evictplan.impact.claims import volume_impacts

    return volume_impacts(world)


def _not_coming_back(world: World) -> Iterable[NotComingBack]:
    from kubectl_evictplan.impact.comebacks import not_coming_back

    return not_coming_back(world)


def _findings(world: World, impact: Impact) -> Iterable[Finding]:
    from kubectl_evictplan.impact.findings import find

    return find(world, impact)


def _assumptions(
    snapshot: ClusterSnapshot, impact: Impact, ready: AssumeReady, *, given: bool
) -> Iterator[str]:
    if not impact.workloads:
        return
    low_ns, high_ns = ready
    span = format_duration(low_ns)
    if high_ns is None:
        span += " or never"
    elif high_ns != low_ns:
        span += f" to {format_duration(high_ns)}"
    learnt = sum(one.ready_after.source == LEARNT for one in impact.workloads)
    if given:
        yield f"a replacement is Ready {span} after it is bound (--assume-ready)"
    elif learnt < len(impact.workloads):
        why = "where its owner's pods do not tell"
        yield f"a replacement is Ready {span} after it is bound, {why} (the default)"
    if learnt:
        workloads = f"{learnt} workload{'s'[: learnt > 1]}"
        yield f"replacements of {workloads} take as long to be Ready as their owners' pods took"
    if impact.replacements:
        yield ASSUMPTION
    if _asks_capacity(snapshot, impact):
        yield (
            "storage: the capacity that drivers publish stays as it is, but for volumes of evicted pods that go away with them"
        )
    if assumed := sum(one.assumed for one in impact.replacements):
        yield (
            f"replacements of {_groups(assumed)} count as if they found a node at once: what they need, or what"
            " nodes have left, is not in the input"
        )
    yield (
        "a silent node answers nobody, unless only its API server is away; whether its containers run on is not known"
    )
    yield "endpoints follow pods, and owners follow deletions, within half a second"


def not_listed(snapshot: ClusterSnapshot) -> Iterator[str]:
    """What is not evaluated because its kind is not in the input, or may not be read."""
    denied = set(snapshot.denied)
    if not services_listed(snapshot):
        why = "may not be read" if "Service" in denied else "are not in the input"
        yield f"services: Services and EndpointSlices {why}; pods of one app label stand for one"
    if "PodDisruptionBudget" not in snapshot.kinds_seen:
        why = "may not be read" if "PodDisruptionBudget" in denied else "are not in the input"
        yield f"budgets: PodDisruptionBudgets {why}"
    if _has_driver_volumes(snapshot) and "CSINode" not in snapshot.kinds_seen:
        why = "may not be read" if "CSINode" in denied else "are not in the input"
        yield f"volume limits: CSINodes {why}, so how many volumes a node still takes is not known"
    if classes := _classes_of_unread_capacity(snapshot):
        why = "may not be read" if CAPACITIES in denied else "are not in the input"
        yield (
            f"storage capacity: CSIStorageCapacities {why}, so from which nodes new volumes of {listed(classes)} can be"
            " reached is not known"
        )
    if drivers := _drivers_in_doubt(snapshot):
        why = "may not be read" if "CSIDriver" in denied else "are not in the input"
        yield (
            f"attaching volumes: CSIDrivers {why}; those of {', '.join(drivers)} count as attached to one node at a"
            " time"
        )


def _drivers_in_doubt(snapshot: ClusterSnapshot) -> list[str]:
    """Drivers of which nothing in the input says whether they attach volumes."""
    if "CSIDriver" in snapshot.kinds_seen:
        return []
    infrastructure = snapshot.infrastructure
    attached = {one.attacher for one in infrastructure.volume_attachments}
    drivers = {
        one.driver
        for one in infrastructure.persistent_volumes
        if one.driver and not SHARED_MODES & set(one.access_modes)
    }
    return sorted(drivers - attached)


def _asks_capacity(snapshot: ClusterSnapshot, impact: Impact) -> bool:
    """Whether published capacity had a say in where a replacement can run."""
    making = any(Unknown.VOLUMES in one.unknown for one in impact.replacements)
    return making and bool(snapshot.infrastructure.storage_capacities)


def _classes_of_unread_capacity(snapshot: ClusterSnapshot) -> list[str]:
    """StorageClasses of claims that wait for a pod, or go away with it, whose driver publishes capacity that was not read."""
    infrastructure = snapshot.infrastructure
    if CAPACITIES in snapshot.kinds_seen:
        return []
    publishing = {one.name for one in infrastructure.storage_drivers if one.storage_capacity}
    ephemeral = {
        (one.namespace, name) for one in infrastructure.pod_claims for name in one.ephemeral
    }
    to_be_made = {
        one.storage_class
        for one in infrastructure.persistent_volume_claims
        if not one.volume_name or (one.namespace, one.name) in ephemeral
    }
    return sorted(
        one.name
        for one in infrastructure.storage_classes
        if one.waits_for_consumer and one.provisioner in publishing and one.name in to_be_made
    )


def _has_driver_volumes(snapshot: ClusterSnapshot) -> bool:
    return any(one.driver for one in snapshot.infrastructure.persistent_volumes)


def _by_others(snapshot: ClusterSnapshot, impact: Impact) -> Iterator[str]:
    touched = {(one.namespace, one.service) for one in impact.services}
    names = [
        f"{one.namespace}/{one.name}"
        for one in snapshot.infrastructure.services
        if by_others(one) and (one.namespace, one.name) in touched
    ]
    if names:
        yield (
            f"services: nothing in Kubernetes changes the EndpointSlices of Services without a selector: when whoever manages"
            f" those of {listed(names)} takes dead addresses out and new ones in is not known"
        )


def _by_place(snapshot: ClusterSnapshot, impact: Impact) -> Iterator[str]:
    if clients_stay_near(snapshot):
        from kubectl_evictplan.impact.local_traffic import not_judged

        yield from not_judged(snapshot, impact)


def _by_runtime_labels(impact: Impact) -> Iterator[str]:
    lost = [one.runtime_labels for one in impact.services]
    lost += [one.runtime_labels for one in impact.budgets]
    labels = {label for some in lost for label in some}
    names = [f"{one.namespace}/{one.service}" for one in impact.services if one.runtime_labels]
    names += [f"{one.namespace}/{one.budget}" for one in impact.budgets if one.runtime_labels]
    if names:
        yield (
            f"labels: no template gives new pods the label {listed(sorted(labels))}, by which {listed(names)} select: which pod gets it "
            "next, and when, is up to whoever sets it"
        )


def _not_evaluated(snapshot: ClusterSnapshot, impact: Impact, pushed: int) -> Iterator[str]:
    yield from not_listed(snapshot)
    yield from _by_others(snapshot, impact)
    yield from _by_runtime_labels(impact)
    yield from _by_place(snapshot, impact)
    unfitted = sum(one.verdict == Verdict.UNKNOWN for one in impact.replacements)
    if unfitted:
        yield f"placement: whether the replacements of {_groups(unfitted)} fit anywhere is not known"
    if pushed:
        yield (
            "preemption: replacements may push out pods of lower priority; which is not predicted, and whoever may be"
            f" one of them ({pushed}) counts as perhaps away"
        )
    unknown = sum(one.code == UNKNOWN for one in impact.volumes)
    if unknown:
        claims = (
            "1 claim of a pod that goes away is"
            if unknown == 1
            else f"{unknown} claims of pods that go away are"
        )
        yield f"volumes: {claims} not in the input"


def _groups(number: int) -> str:
    return "1 group of pods" if number == 1 else f"{number} groups of pods"


def with_impact(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    prediction: Prediction,
    *,
    assume_ready: tuple[int, int | None] | None = None,
    quorums: Collection[str] = (),
) -> Prediction:
    """Return the same prediction with what it costs (``assess_impact``)."""
    known = (snapshot, scenario, configuration, prediction)
    impact = assess_impact(*known, assume_ready=assume_ready, quorums=quorums)
    return replace(prediction, impact=impact)
