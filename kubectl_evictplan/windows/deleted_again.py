"""Pods that terminate at the start on a tainted node: whether and when taint eviction deletes them once more.

Another DELETE changes nothing of the object, but it is one. Whether it comes depends on what nobody can see: up to 1.32 the key
of the first one may still be there and refuse all others (rule 22), a countdown may run that began before a person deleted the pod,
or there is neither. What starts a DELETE, or a countdown to one, is a change of the node's NoExecute taints or of the pod's
tolerations, or a new process. So it comes by then and the longest countdown, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kubectl_evictplan.cluster.kubelets import (
    OVERDUE_NS,
    ended_by_ns,
    is_up_at_start,
    left_at_start_ns,
    observed_at_ns,
)
from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import FALSE, TRUE
from kubectl_evictplan.controllers.taint_eviction import Decision, delete_is_refused
from kubectl_evictplan.engine.drain_timing import Latency, range_ns
from kubectl_evictplan.kube.durations import MICROSECOND_NS, SECOND_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute, no_execute_taints
from kubectl_evictplan.kube.tolerations import get_min_toleration_time_ns
from kubectl_evictplan.scenarios.actions.pods import SetTolerations
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.running_timers import runs_out_within
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.outcome import (
    EvictionKey,
    Exploration,
    PossibleEviction,
)
from kubectl_evictplan.windows.spans import NEVER_NS, Span, disjoint_outcomes
from kubectl_evictplan.windows.spent_tokens import in_lines_made_anew, still_in_line
from kubectl_evictplan.windows.unknowns.of_pods import StaleKey

_MISSED = frozenset({StaleKey.name})
# So long after a pod has ended its kubelet has told so, at most.
_REPORTED_NS = range_ns(Latency.REPORT_EXIT)[1]


def bound_deleted_again(result: Exploration, given: Given, horizon_ns: int) -> None:
    """Bound what may delete such pods again; nothing of it is certain. Windows of the taints of nodes are there already."""
    snapshot, scenario, configuration = given
    if not configuration.taint_eviction_enabled:
        return
    going: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.deletion_timestamp_ns is not None and delete_is_refused(pod, configuration) is None:
            going.setdefault(pod.node_name, []).append(pod)
    nodes = [node for node in snapshot.nodes if node.name in going]
    # Runs have pods gone at the start that should be: on any node they may be there yet.
    looked_at = {
        node.name: node
        for node in nodes
        if no_execute_taints(node.taints)
        or any((pod.deletion_timestamp_ns or 0) <= scenario.start_ns for pod in going[node.name])
        or any(_may_outlive_kubelet(node, pod, scenario) for pod in going[node.name])
    }
    if not looked_at:
        return
    changes = _changes(result, scenario, looked_at)
    in_line = {
        *still_in_line(snapshot, configuration),
        *in_lines_made_anew(*given),
    }
    for name, node in looked_at.items():
        for pod in going[name]:
            longest_ns = _longest_ns(pod, scenario)
            begun = [*changes[name], *_other_tolerations(pod, scenario)]
            put_again = _may_be_put_once_more(node, scenario.start_ns, configuration)
            if put_again or name in in_line:
                begun.append((0, horizon_ns))
            spans = [(low_ns, high_ns + longest_ns) for low_ns, high_ns in begun]
            runs_out = runs_out_within(node, pod, snapshot, scenario.start_ns, configuration)
            spans += [runs_out] if runs_out is not None else ()
            key = EvictionKey(pod.key, pod.uid, TAINT_EVICTION, 0)
            found = result.evictions.get(key)
            spans += found.spans if found is not None else ()
            until_ns = min(horizon_ns, _gone_by_ns(node, pod, snapshot, scenario))
            spans = [(low, min(high, until_ns)) for low, high in spans if low <= until_ns]
            if spans:
                told = found or _not_seen(node, pod, configuration)
                result.evictions[key] = _perhaps(told, disjoint_outcomes(spans, MICROSECOND_NS))


def _changes(
    result: Exploration, scenario: Scenario, names: Collection[str]
) -> dict[str, list[Span]]:
    """When something may make taint eviction look at all pods of a node again, by its name."""
    starts = [event.span for event in scenario.events if event.manager_up]
    found = {name: list(starts) for name in names}
    written = result.when(lambda key: key.node in found and key.effect == NO_EXECUTE)
    for name, spans in written.items():
        found[name] += spans
    for event in scenario.events:
        if event.node is not None and event.node.name in found:
            found[event.node.name].append(event.span)
    return found


def _gone_by_ns(node: Node, pod: Pod, snapshot: ClusterSnapshot, scenario: Scenario) -> int:
    """By when its kubelet has surely ended the pod; ``NEVER_NS`` where something may keep it."""
    start_ns, deadline_ns = scenario.start_ns, pod.deletion_timestamp_ns or 0
    seen_ns = observed_at_ns(snapshot, start_ns)
    if pod.finalizers or node.ready_status == FALSE or deadline_ns < start_ns - OVERDUE_NS:
        return NEVER_NS
    if not is_up_at_start(node, snapshot.leases.get(node.name), seen_ns):
        return NEVER_NS
    left_ns = left_at_start_ns(node, pod, start_ns)
    # A kubelet that nobody hears tells no end.
    meets = (event.at_ns for event in scenario.events if _keeps(event, node, pod))
    return NEVER_NS if min(meets, default=NEVER_NS) <= left_ns + _REPORTED_NS else left_ns


def _may_outlive_kubelet(node: Node, pod: Pod, scenario: Scenario) -> bool:
    """Whether a pod may have ended in time of which the kubelet does not come to tell any more."""
    due_ns = ended_by_ns(pod, node) - scenario.start_ns
    return any(
        due_ns <= event.latest_ns and event.at_ns <= due_ns + _REPORTED_NS
        for event in scenario.events
        if _keeps(event, node, pod)
    )


def _keeps(event: ScenarioEvent, node: Node, pod: Pod) -> bool:
    """Whether it may keep the kubelet from ending the pod."""
    return event.in_silence or node.name in event.touched_nodes or pod.key in event.pods


def _may_be_put_once_more(
    node: Node, start_ns: int, configuration: ControllerConfiguration
) -> bool:
    """Whether the node may still be in line for the taint that it has: that one is written anew then, with another time.

    Entries of before the start that nobody can see (rule 10); else a tick that listed the node before a pass tainted it has put it
    there once more: not long ago, for it would have got a token by now.
    """
    taints = [taint for taint in node.taints if is_lifecycle_no_execute(taint)]
    if not taints or node.ready_status == TRUE or not configuration.taint_mode:
        return False
    rate_qps = configuration.node_eviction_rate_qps
    if configuration.profile.queue_mode == "SETREMOVE" or rate_qps <= 0:
        return True
    step_ns = int(SECOND_NS / rate_qps) + 2 * configuration.node_monitor_period_ns + SECOND_NS
    return any((taint.time_added_ns or start_ns) > start_ns - step_ns for taint in taints)


def _other_tolerations(pod: Pod, scenario: Scenario) -> Iterator[Span]:
    for event in scenario.events:
        if isinstance(event, SetTolerations) and pod.key in event.pods:
            yield event.span


def _longest_ns(pod: Pod, scenario: Scenario) -> int:
    """How long any countdown of the pod runs."""
    events = scenario.events
    changed = [e for e in events if isinstance(e, SetTolerations) and pod.key in e.pods]
    every = (pod.tolerations, *(event.tolerations for event in changed))
    runs_ns = (get_min_toleration_time_ns([one]) for tolerations in every for one in tolerations)
    return max(max(runs_ns, default=0), 0)


def _not_seen(node: Node, pod: Pod, configuration: ControllerConfiguration) -> PossibleEviction:
    """A DELETE that no run has shown."""
    comparison = configuration.comparison_operators
    decision = Decision(no_execute_taints(node.taints), pod.tolerations, comparison)
    return PossibleEviction.unseen(node.name, decision).ending_from(0)


def _perhaps(found: PossibleEviction, spans: tuple[Span, ...]) -> PossibleEviction:
    bound = found.without(_MISSED).gone_from(spans[0][0])
    return bound._replace(spans=spans, certain=False, circumstances=(), proven=True)
