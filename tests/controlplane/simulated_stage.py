"""The stage on the simulated API server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from live import clusters
from live.changing import TOKEN, changing
from live.real_clock import RealClock
from live.writable_server import WritableServer
from stages import PODS


class SimulatedStage:
    """See ``stages.Stage``."""

    def __init__(self, api: WritableServer, stack: ExitStack) -> None:
        self._api = api
        self.admin, self.nobody, self.stranger = (
            stack.enter_context(changing(api, token=token))
            for token in (TOKEN, "nobody", "stranger")
        )

    def set_taints(self, taints: list[dict[str, str]]) -> None:
        self._api.set_taints("a1", taints)

    def budget(self, name: str, app: str, **status: int) -> None:
        budget = {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default", "generation": 1},
            "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": app}}},
            "status": {"observedGeneration": 1, "expectedPods": 1, **status},
        }
        self._api.add(budget)

    def allowed(self, name: str) -> int:
        found: Any = self._api.find("poddisruptionbudgets", name, "default")
        return int(found["status"]["disruptionsAllowed"])


@contextmanager
def simulated_stage() -> Iterator[SimulatedStage]:
    api = WritableServer(
        clock=RealClock(),  # type: ignore[arg-type]
        tokens={TOKEN, "nobody"},
        powerless={"nobody"},
        exit_after_seconds=60,
        counts_budgets=False,
    )
    api.add(clusters.node("a1"))
    for name in PODS:
        pod = clusters.pod(name, "a1", "default", labels={"app": name})
        pod["spec"]["terminationGracePeriodSeconds"] = 5
        api.add(pod)
    with ExitStack() as stack:
        stack.enter_context(api.serve())
        yield SimulatedStage(api, stack)
