"""The operator's ClusterRole against the requests of whole runs: enough for all of it, and no more."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from live.applying import Carrying, drain_of, drainable_cluster, plan_of
from live.changing import TOKEN, changing
from live.reading import read
from live.test_rbac import rights, rules
from live.writable_server import WritableServer

from kubectl_evictplan.apply.endings import EndCode

Rule = dict[str, Any]
BEYOND_READING = sorted(rights("evictplan-operator") - rights("evictplan-reader"))
NAMED = [("coordination.k8s.io", "leases", verb) for verb in ("get", "update")]
REVIEW = ("authorization.k8s.io", "selfsubjectaccessreviews", "create")


def without(right: tuple[str, str, str]) -> list[Rule]:
    """Return the operator's rules but for one verb of one resource."""
    group, resource, verb = right
    found = copy.deepcopy(rules("evictplan-operator"))
    for rule in found:
        if group in rule["apiGroups"] and resource in rule["resources"]:
            rule["verbs"] = [one for one in rule["verbs"] if one != verb]
    return found


def asked(api: WritableServer) -> set[tuple[str, str, str]]:
    """Return (group, resource, verb) of everything that was asked for, dry runs included."""
    return {(one.group, one.resource, one.verb) for one in api.understood}


def test_the_operators_role_is_enough_to_read_apply_resume_and_take_back(tmp_path: Path) -> None:
    api = drainable_cluster(rules=rules("evictplan-operator"))
    with api.serve(), changing(api) as cluster:
        assert read(api, token=TOKEN).denied == ()
        plan = plan_of(
            cluster,
            drain_of(cluster, "n1", "n2"),
            until_ready=True,
            abort_if=("not-ready-nodes > 3", "unready(shop/ReplicaSet/web) > 6"),
        )
        carrying = Carrying(api, cluster, plan, tmp_path)
        applied = carrying.apply()
        assert applied.ending.code is EndCode.FINISHED, applied.ending
        taken_back = carrying.rollback()
        assert taken_back.ending.code is EndCode.FINISHED, taken_back.ending
    beyond = asked(api) - rights("evictplan-reader")
    public = {("authentication.k8s.io", "selfsubjectreviews", "create"), ("", "version", "get")}
    assert beyond - public - {("", "api", "get")} == {*BEYOND_READING, *NAMED}


@pytest.mark.parametrize("right", [*BEYOND_READING, *NAMED])
def test_every_right_of_the_operator_is_needed_and_missed_before_anything_is_changed(
    right: tuple[str, str, str], tmp_path: Path
) -> None:
    api = drainable_cluster()
    with api.serve(), changing(api) as cluster:
        plan = plan_of(cluster, drain_of(cluster, "n1"))
        api.rules = without(right)
        ended = Carrying(api, cluster, plan, tmp_path).apply()
    if right == REVIEW:
        # Then nobody says what is missing; the run learns it as it goes.
        (access,) = [one for one in ended.state.preflight.checks if one.name == "access"]  # type: ignore[union-attr]
        assert (ended.exit_code, access.verdict) == (0, "unknown")
        return
    assert (ended.ending.code, ended.exit_code) == (EndCode.DENIED, 5)
    group, resource, verb = right
    wanted = f"{verb} {resource}" + (f".{group}" if group else "")
    assert any(wanted in one for one in ended.ending.objects), ended.ending
    assert api.executed == []
