"""What is read of how owners update their pods."""

from __future__ import annotations

from typing import Any

import pytest
from sources.builders import items


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
