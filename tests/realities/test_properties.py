"""Relations that hold for every correct predictor (P2-P30), each with its exact restriction.

Their plausible but false relatives are in test_false_laws.py; P1 is test_determinism.py, the
equivalence of sources (P27) is tests/sources/test_equivalence.py.
"""

from __future__ import annotations

import random

import msgspec
import pytest
from building.builders import (
    SECOND_NS,
    UNREACHABLE,
    default_tolerations,
    encoded,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from building.timeline_runs import facts_of
from drawn.property_worlds import (
    NEVER_NS,
    SECONDS_MAX,
    TAINT_TEXTS,
    TOLERATION_LISTS,
    Times,
    Tolerations,
    configuration_of,
    deletes,
    evicted_at,
    predicted,
    reorder,
    shift_seconds,
    taint_events,
)
from drawn.strategies import World, worlds
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from realities.drawn_realities import (
    NO_RESTART,
    SILENCE_ONLY,
    draw_world,
    rename_scenario,
    rename_snapshot,
)
from realities.renewals import with_last_heartbeats

from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.prediction.document import Eviction, Prediction
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate

PASS_NS = 100_000_000
few = settings(max_examples=4)
SEEDS = st.integers(0, 10_000)
Outage = tuple[list[Node], list[Pod], list[ScenarioEvent]]


def run(world: World, snapshot: ClusterSnapshot, scenario: Scenario) -> Timeline:
    configuration = resolve_configuration(world.settings, snapshot.control_plane)
    return simulate(snapshot, scenario, configuration, world.timing)


# -- P2, P3, P15: what the answer does not depend on --------------------------------------------------


@given(worlds(), st.randoms(use_true_random=False))
def test_p2_order_of_labels_taints_conditions_and_leases_does_not_matter(
    world: World, rng: random.Random
) -> None:
    shuffled = reorder(world.snapshot, lambda items: rng.sample(items, len(items)))
    before = facts_of(run(world, world.snapshot, world.scenario))
    assert facts_of(run(world, shuffled, world.scenario)) == before


@given(worlds(), st.integers(-1000, 100_000))
def test_p3_shifting_every_time_by_whole_seconds_shifts_the_answer(
    world: World, seconds: int
) -> None:
    snapshot, scenario = shift_seconds(world.snapshot, world.scenario, seconds)
    before = facts_of(run(world, world.snapshot, world.scenario))
    assert facts_of(run(world, snapshot, scenario)) == before


@settings(max_examples=2)
@given(SEEDS, st.integers(1, 100_000))
def test_p3_windows_shift_as_well(seed: int, seconds: int) -> None:
    world = draw_world(seed, actions=NO_RESTART, short=True)
    snapshot, scenario = shift_seconds(world.snapshot, world.scenario, seconds)
    before = predicted(world.snapshot, world.scenario, world.configuration)
    after = predicted(snapshot, scenario, world.configuration)
    assert [replace(e, time="") for e in after.evictions] == [
        replace(e, time="") for e in before.evictions
    ]
    assert (after.kept, after.nodes, after.zones) == (before.kept, before.nodes, before.zones)


@given(TOLERATION_LISTS, taint_events(), st.sampled_from((0.5, 1, 3, 6)))
def test_p15_cordoning_labels_and_heartbeats_change_nothing(
    tolerations: Tolerations, events: list[ScenarioEvent], at: float
) -> None:
    pod = make_pod("p", "n0", tolerations=tolerations)
    plain = make_snapshot(["n0", "n1"], [pod])
    noisy = make_snapshot(
        [make_node("n0", labels={"new": "label"}), "n1"], [replace(pod, labels={"a": "b"})]
    )
    noise = [
        make_event(at, "cordon", "n0"),
        make_event(at + 0.1, "node-ready", "n0", status="True"),
        make_event(at + 0.2, "uncordon", "n0"),
    ]
    before = deletes(plain, make_scenario(events, horizon=60))
    assert deletes(noisy, make_scenario([*events, *noise], horizon=60)) == before


# -- P4, P6, P7, P9, P11: tolerations and taints ------------------------------------------------------


@given(TOLERATION_LISTS, taint_events(), st.sampled_from(("A", "B", "")), st.integers(0, 4))
def test_p4_one_more_unlimited_toleration_never_evicts_earlier(
    tolerations: Tolerations, events: list[ScenarioEvent], key: str, place: int
) -> None:
    more = (*tolerations[:place], tolerates(key), *tolerations[place:])
    assert evicted_at(more, events) >= evicted_at(tolerations, events)


@given(
    TOLERATION_LISTS.filter(bool),
    taint_events(),
    st.integers(0, 3),
    st.sampled_from((1, 2, 7, 40, SECONDS_MAX)),
)
def test_p6_longer_toleration_seconds_never_evict_earlier(
    tolerations: Tolerations, events: list[ScenarioEvent], place: int, more: int
) -> None:
    place %= len(tolerations)
    old = tolerations[place].toleration_seconds
    assume(old is not None)
    longer = replace(tolerations[place], toleration_seconds=min((old or 0) + more, SECONDS_MAX))
    raised = (*tolerations[:place], longer, *tolerations[place + 1 :])
    assert evicted_at(raised, events) >= evicted_at(tolerations, events)


@given(TOLERATION_LISTS, st.sampled_from(TAINT_TEXTS), st.sampled_from((0.5, 2, 2.001, 6)))
def test_p7_one_more_no_execute_taint_never_evicts_later(
    tolerations: Tolerations, text: str, at: float
) -> None:
    first = make_event(2, "taint", "n0", taint="A=v:NoExecute")
    second = make_event(at, "taint", "n0", taint=text.replace("A:", "C:"))
    assert evicted_at(tolerations, [first, second]) <= evicted_at(tolerations, [first])


@given(TOLERATION_LISTS, taint_events(), st.sampled_from(("A", "B")), st.sampled_from((2, 5, 9)))
def test_p9_removing_a_taint_never_evicts_earlier(
    tolerations: Tolerations, events: list[ScenarioEvent], key: str, at: float
) -> None:
    removed = [*events, make_event(at, "untaint", "n0", taint=key)]
    assert evicted_at(tolerations, removed) >= evicted_at(tolerations, events)


@given(st.integers(1, 8), st.integers(2, 30), st.integers(1, 20))
def test_p11_removing_all_taints_cancels_and_a_new_taint_starts_a_full_timer(
    shown: int, seconds: int, pause: int
) -> None:
    assume(shown < seconds)
    again = 1 + shown + pause
    tolerations = (tolerates("A", seconds),)
    events = [
        make_event(1, "taint", "n0", taint="A:NoExecute"),
        make_event(1 + shown, "untaint", "n0", taint="A"),
    ]
    assert evicted_at(tolerations, events) == NEVER_NS
    events.append(make_event(again, "taint", "n0", taint="A:NoExecute"))
    assert evicted_at(tolerations, events) == ns(again + seconds)


# -- P16-P21: what belongs together -------------------------------------------------------------------


def windows(prediction: Prediction, names: dict[str, str] | None = None) -> set[tuple[object, ...]]:
    return {
        (
            e.pod,
            (names or {}).get(e.node, e.node),
            e.certainty,
            e.earliest_seconds,
            e.latest_seconds,
        )
        for e in prediction.evictions
    }


@few
@given(SEEDS, st.randoms(use_true_random=False))
def test_p16_renaming_nodes_renames_the_answer(seed: int, rng: random.Random) -> None:
    """Windows do not depend on names, though one run does: the order among waiting nodes is random."""
    world = draw_world(seed, actions=SILENCE_ONLY, releases=("1.18.6", "1.23.13", "1.33.4"))
    scenario = with_last_heartbeats(world.snapshot, world.scenario, random.Random(seed))
    old = [node.name for node in world.snapshot.nodes]
    names = dict(zip(old, rng.sample(old, len(old)), strict=True))
    before = predicted(world.snapshot, scenario, world.configuration)
    after = predicted(
        rename_snapshot(world.snapshot, names),
        rename_scenario(scenario, names),
        world.configuration,
    )
    assert windows(after) == windows(before, names)


@given(TOLERATION_LISTS, taint_events())
def test_p17_pods_on_other_nodes_do_not_matter(
    tolerations: Tolerations, events: list[ScenarioEvent]
) -> None:
    pod = make_pod("p", "n0", tolerations=tolerations)
    others = [make_pod(f"other-{i}", "n1", tolerations=tolerations) for i in range(3)]
    scenario = make_scenario(events, horizon=60)
    alone = deletes(make_snapshot(["n0", "n1"], [pod]), scenario)
    assert deletes(make_snapshot(["n0", "n1"], [pod, *others]), scenario) == alone


def zone_outage(zone: str, silent: int, healthy: int, *, at: float = 3) -> Outage:
    """Nodes, pods and events of one zone: ``silent`` of its nodes stop."""
    names = [f"{zone}{index}" for index in range(silent + healthy)]
    nodes = [make_node(name, zone=zone) for name in names]
    pods = [make_pod(f"p-{n}", n, tolerations=default_tolerations(5)) for n in names]
    events = [make_event(at, "kubelet-stop", names[:silent], last_heartbeat=at)] if silent else []
    return nodes, pods, events


@given(st.integers(0, 6), st.integers(1, 6), st.integers(1, 5))
def test_p18_a_healthy_node_in_another_zone_does_not_matter(
    silent: int, healthy: int, others: int
) -> None:
    """While one node of the cluster is ready, so that no zone's state decides for all."""
    nodes, pods, events = zone_outage("a", silent, healthy)
    scenario = make_scenario(events, horizon=400)
    few_others, many_others = (
        [make_node(f"b{i}", zone="b") for i in range(count)] for count in (others, others + 1)
    )
    assert deletes(make_snapshot([*nodes, *few_others], pods), scenario) == deletes(
        make_snapshot([*nodes, *many_others], pods), scenario
    )


@given(*[st.integers(0, 6), st.integers(1, 4)] * 2, st.sampled_from((3, 21.5)))
def test_p20_zones_that_each_keep_a_ready_node_are_independent(
    silent_a: int, healthy_a: int, silent_b: int, healthy_b: int, at: float
) -> None:
    a, b = zone_outage("a", silent_a, healthy_a), zone_outage("b", silent_b, healthy_b, at=at)
    alone: Times = {}
    for nodes, pods, events in (a, b):
        alone |= deletes(make_snapshot(nodes, pods), make_scenario(events, horizon=400))
    snapshot = make_snapshot([*a[0], *b[0]], [*a[1], *b[1]])
    assert deletes(snapshot, make_scenario([*a[2], *b[2]], horizon=400)) == alone


@given(st.integers(1, 6), st.integers(1, 3))
def test_p21_without_rates_and_thresholds_an_outage_is_the_union_of_single_failures(
    silent: int, healthy: int
) -> None:
    configuration = configuration_of(
        node_eviction_rate="1000000000",
        secondary_node_eviction_rate="1000000000",
        large_cluster_size_threshold="0",
    )
    nodes, pods, events = zone_outage("a", silent, healthy)
    snapshot = make_snapshot(nodes, pods)
    together = deletes(snapshot, make_scenario(events, horizon=400), configuration)
    single: Times = {}
    for name in events[0].nodes:
        one = make_scenario([replace(events[0], nodes=(name,))], horizon=400)
        single |= deletes(snapshot, one, configuration)
    assert together.keys() == single.keys()
    # The bucket holds one token whatever its rate: one node for each pass of 100 ms.
    for pod, at_ns in single.items():
        assert 0 <= together[pod] - at_ns <= (silent - 1) * PASS_NS


@given(
    st.integers(2, 12),
    st.integers(0, 4999),
    st.integers(0, 10),
    st.sampled_from(("1.18.6", "1.23.13", "1.29.6", "1.34.1")),
)
def test_p22_a_normal_zone_taints_one_node_and_then_one_every_ten_seconds(
    silent: int, phase_ms: int, cost_ms: int, release: str
) -> None:
    nodes, _, events = zone_outage("a", silent, silent * 2)
    timing = Timing(monitor_phase_ns=phase_ms * 1_000_000, monitor_cost_ns=cost_ms * 1_000_000)
    timeline = simulate(
        make_snapshot(nodes),
        make_scenario(events, horizon=400),
        configuration_of(release),
        timing,
    )
    wanted = f"{UNREACHABLE}:NoExecute"
    times = [
        at for at, what, _, taint in facts_of(timeline) if (what, taint) == ("taint-added", wanted)
    ]
    assert len(times) == silent
    for start, first in enumerate(times):
        for served, at in enumerate(times[start:], start=1):
            assert served <= 1 + 0.1 * (at - first) / SECOND_NS + 1e-6


# -- P23, P25: the whole answer -----------------------------------------------------------------------


@given(worlds(), st.integers(1, 60))
def test_p23_a_longer_horizon_only_appends(world: World, horizon: int) -> None:
    assert world.scenario.horizon_ns is not None
    shorter = replace(world.scenario, horizon_ns=ns(horizon))
    whole = facts_of(run(world, world.snapshot, world.scenario))
    part = facts_of(run(world, world.snapshot, shorter))
    assert part == [fact for fact in whole if fact[0] <= ns(horizon)]


@few
@given(SEEDS)
def test_p25_every_pod_of_an_affected_node_is_evicted_or_kept(seed: int) -> None:
    world = draw_world(seed, actions=NO_RESTART, short=True)
    prediction = predicted(world.snapshot, world.scenario, world.configuration)
    affected = {report.node for report in prediction.nodes}
    pods = {pod.uid for pod in world.snapshot.pods if pod.node_name in affected}
    evicted = {eviction.uid for eviction in prediction.evictions}
    kept = [kept.uid for kept in prediction.kept]
    assert len(kept) == len(set(kept))
    assert not evicted & set(kept)
    assert pods == (evicted | set(kept)) & pods


# -- P26: explanations ------------------------------------------------------------------------------


def explained_offset(eviction: Eviction, snapshot: ClusterSnapshot) -> float:
    """Derive the instant again: a cause, and how long the toleration that decides holds."""
    *causes, last = eviction.because
    assert last.object == f"pod/{eviction.namespace}/{eviction.pod}"
    instants = [cause.offset_seconds or 0.0 for cause in causes]
    assert instants == sorted(instants)
    (pod,) = (p for p in snapshot.pods if p.uid == eviction.uid)
    taint = eviction.taint
    assert taint is not None
    assert taint.effect == "NoExecute"
    (put_on,) = [c for c in causes if f"taint {taint.key}:{taint.effect} is added" in c.what][-1:]
    assert put_on.object == f"node/{pod.node_name}"
    assert put_on.offset_seconds is not None
    matching = [
        index
        for index, toleration in enumerate(pod.tolerations)
        if toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
    ]
    if eviction.toleration is None:
        assert not matching
        return put_on.offset_seconds
    # The first toleration that matches a taint is the one that counts.
    assert eviction.toleration.index == matching[0]
    seconds = pod.tolerations[matching[0]].toleration_seconds
    assert seconds == eviction.toleration.toleration_seconds
    assert seconds is not None
    return put_on.offset_seconds + max(seconds, 0)


@settings(max_examples=40)
@given(TOLERATION_LISTS, st.sampled_from(TAINT_TEXTS), st.integers(0, 9))
def test_p26_an_independent_checker_derives_each_taint_eviction_again(
    tolerations: Tolerations, text: str, at: int
) -> None:
    snapshot = make_snapshot(["n0", "n1"], [make_pod("p", "n0", tolerations=tolerations)])
    scenario = make_scenario([make_event(at, "taint", "n0", taint=text)], horizon=60)
    for eviction in predicted(snapshot, scenario, configuration_of()).evictions:
        assert eviction.certainty == "certain"
        assert explained_offset(eviction, snapshot) == pytest.approx(eviction.offset_seconds)


@pytest.mark.parametrize("seed", [1, 23, 33, 36, 42])
def test_p26_the_checker_derives_evictions_of_silent_nodes_again(seed: int) -> None:
    world = draw_world(seed, actions=SILENCE_ONLY)
    prediction = predicted(world.snapshot, world.scenario, world.configuration)
    sure = [one for one in prediction.evictions if one.certainty == "certain"]
    assert sure
    for eviction in sure:
        again = explained_offset(eviction, world.snapshot)
        assert again == pytest.approx(eviction.offset_seconds, abs=1e-5)


# -- P29, P30: ignorance, releases ------------------------------------------------------------------


def certain(prediction: Prediction) -> dict[tuple[str, str], list[tuple[float, float]]]:
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for e in prediction.evictions:
        if e.certainty == "certain":
            key = (e.uid, e.controller)
            found.setdefault(key, []).append((e.earliest_seconds, e.latest_seconds))
    return found


# Without leases every timing of each node is explored: seconds for each example.
@settings(max_examples=2)
@given(SEEDS, st.sampled_from(("leases", "conditions", "workloads", "creation")))
def test_p29_knowing_less_never_gives_another_certain_answer(seed: int, hidden: str) -> None:
    world = draw_world(seed, actions=SILENCE_ONLY, short=False)
    known = world.snapshot
    if hidden == "leases":
        less = replace(known, leases={})
    elif hidden == "workloads":
        less = replace(known, workloads=(), budgets=(), denied=("Deployment",))
    elif hidden == "creation":
        pods = tuple(replace(pod, creation_timestamp_ns=0) for pod in known.pods)
        less = replace(known, pods=pods)
    else:
        nodes = tuple(
            replace(n, conditions=tuple(c for c in n.conditions if c.type == "Ready"))
            for n in known.nodes
        )
        less = replace(known, nodes=nodes)
    before = certain(predicted(known, world.scenario, world.configuration))
    after = certain(predicted(less, world.scenario, world.configuration))
    for key in before.keys() & after.keys():
        for earliest, latest in before[key]:
            assert any(a <= latest and earliest <= b for a, b in after[key]), (before, after)


@given(TOLERATION_LISTS, taint_events(), st.integers(16, 37))
def test_p30_taints_by_hand_evict_alike_in_every_release(
    tolerations: Tolerations, events: list[ScenarioEvent], minor: int
) -> None:
    snapshot = make_snapshot(["n0", "n1"], [make_pod("p", "n0", tolerations=tolerations)])
    scenario = make_scenario(events, horizon=60)
    here = deletes(snapshot, scenario, configuration_of(f"1.{minor}"))
    assert here == deletes(snapshot, scenario, configuration_of("1.29"))


@given(st.integers(21, 33), st.integers(1, 3), st.integers(0, 4999))
def test_p30_a_failing_node_is_alike_in_releases_that_share_its_rules(
    minor: int, silent: int, phase_ms: int
) -> None:
    """From 1.21 to 1.33 only the default grace period changed: with the flag given nothing did."""
    nodes, pods, events = zone_outage("a", silent, 4)
    snapshot, scenario = make_snapshot(nodes, pods), make_scenario(events, horizon=200)
    timing = Timing(monitor_phase_ns=phase_ms * 1_000_000)
    results = [
        deletes(
            snapshot,
            scenario,
            configuration_of(release, node_monitor_grace_period="40s"),
            timing,
        )
        for release in (f"1.{minor}", "1.29")
    ]
    assert results[0] == results[1]


def test_predictions_are_plain_data() -> None:
    """What the relations above compare is what a user sees: nothing hides outside the document."""
    snapshot = make_snapshot(["n0", "n1"], [make_pod("p", "n0")])
    scenario = make_scenario([make_event(1, "taint", "n0", taint="A:NoExecute")], horizon=60)
    prediction = predicted(snapshot, scenario, configuration_of())
    decoded = msgspec.json.decode(encoded(prediction), type=Prediction)
    assert decoded == prediction
