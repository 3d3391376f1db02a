"""From events to mutations, losses and a fingerprint."""

from __future__ import annotations

import json

import pytest
from building.builders import make_event, make_taint, ns
from drawn.drain_worlds import drain
from msgspec.structs import replace
from plans.planned import DRAIN, TAINT, plan_of, small_cluster, with_node, with_pod

from kubectl_evictplan.errors import EXIT_BAD_INPUT, EXIT_DRIFT, InputError, ProblemsError
from kubectl_evictplan.plans.document import Plan
from kubectl_evictplan.plans.fingerprint import (
    fingerprint,
    names_plan,
    plan_text,
    sealed,
    short,
)
from kubectl_evictplan.plans.reading import read_plan
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

CLUSTER = small_cluster()


def told(plan: Plan) -> list[str]:
    return [one.told for one in plan.operations]


def refusal(*events: ScenarioEvent) -> str:
    with pytest.raises(InputError) as error:
        plan_of(CLUSTER, *events)
    return str(error.value)


@pytest.mark.slow
def test_a_drain_cordons_every_node_first_and_then_evicts_node_by_node() -> None:
    plan = plan_of(CLUSTER, drain("b2", "a1", force=True, parallel=2, settle_ns=ns(60)))
    assert told(plan) == [
        "cordon b2",
        "cordon a1",
        "evict default/db-1 from b2",
        "evict default/bare-0 from a1",
        "evict default/db-0 from a1",
        "evict default/web-0 from a1",
        "evict default/web-1 from a1",
    ]
    assert [one.number for one in plan.operations] == [1, 2, 3, 4, 5, 6, 7]
    assert (plan.execution.parallel, plan.execution.settle_seconds) == (2, 60.0)


def test_what_is_so_already_is_not_done_and_a_value_that_is_taken_over_is_named() -> None:
    there = with_node(
        CLUSTER,
        "a1",
        lambda node: replace(node, unschedulable=True, taints=(make_taint("k=old:NoSchedule"),)),
    )
    plan = plan_of(
        there,
        make_event(0, "cordon", ["a1", "a2"]),
        make_event(0, "taint", ["a1"], taint="k=new:NoSchedule"),
        make_event(5, "untaint", ["a1"], taint="k"),
    )
    assert told(plan) == ["cordon a2", "taint a1 k=new:NoSchedule", "untaint a1 k=new:NoSchedule"]
    assert plan.operations[1].replaces.value == "old"
    assert [one.at_seconds for one in plan.operations] == [0.0, 0.0, 5.0]


@pytest.mark.slow
def test_what_nobody_can_carry_out_is_refused_with_what_can_be() -> None:
    assert "kubelet-stop can be predicted but not carried out" in refusal(
        make_event(0, "kubelet-stop", ["a1"])
    )
    assert "--disable-eviction is never carried out" in refusal(drain("a1", disable_eviction=True))
    assert "cannot delete Pods that declare no controller" in refusal(drain("a1", parallel=1))
    late = make_event(10, "taint", ["a2"], taint="k:NoSchedule")
    assert "may come before the drain ahead of it is through" in refusal(DRAIN, late)


def test_what_is_so_already_is_a_plan_without_operations_that_knows_what_was_asked_about() -> None:
    plan = plan_of(CLUSTER, make_event(0, "uncordon", ["a1"]))

    assert plan.operations == ()
    assert [node.name for node in plan.nodes] == ["a1"]
    assert read_plan(plan_text(plan), "plan.json") == plan


def test_losses_are_pods_without_a_controller_and_data_of_emptydir_volumes() -> None:
    scratch = with_pod(CLUSTER, "web-0", lambda pod: replace(pod, empty_dir=True))
    plan = plan_of(scratch, TAINT)
    assert [(loss.kind, loss.pod) for loss in plan.losses] == [
        ("bare-pod", "bare-0"),
        ("empty-dir", "web-0"),
    ]
    assert plan_of(CLUSTER, make_event(0, "cordon", ["a1"])).losses == ()


# -- the file -----------------------------------------------------------------------------------------

PLAN = plan_of(CLUSTER, TAINT)
TEXT = plan_text(PLAN)
FORGED = replace(PLAN, prediction=replace(PLAN.prediction, warnings=()))


def test_a_plan_is_read_back_as_it_was_written_and_written_the_same_again() -> None:
    assert read_plan(TEXT, "plan.json") == PLAN
    assert plan_text(read_plan(TEXT, "plan.json")) == TEXT
    assert plan_text(plan_of(CLUSTER, TAINT)) == TEXT


def test_a_plan_begins_with_what_it_is_and_has_one_fact_to_a_line() -> None:
    lines = TEXT.decode().splitlines()
    assert lines[:3] == ["{", '  "apiVersion": "evictplan.dev/v1alpha1",', '  "kind": "Plan",']
    assert max(line.count('": ') for line in lines) == 1


def test_a_fingerprint_covers_everything_but_itself_and_is_named_by_eight_digits_or_more() -> None:
    assert fingerprint(replace(PLAN, fingerprint="")) == PLAN.fingerprint
    assert fingerprint(replace(PLAN, title="other")) != PLAN.fingerprint
    digits = short(PLAN.fingerprint)
    assert names_plan(digits, PLAN.fingerprint) and names_plan(PLAN.fingerprint, PLAN.fingerprint)
    assert names_plan(digits[:8].upper(), PLAN.fingerprint)
    assert not names_plan(digits[:7], PLAN.fingerprint)
    assert not names_plan("", PLAN.fingerprint)


