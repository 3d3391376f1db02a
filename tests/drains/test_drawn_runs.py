"""How many runs are drawn to show how drains come about."""

from __future__ import annotations

from typing import Any

import pytest
from building.builders import make_event
from drawn.drain_worlds import CONFIGURATION, READY, App, drain, drained_cluster, drains

from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.windows.drains import runs as drain_runs
from kubectl_evictplan.windows.drains.outcomes import DrainGathered


@pytest.mark.parametrize(("other", "fewer"), [("b1", True), ("a1", False)])
def test_where_nobody_can_come_to_drained_nodes_few_runs_say_what_all_of_them_say(
    other: str, fewer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = drained_cluster(App("free", ["a1", "b1"]), App("web", ["a1", "a1", "b1"], most=1))
    scenario = drains(drain("a1", at=1), make_event(30, "taint", other, taint="own:NoExecute"))
    add, runs = DrainGathered.add, list[int]()

    def noted(gathered: DrainGathered, seed: int, *run: Any) -> None:
        runs.append(seed)
        add(gathered, seed, *run)

    monkeypatch.setattr(DrainGathered, "add", noted)
    some = predict(snapshot, scenario, CONFIGURATION, assume_ready=READY)
    of_some = len(runs)
    monkeypatch.setattr(drain_runs, "_SEEDS_ALONE", 1000)
    every = predict(snapshot, scenario, CONFIGURATION, assume_ready=READY)

    assert (list(some.evictions), some.drains) == (list(every.evictions), every.drains)
    assert (2 * of_some < len(runs) - of_some) == fewer
