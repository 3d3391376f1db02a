"""What happens to each touched node, as far as its pods notice: silence, Ready, deletion, taints that go.

Read from the Prediction (its windows) and, for silence, from the scenario: a kubelet that falls silent is nowhere to
be seen in the API before Ready becomes Unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import is_up_at_start, observed_at_ns
from kubectl_evictplan.engine.timing import INFORMERS_FILLED_MAX_NS
from kubectl_evictplan.impact.stretches import FOREVER_NS, NEVER, Absence, Between, exactly
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE
from kubectl_evictplan.prediction.document import CERTAIN, NodeChange, NodeReport, Prediction
from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.outages import returns_within
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows import outcome

# What was written is seen and acted upon within that: longer than any recorded run shows.
REACTION_MAX_NS = SECOND_NS // 2
# A kubelet compares what it knows of its pods with the API that often (``syncPeriod`` of its status manager).
STATUS_SYNC_NS = 10 * SECOND_NS
# All of a change but who makes it, and when in the one run that the report tells.
_HAPPENS = attrgetter("what", "value", "certainty", "earliest_seconds", "latest_seconds")


class Silence(msgspec.Struct, frozen=True):
    """A kubelet is not heard: since between its last heartbeat and the stop, until it is back.

    ``answers``: only because its API server is away, so that its pods answer as before.
    """

    since: Between
    until: Between
    answers: bool = False


class Unready(msgspec.Struct, frozen=True):
    """The node's Ready is not True, so its pods are not either."""

    since: Between
    until: Between
    certain: bool


class NodeLife(msgspec.Struct, frozen=True):
    """One touched node. ``untainted``: by "key:effect", when that taint goes."""

    silences: tuple[Silence, ...] = ()
    unready: tuple[Unready, ...] = ()
    deleted: Between = NEVER
    untainted: Mapping[str, tuple[Between, ...]] = {}
    # From when on it may be Ready that is not at the start: its pods become Ready again by themselves.
    recovers_ns: int = FOREVER_NS

    @property
    def unanswered(self) -> tuple[Silence, ...]:
        """The silences in which its pods answer nobody."""
        return tuple(one for one in self.silences if not one.answers)

    @property
    def may_be_off(self) -> bool:
        """Whether its kubelet falls silent and nobody says that it comes back.

        Of no other node a remedy may name the out-of-service taint, which takes pods and volumes from a running machine.
        """
        lasting = any(one.until.latest_ns >= FOREVER_NS for one in self.unanswered)
        return lasting and self.deleted.never

    def silent_at(self, at_ns: int) -> Silence | None:
        """The silence in which an instant may lie."""
        for one in self.silences:
            if one.since.earliest_ns <= at_ns < one.until.latest_ns:
                return one
        return None


def between(earliest_seconds: float | None, latest_seconds: float | None) -> Between:
    """A window of the document; null is never."""
    return Between(
        *(
            FOREVER_NS if s is None else round(s * SECOND_NS)
            for s in (earliest_seconds, latest_seconds)
        )
    )


def node_lives(
    snapshot: ClusterSnapshot, scenario: Scenario, prediction: Prediction, monitor_period_ns: int
) -> dict[str, NodeLife]:
    """Return the life of every node of the Prediction, by name; equal ones are one object."""
    silences = _silences(snapshot, scenario, {report.node for report in prediction.nodes})
    lives: dict[str, NodeLife] = {}
    known: dict[Hashable, NodeLife] = {}
    equal: dict[Hashable, NodeLife] = {}
    for report in prediction.nodes:
        mine = silences.get(report.node, ())
        kind = (what_happens(report), *mine)
        if (life := known.get(kind)) is None:
            ready_ns = _ready_for_good_ns(report, mine, scenario.horizon_ns)
            life = _life(report, mine, _unready(report, monitor_period_ns, ready_ns))
            untainted = tuple(life.untainted.items())
            token = life.silences, life.unready, life.deleted, untainted, life.recovers_ns
            life = known[kind] = equal.setdefault(token, life)
        lives[report.node] = life
    return lives