def _changed(**parts: object) -> bytes:
    return json.dumps({**json.loads(TEXT), **parts}, indent=2).encode()


@pytest.mark.parametrize(
    ("data", "said", "code"),
    [
        (b"", "the file is empty", EXIT_BAD_INPUT),
        (b"kind: Plan", "not a plan: no JSON", EXIT_BAD_INPUT),
        (b"[1]", "not a plan", EXIT_BAD_INPUT),
        (TEXT[:-100], "cut off", EXIT_BAD_INPUT),
        (TEXT[:60], "cut off", EXIT_BAD_INPUT),
        (b"\xff\xfe" + TEXT, "no JSON", EXIT_BAD_INPUT),
        (_changed(kind="Prediction"), "kind must be Plan", EXIT_BAD_INPUT),
        (_changed(apiVersion="evictplan.dev/v9"), "not a plan of this version", EXIT_BAD_INPUT),
        (_changed(surprise=1), "unknown field `surprise`", EXIT_BAD_INPUT),
        (plan_text(sealed(FORGED)), "prediction.fingerprint: it is another", EXIT_BAD_INPUT),
        (plan_text(sealed(replace(PLAN, nodes=()))), "node 'a1' of an operation", EXIT_BAD_INPUT),
        (_changed(operations=[{"action": "format-disk", "number": 1}]), "format-disk", EXIT_BAD_INPUT),
        (_changed(title="\x1b[2Jharmless"), "was changed after it was made", EXIT_DRIFT),
        (TEXT.replace(b'"untilReady": false', b'"untilReady": true', 1), "was changed", EXIT_DRIFT),
        (TEXT.replace(b'"abortIf": []', b'"abortIf": ["evicted > 0"]', 1), "was changed", EXIT_DRIFT),
        (TEXT.replace(b'"pod": "web-0"', b'"pod": "web-9"', 1), "was changed", EXIT_DRIFT),
        (TEXT.replace(b'"title"', b'"title": "shown first",\n  "title"', 1), "holds more", EXIT_DRIFT),
        (json.dumps(json.loads(TEXT), sort_keys=True).encode(), "another program", EXIT_DRIFT),
        (TEXT + b"\n", "spaces or line ends were changed", EXIT_DRIFT),
        (TEXT.replace(b'": ', b'":  ', 1), "spaces or line ends were changed", EXIT_DRIFT),
        (TEXT.replace(b"\n", b"\r\n"), "spaces or line ends were changed", EXIT_DRIFT),
    ],
)  # fmt: skip
def test_a_bad_plan_is_refused_with_one_clear_line(data: bytes, said: str, code: int) -> None:
    with pytest.raises(ProblemsError) as error:
        read_plan(data, "plan.json")
    (problem,) = error.value.problems
    assert said in str(problem)
    assert str(problem).startswith("plan.json: ")
    assert error.value.exit_code == code


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        (replace(PLAN, execution=replace(PLAN.execution, settle_seconds=1e300)), "execution"),
        (replace(PLAN, assume_ready_seconds=(1e300, None)), "assumeReadySeconds"),
        (replace(PLAN, assume_ready_seconds=(9.0, 5.0)), "assumeReadySeconds"),
        (replace(PLAN, created_at="garbage"), "createdAt"),
        (replace(PLAN, snapshot=replace(PLAN.snapshot, taken_at="garbage")), "snapshot.takenAt"),
        (replace(PLAN, scenario={"spec": {"events": "x"}}), "scenario.spec.events"),
        (replace(PLAN, scenario={"spec": {"events": [1]}}), "scenario.spec.events"),
        (replace(PLAN, scenario={"spec": {"events": [{"nodes": [[]]}]}}), "scenario.spec.events"),
        (replace(PLAN, scenario={"spec": "x"}), "scenario.spec.events"),
    ],
)
def test_a_plan_with_values_that_none_of_ours_has_is_refused_with_its_field(
    plan: Plan, field: str
) -> None:
    with pytest.raises(InputError, match=f"plan.json: {field}: ") as error:
        read_plan(plan_text(sealed(plan)), "plan.json")
    assert len(error.value.problems) == 1


@pytest.mark.parametrize(
    ("path", "field"),
    [(("assumeReadySeconds",), "assumeReadySeconds"), (("nodes", 0, "uid"), "uid")],
)
def test_a_plan_without_a_newer_field_is_one_of_another_version(
    path: tuple[str | int, ...], field: str
) -> None:
    tree = json.loads(TEXT)
    *parents, last = path
    place = tree
    for step in parents:
        place = place[step]
    del place[last]
    # As an older version sealed it: over what it had.
    tree["fingerprint"] = "sha256:" + "0" * 64

    with pytest.raises(InputError, match="another version of this program") as error:
        read_plan(json.dumps(tree, indent=2).encode(), "plan.json")
    assert field in str(error.value)


def test_an_unknown_field_deep_inside_the_prediction_is_found() -> None:
    tree = json.loads(TEXT)
    tree["prediction"]["evictions"][0]["surprise"] = 1
    with pytest.raises(ProblemsError):
        read_plan(json.dumps(tree, indent=2).encode(), "plan.json")
