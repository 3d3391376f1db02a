"""The judge itself: what of a run contradicts a statement about several nodes of one zone, and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from building.builders import UNREACHABLE, make_scenario, make_snapshot, make_taint, ns
from building.warning_runs import configured
from msgspec.structs import replace
from realities.contradictions import joint_contradictions

from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    TAINT_EVICTION,
    Entry,
    NodeQueued,
    PodDeleted,
    TaintAdded,
)
from kubectl_evictplan.prediction.document import NODES_TAINTED, PODS_EVICTED, Joint
from kubectl_evictplan.prediction.predict import predict

ZONES = {"n0": "a", "n1": "a", "n2": "a"}
TAINT = make_taint(f"{UNREACHABLE}:NoExecute")


class Run(NamedTuple):
    """A reality of nothing but entries."""

    entries: list[Entry]


def contradicts(joint: Joint, entries: Sequence[Entry]) -> bool:
    nothing = predict(make_snapshot(["n0"]), make_scenario([], horizon=10), configured("1.37"))
    prediction = replace(nothing, joint=(joint,))
    return bool(list(joint_contradictions(prediction, Run([*entries]), ZONES)))


def queued(node: str) -> Entry:
    return NodeQueued(ns(40), (), node=node, zone="a")


def deleted(node: str, at: float) -> Entry:
    pod, uid = f"default/on-{node}", f"uid-{node}"
    return PodDeleted(
        ns(at), (), pod=pod, uid=uid, node=node, controller=TAINT_EVICTION, taint=TAINT
    )


def tainted(node: str, at: float) -> Entry:
    return TaintAdded(ns(at), (), node=node, taint=TAINT, by=NODE_LIFECYCLE, rule="")


def test_pods_of_a_node_that_never_waited_are_none_of_those_that_it_is_about() -> None:
    joint = Joint("zone/a", PODS_EVICTED, 0, 1, 3, 100.0)
    run = [deleted("n1", 0), queued("n0"), deleted("n0", 45)]
    assert not contradicts(joint, run)
    assert contradicts(joint, [queued("n1"), *run])


def test_what_comes_just_after_the_instant_is_not_too_much() -> None:
    joint = Joint("zone/a", NODES_TAINTED, 0, 0, 1, 10.0)
    assert not contradicts(joint, [tainted("n0", 10.0003)])
    assert contradicts(joint, [tainted("n0", 10)])
    assert not contradicts(replace(joint, least=1, most=1), [tainted("n0", 10.0003)])