def what_happens(report: NodeReport) -> Hashable:
    """Equal for nodes to which the same happens, as far as they are told of."""
    return report.ready_at_start, report.taints_at_start, *map(_HAPPENS, report.changes)


def _life(
    report: NodeReport, silences: Iterable[Silence], unready: tuple[Unready, ...]
) -> NodeLife:
    deleted = NEVER
    untainted: dict[str, tuple[Between, ...]] = {}
    for change in report.changes:
        when = between(change.earliest_seconds, change.latest_seconds)
        if change.what == outcome.DELETED and deleted.never:
            deleted = when
        elif change.what == outcome.TAINT_REMOVED:
            untainted[change.value] = (*untainted.get(change.value, ()), when)
    return NodeLife(tuple(silences), unready, deleted, untainted, _recovers(report))


def _recovers(report: NodeReport) -> int:
    if report.ready_at_start == "True":
        return FOREVER_NS
    ready = (one for one in report.changes if one.what == outcome.READY and one.value == "True")
    return min((round(one.earliest_seconds * SECOND_NS) for one in ready), default=FOREVER_NS)


def _ready_for_good_ns(
    report: NodeReport, silences: Collection[Silence], horizon_ns: int | None
) -> int:
    """Until when a node that may be Unknown is Ready again for certain; FOREVER_NS where it may be never.

    A kubelet that is up posts Ready=True over an Unknown, so a node whose kubelet surely stays up in the end is True
    then, and whenever it got so is in a window of the report. Where the kubelet says itself that it is not ready, the
    node is deleted, or the horizon cuts windows off, nothing follows.
    """
    lasting = any(one.until.latest_ns >= FOREVER_NS for one in silences)
    changed = {(one.what, one.value) for one in report.changes}
    gone = any(what == outcome.DELETED for what, _ in changed)
    if lasting or gone or (outcome.READY, "False") in changed:
        return FOREVER_NS
    told = (one for one in report.changes if (one.what, one.value) == (outcome.READY, "True"))
    latest = (between(one.earliest_seconds, one.latest_seconds).latest_ns for one in told)
    ready_ns = max(latest, default=FOREVER_NS)
    return ready_ns if horizon_ns is None or ready_ns < horizon_ns else FOREVER_NS


def _unready(
    report: NodeReport, monitor_period_ns: int, ready_for_good_ns: int
) -> tuple[Unready, ...]:
    found: list[Unready] = []
    since: NodeChange | None = None
    for change in report.changes:
        if change.what != outcome.READY:
            continue
        if change.value != "True":
            since = since or change
        elif since is not None:
            until = between(change.earliest_seconds, change.latest_seconds)
            if change.certainty != CERTAIN:
                until = until._replace(latest_ns=ready_for_good_ns)
            # Its pods are Ready again when the kubelet's status manager has said so.
            found.append(_stretch(since, until.later(0, STATUS_SYNC_NS), monitor_period_ns))
            since = None
    if since is not None:
        # Of True and Unknown, whose windows meet, True may be told first and come last.
        until = NEVER
        if ready_for_good_ns < FOREVER_NS:
            seconds = since.earliest_seconds
            until = Between(between(seconds, seconds).earliest_ns, ready_for_good_ns)
            until = until.later(0, STATUS_SYNC_NS)
        found.append(_stretch(since, until, monitor_period_ns))
    return tuple(found)


def _stretch(change: NodeChange, until: Between, monitor_period_ns: int) -> Unready:
    since = between(change.earliest_seconds, change.latest_seconds)
    if change.value == "False":
        # The kubelet says so; the next tick of the monitor marks the pods (``MarkPodsNotReady``).
        since = since.later(0, monitor_period_ns)
    return Unready(since, until, change.certainty == CERTAIN)


