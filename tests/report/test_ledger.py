"""A ledger as it is read at night: what left its window first, every reason told once, nothing hostile."""

from __future__ import annotations

from datetime import UTC
from typing import get_args

from msgspec.structs import replace
from plans.ledger_worlds import POD, START, at, deleted, expectation, look, predicted

from kubectl_evictplan.kube.sightings import Interval
from kubectl_evictplan.plans.document import AddTaint, Cordon
from kubectl_evictplan.plans.expectation import Begun
from kubectl_evictplan.plans.ledger import ledger_of
from kubectl_evictplan.plans.ledger_document import Ledger, Why
from kubectl_evictplan.plans.sightings import Gap, Sightings
from kubectl_evictplan.prediction.document import TaintReference
from kubectl_evictplan.report import ledger as report
from kubectl_evictplan.report import markdown
from kubectl_evictplan.report.ledger_tables import AS_PREDICTED_MAX, WHYS
from kubectl_evictplan.report.terminal import Terminal

HOSTILE = "a|b\x1b[31m<img>"


def pods(count: int, *, late: int = 0) -> Ledger:
    """``count`` pods in their windows, and so many more that went late; the last name is hostile."""
    names = [f"web-{number}" for number in range(count + late)]
    names[-1] = HOSTILE
    evictions = [predicted((10, 12), uid=name, pod=name) for name in names]
    objects = [replace(POD, name=name, uid=name) for name in names]
    seen = [deleted(pod, 11 if n < count else 60) for n, pod in enumerate(objects)]
    gap = Gap(Interval(at(2), at(9)), "no answer")
    sightings = Sightings((look(1, *objects), look(90, *seen)), gaps=(gap,))
    return ledger_of(expectation(*evictions), sightings, START)


def text(ledger: Ledger, *, every_row: bool = False) -> str:
    found = report.blocks(ledger, UTC, every_row=every_row)
    return "".join(Terminal(None, False, False).render(found))


def test_what_left_its_window_is_said_first_and_stands_above_the_rest() -> None:
    lines = text(pods(3, late=1)).splitlines()
    assert lines[0] == "Reality left the predicted windows."
    assert lines[1].startswith("1 pod was deleted outside of its window: default/a|b")
    rows = [line.split()[0] for line in lines if line.startswith(("inside", "outside"))]
    assert rows == ["outside", "inside", "inside", "inside"]


def test_many_pods_as_predicted_are_a_number_until_all_rows_are_wanted() -> None:
    ledger = pods(AS_PREDICTED_MAX + 1, late=1)
    assert text(ledger).count("\ninside") == 0
    assert f"And {AS_PREDICTED_MAX + 1} pods as predicted" in text(ledger)
    assert text(ledger, every_row=True).count("\ninside") == AS_PREDICTED_MAX + 1


def test_no_name_steers_a_terminal_or_a_ticket() -> None:
    ledger = pods(1)
    assert "\x1b" not in text(ledger)
    page = "".join(markdown.render(report.blocks(ledger, UTC, titled=True)))
    assert "<img>" not in page
    assert "\x1b" not in page
    head, row = (line for line in page.splitlines() if line.startswith(("| VERDICT", "| inside")))
    assert row.count("|") == head.count("|")


def test_gaps_are_told() -> None:
    assert "gap: nobody could look +2s .. +9s: no answer" in text(pods(1))


def test_objects_that_could_not_be_read_are_counted_in_every_form_and_their_kind_steers_nothing() -> (
    None
):
    ledger = replace(pods(1), unreadable={"Node": 1, "Pod": 2, HOSTILE: 3})
    page = "".join(markdown.render(report.blocks(ledger, UTC, titled=True)))
    shown = text(ledger)
    for one in (page, shown):
        assert (
            "Objects that could not be read are missing here: 1 of kind Node, 2 of kind Pod" in one
        )
        assert "2 objects of kind Pod could not be read: what they tell is missing" in one
        assert "\x1b" not in one
    assert "<img>" not in page
    assert "could not be read" in report.first_words(ledger)
    assert "could not be read" not in text(pods(1))


def test_a_change_that_was_not_carried_out_completely_is_never_everything() -> None:
    went = replace(POD, name="web-0", uid="web-0")
    expected = replace(
        expectation(predicted((10, 12), uid="web-0", pod="web-0")),
        operations=(AddTaint(1, 0.0, "n1", TaintReference("m", "NoExecute")), Cordon(2, 0.0, "n2")),
    )
    sightings = Sightings((look(1, went), look(90, deleted(went, 11))))
    for second, answer in (
        (Begun(2, None, "not-done"), "The change was not carried out completely: 1 of 2 "),
        (Begun(2, START.at), "Everything that was predicted happened in its window."),
    ):
        ledger = ledger_of(expected, sightings, START, (Begun(1, START.at), second))
        assert report.first_words(ledger).startswith(answer)
        assert text(ledger).startswith(answer)
        assert ("Everything" in text(ledger)) == (second.at is not None)


def test_pods_that_went_and_were_not_predicted_are_named_and_never_everything() -> None:
    newer = replace(POD, name="precious", uid="u9", created_ns=at(11))
    sightings = Sightings((look(1, POD), look(90, deleted(POD, 11), deleted(newer, 20))))
    shown = text(ledger_of(expectation(predicted((10, 12))), sightings, START))
    assert "Everything" not in shown
    assert "made after the beginning: default/precious." in shown


def test_every_reason_has_words() -> None:
    assert set(WHYS) == set(get_args(Why)) - {""}
