"""What is read of how owners update their pods."""

from __future__ import annotations

from typing import Any

import pytest
from sources.builders import items

from kubectl_evictplan.kube.objects import Revisions


@pytest.mark.parametrize(
    ("strategy", "surges"),
    [
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%"}}, True),
        (
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 1}},
            False,
        ),
        ({"type": "RollingUpdate", "rollingUpdate": None}, False),
        ({"type": "OnDelete"}, False),
        (None, False),
    ],
)
def test_a_daemon_set_surges_where_its_rolling_update_allows_one_pod_more(
    load: Any, strategy: dict[str, Any] | None, surges: bool
) -> None:
    meta = {"name": "agent", "namespace": "d", "uid": "a"}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta}
    [found] = load(items({**owner, "spec": {"updateStrategy": strategy}})).workloads
    assert found.surges == surges


@pytest.mark.parametrize(
    ("strategy", "updated_from"),
    [
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}, 5),
        ({"type": "RollingUpdate", "rollingUpdate": {}}, 2),
        # status.currentReplicas decides, which changes with every pod that goes.
        ({"type": "RollingUpdate"}, None),
        ({"type": "OnDelete"}, 0),
    ],
)
def test_of_a_stateful_set_is_read_which_ordinals_it_makes_of_which_revision(
    load: Any, strategy: dict[str, Any], updated_from: int | None
) -> None:
    made = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "d", "uid": "s"},
        "spec": {"updateStrategy": strategy, "ordinals": {"start": 2}},
    }
    status = {"currentRevision": "db-old", "updateRevision": "db-new", "currentReplicas": 1}
    [found] = load(items({**made, "status": status})).workloads
    assert found.revisions == Revisions("db-old", "db-new", updated_from)
    [unseen] = load(items(made)).workloads
    assert unseen.revisions is None