def _silences(
    snapshot: ClusterSnapshot, scenario: Scenario, names: set[str]
) -> dict[str, list[Silence]]:
    found: dict[str, list[Silence]] = {}
    seen_ns = observed_at_ns(snapshot, scenario.start_ns)
    for node in snapshot.nodes:
        if node.name not in names:
            continue
        lease = snapshot.leases.get(node.name)
        if not is_up_at_start(node, lease, seen_ns):
            last_ns = None if lease is None else lease.renew_time_ns
            ready = node.condition("Ready")
            if last_ns is None and ready is not None:
                last_ns = ready.last_heartbeat_time_ns
            since_ns = min((last_ns or scenario.start_ns) - scenario.start_ns, 0)
            found[node.name] = [Silence(exactly(since_ns), NEVER)]
    late = returns_within(scenario.events)
    for event in scenario.events:
        back_ns = event.latest_ns
        if late is not None and late[0] <= event.at_ns <= late[1]:
            back_ns = max(back_ns, late[1])
        for name in event.nodes if event.kubelets_up is not None else ():
            series = found.setdefault(name, [])
            silent = bool(series) and series[-1].until.never
            if event.kubelets_up and silent:
                series[-1] = replace(series[-1], until=Between(event.at_ns, back_ns))
            elif not event.kubelets_up and not silent:
                last_ns = event.last_heartbeat_ns if isinstance(event, StopKubelet) else None
                since_ns = event.at_ns if last_ns is None else last_ns
                answers = event.outage is not None
                series.append(Silence(Between(since_ns, event.at_ns), NEVER, answers))
    return found


class Frozen(msgspec.Struct, frozen=True):
    """No kube-controller-manager acts from ``since_ns`` until it is back."""

    since_ns: int
    until: Between


def frozen_stretches(scenario: Scenario) -> tuple[Frozen, ...]:
    """When nobody writes endpoints or replaces pods."""
    found: list[Frozen] = []
    for event in scenario.events:
        open_ = bool(found) and found[-1].until.never
        if event.manager_up is False and not open_:
            found.append(Frozen(event.at_ns, NEVER))
        elif event.manager_up and open_:
            until = Between(*event.span).later(0, INFORMERS_FILLED_MAX_NS)
            found[-1] = replace(found[-1], until=until)
    return tuple(found)


def thawed(when: Between, frozen: Iterable[Frozen]) -> Between:
    """When a controller acts upon something that happens in a window: not while it is away."""
    low_ns, high_ns = when
    for one in frozen:
        if one.since_ns <= low_ns < one.until.earliest_ns:
            low_ns = one.until.earliest_ns
        if one.since_ns <= high_ns < one.until.latest_ns or when[0] < one.since_ns <= high_ns:
            high_ns = max(high_ns, one.until.latest_ns)
    return Between(low_ns, high_ns)


def thawed_absence(one: Absence, frozen: Collection[Frozen]) -> Absence:
    """When something is away as controllers show it, which act late while they are away themselves."""
    if not frozen:
        return one
    possible, sure = [], []
    for low_ns, high_ns in one.possible:
        low_ns = thawed(Between(low_ns, low_ns), frozen).earliest_ns
        high_ns = thawed(Between(high_ns, high_ns), frozen).latest_ns
        possible.append((low_ns, high_ns))
    for low_ns, high_ns in one.sure:
        low_ns = thawed(Between(low_ns, low_ns), frozen).latest_ns
        high_ns = thawed(Between(high_ns, high_ns), frozen).earliest_ns
        if low_ns < high_ns:
            sure.append((low_ns, high_ns))
    return Absence(tuple(possible), tuple(sure))


def out_of_service_taints(prediction: Prediction) -> dict[str, Between]:
    """When nodes get the out-of-service taint; they may have it from the start."""
    found: dict[str, Between] = {}
    for report in prediction.nodes:
        for change in report.changes:
            if change.what == outcome.TAINT_ADDED and change.value.startswith(OUT_OF_SERVICE + ":"):
                when = between(change.earliest_seconds, change.latest_seconds)
                found.setdefault(report.node, when)
        if any(taint.key == OUT_OF_SERVICE for taint in report.taints_at_start):
            found[report.node] = Between(0, 0)
    return found
