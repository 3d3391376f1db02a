"""When a node is given up, told without going through ticks: the same as by going through all of them."""

from __future__ import annotations

import random
from itertools import product

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration, resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.noticing import Noticing
from kubectl_evictplan.windows.spans import Span


def tick_by_tick(
    configuration: ControllerConfiguration, step_max_ns: int, heartbeat: Span
) -> list[Span]:
    """From when to when each tick can come that may be the first to see it, by looking at very many."""
    phases = configuration.monitor_phases_ns or ((0, step_max_ns - 1),)
    if configuration.monitor_phase_ns is not None:
        phases = ((configuration.monitor_phase_ns,) * 2,)
    low_ns, high_ns = heartbeat
    found = []
    for first_ns, last_ns in phases:
        for number in range(-60, 80):
            # A tick costs nothing, or all that it may; before the start that puts ticks further back.
            ends = number * configuration.node_monitor_period_ns, number * step_max_ns
            earliest_ns, latest_ns = first_ns + min(ends), last_ns + max(ends)
            if latest_ns >= low_ns and earliest_ns < high_ns + step_max_ns:
                found.append((max(low_ns, earliest_ns), min(high_ns + step_max_ns - 1, latest_ns)))
    return found


def test_a_node_is_given_up_as_told_by_the_ticks_that_may_see_its_last_heartbeat() -> None:
    chance = random.Random(8)
    plain = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    for _ in range(3_000):
        period_ns = chance.choice((5, 7, 50))
        step_max_ns = period_ns + chance.choice((0, 1, 3))
        phase_ns = chance.choice((None, chance.randrange(period_ns)))
        known = sorted(chance.randrange(step_max_ns) for _ in range(4))
        configuration = replace(
            plain,
            node_monitor_period_ns=period_ns,
            node_monitor_grace_period_ns=chance.randint(1, 90),
            monitor_phase_ns=phase_ns,
            monitor_phases_ns=chance.choice(((), ((known[0], known[1]), (known[2], known[3])))),
        )
        low_ns = chance.randint(-200, 200)
        heartbeat = low_ns, low_ns + chance.choice((0, 1, 5, 30))

        noticing = Noticing(configuration, step_max_ns)
        least_ns, most_ns = noticing.until_given_up
        seen = tick_by_tick(configuration, step_max_ns, heartbeat)
        expected = (
            max(min(earliest_ns for earliest_ns, _ in seen) + least_ns, 0),
            max(max(latest_ns for _, latest_ns in seen) + most_ns, step_max_ns),
        )
        assert noticing.given_up(heartbeat) == expected


def given_up_after(grace_ns: int, period_ns: int, step_max_ns: int) -> Span:
    """From the first sight to the tick that gives up, by all that ticks can cost, each by itself."""
    ages, found = {0}, set[int]()
    while ages:
        later = {age + step for age in ages for step in range(period_ns, step_max_ns + 1)}
        found |= {age for age in later if age >= grace_ns}
        ages = later - found
    return min(found), max(found)


def test_each_tick_until_then_costs_something_else() -> None:
    plain = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    for period_ns, more_ns, grace_ns in product((3, 5, 8), (0, 1, 2), range(1, 40)):
        configuration = replace(
            plain, node_monitor_period_ns=period_ns, node_monitor_grace_period_ns=grace_ns
        )
        told = Noticing(configuration, period_ns + more_ns).until_given_up
        assert told == given_up_after(grace_ns, period_ns, period_ns + more_ns)
