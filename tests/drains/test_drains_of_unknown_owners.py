"""Who knows less of a cluster is promised less: owners and budgets that the input does not have."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator

import pytest
from drawn.drain_worlds import (
    READY,
    App,
    DrainedWorld,
    drain,
    drained_cluster,
    drains,
    draw_drained_world,
)
from msgspec.structs import replace
from realities.drawn_drains import (
    contradictions,
    draw_bounded_world,
    reality,
    with_gaps,
    with_the_rest,
)

from kubectl_evictplan.impact.assess import assess_impact
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import CERTAIN, DrainReport, ExpectedEnd, Prediction
from kubectl_evictplan.prediction.predict import predict


def without_owners(snapshot: ClusterSnapshot, names: Collection[str]) -> ClusterSnapshot:
    """The objects of these names are not in the input."""
    kept = tuple(one for one in snapshot.workloads if one.name not in names)
    return replace(snapshot, workloads=kept)


def of_unknown_size(snapshot: ClusterSnapshot, names: Collection[str]) -> ClusterSnapshot:
    """The input does not say how many pods they want."""
    found = (
        replace(one, replicas=None) if one.name in names else one for one in snapshot.workloads
    )
    return replace(snapshot, workloads=tuple(found))


def with_kinds_denied(snapshot: ClusterSnapshot, kinds: Collection[str]) -> ClusterSnapshot:
    """These kinds may not be read."""
    return replace(
        snapshot,
        workloads=tuple(one for one in snapshot.workloads if one.kind not in kinds),
        budgets=() if "PodDisruptionBudget" in kinds else snapshot.budgets,
        kinds_seen=tuple(kind for kind in snapshot.kinds_seen if kind not in kinds),
        denied=(*snapshot.denied, *kinds),
    )


def promises(prediction: Prediction) -> Iterator[str]:
    """Whatever is certain."""
    for eviction in prediction.evictions:
        if eviction.certainty == CERTAIN:
            yield f"{eviction.key} is evicted by {eviction.controller}"
    for report in prediction.drains:
        for wait in (*report.waiting, *report.failed):
            if wait.certainty == CERTAIN:
                yield f"{wait.pod} waits"
        if report.end_latest_seconds is not None:
            yield f"{report.node} ends"
        if report.end_reason is not None:
            yield f"{report.node} ends: {report.end_reason}"
        if report.exit_code is not None:
            yield f"{report.node} exits with {report.exit_code}"


def broken(world: DrainedWorld, less: ClusterSnapshot, rng: random.Random, runs: int) -> list[str]:
    """What is promised to who knows ``less`` only, and which realities of the whole world are outside of that."""
    told = predict(less, world.scenario, world.configuration, assume_ready=READY)
    whole = predict(*world, assume_ready=READY)
    found = sorted({*promises(told)} - {*promises(whole)})
    for number in range(runs):
        found += contradictions(reality(world, rng, number), told, world.scenario)
    return found


Draw = Callable[[int, random.Random], DrainedWorld]


def _with_surplus(seed: int, rng: random.Random) -> DrainedWorld:
    """A world some of whose owners want fewer pods than there are."""
    world = draw_drained_world(random.Random(seed))
    sizes = (
        replace(one, replicas=max((one.replicas or 0) - rng.choice((0, 1, 2)), 0))
        for one in world.snapshot.workloads
    )
    return world._replace(snapshot=replace(world.snapshot, workloads=tuple(sizes)))


_WORLDS: dict[str, Draw] = {
    "plain": lambda seed, _: draw_drained_world(random.Random(seed)),
    "some at a time": draw_bounded_world,
    "surplus": _with_surplus,
    "gaps": lambda seed, rng: with_gaps(draw_drained_world(random.Random(seed)), rng),
    "the rest": lambda seed, rng: with_the_rest(draw_drained_world(random.Random(seed)), rng),
}
_OWNERS = ("ReplicaSet", "StatefulSet")


@pytest.mark.slow
@pytest.mark.parametrize("drawn", _WORLDS)
@pytest.mark.parametrize("seed", range(30))
def test_who_knows_less_is_promised_no_more_and_nothing_that_is_broken(
    drawn: str, seed: int
) -> None:
    rng = random.Random(seed)
    world = _WORLDS[drawn](50_000 + seed, rng)
    names = [one.name for one in world.snapshot.workloads]
    some = rng.sample(names, rng.randint(1, len(names))) if names else []
    less = rng.choice(
        (
            without_owners(world.snapshot, some),
            of_unknown_size(world.snapshot, some),
            with_kinds_denied(world.snapshot, rng.sample(_OWNERS, 1)),
            with_kinds_denied(world.snapshot, _OWNERS),
            with_kinds_denied(world.snapshot, ["PodDisruptionBudget"]),
            with_kinds_denied(world.snapshot, ["PodDisruptionBudget", *_OWNERS]),
        )
    )
    assert broken(world, less, rng, 12) == []


def drained_without(names: Collection[str], *apps: App) -> list[str]:
    """Promises about a drain of a1, where the input does not have these owners."""
    snapshot = without_owners(drained_cluster(*apps), names)
    world = DrainedWorld(snapshot, drains(drain("a1")))
    return list(promises(predict(*world, assume_ready=READY)))


def test_who_needs_the_replacement_of_an_owner_that_is_not_in_the_input_is_not_surely_evicted() -> (
    None
):
    web = App("web", ("a1", "a1", "b1"), least=2)
    assert "default/web-0 is evicted by eviction-api" in drained_without((), web)
    assert drained_without(("web",), web) == []


def test_nobody_knows_whether_a_budget_stays_closed_where_an_owner_is_not_in_the_input() -> None:
    web = App("web", ("a1", "b1"), least=2)
    assert "default/web-0 waits" in drained_without((), web)
    assert drained_without(("web",), web) == []


def test_an_owner_that_is_not_in_the_input_may_send_a_pod_to_the_node_before_it_is_cordoned() -> (
    None
):
    web, other = App("web", ("a1",)), App("other", ("b1",), least=1)
    assert "a1 ends" in drained_without((), web, other)
    assert drained_without(("other",), web, other) == ["default/web-0 is evicted by eviction-api"]


def only_report(snapshot: ClusterSnapshot, *names: str) -> DrainReport:
    """Of a drain of a1, where the input does not have these owners."""
    world = DrainedWorld(without_owners(snapshot, names), drains(drain("a1")))
    (report,) = predict(*world, assume_ready=READY).drains
    return report


def findings(snapshot: ClusterSnapshot) -> set[str]:
    """The codes of what a drain of a1 costs."""
    world = DrainedWorld(snapshot, drains(drain("a1")))
    prediction = predict(*world, assume_ready=READY)
    impact = assess_impact(*world, prediction, assume_ready=READY)
    return {one.code for one in impact.findings}


def test_a_pod_that_nobody_knows_and_no_budget_covers_makes_a_drain_longer_and_does_not_fail_it() -> (
    None
):
    web, other = App("web", ("a1",), grace=10), App("other", ("b1",), grace=60)
    alone = only_report(drained_cluster(web, other))
    report = only_report(drained_cluster(web, other), "other")
    assert (report.end_reason, report.exit_code) == ("drained", 0)
    assert alone.end_latest_seconds is not None and alone.end_latest_seconds < 15
    assert report.end_latest_seconds is not None and 60 < report.end_latest_seconds < 65


def test_what_is_not_in_the_input_is_named_with_the_end_that_it_may_prevent() -> None:
    web, other = App("web", ("a1", "b1"), least=1), App("other", ("b1",), least=1)
    alone = only_report(drained_cluster(web, other))
    report = only_report(drained_cluster(web, other), "web", "other")
    assert (report.end_reason, report.end_latest_seconds, report.exit_code) == (None, None, None)
    assert report.not_in_input == ("ReplicaSet",)
    assert report.expected == ExpectedEnd(
        alone.end_earliest_seconds, alone.end_latest_seconds, 0, "drained"
    )


def test_nothing_is_said_of_an_end_that_nothing_missing_can_prevent() -> None:
    web = App("web", ("a1", "b1"), least=1)
    report = only_report(drained_cluster(web))
    assert (report.not_in_input, report.expected) == ((), None)


def test_no_finding_says_that_a_drain_is_unfinished_for_what_nobody_has_seen_alone() -> None:
    web = App("web", ("a1", "b1"), least=1)
    held = App("held", ("a1",), least=1)
    assert "drain-unfinished" not in findings(without_owners(drained_cluster(web), ("web",)))
    assert "drain-unfinished" in findings(without_owners(drained_cluster(held), ("held",)))


def test_a_budget_that_owners_nobody_knows_may_open_lets_pods_go_at_any_time_perhaps() -> None:
    web = App("web", ("a1", "b1"), least=2)
    snapshot = without_owners(drained_cluster(web), ("web",))
    world = DrainedWorld(snapshot, drains(drain("a1")))
    prediction = predict(*world, assume_ready=READY)
    (row,) = prediction.evictions
    assert (row.key, row.certainty) == ("default/web-0", "possible")
    assert row.latest_seconds == 24 * 3600
    assert "budget-allows-nothing" not in {one.code for one in prediction.warnings}
