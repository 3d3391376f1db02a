"""What is read of a workload's pod template."""

from __future__ import annotations

from typing import Any

from sources.builders import replica_set


def test_of_a_workloads_template_the_scheduling_gates_are_read(load: Any) -> None:
    gated = replica_set("v")
    gated["spec"]["template"] = {
        "spec": {"schedulingGates": [{"name": "a.b/c"}], "containers": [{"name": "c"}]}
    }
    assert [one.scheduling_gates for one in load(gated, replica_set("w")).workloads] == [
        ("a.b/c",),
        (),
    ]


def test_of_a_workloads_template_the_labels_are_read(load: Any) -> None:
    labelled = replica_set("v")
    labelled["spec"]["template"] = {"metadata": {"labels": {"app": "v", "tier": "web"}}}
    assert [one.template_labels for one in load(labelled, replica_set("w")).workloads] == [
        {"app": "v", "tier": "web"},
        None,
    ]
