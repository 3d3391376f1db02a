"""What is proven of pods of nodes whose runs are samples: a delete follows its taint by what tolerations say."""

from __future__ import annotations

import pytest
from building.builders import default_tolerations, make_node, make_pod, ns, tolerates

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Toleration
from kubectl_evictplan.kube.taints import NOT_READY, UNREACHABLE
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.outer_bounds import NodeBounds
from kubectl_evictplan.windows.proven_fates import put_proven

TAINTED = NodeBounds(unknown=(ns(40), ns(45)), served=(ns(45), ns(50)), certain=True)
LONG, SHORT = tolerates(NOT_READY, 30), tolerates(UNREACHABLE, 10)


def proven(ready: str, *tolerations: Toleration) -> tuple[float, float, bool]:
    """The window of a pod of which one sampled run showed an eviction at 100 s, and whether that is certain."""
    pod = make_pod("p", "n0", tolerations=tolerations)
    result, key = Exploration(), EvictionKey(pod.key, pod.uid, TAINT_EVICTION, 0)
    result.evictions[key] = PossibleEviction(
        ((ns(100), ns(100)),), False, "n0", None, None, None, missed=frozenset({"a tick"})
    )
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    put_proven(result, make_node("n0", ready=ready), [pod], TAINTED, configuration, ns(200))
    ((low_ns, high_ns),) = result.evictions[key].spans
    return low_ns / 1e9, high_ns / 1e9, result.evictions[key].certain


@pytest.mark.parametrize(
    ("tolerations", "window"), [((), (45, 50, True)), (default_tolerations(20), (65, 70, True))]
)
def test_a_delete_follows_the_taint_by_what_the_tolerations_say_whatever_a_sample_shows(
    tolerations: tuple[Toleration, ...], window: tuple[float, float, bool]
) -> None:
    assert proven("True", *tolerations) == window


def test_a_pod_of_a_node_that_may_get_either_taint_goes_after_the_shorter_or_the_longer_time() -> (
    None
):
    assert proven("True", LONG, SHORT) == (55, 60, True)
    assert proven("Unknown", LONG, SHORT) == (55, 80, True)


def test_a_pod_that_tolerates_one_of_the_taints_for_ever_is_not_certain_to_go() -> None:
    assert proven("Unknown", tolerates(NOT_READY), SHORT) == (55, 60, False)
