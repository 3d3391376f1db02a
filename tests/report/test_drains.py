"""What a report says of drains: how each ends, who holds it up, what kubectl does not dare."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from report.builders import eviction, inputs, kept, prediction, text_of

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import (
    DrainReport,
    ExpectedEnd,
    FailedPod,
    Prediction,
    RefusedPod,
    SkippedPod,
    Sourced,
    WaitingPod,
)

UNMANAGED = "Pods that declare no controller (use --force to override)"


def drain(node: str = "n1", **fields: Any) -> DrainReport:
    """Drained within a minute, unless said otherwise."""
    defaults: dict[str, Any] = {
        "start_seconds": 0.031,
        "start_latest_seconds": 0.44,
        "end_earliest_seconds": 14.02,
        "end_latest_seconds": 22.5,
        "exit_code": 0,
        "end_reason": "drained",
        "refused": (),
        "waiting": (),
        "failed": (),
        "origin": "drain n1",
    }
    return DrainReport(node, **{**defaults, **fields})


def waiting(pod: str, **fields: Any) -> WaitingPod:
    defaults: dict[str, Any] = {
        "budget": "shop/web",
        "from_seconds": 0.05,
        "until_earliest_seconds": 5.05,
        "until_latest_seconds": 12.4,
        "ends": "evicted",
        "certainty": "certain",
    }
    return WaitingPod(pod, **{**defaults, **fields})


def never(node: str = "n1", **fields: Any) -> DrainReport:
    ends = {"end_earliest_seconds": None, "end_latest_seconds": None, "end_reason": "never"}
    return drain(node, **{**ends, "exit_code": None, **fields})


def said(*drains: DrainReport, **fields: Any) -> str:
    """The verdict's sentences in one line."""
    text = text_of(drained(*drains, **fields))
    return " ".join(text.split("\n\n")[0].split())


def drained(*drains: DrainReport, **fields: Any) -> Prediction:
    defaults: dict[str, Any] = {"evictions": (), "kept": (), "cancelled": (), "warnings": ()}
    return prediction(**{**defaults, **fields, "drains": drains})


def table(value: Prediction, title: str, output: str = "table", **options: Any) -> list[list[str]]:
    """The cells of the table of that title."""
    block = next(b for b in text_of(value, output, **options).split("\n\n") if b.startswith(title))
    return [line.split("  ") for line in block.splitlines()[1:]]


def cells(value: Prediction, title: str, output: str = "table") -> list[list[str]]:
    return [[cell.strip() for cell in row if cell.strip()] for row in table(value, title, output)]


# -- the verdict ----------------------------------------------------------------------------------


def test_the_end_and_the_exit_code_of_a_drain_come_first() -> None:
    text = said(drain(), evictions=(eviction(controller="eviction-api", taint=None),))
    assert text.startswith(
        "Node n1 is drained between 22:00:14 and 22:00:23 UTC (+14s .. +22.5s), exit code 0. "
        "1 pod is evicted for certain"
    )


def test_objects_that_are_not_in_the_input_are_not_taken_for_none() -> None:
    unknown = drain(
        exit_code=None,
        end_reason=None,
        end_latest_seconds=None,
        not_in_input=("PodDisruptionBudget", "StorageClass", "Widget"),
        expected=ExpectedEnd(1.0, 31.5, 0, "drained"),
    )
    text = said(unknown)
    assert text.startswith("Node n1 is drained ")
    assert "exit code 0, unless something that is not in the input prevents it." in text
    assert (
        "Not in the input, or not all of them: PodDisruptionBudgets, StorageClasses, Widgets"
        in text
    )
    assert "kubectl get poddisruptionbudgets,storageclasses -A -o json" in text
    assert "not in the input" not in said(drain())


def test_a_node_that_is_drained_although_kubectl_exits_with_an_error_is_told_as_both() -> None:
    assert ", exit code 0. " in said(drain())
    other = "; kubectl exits with code 1 all the same, for another of its nodes. "
    assert other in said(drain(exit_code=1))


def test_a_drain_that_never_ends_names_the_pods_and_the_budget_that_hold_it() -> None:
    held = {"ends": "never", "until_earliest_seconds": None, "until_latest_seconds": None}
    one, two = waiting("shop/web-0", **held), waiting("shop/web-1", **held)
    assert said(never(waiting=(one,))).startswith(
        "The drain of n1 never ends: shop/web-0 waits for budget shop/web."
    )
    assert said(never(waiting=(one, two))).startswith(
        "The drain of n1 never ends: shop/web-0, shop/web-1 wait for budget shop/web."
    )


