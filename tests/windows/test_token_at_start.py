"""A zone may have used its token shortly before the start: the next one comes at any instant until 1 / rate after that."""

from __future__ import annotations

import pytest
from building.builders import (
    NOT_READY,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from drawn.soak_worlds import draw_soak_world
from realities.drawn_realities import World
from realities.test_bounds import check_world
from windows.lines import Line

from kubectl_evictplan.cluster.timeline import QueueOperation, Told
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import (
    TokenBucketRateLimiter,
    refill_ns,
)
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.spent_tokens import EntriesLeft
from kubectl_evictplan.windows.unknowns.lines import instants, next_pass_ns
from kubectl_evictplan.windows.unknowns.token_at_start import FirstToken, token_stretches
from kubectl_evictplan.windows.zone_lines import ZoneLine

RATE = 0.1
REFILL_NS = refill_ns(RATE)
PERIOD, LAG, COST = 5, 0.105, 0.02


@pytest.mark.parametrize("release", ["1.18.6", "1.23.13", "1.29.6", "1.37.0"])
def test_who_waits_behind_a_node_that_takes_the_token_as_it_is_back_waits_for_one_more(
    release: str,
) -> None:
    """Neither a token that is there at the start meets the node that is back, nor one that comes 10 s later."""
    nodes = [make_node("back", transition=-2), *map(make_node, ("a", "b", "c", "d", "e"))]
    events = [
        make_event(1, "node-ready", ["a", "b"], status="False"),
        make_event(2, "node-ready", "a", status="True"),
    ]
    configuration = resolve_configuration(ControllerSettings(release), ControlPlaneFlags())
    prediction = predict(make_snapshot(nodes), make_scenario(events, horizon=60), configuration)
    [taint] = [
        change
        for node in prediction.nodes
        for change in node.changes
        if (node.node, change.what, change.value) == ("b", "taint-added", f"{NOT_READY}:NoExecute")
    ]
    # The next tick takes it out of line, up to a period after it is back.
    latest = 2 + PERIOD + REFILL_NS / 1e9
    assert latest - 0.001 <= taint.latest_seconds <= latest + 2 * LAG + COST


def line(*told: tuple[float, Told, str, str]) -> ZoneLine:
    before = [QueueOperation(0, Told.SPENT, "z")]
    return ZoneLine(
        [*before, *(QueueOperation(ns(at), what, "z", n, status=s) for at, what, n, s in told)]
    )


def stretches(
    several: ZoneLine,
    *,
    may_lack: bool = True,
    seen_late: bool = False,
    back: int = 0,
    gone: int = 0,
) -> list[float]:
    """How wide each is, in seconds; the first tick comes after 4 s."""
    first = [FirstToken.of(several, RATE, EntriesLeft(back, gone), ns(4))]
    found = token_stretches([several], first if may_lack else None, seen_late=seen_late)
    assert found.are_all
    return [stretch.width_ns / 1e9 for stretch in found.several]


WAITING = [(0, Told.MARK, name, "False") for name in ("a", "b")]


def test_the_token_is_told_apart_where_it_or_one_after_it_meets_who_leaves() -> None:
    assert stretches(line(*WAITING)) == pytest.approx([10])
    assert stretches(line(*WAITING, (3, Told.REACHABLE, "a", "True"))) == pytest.approx(
        [3, 7 + LAG]
    )
    # The second one, with a pass that is late twice; of two who wait nobody waits for a third.
    assert stretches(line(*WAITING, (13, Told.REACHABLE, "a", "True"))) == pytest.approx(
        [3, 7 + 2 * LAG]
    )
    assert stretches(line(*WAITING, (23, Told.REACHABLE, "a", "True"))) == pytest.approx([10])


def test_it_comes_later_where_it_may_be_wasted_on_who_was_in_line_before() -> None:
    # On one who is back only until the first tick, which comes after 4 s; on one that is gone at any time.
    assert stretches(line(*WAITING), back=1) == pytest.approx([14])
    assert stretches(line(*WAITING), gone=2) == pytest.approx([30])
    left = line(*WAITING, (13, Told.REACHABLE, "a", "True"))
    assert stretches(left, back=1) == pytest.approx([3, 10 + 2 * LAG, 1 + LAG])


def test_the_token_is_told_apart_where_it_meets_a_late_view() -> None:
    unknown = line(*WAITING, (3, Told.STATUS, "b", "Unknown"))
    assert stretches(unknown) == pytest.approx([10])
    widths = [3, 0.2 + LAG, 6.8 + LAG]
    assert stretches(unknown, seen_late=True) == pytest.approx(widths)


def test_until_its_limiter_changes_the_token_is_told_apart_where_it_meets_who_leaves() -> None:
    """One that is there at the start goes to who is back; one that was just used comes too late for who waits then."""
    swaps = [QueueOperation(ns(at), Told.SWAP, "z", qps=qps) for at, qps in ((0, RATE), (7, 0.0))]
    back = (3, Told.REACHABLE, "a", "True")
    operations = [*line(*WAITING, back).operations, *swaps]
    changing = ZoneLine(sorted(operations, key=lambda each: each.at_ns))
    assert changing.limiter_changes
    # It meets the change as well; what a limiter loses that gets another rate may be all of it.
    assert stretches(changing) == pytest.approx([10, 10, 10])
    # Who leaves later meets tokens of another limiter.
    later = line(*WAITING, (8, Told.REACHABLE, "a", "True")).operations
    changing = ZoneLine(sorted([*later, *swaps], key=lambda each: each.at_ns))
    assert stretches(changing) == pytest.approx([10, 10])


@pytest.mark.parametrize(
    ("events", "over"),
    [
        # The third of four nodes that is given up stops the limiter, at the tick after 8.5 s.
        ([make_event(3, "kubelet-stop", "c", last_heartbeat=2.5)], 9.57),
        ([make_event(9, "controller-stop"), make_event(12, "controller-start")], 9),
    ],
    ids=["another-rate", "another-process"],
)
def test_until_its_limiter_is_gone_the_token_may_be_spent_on_who_joins(
    events: list[ScenarioEvent], over: float
) -> None:
    """One that is there at the start goes to who waits, and one that was just used comes too late for both of them."""
    down = make_node("waits", zone="a", ready="Unknown", transition=-20)
    ready = [*(make_node(name, zone="a") for name in ("b", "c", "d")), make_node("o", zone="o")]
    leases = [make_lease(one.name, -0.5, duration_seconds=4) for one in ready]
    leases.append(make_lease("waits", -30, duration_seconds=4))
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "6s"}
    world = World(
        make_snapshot([down, *ready], [make_pod("p", "b")], leases=leases),
        make_scenario(
            [make_event(0.1, "kubelet-stop", "b", last_heartbeat=-1.9), *events], horizon=60
        ),
        resolve_configuration(ControllerSettings("1.29.6", flags=flags), ControlPlaneFlags()),
    )
    first = check_world(world, 1, 60).evictions[0].windows[0]
    assert first.earliest_seconds == 5.1
    assert first.latest_seconds >= over


