"""The verdict says in a sentence each which services nobody answers for and which budgets are broken."""

from __future__ import annotations

from msgspec.structs import replace
from report.builders import prediction, text_of

from kubectl_evictplan.prediction.impact_document import (
    BudgetImpact,
    Count,
    Impact,
    Instant,
    QuorumImpact,
    ReplacementFit,
    ServiceImpact,
    Spell,
)
from kubectl_evictplan.report.costs import costs

NOW = Instant(0.0, 0.0)
NOTHING = Impact((), (), (), (), (), (), ())


def spell(most: float | None, certainty: str = "certain", least: float | None = 0.0) -> Spell:
    return Spell(certainty, NOW, NOW, least, most)


def service(name: str, *spells: Spell, source: str = "selector") -> ServiceImpact:
    some = Count(0, 0)
    return ServiceImpact("shop", name, source, (), 2, some, some, (), (), spells, None, NOW, ())


def budget(name: str, *paths: str, healthy: int) -> BudgetImpact:
    some = Count(healthy, healthy)
    return BudgetImpact(
        "shop", name, (), 2, 2, some, (spell(5),), Count(2 - healthy, 2 - healthy), paths, (), ()
    )


def told(**parts: object) -> list[str]:
    return [one.text for one in costs(prediction(impact=replace(NOTHING, **parts)))]


def test_nothing_is_said_where_nothing_is_hit_or_nobody_asked() -> None:
    assert told() == []
    assert list(costs(prediction())) == []


def test_the_longest_comes_first_and_no_end_is_longer_than_any() -> None:
    hit = (
        service("a", spell(12.2)),
        service("b", spell(None, least=None)),
        service("c", spell(80)),
        service("d"),
    )
    [text] = told(services=hit)
    assert text == (
        "Nobody answers for 3 services: shop/b (no end in sight), shop/c (up to 1m20s), shop/a (up to 13s)."
    )


def test_what_may_end_is_not_told_as_without_end() -> None:
    [text] = told(services=(service("a", spell(None, least=8.0)),))
    assert text == "Nobody answers for 1 service: shop/a (perhaps without end)."


def test_what_is_possible_is_a_sentence_of_its_own() -> None:
    hit = (service("a", spell(5)), service("b", spell(5, "possible")))
    assert told(services=hit)[1] == "Perhaps nobody answers for 1 service: shop/b (up to 5s)."


def test_what_is_possible_is_told_by_how_far_it_can_reach() -> None:
    begins = Instant(0.035, None)
    ends = replace(spell(3.76, "possible"), since=begins, until=Instant(0.035, 3.8))
    endless = replace(spell(None, "possible"), since=begins, until=Instant(0.035, None))
    found = replace(NOTHING, services=(service("a", ends), service("b", endless)))
    text = text_of(prediction(impact=found), "markdown")
    assert "possibly within +0s .. +3.8s" in text
    assert "possibly at +35ms or later" in text


def test_pods_of_one_app_label_are_called_an_app() -> None:
    [text] = told(services=(service("a", spell(5), source="labels"),))
    assert text.startswith("Nobody answers for 1 app: ")


def test_a_broken_budget_is_told_with_its_number_and_that_nothing_asked_it() -> None:
    [text] = told(
        budgets=(budget("web", "never-asked", healthy=1), budget("db", "never-asked", healthy=0))
    )
    assert (
        text
        == "2 disruption budgets are broken by deletions that ask none: shop/db (0 healthy of 2 wanted), "
        "shop/web (1 healthy of 2 wanted)."
    )
    assert "ask none" not in told(budgets=(budget("web", "asked", "not-ready", healthy=1),))[0]


def test_a_lost_majority_is_told() -> None:
    lost = QuorumImpact("kube-system/etcd", "etcd", 3, 2, Count(1, 1), (spell(5),))
    assert told(quorums=(lost,)) == ["kube-system/etcd loses its majority: 2 of 3 are needed."]


def test_ends_that_rest_on_places_that_nobody_knows_of_are_told_so() -> None:
    fit = ReplacementFit(
        "shop", "Deployment/a", "a-1", 1, "unknown", 0, (), 0, False, False, 0, 0, (), ("needs",), 0, 1,
        NOW, assumed=True,
    )  # fmt: skip
    assert told(replacements=(fit, replace(fit, assumed=False))) == [
        (
            "What pods need, or what nodes have left, is not in the input: replacements of 1 group of pods count as "
            "if they found a node at once."
        )
    ]


def test_whose_replacements_wait_for_gates_is_told() -> None:
    fit = ReplacementFit(
        namespace="shop", workload="Deployment/web", pod="web-0", pods=1, verdict="unknown",
        on_nodes=1, nodes=("n2",), placed=1, only_on_leaving=False, nowhere=False, returns_to=0,
        lower_priority=0, because=(), unknown=("gates",), sure_of_a_node=0, may_find_one=1,
        all_have_one=NOW, assumed=False,
    )  # fmt: skip
    assert told(replacements=(fit,)) == [
        "Replacements of 1 workload wait until somebody takes their scheduling gates off: shop/web."
    ]