def test_a_drain_that_is_given_up_says_that_it_is_the_timeout() -> None:
    text = said(
        drain(end_reason="timeout", exit_code=1, waiting=(waiting("shop/web-0", ends="timeout"),))
    )
    assert text.startswith(
        "The drain of n1 is given up between 22:00:14 and 22:00:23 UTC (+14s .. +22.5s) (--timeout), "
        "exit code 1: shop/web-0 waits for budget shop/web."
    )


def test_a_refused_drain_names_each_kind_of_pod_with_the_flag_that_is_missing() -> None:
    refused = (
        RefusedPod("shop/a", "unmanaged", UNMANAGED),
        RefusedPod("shop/b", "unmanaged", UNMANAGED),
        RefusedPod("shop/c", "daemon-set", "..."),
        RefusedPod("shop/d", "local-storage", "..."),
        RefusedPod("shop/e", "daemon-set-not-found", "..."),
    )
    assert said(drain(end_reason="refused", exit_code=1, refused=refused)).startswith(
        "kubectl refuses to drain n1, exit code 1: 2 pods have no controller (shop/a, shop/b; add "
        "--force), 1 pod belongs to a DaemonSet (shop/c; add --ignore-daemonsets), 1 pod uses an emptyDir "
        "(shop/d; add --delete-emptydir-data), 1 pod belongs to a DaemonSet that does not exist (shop/e; "
        "add --force). Nothing is evicted, and the node stays cordoned."
    )


def test_a_pod_with_two_budgets_is_told_as_the_error_that_it_is() -> None:
    failed = (FailedPod("shop/web-0", ("shop/web", "shop/all"), "certain"),)
    assert said(drain(end_reason="error", exit_code=1, failed=failed)).startswith(
        "The drain of n1 ends with an error between 22:00:14 and 22:00:23 UTC (+14s .. +22.5s), exit code "
        "1: shop/web-0 has more than one budget (shop/web and shop/all), which the Eviction API answers "
        "with an error."
    )


def test_one_budget_that_fails_is_a_negative_one() -> None:
    failed = (FailedPod("shop/web-0", ("shop/web",), "possible"),)
    assert (
        ": shop/web-0 may fail: the status of budget shop/web allows fewer than no disruptions, which the "
        "Eviction API answers with an error." in said(drain(end_reason="error", failed=failed))
    )


def test_who_is_in_a_terminating_namespace_waits_for_its_deletion() -> None:
    waits = waiting("shop/web-0", budget="", ends="never", until_latest_seconds=None)
    report = never(waiting=(waits,))
    assert (
        "never ends: shop/web-0 waits for the deletion of namespace shop, in which the Eviction API evicts "
        "nobody." in said(report)
    )
    told = text_of(drained(report), "wide")
    assert "(namespace Terminating)" in told
    assert "Pods that wait for the deletion of their namespace" in told
    assert waits.every_budget == ()


def test_a_drain_that_may_end_or_not_says_so() -> None:
    text = said(drain(end_reason=None, exit_code=None, end_latest_seconds=None))
    assert text.startswith(
        "How the drain of n1 ends depends on timing that nobody can see: at +14.02s or later, perhaps "
        "not within the horizon of 30m0s."
    )
    everything = replace(inputs(), horizon=Sourced("30m0s", "until nothing more can happen"))
    open_end = drain(end_reason=None, exit_code=None, end_latest_seconds=None)
    assert ": at +14.02s or later, perhaps never." in said(open_end, inputs=everything)


def test_a_drain_that_outlasts_the_horizon_is_still_going_on_and_says_what_it_waits_for() -> None:
    beyond = {"end_earliest_seconds": None, "end_latest_seconds": None, "exit_code": None}
    waits = waiting("shop/web-0", ends="horizon", until_latest_seconds=None)
    going_on = drain(end_reason="horizon", waiting=(waits,), **beyond)
    nothing = {**beyond, "start_seconds": None, "start_latest_seconds": None}
    behind = drain("n2", end_reason="horizon", **nothing)
    text = said(going_on, behind)
    assert text.startswith(
        "The drain of n1 is still going on at the horizon of 30m0s: shop/web-0 waits for budget "
        "shop/web. kubectl does not come to n2 within the horizon of 30m0s."
    )
    assert "never" not in text
    assert "evicted are not gone yet" in said(drain(end_reason="horizon", **beyond))
    assert [row[2:5] for row in cells(drained(going_on, behind), "Drains")[1:]] == [
        ["after the horizon", "going on", "none"],
        ["after the horizon", "not begun", "none"],
    ]
    [_, row] = cells(drained(going_on), "Pods that wait")
    assert row[-2:] == ["after the horizon", "still waits"]


