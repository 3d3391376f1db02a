"""Owners that want pods and have none in the input, while nodes are drained."""

from __future__ import annotations

import pytest
from drawn.drain_worlds import (
    CONFIGURATION,
    READY,
    App,
    drain,
    drained_cluster,
    drains,
    proven,
    synced,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.kube.objects import ClusterSnapshot, Workload
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.windows.drains.newcomers import owners_without_pods

# Of its three pods one may be away.
WEB = App("web", ["a1", "b1", "b1"], most=1)
LIKE_WEB, OTHERS = {"app": "web", "version": "new"}, {"app": "other"}


def refused_owner(labels: dict[str, str] | None, *, replicas: int = 2) -> Workload:
    """It wants pods and has none: a quota refuses them, say."""
    return Workload("ReplicaSet", "default", "new", "uid-new", replicas, template_labels=labels)


def with_owner(app: App, owner: Workload) -> ClusterSnapshot:
    snapshot = drained_cluster(app)
    return synced(replace(snapshot, workloads=(*snapshot.workloads, owner)))


def predicted(snapshot: ClusterSnapshot) -> Prediction:
    return predict(snapshot, drains(drain("a1")), CONFIGURATION, assume_ready=READY)


@pytest.mark.parametrize(
    ("labels", "certainty"), [(OTHERS, CERTAIN), (LIKE_WEB, POSSIBLE), (None, POSSIBLE)]
)
def test_nothing_is_certain_of_a_budget_that_may_count_pods_which_are_not_in_the_input(
    labels: dict[str, str] | None, certainty: str
) -> None:
    prediction = predicted(with_owner(WEB, refused_owner(labels)))
    assert [one.certainty for one in prediction.evictions] == [certainty]
    [said] = [one for one in prediction.warnings if one.code == "owner-without-pods"]
    assert said.objects == ("ReplicaSet/default/new",)
    assert ("default/web" in said.message) == (certainty == POSSIBLE)


def test_a_closed_budget_is_not_closed_for_ever_where_pods_may_come_under_it() -> None:
    closed = App("web", ["a1", "b1"], least=2)
    [turn] = proven(drained_cluster(closed), drain("a1")).turns.values()
    assert turn.reasons == {None}
    [turn] = proven(with_owner(closed, refused_owner(LIKE_WEB)), drain("a1")).turns.values()
    assert turn.reasons == {None, DrainEnd.DRAINED}


def test_an_owner_that_makes_no_pods_is_not_expected_to() -> None:
    plain = drained_cluster(WEB)
    assert owners_without_pods(plain) == ()
    for owner in (
        refused_owner(LIKE_WEB, replicas=0),
        replace(refused_owner(LIKE_WEB), kind="Job", makes_no_more=True),
        replace(refused_owner(LIKE_WEB), being_deleted=True),
        replace(refused_owner(LIKE_WEB), kind="Deployment"),
        replace(refused_owner(LIKE_WEB), name="web"),
    ):
        assert owners_without_pods(replace(plain, workloads=(owner,))) == ()
    assert owners_without_pods(replace(plain, workloads=(refused_owner(None),))) == (
        refused_owner(None),
    )