def test_what_the_token_meets_is_told_apart_where_two_of_it_come_at_one_instant_in_one_run() -> (
    None
):
    """A tick takes who is ready again out of line: it may come at that very instant, or just after."""
    waits = make_node("waits", zone="a", ready="Unknown", transition=-20)
    names = ("l0", "l1", "b", *(f"r{index}" for index in range(5)))
    leases = [make_lease("waits", -30, duration_seconds=4)]
    leases += [make_lease(name, -0.5, duration_seconds=4) for name in names]
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "6s"}
    events = [
        make_event(0.2, "node-ready", ["l0", "l1"], status="False"),
        make_event(0.8, "node-ready", "l0", status="True"),
        make_event(4.3, "node-ready", "l1", status="True"),
        make_event(8.2, "node-ready", "b", status="False"),
        make_event(9.6, "node-ready", "b", status="True"),
    ]
    world = World(
        make_snapshot([waits, *(make_node(name, zone="a") for name in names)], leases=leases),
        make_scenario(events, horizon=60),
        resolve_configuration(ControllerSettings("1.29.6", flags=flags), ControlPlaneFlags()),
    )
    prediction = check_world(world, 1, 40)
    removed = {
        report.node: (change.earliest_seconds, change.latest_seconds)
        for report in prediction.nodes
        for change in report.changes
        if (change.what, change.value) == ("taint-removed", f"{NOT_READY}:NoExecute")
    }
    # By the tick after that, whenever it comes; l0 is in line only if one came before.
    assert removed["l0"] == pytest.approx((1.2, 1.8), abs=0.02)
    assert removed["l1"] == pytest.approx((4.3, 5.3), abs=0.02)
    assert removed["b"] == pytest.approx((9.6, 10.6), abs=0.02)
    assert prediction.inputs.coverage.outer_bound == 0