def test_pods_that_kubectl_leaves_alone_are_counted_and_named_by_its_filters() -> None:
    left = drain(
        skipped=(
            SkippedPod("kube-system/agent-1", "daemon-set"),
            SkippedPod("kube-system/agent-2", "daemon-set"),
            SkippedPod("kube-system/etcd-n1", "mirror-pod"),
        )
    )
    assert (
        "On n1, kubectl leaves alone 2 DaemonSet-managed pods (kube-system/agent-1, "
        "kube-system/agent-2; ignored: --ignore-daemonsets), 1 mirror pod (kube-system/etcd-n1;"
    ) in said(left)
    header, row = cells(drained(left), "Drains")
    assert dict(zip(header, row, strict=True))["DAEMON-SET"] == "2"
    assert dict(zip(header, row, strict=True))["LEFT-ALONE"] == "1"
    assert [row[1:3] for row in cells(drained(left), "Pods that kubectl leaves", "wide")[1:]] == [
        ["kube-system/agent-1", "daemon-set"],
        ["kube-system/agent-2", "daemon-set"],
        ["kube-system/etcd-n1", "mirror-pod"],
    ]


def test_a_node_behind_one_that_never_ends_is_never_reached() -> None:
    behind = never("n2", start_seconds=None, start_latest_seconds=None)
    assert "kubectl never comes to n2: it is not through with a node before it." in said(
        never(), behind
    )


def test_a_command_that_never_ends_has_no_exit_code_for_any_of_its_nodes() -> None:
    value = drained(drain(exit_code=None), never("n2"), drain("n3", exit_code=None, origin="other"))
    _, *rows = cells(value, "Drains")
    assert [row[4] for row in rows] == ["none", "none", "differs"]


@pytest.mark.parametrize(
    ("certainty", "verb"), [("certain", "wait for"), ("possible", "may wait for")]
)
def test_pods_that_wait_until_their_budget_lets_them_go_are_named(
    certainty: str, verb: str
) -> None:
    waits = tuple(waiting(f"shop/web-{n}", certainty=certainty) for n in range(4))
    assert (
        f"On n1, shop/web-0, shop/web-1, shop/web-2 and 1 more {verb} budget shop/web, until +5s .. "
        "+12.4s." in said(drain(waiting=waits))
    )


def test_many_nodes_that_are_drained_are_told_in_one_sentence() -> None:
    nodes = [
        drain(f"n{n}", end_earliest_seconds=10.0 * n, end_latest_seconds=10.0 * n + 5)
        for n in range(1, 9)
    ]
    text = said(*nodes)
    assert "8 nodes are drained: the first" in text
    assert text.index("+10s .. +15s") < text.index("+1m20s .. +1m25s")
    assert "exit code 0." in text
    assert "Node n1" not in text


def test_of_many_nodes_those_that_do_not_end_well_come_first() -> None:
    stuck = [never(f"x{n}") for n in range(7)]
    text = said(*(drain(f"n{n}") for n in range(8)), *stuck)
    assert text.index("The drain of x0 never ends") < text.index("8 other nodes are drained")
    assert "And 2 more drained nodes: 2 never." in text


def test_pods_that_stay_are_counted_by_why() -> None:
    codes = ("drain-skips", "drain-refused", "budget-waits", "drain-not-reached")
    rows = tuple(kept(code, code=code) for code in codes)
    text = said(drain(), kept=rows)
    for words in (
        "1 that kubectl leaves alone",
        "1 because kubectl refuses to drain their node",
        "1 that a budget does not let go",
        "1 whose node kubectl does not come to",
    ):
        assert words in text


def test_warnings_that_the_verdict_tells_are_not_told_again() -> None:
    warning = Warning("drain-never-ends", "the drain of n1 never ends", ("shop/web-0",))
    value = drained(never(), warnings=(warning,))
    assert "drain-never-ends" not in text_of(value)
    assert "drain-never-ends" in text_of(value, "wide")


# -- tables ---------------------------------------------------------------------------------------


def test_each_node_has_a_row_with_its_end_and_exit_code() -> None:
    assert cells(drained(drain(), never("n2", origin="drain n2")), "Drains") == [
        ["NODE", "STARTS", "ENDS", "RESULT", "EXIT"],
        ["n1", "+0s .. +500ms", "+14s .. +22.5s", "drained", "0"],
        ["n2", "+0s .. +500ms", "never", "never", "none"],
    ]


def test_numbers_of_waiting_and_refused_pods_stand_there_if_there_are_any() -> None:
    refused = drain(
        "n2",
        end_reason="refused",
        exit_code=1,
        refused=(RefusedPod("a/b", "unmanaged", UNMANAGED),),
    )
    header, *rows = cells(drained(drain(waiting=(waiting("a/c"),)), refused), "Drains")
    assert header[-2:] == ["WAITING", "REFUSED"]
    assert [row[-2:] for row in rows] == [["1", "0"], ["0", "1"]]


