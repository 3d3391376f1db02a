"""An eviction in a namespace that is Terminating is refused before any budget is read (NamespaceLifecycle)."""

from __future__ import annotations

import pytest
from building.builders import ns
from drawn.drain_worlds import CONFIGURATION, App, drain, drained_cluster, drains, proven
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.kube.infrastructure import Infrastructure, Namespace
from kubectl_evictplan.kube.objects import ClusterSnapshot, ControlPlaneFlags
from kubectl_evictplan.prediction.document import ExpectedEnd, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings

BUDGET = "PodDisruptionBudget"


def closing(*, denied: bool = False, listed: bool = True) -> ClusterSnapshot:
    """A pod on a1 in a Terminating namespace; no budget covers it, as far as they can be read."""
    snapshot = drained_cluster(App("web", ("a1", "b1")))
    seen = tuple(kind for kind in snapshot.kinds_seen if listed or kind != BUDGET)
    namespace = Infrastructure(namespaces=(Namespace("default", phase="Terminating"),))
    return replace(
        snapshot,
        infrastructure=namespace,
        kinds_seen=seen,
        denied=(BUDGET,) if denied else (),
    )


def predicted(snapshot: ClusterSnapshot, release: str) -> Prediction:
    settings = ControllerSettings(kubernetes_version=release)
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    return predict(snapshot, drains(drain("a1")), configuration)


@pytest.mark.parametrize("timeout_ns", [0, ns(20)])
@pytest.mark.parametrize("told", [True, False])
def test_where_the_namespace_is_terminating_budgets_that_cannot_be_read_change_nothing(
    *, told: bool, timeout_ns: int
) -> None:
    rules, event = EvictionRules(tells_of_terminating_namespaces=told), drain("a1")
    event = replace(event, timeout_ns=timeout_ns)
    known = proven(closing(), event, rules=rules)
    assert known.turns
    for unread in (closing(listed=False), closing(listed=False, denied=True)):
        found = proven(unread, event, rules=rules)
        assert (found.turns, found.exit_codes) == (known.turns, known.exit_codes)


@pytest.mark.parametrize("release", ["1.16.0", pytest.param("1.37.0", marks=pytest.mark.slow)])
def test_nothing_is_said_of_budgets_that_cannot_be_read_where_none_is_asked(release: str) -> None:
    known = predicted(closing(), release)
    unread = predicted(closing(listed=False, denied=True), release)
    assert unread.drains == known.drains
    assert unread.drains[0].end_earliest_seconds is not None
    assert "budget-not-readable" not in {one.code for one in unread.warnings}


def in_namespace(name: str, *phases: str) -> ClusterSnapshot:
    """A pod on a1 in that namespace; of each of these phases the input has the namespace once."""
    snapshot = drained_cluster(App("web", ("a1", "b1")))
    namespaces = tuple(Namespace(name, phase=phase) for phase in phases)
    return replace(
        snapshot,
        pods=tuple(replace(pod, namespace=name) for pod in snapshot.pods),
        workloads=tuple(replace(one, namespace=name) for one in snapshot.workloads),
        infrastructure=Infrastructure(namespaces=namespaces),
    )


def test_a_namespace_that_is_not_in_the_input_is_not_taken_for_one_that_stays() -> None:
    known, unread = in_namespace("shop", "Active"), in_namespace("shop")
    told = predicted(known, "1.37.0")
    assert [one.certainty for one in told.evictions] == ["certain"]
    assert "namespaces-not-listed" not in {one.code for one in told.warnings}
    found = predicted(unread, "1.37.0")
    (report,), (alone,) = found.drains, told.drains
    assert [one.certainty for one in found.evictions] == ["possible"]
    assert (report.end_reason, report.end_latest_seconds) == (None, None)
    assert report.not_in_input == ("Namespace",)
    assert report.expected == ExpectedEnd(
        alone.end_earliest_seconds, alone.end_latest_seconds, 0, "drained"
    )
    assert "namespaces-not-listed" in {one.code for one in found.warnings}


@pytest.mark.parametrize("name", ["default", "kube-public", "kube-system"])
def test_nobody_can_delete_the_namespaces_of_kubernetes_itself(name: str) -> None:
    found = predicted(in_namespace(name), "1.37.0")
    assert [one.certainty for one in found.evictions] == ["certain"]
    assert found.drains[0].end_reason == "drained"


def test_a_drain_that_does_not_evict_asks_no_namespace() -> None:
    event = replace(drain("a1"), disable_eviction=True)
    found = predict(in_namespace("shop"), drains(event), CONFIGURATION)
    assert [one.certainty for one in found.evictions] == ["certain"]
    assert "namespaces-not-listed" not in {one.code for one in found.warnings}


@pytest.mark.parametrize("timeout_ns", [0, ns(20)])
def test_what_is_told_without_namespaces_holds_where_one_is_terminating(timeout_ns: int) -> None:
    rules, event = EvictionRules(), replace(drain("a1"), timeout_ns=timeout_ns)
    ((_, unread),) = proven(in_namespace("shop"), event, rules=rules).turns.items()
    ((_, ending),) = proven(in_namespace("shop", "Terminating"), event, rules=rules).turns.items()
    assert unread.reasons >= ending.reasons
    if ending.end is not None and ending.end.latest_ns is not None:
        assert unread.end is not None and unread.end.latest_ns is not None
        assert unread.end.earliest_ns <= ending.end.earliest_ns
        assert unread.end.latest_ns >= ending.end.latest_ns


def test_whoever_is_asked_for_in_vain_is_given_up_at_the_first_try_after_the_timeout() -> None:
    event = replace(drain("a1"), timeout_ns=ns(59))
    ((_, turn),) = proven(closing(), event, rules=EvictionRules()).turns.items()
    assert turn.end is not None and turn.end.latest_ns is not None
    # A try comes 5 s after the answer to the one before it.
    assert ns(59 + 5) < turn.end.latest_ns < ns(59 + 9)


def test_up_to_1_16_who_waits_for_a_budget_may_fail_if_the_unread_namespace_is_terminating() -> (
    None
):
    budgeted = in_namespace("shop")
    budgets = tuple(
        replace(one, namespace="shop")
        for one in drained_cluster(App("web", ("a1",), most=1)).budgets
    )
    unread = replace(budgeted, budgets=budgets)
    for told, ends in ((True, {"evicted", "never"}), (False, {"evicted", "never", "error"})):
        rules = EvictionRules(tells_of_terminating_namespaces=told)
        [turn] = proven(unread, drain("a1"), rules=rules).turns.values()
        assert [wait.ends for wait in turn.waits.values()] == [ends]
