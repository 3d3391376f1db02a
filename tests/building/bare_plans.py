"""Plans with nothing in them but operations: what a run does with them is what is tested."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubectl_evictplan.plans.document import (
    AnyOperation,
    ClusterIdentity,
    Execution,
    NodeBefore,
    Plan,
    PodBefore,
    SnapshotReference,
)
from kubectl_evictplan.prediction.document import Inputs, Prediction, Sourced

_SOURCED = Sourced("", "given")
NO_PREDICTION = Prediction(
    inputs=Inputs(
        release=_SOURCED,
        flags={},
        start=_SOURCED,
        horizon=_SOURCED,
        monitor_phase=_SOURCED,
        events=(),
        source_digest="",
        nodes=0,
        pods=0,
        namespaces=0,
        ignored_kinds={},
        tool_version="test",
    ),
    evictions=(),
    kept=(),
    cancelled=(),
    nodes=(),
    zones=(),
    drains=(),
    workloads=(),
    joint=(),
    warnings=(),
)


def bare_plan(
    cluster: ClusterIdentity,
    operations: Iterable[AnyOperation],
    nodes: Iterable[NodeBefore],
    pods: Iterable[PodBefore],
    created_at: str,
    **execution: Any,
) -> Plan:
    """Return a plan of these operations, made at that time, that predicts and loses nothing."""
    return Plan(
        fingerprint="sha256:plan",
        created_at=created_at,
        tool_version="test",
        title="a test",
        cluster=cluster,
        snapshot=SnapshotReference("sha256:snapshot", created_at),
        execution=Execution(**execution),
        operations=tuple(operations),
        losses=(),
        nodes=tuple(nodes),
        pods=tuple(pods),
        scenario={},
        prediction=NO_PREDICTION,
    )
