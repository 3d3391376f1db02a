"""When kubelets renewed for the last time in a reality: they do every period, plus up to 4 %."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat

from building.builders import SECOND_NS
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.actions.processes import PostReady, StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent

_JITTER = 0.04
# Of kubelets that post a status while they are up so many have begun anew.
_BEGINS_ANEW = 0.3
# Of kubelets without a Lease.
_DEFAULT_PERIOD_NS = 10 * SECOND_NS


def renewal_habits(part: Callable[[str], random.Random]) -> Callable[[str], float]:
    """How late the next renewal of a node is in one reality: all kubelets have one habit, or each has its own.

    Windows end where all renewals are early, or all late, or those of one node early and of another one late, which chance
    alone does not reach.
    """
    rng = part("habit")
    together = renewal_habit(rng) if rng.random() < 0.5 else None
    own: dict[str, Callable[[], float]] = {}

    def share(name: str) -> float:
        if name not in own:
            own[name] = together or renewal_habit(part(f"renewals of {name}"))
        return own[name]()

    return share


def renewal_habit(rng: random.Random) -> Callable[[], float]:
    """How kubelets renew: at random, all early, all late, by and by, each early or late, or so for a while."""
    share = rng.random()
    habits = (
        rng.random,
        lambda: 0.0,
        lambda: 1.0,
        lambda: share,
        lambda: rng.choice((0.0, 1.0)),
        partial(next, _for_a_while(rng)),
    )
    return rng.choice(habits)


def _for_a_while(rng: random.Random) -> Iterator[float]:
    """Early for some renewals, then late for some."""
    while True:
        yield from repeat(rng.choice((0.0, 1.0)), rng.choice((1, 3, 8, 20)))


def with_last_heartbeats(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    rng: random.Random,
    jitter: Callable[[str], float] | None = None,
) -> Scenario:
    """Fill in the last renewal of every stop: kubelets renew every period plus up to 4 %, of which ``jitter`` says how much for each node."""
    share = jitter or (lambda _: rng.random())
    newest: dict[str, int] = {}
    periods: dict[str, int] = {}
    stopped: set[str] = set()
    for name, lease in snapshot.leases.items():
        if lease.renew_time_ns is None:
            continue
        periods[name] = lease.lease_duration_seconds * SECOND_NS // 4
        newest[name] = lease.renew_time_ns - scenario.start_ns
        if snapshot.taken_at_ns - lease.renew_time_ns > 2 * periods[name]:
            stopped.add(name)
    # Who never posted anything and has no Lease, until its kubelet starts.
    never_up = {node.name for node in snapshot.nodes if node.ready_status is None} - newest.keys()
    # Whose kubelet counts as silent although its Lease may be fresh.
    unknown = {node.name for node in snapshot.nodes if node.ready_status == "Unknown"}
    events: list[ScenarioEvent] = []
    for event in scenario.events:
        made = event.node
        if made is not None and made.ready_status is not None:
            for silent in (unknown, never_up, stopped):
                silent.discard(made.name)
            newest[made.name] = event.at_ns  # its kubelet has posted
        elif made is not None and made.name not in newest:
            never_up.add(made.name)
        if event.kubelets_up:
            for name in event.nodes:
                was_silent = name in stopped or name in never_up or name in unknown
                # One that is up may post without renewing, or have begun anew.
                if was_silent or not isinstance(event, PostReady) or rng.random() < _BEGINS_ANEW:
                    newest[name] = event.at_ns
            unknown -= set(event.nodes)
            stopped -= set(event.nodes)
            never_up -= set(event.nodes)
        if not isinstance(event, StopKubelet) or event.last_heartbeat_ns is not None:
            events.append(event)
            continue
        for name in event.nodes:
            period_ns = periods.get(name, _DEFAULT_PERIOD_NS)
            if name in never_up:
                events.append(replace(event, nodes=(name,)))
                continue
            if name not in newest:  # somewhere in the last period
                newest[name] = event.at_ns - rng.randrange(period_ns)
            last_ns = newest[name]
            while name not in stopped:
                jittered = int(period_ns * (1 + _JITTER * share(name)))
                if last_ns + jittered > event.at_ns:
                    break
                last_ns += jittered
            stopped.add(name)
            events.append(replace(event, nodes=(name,), last_heartbeat_ns=last_ns))
    return replace(scenario, events=tuple(events))
