"""When a change began that somebody else carried out, by what it left on nodes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from plans.planned import DRAIN, START_NS, TAINT, plan_of, small_cluster

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import NO_SCHEDULE, Taint
from kubectl_evictplan.kube.sightings import Interval, SeenNode
from kubectl_evictplan.kube.taints import UNSCHEDULABLE
from kubectl_evictplan.plans.beginnings import CORDON_SEEN_NS, detected_start
from kubectl_evictplan.plans.expectation import Expectation, expectation_of_plan
from kubectl_evictplan.plans.sightings import Look, Sightings

CLUSTER = small_cluster()
CORDONED_NS = START_NS + 90 * SECOND_NS


@pytest.fixture(scope="module")
def drained() -> Expectation:
    """What the drain of a1 and b1 leads one to expect; predicting a drain takes its time."""
    both = replace(DRAIN, nodes=("a1", "b1"))
    return expectation_of_plan(plan_of(CLUSTER, both))


def seen(added_ns: int | None, node: str = "a1") -> Sightings:
    taints = (Taint(UNSCHEDULABLE, NO_SCHEDULE, "", added_ns),) if added_ns else ()
    at = Interval(START_NS + 600 * SECOND_NS, START_NS + 600 * SECOND_NS)
    return Sightings((Look(at, (), nodes=(SeenNode(node, f"uid-{node}", taints),)),))


@pytest.mark.parametrize("node", ["a1", "b1"])
def test_a_drain_that_nobody_followed_began_when_its_nodes_were_cordoned(
    drained: Expectation, node: str
) -> None:
    start = detected_start(drained, seen(CORDONED_NS, node))

    assert start is not None
    assert start.source == "nodes"
    assert Interval(CORDONED_NS - CORDON_SEEN_NS, CORDONED_NS).lies_in(start.at)
    assert start.at.latest_ns == CORDONED_NS + SECOND_NS - 1
    assert start.at.width_ns <= 6 * SECOND_NS


@pytest.mark.parametrize(
    "sightings", [seen(None), seen(CORDONED_NS, "b2"), seen(START_NS - 600 * SECOND_NS)]
)
def test_without_a_cordon_of_its_nodes_since_the_plan_nobody_knows(
    drained: Expectation, sightings: Sightings
) -> None:
    assert detected_start(drained, sightings) is None


def test_a_cordon_tells_nothing_of_a_taint() -> None:
    plan = plan_of(CLUSTER, TAINT)
    assert detected_start(expectation_of_plan(plan), seen(CORDONED_NS)) is None
