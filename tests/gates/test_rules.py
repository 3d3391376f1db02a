"""--fail-on: what a rule means, when it fails, and what people are told about a rule that says nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from building.builders import make_pod, make_snapshot
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from report.builders import eviction, prediction

from kubectl_evictplan.gates.document import GateResult
from kubectl_evictplan.gates.figures import FIGURES, Names, check, known_codes
from kubectl_evictplan.gates.judge import Gate, judge
from kubectl_evictplan.gates.language import parse
from kubectl_evictplan.gates.policy import named_objects
from kubectl_evictplan.kube.objects import OwnerReference, Warning, Workload
from kubectl_evictplan.prediction.document import Prediction, Window, WorkloadReport
from kubectl_evictplan.prediction.impact_document import (
    BudgetImpact,
    Count,
    Finding,
    Impact,
    Instant,
    ReadyAfter,
    ServiceImpact,
    Spell,
    WorkloadImpact,
)
from kubectl_evictplan.prediction.warnings.input_codes import INPUT_CODES
from kubectl_evictplan.prediction.warnings.registry import CODES

REPOSITORY = Path(__file__).resolve().parents[2]
NOW = Instant(0.0, 0.0)
NAMES = Names(
    workloads=frozenset(("shop/web", "shop/api", "shop/idle", "ops/agent")),
    services=frozenset(("shop/front",)),
    budgets=frozenset(("shop/quiet",)),
)


def spell(least: float, most: float | None, certainty: str = "certain") -> Spell:
    return Spell(certainty, NOW, NOW, least, most)


def service(name: str, *spells: Spell) -> ServiceImpact:
    some = Count(0, 1)
    return ServiceImpact(
        "shop", name, "selector", (), 2, some, some, (), (), spells, spell(0.0, 40.0), NOW, ()
    )


def workload(name: str, zero: tuple[Spell, ...], fewer: tuple[Spell, ...] = ()) -> WorkloadImpact:
    ready = ReadyAfter(30.0, 30.0, "default")
    return WorkloadImpact(
        "shop", f"Deployment/{name}", 2, False, 2, Count(0, 1), fewer, zero, NOW, (), (), ready, ()
    )


def budget(name: str, *broken: Spell) -> BudgetImpact:
    one = Count(1, 1)
    return BudgetImpact("shop", name, (), 2, 2, one, broken, one, ("never-asked",), (), ())


def finding(code: str, severity: str, certainty: str = "certain") -> Finding:
    return Finding(code, severity, certainty, ("Pod/shop/web-1",), "s", "w", "r")


def impact(**fields: Any) -> Impact:
    names = (
        "services",
        "workloads",
        "budgets",
        "volumes",
        "not_coming_back",
        "quorums",
        "findings",
    )
    return Impact(**{**dict.fromkeys(names, ()), **fields})


def world(**fields: Any) -> Prediction:
    """Two pods of shop/web go for certain, one of shop/api may."""
    return prediction(
        evictions=(
            eviction("web-1", 100.0, namespace="shop", owner="ReplicaSet/web-1"),
            eviction(
                "web-2",
                100.0,
                namespace="shop",
                owner="ReplicaSet/web-1",
                earliest_seconds=90.0,
                latest_seconds=130.0,
                gone=Window(90.0, None, "silent"),
            ),
            eviction(
                "api-1", 200.0, namespace="shop", owner="StatefulSet/api", certainty="possible"
            ),
        ),
        workloads=(
            WorkloadReport("shop", "Deployment/web", ("ReplicaSet/web-1",), 4),
            WorkloadReport("shop", "StatefulSet/api", ("StatefulSet/api",), 1),
        ),
        **fields,
    )


def asked(text: str, found: Prediction | None = None) -> GateResult:
    [result] = judge([Gate(text, parse(text, check), "--fail-on")], found or world(), NAMES)
    return result


@pytest.mark.parametrize(
    ("rule", "failed", "certain"),
    [
        ("evictions > 1", True, True),
        ("evictions > 2", True, False),
        ("evictions > 3", False, False),
        ("evictions >= 3", True, False),
        ("evictions < 3", True, False),
        ("evictions < 2", False, False),
        ("evictions <= 2", True, False),
        ("evictions == 2", True, False),
        ("evictions == 4", False, False),
        ("evictions != 4", True, True),
        ("evictions != 2", True, False),
        ("evictions", True, True),
        ("evictions(shop) > 1", True, True),
        ("evictions(shop/web) == 2", True, True),
        ("evictions(shop/api)", True, False),
        ("evictions(shop/idle)", False, False),
        ("evictions(ops)", False, False),
        ("stuck == 1", True, True),
        ("last-eviction > 3m", True, False),
        ("last-eviction > 4m", False, False),
        ("last-eviction(shop/web) >= 100s", True, True),
        ("not evictions > 2", True, False),
        ("not evictions > 1", False, False),
        ("evictions > 1 and stuck > 1", False, False),
        ("evictions > 3 or stuck", True, True),
        ("evictions > 3 and stuck or stuck", True, True),
        ("evictions > 3 and (stuck or stuck)", False, False),
    ],
)
def test_a_rule_fails_where_it_may_hold_and_is_certain_where_it_must(
    rule: str, failed: bool, certain: bool
) -> None:
    result = asked(rule)

    assert (result.failed, result.certain) == (failed, certain)


@pytest.mark.parametrize(
    ("rule", "numbers"),
    [
        ("evictions > 20", "evictions is 2 to 3"),
        ("last-eviction(shop/web) > 1h", "last-eviction(shop/web) is 1m40s to 2m10s"),
        ("stuck > 5 and evictions(shop/api) > 5", "stuck is 1; evictions(shop/api) is 0 to 1"),
    ],
)
def test_every_figure_of_a_rule_is_told_with_its_numbers(rule: str, numbers: str) -> None:
    assert "; ".join(asked(rule).numbers) == numbers


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("pdb-broken", "what the change costs was not evaluated"),
        ("severity >= critical", "what the change costs was not evaluated"),
        ("unavailable(shop/web) > 1h", "what the change costs was not evaluated"),
        ("evictions(shop/wbe) > 3", "no workload shop/wbe is in the input"),
        ("evictions(shop/front) > 3", "no workload shop/front is in the input"),
        ("evictions(shp) > 3", "no namespace shp with a workload is in the input"),
    ],
)
def test_what_is_not_known_fails_whatever_the_limit_and_says_why(rule: str, why: str) -> None:
    for text in (rule, f"not ({rule})"):
        result = asked(text)
        assert result.failed
        assert not result.certain
        assert [one.partition(": ")[2] for one in result.unknown] == [why]


COST = impact(
    services=(service("web", spell(10, 40), spell(5, 5)),),
    workloads=(workload("web", (spell(0, 70, "possible"),), (spell(60, None),)),),
    budgets=(budget("web", spell(1, 2)), budget("api"), budget("x", spell(0, 3, "possible"))),
    findings=(finding("single-replica", "high", "possible"), finding("black-hole", "medium")),
)


@pytest.mark.parametrize(
    ("rule", "failed", "numbers"),
    [
        ("unavailable(shop/web) > 1m", True, "unavailable(shop/web) is 15s to 1m10s"),
        ("unavailable(shop/web) > 70s", False, "unavailable(shop/web) is 15s to 1m10s"),
        ("unavailable > 14s", True, "unavailable is 15s to 1m10s"),
        ("unavailable(shop/idle)", False, "unavailable(shop/idle) is 0s"),
        (
            "degraded(shop/web) > 24h",
            True,
            "degraded(shop/web) is 1m0s to without end within reach",
        ),
        ("undetected > 30s", True, "undetected is 0s to 40s"),
        ("pdb-broken", True, "pdb-broken is 1 to 2: shop/web, shop/x"),
        ("pdb-broken(shop/api)", False, "pdb-broken(shop/api) is 0"),
        ("severity >= high", True, "severity is medium to high"),
        ("severity >= critical", False, "severity is medium to high"),
        ("findings > 1", True, "findings is 2"),
        ("quorum-lost", False, "quorum-lost is 0"),
        ("not-coming-back", False, "not-coming-back is 0"),
        ("not-evaluated", False, "not-evaluated is 0"),
    ],
)
def test_a_rule_can_ask_what_the_change_costs(rule: str, failed: bool, numbers: str) -> None:
    result = asked(rule, world(impact=COST))

    assert (result.failed, *result.numbers) == (failed, numbers)


@pytest.mark.parametrize("name", [name for name in FIGURES if "/" in FIGURES[name].argument])
def test_every_figure_of_an_object_fails_where_the_input_has_no_such_object(name: str) -> None:
    result = asked(f"{name}(shop/typo)", world(impact=COST))

    assert result.failed
    assert result.unknown[0].startswith(f"{name}(shop/typo) is not known: no ")


def test_a_budget_that_nothing_happens_to_is_not_broken() -> None:
    assert not asked("pdb-broken(shop/quiet)", world(impact=COST)).failed


def test_a_rule_names_what_people_know_a_workload_by() -> None:
    deployment = OwnerReference("Deployment", "web", controller=True)
    named = named_objects(
        replace(
            make_snapshot(
                ("a1",),
                (
                    make_pod("web-x-1", "a1", namespace="shop", owner="ReplicaSet/web-x"),
                    make_pod("tool", "a1", namespace="shop"),
                ),
            ),
            workloads=(
                Workload("Deployment", "shop", "web"),
                Workload("ReplicaSet", "shop", "web-x", owner_references=(deployment,)),
            ),
        )
    )

    assert sorted(named.workloads) == ["shop/tool", "shop/web"]


def test_a_bare_pod_is_unavailable_only_where_it_is_named() -> None:
    pod = msgspec.structs.replace(workload("tool", (spell(9, None),)), workload="Pod/tool")
    found = world(impact=impact(workloads=(pod,)))

    assert not asked("unavailable", found).failed
    assert asked("unavailable(shop/tool) > 24h", found).failed


def test_a_gate_names_the_first_budgets_and_holds_all() -> None:
    broken = impact(budgets=[budget(f"b{n:02}", spell(1, 1)) for n in range(12)])
    result = asked("pdb-broken > 3 or pdb-broken > 4", world(impact=broken))
    names = [f"shop/b{n:02}" for n in range(10)]
    assert result.numbers == (f"pdb-broken is 12: {', '.join(names)} and 2 more",)
    assert result.objects[-1] == "PodDisruptionBudget/shop/b11"
    assert len(result.objects) == 12


def test_budgets_that_may_not_be_read_may_all_be_broken() -> None:
    unread = (Warning("budget-not-readable", "m"),)

    assert not asked("pdb-broken", world(impact=impact())).failed
    assert asked("pdb-broken", world(impact=impact(), warnings=unread)).failed


def test_the_code_of_a_warning_is_a_figure_of_how_many_objects_it_names() -> None:
    warned = world(
        warnings=(Warning("bare-pod-lost", "m", ("a/b", "a/c")), Warning("empty-file", "m"))
    )

    assert asked("bare-pod-lost > 1", warned).failed
    assert not asked("bare-pod-lost > 2", warned).failed
    assert asked("empty-file", warned).failed
    assert not asked("bare-pod-lost").failed


def test_an_input_that_is_not_the_whole_cluster_counts_as_not_evaluated() -> None:
    warned = world(impact=impact(), warnings=(Warning("single-namespace", "m"),))

    assert asked("not-evaluated", warned).failed
    assert asked("not-evaluated == 1", world()).certain


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("", "the rule is empty"),
        ("evictions >", "it ends too soon: expected a value"),
        ("> 3", "'>' (character 1) does not belong there: expected a figure"),
        ("evictions > 3 4", "'4' (character 15) does not belong there"),
        ("evictions = 3", "'=' is no comparison: write =="),
        ("evictions => 3", "'=>' is no comparison: write >="),
        ("evictons > 3", "there is no figure evictons; did you mean 'evictions'?"),
        ("evictions > many", "'many' is no number of things, such as 20"),
        ("evictions > 3s", "'3s' is no number of things, such as 20"),
        ("unavailable > 30", "'30' is no duration, such as 30s or 5m"),
        ("severity", "severity needs a limit, such as severity >= high"),
        ("severity > bad", "'bad' is no severity: none, info, low, medium, high, critical"),
        ("findings(x) > 3", "findings takes nothing in brackets"),
        ("evictions > 3 or", "it ends too soon: expected a figure"),
        ("(evictions > 3", "it ends too soon: expected )"),
        ("__import__(1)", "'__import__(1)' (character 1) does not belong there"),
        ("x" * 1001, "a rule has at most 1000 characters"),
    ],
)
def test_a_rule_that_says_nothing_is_answered_in_one_line(rule: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        parse(rule, check)
    assert "\n" not in str(caught.value)


@given(st.one_of(st.text(max_size=60), st.text("evictions(shop/)>=< 3andornot", max_size=60)))
def test_no_text_at_all_is_more_than_a_rule_or_a_mistake(text: str) -> None:
    try:
        rule = parse(text, check)
    except ValueError as error:
        assert str(error)
    else:
        judge([Gate(text, rule, "")], world(), NAMES)


def test_every_code_that_is_documented_is_a_figure() -> None:
    page = (REPOSITORY / "docs/warnings.md").read_text("utf-8")
    # Some rows have several codes.
    cells = re.findall(r"^\| (`[^|]+) \|", page, flags=re.MULTILINE)
    documented = set(re.findall(r"`([a-z0-9-]+)`", " ".join(cells)))

    assert documented <= known_codes()
    assert INPUT_CODES - documented == set()
    assert not INPUT_CODES & CODES.keys()
    assert not known_codes() & FIGURES.keys()


def test_every_figure_is_documented() -> None:
    page = (REPOSITORY / "docs/gates.md").read_text("utf-8").partition("## In a pipeline")[0]

    assert re.findall(r"^\| `([a-z-]+)", page, flags=re.MULTILINE) == list(FIGURES)
