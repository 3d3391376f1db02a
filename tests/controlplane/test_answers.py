"""The simulated API server answers as a real one does: else its tests would prove nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from kubelets import MERGE_PATCH
from objects import create_pod
from plane import ControlPlane, Start
from simulated_stage import simulated_stage
from stages import PODS, STEPS, answers

from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.mutations import cluster_api

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


class RealStage:
    """See ``stages.Stage``."""

    def __init__(self, plane: ControlPlane, stack: ExitStack) -> None:
        self._api = plane.api
        own = [ConnectionFlags(kubeconfig=str(plane.kubeconfig(user))) for user in ("admin", "n")]
        authority = str(plane.folder / "ca.crt")
        bad = ConnectionFlags(server=plane.server, token="bad", certificate_authority=authority)
        self.admin, self.nobody, self.stranger = (
            stack.enter_context(cluster_api(flags, os.environ)) for flags in (*own, bad)
        )

    def set_taints(self, taints: list[dict[str, str]]) -> None:
        spec = {"spec": {"taints": taints}}
        self._api.call("PATCH", "/api/v1/nodes/a1", spec, MERGE_PATCH)

    def budget(self, name: str, app: str, **status: int) -> None:
        spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": app}}}
        self._api.call("POST", BUDGETS, {"metadata": {"name": name}, "spec": spec})
        required = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0}
        given = {"observedGeneration": 1, "expectedPods": 1, **required, **status}
        path = f"{BUDGETS}/{name}/status"
        self._api.call("PATCH", path, {"status": given}, MERGE_PATCH)

    def allowed(self, name: str) -> int:
        found: Any = self._api.call("GET", f"{BUDGETS}/{name}")
        return int(found["status"]["disruptionsAllowed"])


@contextmanager
def real_stage(start: Start) -> Iterator[RealStage]:
    with start({"a1": "a"}, exit_after_seconds=60) as (plane, _), ExitStack() as stack:
        for name in PODS:
            create_pod(plane.api, name, "a1", [])
        plane.settle()
        plane.stop("kube-controller-manager")
        yield RealStage(plane, stack)


@pytest.mark.live
def test_the_simulated_server_answers_as_the_real_one_does(start: Start) -> None:
    with simulated_stage() as stage:
        simulated = answers(stage)
    with real_stage(start) as stage:
        real = answers(stage)
    for name, answer in simulated.items():
        assert str(answer) == str(real[name]), name


def test_what_the_simulated_server_answers_is_what_the_real_one_answered() -> None:
    """The same steps without a control plane: what is compared there is not empty here."""
    with simulated_stage() as stage:
        found = answers(stage)
    assert len(found) == len(STEPS)
    assert found["wrong_uid_spends_the_budget"][1] == 0
    assert found["dry_evictions_spend_nothing"][1:] == (1, None)
    assert found["two_budgets"][0]["outcome"] == "several-budgets"
    assert found["unobserved_budget"]["retry after"] == 10
    assert found["spent_budget"][0]["retry after"] is None
    assert found["access"] == [[True, True, True], [False, False, False]]
