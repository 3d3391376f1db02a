"""Hand-built predictions for the reports: short to write, complete in every field."""

from __future__ import annotations

import itertools
import re
from typing import Any

from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import (
    Because,
    Cancelled,
    Coverage,
    EventSummary,
    Eviction,
    Inputs,
    Joint,
    Kept,
    NodeChange,
    NodeReport,
    OutcomeWindow,
    Prediction,
    Sourced,
    TaintReference,
    TolerationReference,
    UnknownExplored,
    Window,
    WorkloadReport,
    ZoneReport,
    ZoneState,
)
from kubectl_evictplan.report import render
from kubectl_evictplan.sweeps.document import FailureRow


def text_of(value: Prediction, output: str = "table", **options: Any) -> str:
    return "".join(render(value, output, **options))


def table_of(value: Prediction, output: str = "table", **options: Any) -> list[list[str]]:
    """The cells of the first table, headers first, where gaps of two blanks part them."""
    lines = text_of(value, output, **options).splitlines()
    # A wrapped sentence goes on with blanks, and may be a time: "  2026-11-21 17:08:10 UTC".
    start = next(at for at, line in enumerate(lines) if re.match(r"[A-Z-]+  ", line))
    rows = itertools.takewhile(lambda line: line and not line.startswith("WHY "), lines[start:])
    return [re.split(r" {2,}", line) for line in rows]


def failure_row(**fields: Any) -> FailureRow:
    """A failure of one node that costs nothing but what is given."""
    row = FailureRow(
        *(1, "node", "n1", ("z",), ("n1",), 0, 0, 0, 0, None, None, None, None, None, None, 0),
        *((), (), (), (), (), (), ()),
    )
    return replace(row, **fields)


UNREACHABLE = TaintReference("node.kubernetes.io/unreachable", "NoExecute")
MAINTENANCE = TaintReference("maintenance", "NoExecute", "true")


def inputs(**fields: Any) -> Inputs:
    defaults: dict[str, Any] = {
        "release": Sourced("1.29.6", "detected"),
        "flags": {
            "node-monitor-period": Sourced("5s", "default of release"),
            "node-monitor-grace-period": Sourced("6s", "given", "the command line"),
            "node-eviction-rate": Sourced("0.25", "given"),
        },
        "start": Sourced("2026-11-20T22:00:00Z", "given"),
        "horizon": Sourced("30m0s", "given"),
        "monitor_phase": Sourced(None, "unknown on a real cluster"),
        "events": (EventSummary(3.0, "kubelet-stop", ("n1",), origin="s.yaml:3"),),
        "source_digest": "sha256:0123",
        "nodes": 3,
        "pods": 12,
        "namespaces": 2,
        "ignored_kinds": {"Service": 2, "ConfigMap": 1},
        "tool_version": "0.1.0",
        "api_server_flags": {
            "default-unreachable-toleration-seconds": Sourced(
                30, "detected", "Pod kube-system/kube-apiserver-m1"
            )
        },
        "provider": Sourced("EKS", "detected", "kubelet version -eks- (3 nodes)"),
        "coverage": Coverage(
            7,
            2,
            1,
            ("n1",),
            ("n2",),
            (UnknownExplored("cost of ticks", "how long each tick takes", "partly"),),
        ),
        "leader_since": Sourced("2026-11-20T20:00:00Z", "detected", "Lease kube-system/x"),
    }
    return Inputs(**{**defaults, **fields})


def eviction(pod: str = "web-0", at: float = 350.5, **fields: Any) -> Eviction:
    """Evicted at ``at`` for certain, gone half a minute later, unless said otherwise."""
    defaults: dict[str, Any] = {
        "namespace": "default",
        "pod": pod,
        "uid": f"uid-{pod}",
        "node": "n1",
        "certainty": "certain",
        "offset_seconds": at,
        "earliest_seconds": at,
        "latest_seconds": at,
        "time": "2026-11-20T22:05:50.5Z",
        "controller": "taint-eviction",
        "taint": UNREACHABLE,
        "toleration": TolerationReference(1, 300),
        "gone": Window(at, at + 30),
        "owner": "ReplicaSet/web-7d9f",
        "because": (
            Because(3.0, "the kubelet falls silent", "node/n1", "scenario"),
            Because(47.2, "Ready becomes Unknown", "node/n1", "monitorNodeHealth"),
            Because(50.5, "the timer starts: 300s", f"pod/default/{pod}", "processPodOnNode"),
            Because(at, "the timer fires", f"pod/default/{pod}", "deletePodHandler"),
        ),
    }
    values = {**defaults, **fields}
    hull = OutcomeWindow(values["earliest_seconds"], values["latest_seconds"])
    return Eviction(**{"windows": (hull,), **values})