def test_several_commands_are_told_apart_when_everything_is_told() -> None:
    value = drained(drain(origin="s.yaml:7"), drain("n2", origin="s.yaml:8"))
    assert [row[-1] for row in cells(value, "Drains", "wide")] == [
        "COMMAND",
        "s.yaml:7",
        "s.yaml:8",
    ]


def test_every_pod_that_waits_has_a_row() -> None:
    value = drained(
        drain(waiting=(waiting("shop/web-0"), waiting("shop/web-1", certainty="possible")))
    )
    assert cells(value, "Pods that wait") == [
        ["POD", "NODE", "BUDGET", "FROM", "UNTIL", "THEN"],
        ["shop/web-0", "n1", "shop/web", "+50ms", "+5s .. +12.4s", "evicted"],
        ["shop/web-1", "n1", "shop/web", "+50ms", "+5s .. +12.4s", "evicted (possibly)"],
    ]


def test_of_many_waiting_pods_the_first_are_shown_and_wide_shows_all() -> None:
    value = drained(drain(waiting=tuple(waiting(f"shop/web-{n}") for n in range(50))))
    short, whole = (cells(value, "Pods that wait", output) for output in ("table", "wide"))
    assert len(short) == 1 + 40 + 1
    assert short[-1] == ["and 10 more pods (-o wide has all)."]
    assert len(whole) == 1 + 50


def test_wide_has_kubectls_words_for_every_refused_pod() -> None:
    refused = drain(end_reason="refused", refused=(RefusedPod("shop/a", "unmanaged", UNMANAGED),))
    assert cells(drained(refused), "Pods that kubectl", "wide")[1] == [
        "n1",
        "shop/a",
        "unmanaged",
        f"cannot delete {UNMANAGED}",
    ]
    assert "cannot delete" not in text_of(drained(refused))


@pytest.mark.parametrize(
    ("controller", "why"),
    [
        ("eviction-api", "asks the Eviction API, which lets a pod go when its budget does"),
        ("kubectl-delete", "deletes it, whatever its budget says"),
    ],
)
def test_it_is_said_who_deletes_the_pods_of_a_drain(controller: str, why: str) -> None:
    value = drained(drain(), evictions=(eviction(controller=controller, taint=None),))
    assert f"WHY {controller}: kubectl drain" in text_of(value)
    assert why in text_of(value)


# -- one pod --------------------------------------------------------------------------------------


def test_the_story_of_a_pod_tells_what_it_waits_for() -> None:
    value = drained(drain(waiting=(waiting("default/web-0"),)), evictions=(eviction(),))
    text = " ".join(text_of(value, explain="default/web-0").split())
    assert "It waits for budget shop/web from +50ms on, until +5.05s .. +12.4s." in text
    assert "waits for budget" not in text_of(value, explain="default/other")


def test_the_story_of_a_pod_tells_which_flag_is_missing() -> None:
    refused = drain(
        end_reason="refused", refused=(RefusedPod("default/a", "unmanaged", UNMANAGED),)
    )
    text = text_of(drained(refused), explain="default/a")
    assert "kubectl refuses to drain n1 for its sake: add --force." in text


def test_data_of_one_pod_hold_what_it_waits_for_alone() -> None:
    value = drained(drain(waiting=(waiting("default/web-0"), waiting("default/web-1"))))
    text = text_of(value, "json", explain="default/web-0")
    assert "default/web-0" in text
    assert "default/web-1" not in text


def test_all_ways_in_which_a_drain_may_end_are_told() -> None:
    either = drain(
        exit_code=None, end_reason=None, end_reasons=("drained", "error", "never", "timeout")
    )
    assert "nobody can see: drained, with an error or given up (--timeout), " in said(either)
    assert "with an error" not in said(replace(either, end_reasons=("drained", "never")))


def test_a_drain_that_ends_in_one_way_or_never_is_said_to_end_so() -> None:
    one = drain(
        exit_code=None, end_reason=None, end_latest_seconds=None, end_reasons=("drained", "never")
    )
    assert said(one).startswith("Node n1 is drained at +14.02s or later, perhaps not within")
    assert "depending on timing that nobody can see." in said(one)


def test_all_ends_that_a_wait_may_have_are_told() -> None:
    wait = replace(
        waiting("shop/web-0", ends=None), possible_ends=("error", "evicted"), certainty="possible"
    )
    assert "error or evicted (possibly)" in text_of(drained(drain(waiting=(wait,))))


def test_what_drains_rest_on_besides_timing_is_said() -> None:
    asked = (Warning("drain-webhook-not-evaluated", "webhook w is asked", ("shop/web-0",)),)
    either = drain(exit_code=None, end_reason=None, end_reasons=("drained", "error"))
    text = said(either, warnings=asked)
    assert "nobody can see and on what admission webhooks answer: drained or with an error" in text
