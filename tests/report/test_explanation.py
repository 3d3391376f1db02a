"""``--explain``: the story of one pod, told in order, and clock times in the operator's zone."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from report.builders import MAINTENANCE, cancelled, eviction, kept, prediction, text_of

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import Because, TolerationReference, Window
from kubectl_evictplan.report.words import Clock


def test_the_conclusion_comes_first_and_the_story_oldest_first() -> None:
    text = text_of(prediction(evictions=(eviction(),)), explain="default/web-0")
    assert text.startswith(
        "Pod default/web-0 is deleted for certain, by taint-eviction: at 22:05:50 UTC (+5m50.5s).\n"
    )
    places = [text.index(part) for part in ("falls silent", "becomes Unknown", "timer fires")]
    assert places == sorted(places)
    assert re.search(r"^  22:00:47  \+47.2s +node n1: Ready becomes Unknown$", text, re.MULTILINE)


def test_upstream_functions_are_named_in_wide_only() -> None:
    value = prediction(evictions=(eviction(),))
    assert "monitorNodeHealth" not in text_of(value, explain="default/web-0")
    assert "(node/n1, monitorNodeHealth)" in text_of(value, "wide", explain="default/web-0")


@pytest.mark.parametrize(
    ("toleration", "words"),
    [
        (TolerationReference(1, 300), "tolerated for 300s (spec.tolerations[1])."),
        (None, "maintenance=true:NoExecute, not tolerated."),
        (TolerationReference(2, None), "tolerated without limit (spec.tolerations[2])."),
    ],
)
def test_the_reason_says_how_the_taint_was_tolerated(
    toleration: TolerationReference | None, words: str
) -> None:
    value = prediction(evictions=(eviction(taint=MAINTENANCE, toleration=toleration),))
    assert words in " ".join(text_of(value, explain="default/web-0").split())


def test_a_kept_pod_says_why_not() -> None:
    chain = (Because(3.0, "taint added", "node/n1", "scenario"),)
    text = text_of(prediction(kept=(kept(because=chain),)), explain="kube-system/ds-1")
    assert text.startswith("Pod kube-system/ds-1 stays: every NoExecute taint of the node")
    assert "node n1: taint added" in text


def test_every_eviction_of_the_pod_is_told_in_order() -> None:
    value = prediction(
        evictions=(eviction(at=90.0, uid="two"), eviction(at=30.0, uid="one")),
        cancelled=(cancelled("web-0"),),
    )
    text = text_of(value, explain="default/web-0")
    assert text.index("uid one") < text.index("possibly cancelled") < text.index("uid two")


def test_a_timer_whose_start_is_unknown_is_cancelled_all_the_same() -> None:
    value = prediction(cancelled=(cancelled(started=Window(None, None), cancelled=Window(60, 60)),))
    text = text_of(value, explain="default/web-9")
    assert text.startswith("Pod default/web-9: a timer is possibly cancelled at +1m0s: the node")


def test_warnings_about_the_pod_end_its_story() -> None:
    value = prediction(
        evictions=(eviction(),),
        warnings=(
            Warning("finalizers-block", "a finalizer holds it", ("default/web-0",)),
            Warning("missing-lease", "the node has no Lease", ("n2",)),
        ),
    )
    text = text_of(value, explain="default/web-0")
    assert "finalizers-block: a finalizer holds it" in text
    assert "missing-lease" not in text


def test_a_pod_to_which_nothing_happens_has_a_story_too() -> None:
    assert text_of(prediction(), explain="a/b").startswith("Nothing happens to pod a/b.\n")


def test_a_link_without_a_known_instant_says_unknown() -> None:
    because = (Because(None, "", "", ""), Because(3.0, "x", "", ""))
    text = text_of(prediction(kept=(kept(because=because),)), explain="kube-system/ds-1")
    assert "            <unknown>  <unknown>\n  22:00:03  +3s        x\n" in text


# --- clock times ------------------------------------------------------------------------------

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("zone", "start", "span"),
    [
        (UTC, "2026-11-20 22:00:00 UTC", "between 22:00:10 and 22:00:21 UTC"),
        (BERLIN, "2026-11-20 23:00:00 CET", "between 23:00:10 and 23:00:21 CET"),
        (
            ZoneInfo("America/Sao_Paulo"),
            "2026-11-20 19:00:00 UTC-03",
            "between 19:00:10 and 19:00:21 UTC-03",
        ),
    ],
)
def test_times_are_told_in_the_zone_and_round_outwards(
    zone: ZoneInfo, start: str, span: str
) -> None:
    clock = Clock("2026-11-20T22:00:00Z", zone)
    assert clock.start() == start
    assert clock.between(10.9, 20.1) == span


def test_another_day_has_its_date() -> None:
    clock = Clock("2026-11-20T23:59:00Z", UTC)
    assert clock.between(10.0, 90.0) == "between 23:59:10 and 2026-11-21 00:00:30 UTC"
    assert clock.time(60.0) == "2026-11-21 00:00:00"
    assert clock.time(59.9) == "23:59:59"


def test_an_hour_that_comes_twice_says_which_one() -> None:
    clock = Clock("2026-10-25T00:30:00Z", BERLIN)
    assert clock.between(0.0, 3600.0) == "between 02:30:00 CEST and 02:30:00 CET"


def test_what_cannot_be_told_is_empty() -> None:
    for clock in (Clock("soon", UTC), Clock("0001-01-01T00:00:00Z", UTC)):
        assert clock.start() == clock.time(1.0) == clock.between(1.0, 2.0) == ""
    last = Clock("9999-12-31T23:59:59Z", BERLIN)
    assert last.start() == last.time(5.0) == last.exactly(5.0) == ""
    assert Clock("2026-11-20T22:00:00Z", UTC).time(float("nan")) == ""


def test_a_zone_without_a_name_is_told_by_its_offset() -> None:
    clock = Clock("2026-11-20T22:00:00Z", timezone(timedelta(hours=1), ""))
    assert clock.start() == "2026-11-20 23:00:00 UTC+0100"


def test_the_report_says_times_in_the_zone_that_was_asked_for() -> None:
    value = prediction(evictions=(eviction(),))
    assert "at 23:05:50 CET (+5m50.5s)" in text_of(value, zone=BERLIN)
    assert "2026-11-20T23:05:50.500+01:00" in text_of(value, "wide", zone=BERLIN)
    assert "at 22:05:50 UTC" in text_of(value)
