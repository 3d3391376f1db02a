"""What ``diff`` says of two predictions: which evictions are not the same, and which inputs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from building.builders import encoded
from msgspec.structs import replace
from report.builders import eviction, inputs, kept, one_of_each, prediction

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.prediction.difference_document import (
    FindingDifference,
    ImpactSide,
    PredictionDiff,
)
from kubectl_evictplan.prediction.differences import compare
from kubectl_evictplan.prediction.document import (
    DrainReport,
    Eviction,
    Prediction,
    Sourced,
    TolerationReference,
    Window,
)
from kubectl_evictplan.prediction.impact_document import (
    Count,
    Impact,
    Instant,
    QuorumImpact,
    ReadyAfter,
    Spell,
    VolumeImpact,
    WorkloadImpact,
)
from kubectl_evictplan.prediction.impact_document import Finding as ImpactFinding
from kubectl_evictplan.prediction.stored import decode_prediction
from kubectl_evictplan.report import render_document
from kubectl_evictplan.report.differences import difference_contents


def between(earliest: float, latest: float, **fields: Any) -> Eviction:
    return eviction(earliest_seconds=earliest, latest_seconds=latest, **fields)


def changes(a: Prediction, b: Prediction) -> list[tuple[str, str]]:
    return [(pod.pod, pod.change) for pod in compare(a, b).pods]


def told(a: Prediction, b: Prediction, output: str = "table") -> str:
    diff = compare(a, b, "a.json", "b.json")
    chunks = render_document(diff, lambda wide: difference_contents(diff, wide=wide), output)
    return "".join(chunks)


def test_a_prediction_is_the_same_as_itself() -> None:
    diff = compare(one_of_each(), one_of_each())

    assert diff.same
    assert (diff.pods, diff.inputs, diff.drains) == ((), (), ())
    assert diff.counts.same == len(one_of_each().evictions)


@pytest.mark.parametrize(
    ("window", "change"),
    [
        ((90.0, 190.0), "earlier"),
        ((90.0, 200.0), "earlier"),
        ((110.0, 210.0), "later"),
        ((100.0, 210.0), "later"),
        ((90.0, 210.0), "wider"),
        ((110.0, 190.0), "narrower"),
    ],
)
def test_a_window_moves_where_both_its_ends_do(window: tuple[float, float], change: str) -> None:
    a = prediction(evictions=(between(100.0, 200.0),))
    b = prediction(evictions=(between(*window),))

    (pod,) = compare(a, b).pods

    assert pod.change == change
    assert (pod.earliest_shift_seconds, pod.latest_shift_seconds) == (
        window[0] - 100.0,
        window[1] - 200.0,
    )


def test_less_than_a_millisecond_is_no_difference() -> None:
    a, b = (prediction(evictions=(eviction(at=at),)) for at in (350.5, 350.5004))

    assert compare(a, b).same


def test_what_only_one_of_them_evicts_is_new_or_gone_and_why_it_stays_is_said() -> None:
    a = prediction(evictions=(eviction("web-0"),), kept=(kept("ds-1"),))
    b = prediction(evictions=(eviction("ds-1", namespace="kube-system"),), kept=())

    assert changes(a, b) == [("web-0", "gone"), ("ds-1", "new")]
    assert [pod.stays_because for pod in compare(a, b).pods] == ["", "tolerated-forever"]


def test_certainty_is_told_beside_the_times() -> None:
    a = prediction(evictions=(eviction("one", certainty="possible"), eviction("two", 20.0)))
    b = prediction(evictions=(eviction("one"), eviction("two", 30.0, certainty="possible")))

    found = {pod.pod: (pod.change, pod.certainty) for pod in compare(a, b).pods}

    assert found == {
        "one": ("otherwise", "became-certain"),
        "two": ("later", "became-possible"),
    }


def test_a_pod_created_anew_under_its_name_is_the_same_one() -> None:
    a, b = (prediction(evictions=(eviction(uid=uid),)) for uid in ("uid-1", "uid-2"))

    assert compare(a, b).same


def test_a_pod_that_goes_twice_is_compared_deletion_by_deletion() -> None:
    a = prediction(evictions=(eviction(at=10.0), eviction(at=500.0)))
    b = prediction(evictions=(eviction(at=600.0), eviction(at=10.0)))

    (pod,) = compare(a, b).pods

    assert (pod.deletion, pod.change, pod.earliest_shift_seconds) == (2, "later", 100.0)


def test_another_toleration_is_an_input_that_changed() -> None:
    a = prediction(evictions=(eviction(at=350.0),))
    b = prediction(evictions=(eviction(at=110.0, toleration=TolerationReference(1, 60)),))

    (pod,) = compare(a, b).pods
    assert (pod.change, pod.also) == ("earlier", ("toleration",))
    assert "toleration of 1 pod  300s  60s" in told(a, b)
    assert "1 eviction comes earlier in B, by 4m0s." in told(a, b)


def test_an_object_that_no_longer_stays_terminating_is_a_difference() -> None:
    stuck = Window(None, None, "its kubelet is silent")
    a, b = (prediction(evictions=(eviction(gone=gone),)) for gone in (stuck, Window(380.5, 380.5)))

    (pod,) = compare(a, b).pods

    assert (pod.change, pod.also) == ("otherwise", ("stuck",))
    assert "does not stay Terminating" in told(a, b)


def test_changed_inputs_stand_with_both_values_and_where_they_come_from() -> None:
    flags = {"node-monitor-grace-period": Sourced("20s", "given", "the command line")}
    a, b = prediction(), prediction(inputs=inputs(flags=flags, release=Sourced("1.31.0", "given")))

    found = {
        one.name: (one.a and one.a.value, one.b and one.b.value) for one in compare(a, b).inputs
    }

    assert found == {
        "Kubernetes": ("1.29.6", "1.31.0"),
        "--node-eviction-rate": ("0.25", None),
        "--node-monitor-grace-period": ("6s", "20s"),
        "--node-monitor-period": ("5s", None),
    }
    assert "20s (given: the command line)" in told(a, b, "wide")


def test_a_horizon_that_follows_from_what_happens_is_no_input() -> None:
    ends = [Sourced(end, "until nothing more can happen") for end in ("6m", "7m")]
    a, b = (prediction(inputs=inputs(horizon=end)) for end in ends)

    assert compare(a, b).inputs == ()


def test_other_inputs_alone_leave_predictions_the_same() -> None:
    b = prediction(inputs=inputs(release=Sourced("1.31.0", "given")))

    assert compare(prediction(), b).same


def test_drains_that_end_otherwise_are_told() -> None:
    done = DrainReport("n1", 0.0, 0.0, 30.0, 40.0, 0, "drained", (), (), ())
    never = replace(done, end_latest_seconds=None, exit_code=None, end_reason="never")
    a, b = prediction(drains=(done,)), prediction(drains=(never,))

    (drain,) = compare(a, b).drains

    assert (drain.node, drain.drain) == ("n1", 1)
    assert not compare(a, b).same
    assert "n1    drained +30s .. +40s  never +30s or later" in told(a, b)


def test_drains_whose_ends_nobody_could_tell_apart_end_alike() -> None:
    one = DrainReport("n1", 0.0, 0.0, 30.0, 40.0, 0, "drained", (), (), ())
    near, later = replace(one, end_latest_seconds=40.05), replace(one, end_latest_seconds=40.4)
    a = prediction(drains=(one,))

    assert compare(a, prediction(drains=(near,))).same
    assert "drained +30s .. +40.4s  +0s / +400ms" in told(a, prediction(drains=(later,)))


def test_many_pods_are_told_by_owner_and_wide_by_name() -> None:
    a = prediction()
    b = prediction(evictions=tuple(eviction(f"web-{number:02}") for number in range(50)))

    assert "default    ReplicaSet/web-7d9f  50" in told(a, b)
    assert "web-49" not in told(a, b)
    assert "web-49" in told(a, b, "wide")


def test_hostile_names_are_escaped() -> None:
    a, b = prediction(), prediction(evictions=(eviction("x\x1b[31mred"),))

    assert "\x1b" not in told(a, b)


def test_the_comparison_is_read_back_as_it_was_written() -> None:
    diff = compare(one_of_each(), prediction())
    text = told(one_of_each(), prediction(), "json")

    assert msgspec.json.decode(text, type=PredictionDiff) == replace(diff, a="a.json", b="b.json")


# -- predictions in files -------------------------------------------------------------------------------


def written(value: Prediction) -> bytes:
    return encoded(value)


def refused(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        decode_prediction(data, "a.json")
    (problem,) = caught.value.problems
    return str(problem)


def test_a_prediction_is_read_back_as_it_was_written() -> None:
    assert decode_prediction(written(one_of_each()), "a.json") == one_of_each()


def test_fields_of_a_newer_program_are_left_out() -> None:
    data = written(one_of_each()).replace(b'"inputs":', b'"later":[1],"inputs":', 1)

    assert decode_prediction(data, "a.json") == one_of_each()


def test_another_version_of_the_schema_is_refused() -> None:
    data = written(prediction()).replace(b"v1alpha1", b"v2")

    assert refused(data) == (
        "a.json: apiVersion: written in another version of the schema "
        "(got evictplan.dev/v2; expected evictplan.dev/v1alpha1)"
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"[]", "not a prediction"),
        (b'{"apiVersion": "v1", "kind": "List"}', "not a prediction (got List"),
        (b'{"apiVersion": "evictplan.dev/v1alpha1", "kind": "Scenario"}', "(got Scenario"),
        (b"kind: Prediction\n", "not JSON: predictions are compared as `-o json` writes them"),
        (b'{"kind": "Pre', "1:14: not JSON: unexpected end of the file"),
    ],
)
def test_what_is_no_prediction_is_refused_in_one_line(data: bytes, said: str) -> None:
    assert said in refused(data)


def test_a_field_of_a_wrong_type_is_named_with_who_wrote_it() -> None:
    data = written(prediction(evictions=(eviction(),)))

    assert refused(data.replace(b'"offsetSeconds":350.5', b'"offsetSeconds":"soon"', 1)) == (
        "a.json: evictions[0].offsetSeconds: expected `float`, got `str`; "
        "written by kubectl-evictplan 0.1.0"
    )


# -- impacts --------------------------------------------------------------------------------------------


def with_findings(*findings: ImpactFinding) -> Prediction:
    impact = Impact((), (), (), (), (), (), findings=findings)
    return prediction(impact=impact)


def a_finding(code: str = "service-down", **fields: Any) -> ImpactFinding:
    known = {"severity": "high", "certainty": "certain", "objects": ("Service/shop/web",)}
    texts = {"summary": "nobody is ready for 30s", "why": "", "remedy": ""}
    return ImpactFinding(**{"code": code, **known, **texts, **fields})


def test_findings_are_compared_object_by_object() -> None:
    web, db = "Service/shop/web", "Service/shop/db"
    a = with_findings(a_finding(), a_finding("pdb-broken"))
    b = with_findings(a_finding(objects=(web, db), severity="critical"))

    diff = compare(a, b)

    assert diff.findings_only_in_a == (FindingDifference("pdb-broken", "high", (web,)),)
    assert diff.findings_only_in_b == (FindingDifference("service-down", "critical", (db,)),)
    assert "service-down: critical (Service/shop/db)" in told(a, b)
    assert not diff.same


def test_other_numbers_in_a_summary_make_no_other_finding() -> None:
    a, b = (with_findings(a_finding(summary=f"nobody for {n}s")) for n in (30, 40))

    assert compare(a, b).findings_only_in_b == ()


def test_without_an_impact_in_both_no_finding_is_compared() -> None:
    assert compare(prediction(), with_findings(a_finding())).findings_only_in_b == ()


def with_workload(whole: tuple[float, float | None], **fields: Any) -> Prediction:
    known = WorkloadImpact(
        namespace="shop",
        workload="ReplicaSet/web",
        wanted=1,
        single_replica=True,
        ready_before=1,
        fewest_ready=Count(0, 0),
        below_before=(),
        zero=(),
        whole_again=Instant(*whole),
        never_replaced=(),
        two_copies=(),
        ready_after=ReadyAfter(30.0, 30.0, "given"),
        steps=(),
    )
    impact = Impact((), (replace(known, **fields),), (), (), (), (), findings=())
    return prediction(evictions=(eviction(),), impact=impact)


@pytest.mark.parametrize(
    ("whole", "change"),
    [((400.0, 500.0), "later"), ((300.0, 400.0), "earlier"), ((378.0, None), "later")],
)
def test_an_outage_of_another_length_is_not_the_same(
    whole: tuple[float, float | None], change: str
) -> None:
    a, b = with_workload((378.0, 400.0)), with_workload(whole)
    diff = compare(a, b)
    assert not diff.same and not diff.pods
    [found] = diff.impacts
    assert (found.of, found.name, found.fact) == ("workload", "ReplicaSet/web", "wholeAgain")
    assert found.change == change
    assert "predict the same" not in told(a, b)
    assert "+378s .. +400s" in told(a, b)


def test_facts_of_the_impact_travel_as_what_they_are() -> None:
    never = Spell("certain", Instant(50.0004, 55.0), Instant(300.0, None), 245.0, None)
    a, b = with_workload((378.0, 400.0)), with_workload((378.0, 400.0), zero=(never,))
    b = replace(b, impact=replace(b.impact, quorums=(quorum(1),), volumes=(held(90.0), held(60.0))))
    a = replace(a, impact=replace(a.impact, quorums=(quorum(2),), volumes=(held(60.0),)))
    found = {(one.of, one.fact): (one.change, one.a, one.b) for one in compare(a, b).impacts}
    exact = replace(never, since=Instant(50.0, 55.0))
    assert found == {
        ("workload", "zero"): ("otherwise", ImpactSide(spells=()), ImpactSide(spells=(exact,))),
        # Two pods use the claim: it is free when both have let it go.
        ("volume", "free"): (
            "later",
            ImpactSide(instant=Instant(30.0, 60.0)),
            ImpactSide(instant=Instant(30.0, 90.0)),
        ),
        ("quorum", "fewestVoting"): (
            "otherwise",
            ImpactSide(count=Count(2, 2)),
            ImpactSide(count=Count(1, 1)),
        ),
    }
    assert "+50s .. +55s until +300s or later, perhaps never" in told(a, b)


def quorum(voting: int) -> QuorumImpact:
    return QuorumImpact("etcd", "etcd", 3, 2, Count(voting, voting), ())


def held(until: float) -> VolumeImpact:
    return VolumeImpact("shop", "data", "db-0", "a1", "held", "", Instant(30.0, until))


def test_another_time_assumed_of_replacements_is_an_input_that_changed() -> None:
    a = with_workload((1.0, 2.0))
    b = with_workload((1.0, 2.0), ready_after=ReadyAfter(30.0, 7200.0, "given"))
    [found] = compare(a, b).inputs
    assert found.name == "--assume-ready"
    assert found.b == Sourced("30s to 7200s", "given")


def test_what_is_touched_in_one_of_them_only_is_new_or_gone() -> None:
    a, b = prediction(impact=Impact((), (), (), (), (), (), findings=())), with_workload((1.0, 2.0))
    assert {one.change for one in compare(a, b).impacts} == {"new"}
    assert {one.change for one in compare(b, a).impacts} == {"gone"}


def test_times_that_differ_for_any_workload_of_both_are_told() -> None:
    a, b = (
        with_workload((378.0, 400.0), ready_after=ReadyAfter(*after))
        for after in ((9.0, 12.0, "learnt"), (30.0, 30.0, "default"))
    )
    mixed = replace(
        a, impact=replace(a.impact, workloads=(*other_of(b).workloads, *a.impact.workloads))
    )

    for one in (a, mixed):
        [found] = compare(one, b).inputs
        assert (found.name, found.b) == ("--assume-ready", Sourced("30s", "default"))


def other_of(found: Prediction) -> Impact:
    """Its impact, of a workload of another name."""
    [one] = found.impact.workloads
    return replace(found.impact, workloads=(replace(one, workload="ReplicaSet/other"),))