def test_where_more_is_met_than_is_told_apart_that_is_said() -> None:
    leaves = [
        operation
        for at in range(1, 8)
        for name in [f"n{at}"]
        for operation in ((0, Told.MARK, name, "False"), (at, Told.REACHABLE, name, "True"))
    ]
    several = line(*WAITING, *sorted(leaves, key=lambda each: each[0]))
    first = [FirstToken.of(several, RATE, EntriesLeft(0, 0), ns(4))]
    assert token_stretches([several], first, seen_late=False).are_all
    half = [(at + 0.5, told, f"m{name}", status) for at, told, name, status in leaves]
    more = line(*WAITING, *sorted((*leaves, *half), key=lambda each: each[0]))
    assert not token_stretches([more], first, seen_late=False).are_all


def test_where_two_that_are_met_change_places_from_one_end_to_the_other_that_is_said() -> None:
    """In one of the runs a token that is the second one meets a tick, in the other one the first meets who leaves before that."""
    ends = [
        line(*WAITING, (3, Told.REACHABLE, "a", "True"), (at, Told.REACHABLE, "b", "True"))
        for at in (12.5, 13.5)
    ]
    first = [FirstToken.of(end, RATE, EntriesLeft(0, 0), ns(4)) for end in ends]
    assert token_stretches([ends[0]] * 2, first, seen_late=False).are_all
    assert not token_stretches(ends, first, seen_late=False).are_all


def test_a_token_in_the_tick_before_all_are_down_is_told() -> None:
    world = draw_soak_world(290100236).world
    assert isinstance(world, World)
    found = predict(world.snapshot, world.scenario, world.configuration).evictions
    [row] = (each for each in found if each.pod == "p5")
    assert row.certainty == "possible"
    assert (row.earliest_seconds, row.latest_seconds) == pytest.approx((4.674, 4.704), abs=0.001)


def test_a_token_that_nobody_can_have_used_is_there() -> None:
    assert stretches(line(*WAITING), may_lack=False) == [0]
    assert stretches(ZoneLine([])) == [0]


def test_without_a_rate_the_token_is_there_or_never_comes() -> None:
    found = token_stretches([line(*WAITING)], [FirstToken(0, 0)], seen_late=False).several
    rules = Line(rate=0).rules
    spent = [[each.spent_at_start for each in instants(rules, one.of_lines[0])] for one in found]
    assert [set(each) for each in spent] == [{0.0}, {1.0}]
    assert [one.width_ns for one in found] == [0, 0]


def test_so_nobody_is_tainted_between_its_instant_and_the_end_of_the_line() -> None:
    nodes = [make_node("a", zone="a"), make_node("b", zone="a"), make_node("c", zone="b")]
    events = [
        make_event(1, "kubelet-stop", ["a", "b"], last_heartbeat=1),
        make_event(30, "kubelet-stop", "c", last_heartbeat=30),
    ]
    settings = ControllerSettings("1.29.6", flags={"node-eviction-rate": "0"})
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    snapshot = make_snapshot(nodes, [make_pod("p", "a")])
    prediction = predict(snapshot, make_scenario(events, horizon=120), configuration)
    [row] = prediction.evictions
    [window] = row.windows
    assert row.certainty == "possible"
    # The tick after the one that gives them up, and a pass.
    ticks = 40 + 2 * PERIOD
    assert (window.earliest_seconds, window.latest_seconds) == pytest.approx(
        (1 + 40 + PERIOD, 1 + ticks + 10 * COST / 2 + LAG), abs=0.01
    )


def test_where_tokens_come_faster_than_passes_the_next_pass_is_a_period_later() -> None:
    """An entry that is left of a node that has gone is met by every pass: there are no more of them than there is time."""
    fast, slow = TokenBucketRateLimiter(1e6), TokenBucketRateLimiter(1.0)
    for limiter in (fast, slow):
        assert limiter.try_accept(0)
    assert next_pass_ns(fast, 1_000_000, 0) < ns(0.01)
    assert next_pass_ns(fast, 1_000_000, 0, passed=True) == pytest.approx(ns(0.101), abs=ns(0.001))
    assert next_pass_ns(slow, 0, 0, passed=True) == next_pass_ns(slow, 0, 0)
