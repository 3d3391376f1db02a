"""Realities of drains that are led towards the ends of windows: see ``guided_drains``."""

from __future__ import annotations

import random

from drawn.drain_worlds import READY, App, DrainedWorld, drain, drained_cluster, drains
from realities.contradictions import deletions
from realities.drawn_drains import contradictions
from realities.guided_drains import DrainChoices, DrainGuide

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.timeline import EVICTION_API, PodDeleted, PodGone
from kubectl_evictplan.prediction.predict import predict

WORLD = DrainedWorld(
    drained_cluster(App("web", ["a1", "b1", "b2"], most=1)),
    drains(drain("a1", at=1), drain("b1", at=random.Random(1).uniform(2, 4))),
)
[POD] = [pod for pod in WORLD.snapshot.pods if pod.name == "web-1"]
KEY = POD.key, POD.uid, EVICTION_API


def test_a_choice_is_made_again_for_whom_it_was_made_whenever_that_is_asked() -> None:
    first = DrainChoices("first", {})
    drawn = [first.share("decide", pod, at) for at in (10, 20) for pod in (1, 2)]
    assert drawn[0] == first.share("decide", 1, 10)
    again = DrainChoices("again", first.made)
    assert [again.share("decide", pod, at) for at in (11, 22) for pod in (1, 2)] == drawn


def test_more_than_half_of_the_realities_lead_to_the_ends_of_what_can_be() -> None:
    guide = DrainGuide("any", {KEY: [(0.0, 120.0)]})
    prediction = predict(*WORLD, assume_ready=READY)
    instants = []
    for number in range(240):
        run = guide.reality(WORLD, number, ReadyTimes(*READY))
        assert contradictions(run, prediction, WORLD.scenario) == []
        instants += deletions(run.entries)[KEY][:1]
    low, high = min(instants), max(instants)
    assert high - low > 0.6
    assert sum(min(at - low, high - at) < 0.01 for at in instants) > len(instants) / 2


def test_in_some_realities_pods_that_exit_slowly_stand_beside_pods_that_exit_at_once() -> None:
    pods = drained_cluster(App("web", ["a1"] * 4, grace=30))
    world = DrainedWorld(pods, drains(drain("a1", at=1)))
    guide = DrainGuide("any", {})
    ends = []
    for number in range(20):
        run = guide.reality(world, number, ReadyTimes(*READY))
        deleted = {one.pod: one.at_ns for one in run.entries if isinstance(one, PodDeleted)}
        gone = [one for one in run.entries if isinstance(one, PodGone) and one.pod in deleted]
        ends.append({round((one.at_ns - deleted[one.pod]) / 1e9) for one in gone})
    assert any(one and one <= {0, 1, 30, 31} and {0, 1} & one and {30, 31} & one for one in ends)
