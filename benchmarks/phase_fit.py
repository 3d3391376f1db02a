"""How exact one run is once the phases, which nobody can know beforehand, are fitted.

The monitor's phase is scanned over one period and the tainting pass' phase over one pass, with the
loop costs that recorded control planes had, and whether passes fall into ticks; the run with the
smallest mean error counts. The order among waiting nodes cannot be fitted: within pods that
tolerate the same on nodes of the same zone, the sorted instants are compared, whichever node came
first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from trace_runs import Fact, Trace, deletions

from kubectl_evictplan.cluster.timeline import PodDeleted
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.simulation.simulate import simulate

MONITOR_COST_NS = 5_000_000
PASS_COST_NS = 1_000_000
PASS_PERIOD_NS = 100_000_000 + PASS_COST_NS
COARSE_STEPS = 40
FINE_STEPS = 10
PASS_STEPS = 4
# A deletion without counterpart counts as much as one that is this wrong.
MISSING_SECONDS = 60.0

Groups = dict[tuple[object, ...], list[float]]


def fitted_errors(trace: Trace) -> list[float]:
    """Return the absolute errors, in seconds, of all deletions in the best fitting run."""
    classes = _classes(trace)
    real = _grouped(deletions(trace), classes)
    if not real:
        return []
    period_ns = trace.configuration.node_monitor_period_ns + MONITOR_COST_NS
    step_ns = period_ns // COARSE_STEPS
    passes = [PASS_PERIOD_NS * index // PASS_STEPS for index in range(PASS_STEPS)]
    coarse = (
        _timing(index * step_ns, passes[0], mid_tick_pass)
        for index in range(COARSE_STEPS)
        for mid_tick_pass in (False, True)
    )
    best = _best(trace, classes, real, coarse)[1]
    fine = (
        _timing(
            (best.monitor_phase_ns + offset * step_ns // FINE_STEPS) % period_ns,
            pass_ns,
            best.mid_tick_pass,
        )
        for offset in range(-FINE_STEPS, FINE_STEPS + 1)
        for pass_ns in passes
    )
    return _best(trace, classes, real, fine)[0]


def _timing(phase_ns: int, pass_phase_ns: int, mid_tick_pass: bool) -> Timing:
    return Timing(
        monitor_phase_ns=phase_ns,
        monitor_cost_ns=MONITOR_COST_NS,
        pass_phase_ns=pass_phase_ns,
        pass_cost_ns=PASS_COST_NS,
        mid_tick_pass=mid_tick_pass,
    )


def _best(
    trace: Trace,
    classes: dict[str, tuple[object, ...]],
    real: Groups,
    timings: Iterable[Timing],
) -> tuple[list[float], Timing]:
    runs = [(_errors(real, _grouped(_run(trace, timing), classes)), timing) for timing in timings]
    return min(runs, key=lambda run: sum(run[0]) / max(1, len(run[0])))


def _run(trace: Trace, timing: Timing) -> Iterator[Fact]:
    """Yield the first deletion of each pod in one run; later ones leave no mark."""
    timeline = simulate(trace.snapshot, trace.scenario, trace.configuration, timing)
    seen = set()
    for entry in timeline.entries:
        if isinstance(entry, PodDeleted) and (entry.pod, entry.uid) not in seen:
            seen.add((entry.pod, entry.uid))
            yield Fact(entry.pod, entry.at_ns / 1e9, entry.uid)


def _errors(real: Groups, run: Groups) -> list[float]:
    return [
        MISSING_SECONDS if left is None or right is None else abs(left - right)
        for key in sorted(real.keys() | run.keys(), key=repr)
        for left, right in zip_longest(real.get(key, ()), run.get(key, ()))
    ]


def _grouped(facts: Iterable[Fact], classes: dict[str, tuple[object, ...]]) -> Groups:
    groups: Groups = defaultdict(list)
    for fact in facts:
        groups[classes.get(fact.subject, (fact.subject,))].append(fact.at_seconds)
    return {key: sorted(instants) for key, instants in groups.items()}


def _classes(trace: Trace) -> dict[str, tuple[object, ...]]:
    """Return, by pod, what has to be equal for two pods' instants to be interchangeable."""
    zones = {
        node.name: node.labels.get("topology.kubernetes.io/zone", "")
        for node in trace.snapshot.nodes
    }
    created = [event.pod for event in trace.scenario.events if event.pod is not None]
    pods: list[Pod] = [*trace.snapshot.pods, *created]
    return {pod.key: (zones.get(pod.node_name, ""), pod.tolerations) for pod in pods}
