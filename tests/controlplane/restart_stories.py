"""A kube-apiserver that restarts in the middle of a run: what the operator sees is that it takes longer."""

from __future__ import annotations

from pathlib import Path

from operator_stage import (
    BUDGET_SAYS_NO,
    Change,
    await_ready,
    evictions,
    node_patches,
    pods_on,
    spec,
)
from plane import ControlPlane

from kubectl_evictplan.errors import EXIT_PARTLY, EXIT_UNKNOWN


def a_server_that_is_restarted_does_not_end_it(plane: ControlPlane, folder: Path) -> None:
    """Killed while a node is changed, ended in order while pods are evicted; nobody goes on by hand."""
    change = Change(plane, folder, ["a1", "b1"])
    before = len(plane.audit())
    running = change.begin("run", faster=1.0)
    change.await_record(b'"kind":"cordon"')
    plane.stop_all()
    plane.start_all()
    change.await_record(BUDGET_SAYS_NO)
    plane.stop_all(grace_seconds=2.0)
    plane.start_all()
    assert running.finished(300) == 0, change.ending()
    assert [spec(plane, name) for name in ("a1", "b1")] == [
        (["theirs", "maintenance"], True),
        (["maintenance"], True),
    ]
    assert pods_on(plane, "a1") == []
    await_ready(plane, 4)
    # What the killed server did last it may not have told.
    granted = evictions(plane)
    assert max(granted.values()) == 1
    assert len(change.evicted() - granted.keys()) <= 1
    assert all(count <= 2 for count in node_patches(plane, before).values())
    assert change.carry("rollback") == 0
    assert [spec(plane, name) for name in ("a1", "b1")] == [(["theirs"], False), ([], False)]


def killed_with_the_server_it_is_resumed(plane: ControlPlane, folder: Path) -> None:
    change = Change(plane, folder, ["a2", "b1"])
    before = len(plane.audit())
    carrier = change.begin("run")
    change.await_record(BUDGET_SAYS_NO)
    plane.stop_all()
    carrier.kill_after(0.2)
    assert change.carry("resume") in (EXIT_PARTLY, EXIT_UNKNOWN)
    assert change.ending() == "unreachable"
    plane.start_all()
    assert change.carry("resume") == 0, change.ending()
    assert [spec(plane, name) for name in ("a2", "b1")] == [(["maintenance"], True)] * 2
    assert pods_on(plane, "a2") == []
    await_ready(plane, 4)
    granted = evictions(plane)
    assert max(granted.values()) == 1
    assert len(change.evicted() - granted.keys()) <= 1
    assert all(count <= 2 for count in node_patches(plane, before).values())
    assert change.carry("rollback") == 0


RESTARTS = (a_server_that_is_restarted_does_not_end_it, killed_with_the_server_it_is_resumed)