def kept(pod: str = "ds-1", **fields: Any) -> Kept:
    defaults: dict[str, Any] = {
        "namespace": "kube-system",
        "pod": pod,
        "uid": f"uid-{pod}",
        "node": "n1",
        "code": "tolerated-forever",
        "reason": "every NoExecute taint of the node is tolerated without limit",
        "owner": "DaemonSet/ds",
    }
    return Kept(**{**defaults, **fields})


def cancelled(pod: str = "web-9", **fields: Any) -> Cancelled:
    defaults: dict[str, Any] = {
        "namespace": "default",
        "pod": pod,
        "uid": f"uid-{pod}",
        "node": "n1",
        "certainty": "possible",
        "started": Window(50.2, 50.2),
        "cancelled": Window(60.25, 61.75),
        "reason": "the node became Ready and its last NoExecute taint was removed",
    }
    return Cancelled(**{**defaults, **fields})


def node_report(node: str = "n1", **fields: Any) -> NodeReport:
    defaults: dict[str, Any] = {
        "node": node,
        "zone": "eu/1a",
        "ready_at_start": "True",
        "taints_at_start": (),
        "changes": (
            NodeChange("ready", "Unknown", "certain", 45.1, 42.0, 47.2, "node-lifecycle"),
            NodeChange(
                "taint-added",
                "node.kubernetes.io/unreachable:NoExecute",
                "possible",
                None,
                42.1,
                57.3,
                "node-lifecycle",
            ),
        ),
    }
    return NodeReport(**{**defaults, **fields})


def zone_report(zone: str = "eu/1a", **fields: Any) -> ZoneReport:
    defaults: dict[str, Any] = {
        "states": (
            ZoneState("Normal", "certain", 0.0, 0.0, 0.0, 0.1, 3, 0),
            ZoneState("PartialDisruption", "certain", 45.0, 42.0, 47.0, 0.0, 1, 2),
        )
    }
    return ZoneReport(zone, **{**defaults, **fields})


def prediction(**fields: Any) -> Prediction:
    """Nothing happens, unless said otherwise."""
    defaults: dict[str, Any] = {
        "inputs": inputs(),
        "evictions": (),
        "kept": (),
        "cancelled": (),
        "nodes": (),
        "zones": (),
        "drains": (),
        "workloads": (),
        "joint": (),
        "warnings": (),
    }
    return Prediction(**{**defaults, **fields})


def one_of_each() -> Prediction:
    """A prediction that fills every section of every format."""
    return prediction(
        evictions=(
            eviction(),
            eviction(
                "db-0",
                351.2,
                certainty="possible",
                earliest_seconds=349.04,
                latest_seconds=356.31,
                gone=Window(349.04, None, "the kubelet of n1 cannot confirm the end"),
                owner="StatefulSet/db",
            ),
        ),
        kept=(kept(), kept("ds-2"), kept("job-1", code="no-timer", reason="nothing to do")),
        cancelled=(cancelled(),),
        nodes=(node_report(),),
        zones=(zone_report(),),
        drains=(),
        workloads=(
            WorkloadReport("default", "Deployment/web", ("ReplicaSet/web-7d9f",), 3),
            WorkloadReport("default", "StatefulSet/db", ("StatefulSet/db",), 1),
        ),
        joint=(Joint("zone/eu/1a", "pods evicted", 1, 1, 2, 1800.0),),
        warnings=(
            Warning(
                "disruption-budget-bypassed",
                "taint eviction deletes pods without asking their PodDisruptionBudget",
                ("default/web-0", "default/web-1", "default/web-2", "default/web-3"),
            ),
            Warning("missing-lease", "the node has no Lease", ("n2",)),
        ),
    )
