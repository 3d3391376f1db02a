"""Which tolerations are taken for admission's default, and get other seconds."""

from __future__ import annotations

import pytest
from building.builders import make_pod

from kubectl_evictplan.kube.objects import ClusterSnapshot, ControlPlaneFlags, Toleration
from kubectl_evictplan.sweeps.flags import Cell, cells, with_toleration_seconds

UNREACHABLE = "node.kubernetes.io/unreachable"


def tried(toleration: Toleration, *, node: str = "n1", default: str = "") -> int | None:
    flags = {"default-unreachable-toleration-seconds": default} if default else {}
    snapshot = ClusterSnapshot(
        nodes=(),
        pods=(make_pod("p", "n1", tolerations=(toleration,)),),
        control_plane=ControlPlaneFlags(api_server=flags),
    )
    (pod,) = with_toleration_seconds(snapshot, frozenset((node,)), 30).pods
    return pod.tolerations[0].toleration_seconds


def test_the_default_seconds_are_replaced() -> None:
    assert tried(Toleration(UNREACHABLE, "Exists", "", "NoExecute", 300)) == 30


def test_pods_have_the_default_of_when_they_were_created() -> None:
    for seconds in (300, 120):
        toleration = Toleration(UNREACHABLE, "Exists", "", "NoExecute", seconds)
        assert tried(toleration, default="120") == 30


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration(UNREACHABLE, "Exists", "", "NoExecute", 60),
        Toleration(UNREACHABLE, "Exists", "", "NoExecute", None),
        Toleration("maintenance", "Exists", "", "NoExecute", 300),
        Toleration(UNREACHABLE, "Exists", "", "", 300),
    ],
)
def test_what_somebody_asked_for_stays(toleration: Toleration) -> None:
    assert tried(toleration) == toleration.toleration_seconds


def test_pods_of_other_nodes_are_left_alone() -> None:
    assert tried(Toleration(UNREACHABLE, "Exists", "", "NoExecute", 300), node="n2") == 300


def test_cells_are_all_combinations_in_the_order_given() -> None:
    assert cells({"a": ["1", "2"]}, [30, 60]) == [
        Cell((("a", "1"),), 30),
        Cell((("a", "1"),), 60),
        Cell((("a", "2"),), 30),
        Cell((("a", "2"),), 60),
    ]
    assert cells({}, []) == [Cell((), None)]
