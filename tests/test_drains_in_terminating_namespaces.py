"""An eviction in a namespace that is Terminating is refused before any budget is read (NamespaceLifecycle)."""

from __future__ import annotations

import pytest
from drain_worlds import App, drain, drained_cluster, drains, proven
from msgspec.structs import replace

from builders import ns
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.kube.infrastructure import Infrastructure, Namespace
from kubectl_evictplan.kube.objects import ClusterSnapshot, ControlPlaneFlags
from kubectl_evictplan.prediction.document import Prediction
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
