"""When countdowns end that begin at known instants, on nodes whose taint a tick may take off."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.controllers.taint_eviction import Decision
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Taint
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute, no_execute_taints
from kubectl_evictplan.scenarios.actions.nodes import AddTaint
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.running_timers import running_timer
from kubectl_evictplan.windows.circumstances import Moment, MomentKind


def ends_of_countdowns(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    step_max_ns: int,
) -> Iterator[Moment]:
    """Moments at which a tick that finds the node Ready may take its taint off just before, or just after; ``step_max_ns``: from tick to tick."""
    if not (configuration.taint_mode and configuration.taint_eviction_enabled):
        return
    nodes = {n.name: n for n in snapshot.nodes if any(map(is_lifecycle_no_execute, n.taints))}
    # When a tick may find them Ready for the first time.
    found_ready = {
        name: [(0, step_max_ns)] if node.ready_status == TRUE else []
        for name, node in nodes.items()
    }
    begins = [event.at_ns for event in scenario.events if event.manager_up]
    put: dict[str, list[tuple[int, Taint]]] = {}
    for event in scenario.events:
        for name in nodes.keys() & set(event.nodes) if event.kubelets_up else ():
            found_ready[name].append((event.at_ns, event.latest_ns + step_max_ns))
        if isinstance(event, AddTaint) and is_lifecycle_no_execute(event.taint):
            for name in event.nodes:
                put.setdefault(name, []).append((event.at_ns, event.taint))
    for pod in snapshot.pods if put or any(found_ready.values()) else ():
        ends_ns, node = set[int](), nodes.get(pod.node_name)
        if node is not None and found_ready[node.name] and pod.deletion_timestamp_ns is None:
            timer = running_timer(node, pod, snapshot, scenario.start_ns, configuration)
            due_ns = (timer.due_earliest_ns, timer.due_latest_ns) if timer is not None else ()
            ends_ns = {at_ns - scenario.start_ns for at_ns in due_ns}
            delay_ns = _delay_ns(no_execute_taints(node.taints), pod, configuration)
            ends_ns.update(at_ns + delay_ns for at_ns in begins if delay_ns is not None)
            spans = found_ready[node.name]
            ends_ns = {at for at in ends_ns if any(low < at <= high for low, high in spans)}
        for at_ns, taint in put.get(pod.node_name, ()):
            delay_ns = _delay_ns((taint,), pod, configuration)
            if delay_ns is not None and 0 < delay_ns <= step_max_ns:
                ends_ns.add(at_ns + delay_ns)
        yield from (Moment(at_ns, MomentKind.TIMER, pod.node_name) for at_ns in sorted(ends_ns))


def _delay_ns(
    taints: tuple[Taint, ...], pod: Pod, configuration: ControllerConfiguration
) -> int | None:
    return Decision(taints, pod.tolerations, configuration.comparison_operators).delay_ns
