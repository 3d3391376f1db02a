"""What a reviewer must know, most severe first: each kind once, with all its objects, the worst one in words.

``finding_kinds`` says why and what to do in general; here are the objects, their numbers, and the exact command.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import compress
from operator import attrgetter

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.impact.black_holes import dead_endpoints
from kubectl_evictplan.impact.comebacks import (
    BARE_POD,
    DAEMON_SET,
    IDENTITY_HELD,
    JOB_FAILED,
    JOB_WAITS,
    VOLUME_HELD,
)
from kubectl_evictplan.impact.fates import Fate, deletion_of, node_name_of
from kubectl_evictplan.impact.finding_items import Facts, Item, Words, certainty_of, owned
from kubectl_evictplan.impact.finding_kinds import FINDING_KINDS, SEVERITIES, severity_of
from kubectl_evictplan.impact.finding_words import (
    at,
    be,
    counted,
    lasts,
    longest,
    numbers,
    told_since,
    told_spell,
)
from kubectl_evictplan.impact.more_replicas import scaling
from kubectl_evictplan.impact.replacement_words import (
    CROWDED,
    PENDING,
    fit_sentence,
    too_many,
    what_would_help,
)
from kubectl_evictplan.impact.services import (
    LABELS,
    clients_stay_near,
    remedy_of_dead,
    remedy_of_down,
    services_of,
)
from kubectl_evictplan.impact.volumes import (
    DELETED,
    FORCE_DETACH,
    HELD,
    LEFT_BEHIND,
    NEVER_MOVES,
    STILL_USED,
)
from kubectl_evictplan.impact.workloads import REPLICATED
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.kube.owners import OwnerKey
from kubectl_evictplan.kube.scheduling.answers import Verdict
from kubectl_evictplan.prediction.impact_document import (
    Finding,
    Impact,
    NotComingBack,
    ServiceImpact,
    Spell,
    WorkloadImpact,
)
from kubectl_evictplan.prediction.records import CERTAIN, POSSIBLE
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, DeleteNode

_EMPTY_DIR = attrgetter("pod.empty_dir")
# Who is replaced later than that after a node was given up is slow (``tolerationSeconds`` of most pods).
_SLOW_SECONDS = 120


def find(world: World, impact: Impact) -> tuple[Finding, ...]:
    """Every finding, most severe first, then in the order of the codes."""
    workloads = {(one.namespace, one.workload): one for one in impact.workloads}
    facts = Facts(world, impact, workloads, scaling(world, workloads, impact.volumes))
    found = [
        finding
        for code, author in AUTHORS.items()
        for finding in _merged(code, list(author(facts)))
    ]
    found.sort(key=lambda one: -SEVERITIES.index(one.severity))
    return tuple(found)


def _merged(code: str, items: list[Item]) -> Iterator[Finding]:
    kind = FINDING_KINDS[code]
    for certainty in (CERTAIN, POSSIBLE):
        some = [item for item in items if item.certainty == certainty]
        if not some:
            continue
        some.sort(key=lambda item: (-item.weight, item.object))
        objects = tuple(dict.fromkeys([item.object for item in some]))
        others, worst = len(objects) - 1, some[0]
        yield Finding(
            code=code,
            severity=severity_of(code, certain=certainty == CERTAIN),
            certainty=certainty,
            objects=objects,
            summary=_told(worst.text) + (f"; {others} more" if others else ""),
            why=kind.why,
            remedy=_told(worst.remedy) or kind.remedy,
        )


def _told(words: Words) -> str:
    return words if isinstance(words, str) else words()


# -- authors: one for each code -----------------------------------------------------------------------------


def _service_down(facts: Facts) -> Iterator[Item]:
    listed = services_of(facts.world.snapshot)
    for one in facts.impact.services:
        spell = longest((*one.nobody_answers, *one.nobody_ready))
        if spell is not None:
            text = f"nobody answers for {_service(one)} {told_spell(spell)}"
            if spell not in one.nobody_answers:
                text = f"{_service(one)} has no ready endpoint {told_spell(spell)}; pods that are ending may answer until they exit"
            service = listed.get((one.namespace, one.service))
            remedy = remedy_of_down(service, one.runtime_labels)
            remedy = remedy or facts.scaling.of(one.namespace, one.workloads)
            yield Item(_service_object(one), text, spell.certainty, lasts(spell), remedy)


def _service(one: ServiceImpact) -> str:
    noun = "app" if one.source == LABELS else "service"
    return f"{noun} {one.namespace}/{one.service}"


def _service_object(one: ServiceImpact) -> str:
    """Where no Services are listed, the label says who belongs together: that is no object of the cluster."""
    kind = "App" if one.source == LABELS else "Service"
    return f"{kind}/{one.namespace}/{one.service}"


def _local_endpoints_gone(facts: Facts) -> Iterator[Item]:
    if clients_stay_near(facts.world.snapshot):
        from kubectl_evictplan.impact import local_traffic

        yield from local_traffic.local_endpoints_gone(facts)


def _outage_undetected(facts: Facts) -> Iterator[Item]:
    listed = services_of(facts.world.snapshot)
    for one in facts.impact.services:
        if (spell := one.undetected) is not None:
            dead = dead_endpoints(one)
            text = f"{dead} of {one.endpoints_before} endpoints of {_service(one)} {be(dead)} dead but offered"
            if spell.most_seconds is not None:
                text += f" for up to {format_duration(math.ceil(spell.most_seconds) * SECOND_NS)}"
            else:
                text += ", perhaps without end"
            weight = dead / max(one.endpoints_before, 1)
            remedy = remedy_of_dead(listed.get((one.namespace, one.service)))
            yield Item(_service_object(one), text, spell.certainty, weight, remedy)


def _budget_broken(facts: Facts) -> Iterator[Item]:
    planned = _planned_nodes(facts.world)
    for one in facts.impact.budgets:
        spell = longest(one.broken)
        if spell is None:
            continue
        text = (
            f"budget {one.namespace}/{one.budget} wants {one.desired_healthy} healthy "
            f"and has {numbers(one.fewest_healthy.least, one.fewest_healthy.most)}, {told_spell(spell)}"
        )
        if one.healthy_before < (one.desired_healthy or 0):
            text += f"; it has only {one.healthy_before} before the change"
        if "never-asked" in one.paths:
            text += "; nobody asks it"
        # A drain gets nowhere where the budget has nobody to spare.
        spare = one.healthy_before > (one.desired_healthy or 0)
        remedy = f"drain first: {planned}" if planned and spare else facts.scaling.for_budget(one)
        name = f"PodDisruptionBudget/{one.namespace}/{one.budget}"
        yield Item(name, text, spell.certainty, float(one.broken_by.most), remedy)


def _planned_nodes(world: World) -> str:
    """The drain that would have asked, where people taint or delete nodes; "" where nodes fail."""
    names = [
        name
        for event in world.scenario.events
        if isinstance(event, AddTaint | DeleteNode)
        for name in event.nodes
    ]
    if not names or len(names) > 20:
        return ""
    return shlex.join(["kubectl", "drain", *dict.fromkeys(names), "--ignore-daemonsets"])


def _workload_down(facts: Facts) -> Iterator[Item]:
    for one in facts.impact.workloads:
        if _may_be_one(one) or one.workload.partition("/")[0] not in REPLICATED:
            continue
        if (spell := longest(one.zero)) is not None:
            text = partial(_loses_all, one, spell)
            remedy = partial(facts.scaling.of, one.namespace, [one.workload])
            yield Item(_workload(one), text, spell.certainty, lasts(spell), remedy)


def _loses_all(one: WorkloadImpact, spell: Spell) -> str:
    pods = counted(one.ready_before, "Ready pod")
    return f"{one.workload} in {one.namespace} loses all it has, {pods}: none {told_spell(spell)}"


def _may_be_one(one: WorkloadImpact) -> bool:
    """Whether it wants one pod, or may: one is in the input, without its owner."""
    return one.single_replica is not False


def _single_replica(facts: Facts) -> Iterator[Item]:
    for one in facts.impact.workloads:
        if _may_be_one(one) and (spell := longest(one.zero)) is not None:
            text, remedy = partial(_has_one, one, spell), partial(facts.scaling.command, one)
            yield Item(_workload(one), text, spell.certainty, lasts(spell), remedy)


def _has_one(one: WorkloadImpact, spell: Spell) -> str:
    has = "has one replica"
    if one.single_replica is None:
        has = "has one pod in the input, which does not say how many it wants"
    return f"{one.workload} in {one.namespace} {has}: none {told_spell(spell)}"


def _workload(one: WorkloadImpact) -> str:
    kind, _, name = one.workload.partition("/")
    return f"{kind}/{one.namespace}/{name}"


def _slow_failover(facts: Facts) -> Iterator[Item]:
    # By owner; of one with pods that wait differently the last counts.
    slow: dict[OwnerKey, int] = {}
    for fate in reversed(facts.world.fates.values()):
        deletion = fate.deletion
        if fate.owner in slow or deletion is None or fate.shared.successor.created.never:
            continue
        seconds = deletion.tolerated_seconds or 0
        if seconds > _SLOW_SECONDS and fate.life.unready and TAINT_EVICTION in deletion.by:
            slow[fate.owner] = seconds
    last_first = reversed(slow.items())
    by_workload = {owned(facts.world, owner): float(waits) for owner, waits in last_first}
    for name, waits in by_workload.items():
        text = f"pods of {name} are replaced only {round(waits)}s after their node is tainted"
        yield Item(name, text, weight=waits)


def _pods(code: str, told: str) -> Callable[[Facts], Iterator[Item]]:
    """Items of pods that do not come back for one reason."""

    def author(facts: Facts) -> Iterator[Item]:
        for one in facts.impact.not_coming_back:
            if one.code == code:
                yield Item(
                    _pod(one),
                    told.format(pod=f"{one.namespace}/{one.pod}", node=one.node),
                    _how_sure(facts.world, one),
                    remedy=one.release,
                )

    return author


def _pod(one: NotComingBack) -> str:
    return f"Pod/{one.namespace}/{one.pod}"


def _how_sure(world: World, one: NotComingBack) -> str:
    fate = world.fates[f"{one.namespace}/{one.pod}"]
    if one.code in (IDENTITY_HELD, VOLUME_HELD) and not fate.life.may_be_off:
        return POSSIBLE
    return certainty_of(fate)


def _volumes(
    codes: frozenset[str], told: str, remedy: Callable[[Fate], str]
) -> Callable[[Facts], Iterator[Item]]:
    def author(facts: Facts) -> Iterator[Item]:
        for one in facts.impact.volumes:
            if one.code in codes:
                last = one.free.latest_seconds
                when = (
                    "not before somebody acts"
                    if last is None
                    else f"at {at(math.ceil(last))} at the latest"
                )
                claim = f"{one.namespace}/{one.claim}"
                text = told.format(claim=claim, pod=one.pod, node=one.node, when=when)
                name = f"PersistentVolumeClaim/{claim}"
                fate = facts.world.fates[f"{one.namespace}/{one.pod}"]
                weight = math.inf if last is None else last
                # Whoever shares a volume may be lucky.
                perhaps = one.code == STILL_USED and one.free.earliest_seconds is not None
                certainty = POSSIBLE if perhaps else certainty_of(fate)
                yield Item(name, text, certainty, weight, remedy(fate))

    return author


def _frees_the_volume(fate: Fate) -> str:
    if not fate.life.may_be_off:
        return "see what keeps the old pod, or use volumes that several nodes may mount"
    return _tell_that_it_is_off(fate.pod.node_name) + " (detaches at once)"


def _tell_that_it_is_off(node: str) -> str:
    taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    return "once the machine is surely off: " + shlex.join(
        ["kubectl", "taint", "node", node, taint]
    )


def _two_copies(facts: Facts) -> Iterator[Item]:
    for one in facts.impact.workloads:
        if one.two_copies:
            text = partial(_runs_twice, one)
            yield Item(_workload(one), text, POSSIBLE, float(len(one.two_copies)))


def _runs_twice(one: WorkloadImpact) -> str:
    copy = min(one.two_copies, key=lambda two: two.since.earliest_seconds or 0.0)
    return (
        f"{counted(len(one.two_copies), 'pod')} of {one.workload} in {one.namespace} may run twice, "
        f"the first from {told_since(copy.since)} on"
    )


def _stays_terminating(facts: Facts) -> Iterator[Item]:
    world = facts.world
    off = {node for node, life in world.lives.items() if life.may_be_off}
    fates = world.fates.values() if off else ()
    # By identity: alike pods share their deletions.
    deletions = list(map(deletion_of, fates))
    ids = list(map(id, deletions))
    distinct = dict(zip(ids, deletions, strict=True))
    stuck = {known for known, one in distinct.items() if one is not None and one.stuck}
    numbers = Counter(compress(map(node_name_of, fates), map(stuck.__contains__, ids)))
    for node, number in sorted(numbers.items()):
        if node in off:
            text = partial(_told_stuck, node, number)
            remedy = partial(_tell_that_it_is_off, node)
            yield Item(f"Node/{node}", text, weight=float(number), remedy=remedy)


def _told_stuck(node: str, number: int) -> str:
    return f"deleted pods of node {node} stay Terminating while its kubelet is silent: {number}"


def _quorum_lost(facts: Facts) -> Iterator[Item]:
    for one in facts.impact.quorums:
        spell = longest(one.majority_lost)
        if spell is not None:
            text = (
                f"{one.name} needs {one.needed} of {one.members} and has "
                f"{numbers(one.fewest_voting.least, one.fewest_voting.most)}, {told_spell(spell)}"
            )
            yield Item(f"Quorum/{one.name}", text, spell.certainty, lasts(spell))


def _empty_dir_gone(facts: Facts) -> Iterator[Item]:
    fates = facts.world.fates.values()
    losing = {
        (fate.owner, fate.deletion.certain)
        for fate in compress(fates, map(_EMPTY_DIR, fates))
        if fate.deletion is not None
    }
    for owner, certain in losing:
        namespace, workload = facts.world.workload_of(owner)
        text = f"pods of {workload} in {namespace} lose what they keep in an emptyDir"
        yield Item(owned(facts.world, owner), text, CERTAIN if certain else POSSIBLE)


def _replacements(verdicts: frozenset[Verdict]) -> Callable[[Facts], Iterator[Item]]:
    """Items of workloads whose replacements find no place, or not all of them."""

    def author(facts: Facts) -> Iterator[Item]:
        world = facts.world
        found = [
            one
            for one in facts.impact.replacements
            if one.verdict in verdicts and not one.returns_to
        ]
        groups = {fit.pods[0].key: fit.pods for fit in world.placements.fits} if found else {}
        for one in found:
            kind, _, name = one.workload.partition("/")
            told = counted(one.pods, "replacement")
            text = f"{told} of {one.workload} in {one.namespace}: {fit_sentence(one)}"
            pods = groups[f"{one.namespace}/{one.pod}"]
            sure = too_many(one, sum(world.deletions[pod.key].certain for pod in pods))
            weight = float(one.pods - one.placed)
            certainty = CERTAIN if sure else POSSIBLE
            name = f"{kind}/{one.namespace}/{name}"
            yield Item(name, text, certainty, weight, what_would_help(one, pods[0].needs))

    return author


def _of_drains(name: str) -> Callable[[Facts], Iterator[Item]]:
    """Items of drains: most changes have none."""

    def author(facts: Facts) -> Iterator[Item]:
        if facts.world.prediction.drains:
            from kubectl_evictplan.impact import drain_findings

            yield from getattr(drain_findings, name)(facts)

    return author


def _rare(name: str) -> Callable[[Facts], Iterator[Item]]:
    """Items of pods that return to their nodes, or are made with scheduling gates: most changes have none."""

    def author(facts: Facts) -> Iterator[Item]:
        if facts.world.returning or facts.world.has_gates:
            from kubectl_evictplan.impact import rare_findings

            yield from getattr(rare_findings, name)(facts)

    return author


AUTHORS: dict[str, Callable[[Facts], Iterator[Item]]] = {
    "service-down": _service_down,
    "majority-lost": _quorum_lost,
    "local-endpoints-gone": _local_endpoints_gone,
    "workload-down": _workload_down,
    "budget-broken": _budget_broken,
    "drain-waits": _of_drains("drain_waits"),
    "drain-unfinished": _of_drains("drain_unfinished"),
    "identity-held": _pods(IDENTITY_HELD, "{pod} stays Terminating on {node} and is not replaced"),
    "replacement-pending": _replacements(PENDING),
    "no-room-left": _replacements(CROWDED),
    "replacement-gated": _rare("replacement_gated"),
    "bare-pod-gone": _pods(BARE_POD, "no controller manages {pod}: it is gone for good"),
    "volume-never-moves": _volumes(
        frozenset({NEVER_MOVES}),
        "{claim} of {pod} lies on the disk of {node} and never moves",
        lambda _: "",
    ),
    "volume-deleted": _volumes(
        frozenset({DELETED}),
        "{claim} of {pod} is being deleted: it goes with the last pod that uses it, and its data",
        lambda _: "",
    ),
    "volume-held": _pods(
        VOLUME_HELD, "the volume of {pod} stays attached to {node}: its successor does not start"
    ),
    "volume-left-behind": _volumes(
        frozenset({LEFT_BEHIND}),
        "{claim} of {pod} is a directory of {node}: its successor finds other data, or none",
        lambda _: "",
    ),
    "volume-still-used": _volumes(
        frozenset({STILL_USED}),
        "{claim} of {pod} is used by other pods too: on another node than theirs its successor does not start",
        lambda _: "",
    ),
    "single-replica": _single_replica,
    "volume-waits": _volumes(
        frozenset({FORCE_DETACH, HELD}),
        "{claim} of {pod} can leave {node} {when}",
        _frees_the_volume,
    ),
    "slow-failover": _slow_failover,
    "outage-undetected": _outage_undetected,
    "two-copies": _two_copies,
    "stays-terminating": _stays_terminating,
    "evicted-again": _rare("evicted_again"),
    "daemon-set-away": _pods(DAEMON_SET, "{pod} stays away from {node} while the taint is there"),
    "job-fails": _pods(JOB_FAILED, "the Job of {pod}, or its index, fails with it"),
    "job-waits": _pods(JOB_WAITS, "the Job of {pod} waits for the end of it on {node}"),
    "empty-dir-gone": _empty_dir_gone,
}
