"""Up to 1.28 what ticks and passes write waits behind deletions, which go through the same client."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from building.builders import make_event, make_node, make_pod, make_scenario, make_snapshot
from building.warning_runs import configured

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.document import NodeChange, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

NODES = [make_node(name, zone="a") for name in ("n1", "n2", "n3", "n4", "n5", "n6", "n7")]
UNKNOWN, TAINT = "Unknown", "node.kubernetes.io/unreachable:NoExecute"
SILENCE = make_event(1, "kubelet-stop", "n2")
BY_HAND = make_event(39, "taint", "n1", taint="maint:NoExecute")


def crowd(number: int, node: str) -> list[Pod]:
    """Pods of which no tick marks any."""
    return [make_pod(f"{node}-{place}", node, ready=None) for place in range(number)]


def told(
    release: str,
    pods: Sequence[Pod],
    events: Sequence[ScenarioEvent] = (SILENCE, BY_HAND),
    flags: dict[str, str] | None = None,
) -> Prediction:
    return predict(
        make_snapshot(NODES, pods),
        make_scenario(events, horizon=400),
        configured(release, **(flags or {})),
    )


def change(prediction: Prediction, value: str, node: str = "n2") -> NodeChange:
    [report] = [one for one in prediction.nodes if one.node == node]
    return max(
        (each for each in report.changes if each.value == value),
        key=lambda each: each.latest_seconds,
    )


@pytest.mark.parametrize(("value", "after"), [(UNKNOWN, 0), (TAINT, 5.115)])
def test_what_ticks_and_passes_write_comes_when_deletions_are_through(
    value: str, after: float
) -> None:
    few, many = (change(told("1.25", crowd(number, "n1")), value) for number in (5, 110))
    # A DELETE and an event each, the status, its event and two taints of the other node.
    through = 39 + (2 * 110 + 6 - 30) / 20
    assert many.latest_seconds == pytest.approx(through + after, abs=0.01)
    assert few.latest_seconds < through
    assert many.earliest_seconds == few.earliest_seconds
    assert many.certainty == few.certainty == "certain"


@pytest.mark.parametrize("value", [UNKNOWN, TAINT])
def test_from_1_29_on_they_have_another_client(value: str) -> None:
    few, many = (change(told("1.29", crowd(number, "n1")), value) for number in (5, 110))
    assert many == few


def test_a_taint_does_not_wait_for_what_is_deleted_because_of_it() -> None:
    few, many = (change(told("1.25", crowd(number, "n2"), [SILENCE]), TAINT) for number in (5, 110))
    assert many == few


def test_from_1_19_on_an_event_of_each_marked_pod_goes_through_it_as_well() -> None:
    marked = [make_pod(f"ready-{place}", "n2", ready="True") for place in range(40)]
    pods = [*crowd(110, "n1"), *marked]
    before, after = (change(told(release, pods), UNKNOWN) for release in ("1.18", "1.19"))
    assert after.latest_seconds - before.latest_seconds == pytest.approx(40 / 20, abs=0.01)


def test_what_follows_a_late_taint_is_as_late() -> None:
    late = [*crowd(110, "n1"), *crowd(1, "n2")]
    taint = change(told("1.25", late), TAINT)
    latest = [each.latest_seconds for each in told("1.25", late).evictions if each.node == "n2"]
    assert latest >= [taint.latest_seconds]


def test_a_pass_of_a_new_process_waits_for_what_that_deletes_anew() -> None:
    down = make_node(
        "n2", zone="a", ready="False", taints=["node.kubernetes.io/not-ready:NoExecute"]
    )
    restart = [make_event(5, "controller-stop"), make_event(10, "controller-start")]
    taint = "node.kubernetes.io/not-ready:NoExecute"
    ends = []
    for number in (1, 20):
        prediction = predict(
            make_snapshot([NODES[0], down, *NODES[2:]], crowd(number, "n2")),
            make_scenario(restart, horizon=400),
            configured("1.25"),
        )
        ends.append(change(prediction, taint).latest_seconds)
    assert ends[1] - ends[0] > (2 * 20 * 2 - 30) / 20


def test_a_tick_so_late_that_its_process_may_have_ended_is_not_certain() -> None:
    ends = make_event(52, "controller-stop"), make_event(53, "controller-start")
    for number, certainty in ((5, "certain"), (110, "possible")):
        prediction = told("1.25", crowd(number, "n1"), [SILENCE, BY_HAND, *ends])
        [report] = [one for one in prediction.nodes if one.node == "n2"]
        unknown = [each for each in report.changes if each.value == UNKNOWN]
        assert {each.certainty for each in unknown} == {certainty}
        # The next process may have to wait for its grace period.
        assert (max(each.latest_seconds for each in unknown) > 90) is (number == 110)
