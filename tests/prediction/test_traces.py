"""What real control planes did lies in the predicted windows, and the windows are not too wide."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest
from fidelity import BLOCK_BEGIN, BLOCK_END, DRAINS, Run, compare_drain, readme_block
from recorded_drains import is_drain_recording
from trace_runs import (
    NODE_FACTS,
    Comparison,
    Expected,
    Fact,
    Slack,
    Trace,
    compare_deletions,
    compare_taints_added,
    compare_taints_removed,
    compare_unknown,
    deletions,
    is_trace,
    load_trace,
    predict_trace,
    trace_folders,
)

from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import Prediction

REPOSITORY = Path(__file__).resolve().parents[2]
TRACES = REPOSITORY / "fixtures" / "traces"
NAMES = [folder.name for folder in trace_folders(TRACES)]
TAINTS_ONLY = [name for name in NAMES if name.startswith("taint-basics")]
ONE_NODE_AT_A_TIME = [name for name in NAMES if name.startswith(("node-fails", "defaults"))]

# What is unknown besides the phase of the monitor: a tainting pass, and ticks that cost time.
PASS_SECONDS = 0.2
COSTS_SECONDS = 0.1
# Where ticks may write more than 30 requests: how long these can wait for their client.
CLIENT_WAITS = {"random-8-1.29.6": 0.5, "random-40-1.20.15": 0.7, "rate-limited-1.23.13": 1.7}


@functools.cache
def trace_and_prediction(name: str) -> tuple[Trace, Prediction]:
    trace = load_trace(TRACES / name)
    return trace, predict_trace(trace)


def monitor_period_seconds(trace: Trace) -> float:
    return trace.configuration.node_monitor_period_ns / 1e9


def assert_agrees(comparison: Comparison) -> None:
    assert comparison.outside == []
    assert comparison.absent == []


def test_there_are_recorded_runs_of_twelve_releases() -> None:
    assert len({name.rpartition("-")[2] for name in NAMES}) >= 12


@pytest.mark.parametrize("name", NAMES)
def test_every_real_deletion_is_in_its_window_and_nothing_certain_is_absent(name: str) -> None:
    comparison = compare_deletions(*trace_and_prediction(name))
    assert comparison.facts > 0
    assert_agrees(comparison)


@pytest.mark.parametrize("name", NAMES)
def test_every_node_becomes_unknown_in_its_window(name: str) -> None:
    assert_agrees(compare_unknown(*trace_and_prediction(name)))


@pytest.mark.parametrize("name", NAMES)
def test_node_lifecycle_taints_nodes_in_their_windows(name: str) -> None:
    assert_agrees(compare_taints_added(*trace_and_prediction(name)))


@pytest.mark.parametrize("name", NAMES)
def test_node_lifecycle_takes_taints_back_in_their_windows(name: str) -> None:
    assert_agrees(compare_taints_removed(*trace_and_prediction(name)))


@pytest.mark.parametrize("name", NAMES)
def test_when_a_node_becomes_unknown_is_known_to_one_monitor_period(name: str) -> None:
    trace, prediction = trace_and_prediction(name)
    width_max = monitor_period_seconds(trace) + COSTS_SECONDS + CLIENT_WAITS.get(name, 0)
    assert all(w <= width_max for w in compare_unknown(trace, prediction).widths_seconds)


@pytest.mark.parametrize("name", ONE_NODE_AT_A_TIME)
def test_evictions_from_one_failing_node_are_known_to_one_period_and_a_pass(name: str) -> None:
    trace, prediction = trace_and_prediction(name)
    width_max = monitor_period_seconds(trace) + PASS_SECONDS + COSTS_SECONDS
    widths = compare_deletions(trace, prediction).widths_seconds
    assert widths
    assert widths[-1] <= width_max


@pytest.mark.parametrize("name", TAINTS_ONLY)
def test_evictions_by_a_taint_that_somebody_sets_are_known_exactly(name: str) -> None:
    _, prediction = trace_and_prediction(name)
    assert prediction.evictions
    for eviction in prediction.evictions:
        assert eviction.latest_seconds - eviction.earliest_seconds < 0.001
        assert eviction.certainty == "certain"


@pytest.mark.parametrize("name", NAMES)
def test_no_window_is_wider_than_the_recording(name: str) -> None:
    trace, prediction = trace_and_prediction(name)
    for eviction in prediction.evictions:
        assert 0 <= eviction.earliest_seconds <= eviction.offset_seconds
        assert eviction.offset_seconds <= eviction.latest_seconds <= trace.end_seconds


# -- the yardstick itself ---------------------------------------------------------------------------


def recording(*observed: dict[str, object]) -> Trace:
    """A trace without a prediction of its own: taint-basics' inputs, other observations."""
    trace, _ = trace_and_prediction(TAINTS_ONLY[0])
    return trace._replace(snapshot=ClusterSnapshot(nodes=(), pods=()), observed=list(observed))


def deleting(pod: str, at: float, uid: str, what: str = "deleting") -> dict[str, object]:
    return {"kind": "pod", "what": what, "pod": pod, "uid": uid, "t": at}


def predicted(*windows: tuple[str, float, float, str]) -> Prediction:
    """A prediction of these evictions: namespace/name, earliest, latest, certainty."""
    from msgspec.structs import replace

    _, prediction = trace_and_prediction(TAINTS_ONLY[0])
    sample = prediction.evictions[0]
    evictions = [
        replace(
            sample,
            namespace=key.partition("/")[0],
            pod=key.partition("/")[2],
            uid="",
            earliest_seconds=earliest,
            offset_seconds=earliest,
            latest_seconds=latest,
            certainty=certainty,
        )
        for key, earliest, latest, certainty in windows
    ]
    return replace(prediction, evictions=tuple(evictions))


@pytest.mark.parametrize(
    ("at", "inside"), [(0.9, False), (0.96, True), (1.5, True), (2.49, True), (2.51, False)]
)
def test_a_fact_may_be_seen_half_a_second_late_and_a_clock_difference_early(
    at: float, inside: bool
) -> None:
    assert Expected("a/p", 1.0, 2.0, certain=True).admits(Fact("a/p", at), Slack()) is inside


def test_one_prediction_explains_one_deletion() -> None:
    trace = recording(deleting("a/p", 1.0, "u1"), deleting("a/p", 1.2, "u2"))
    comparison = compare_deletions(trace, predicted(("a/p", 1.0, 2.0, "certain")))
    assert [fact.uid for fact, _ in comparison.inside] == ["u1"]
    assert [fact.uid for fact in comparison.outside] == ["u2"]


def test_windows_are_given_away_so_that_most_deletions_are_explained() -> None:
    trace = recording(deleting("a/p", 1.0, "u1"), deleting("a/p", 9.0, "u2"))
    prediction = predicted(("a/p", 0.0, 20.0, "certain"), ("a/p", 0.5, 1.5, "certain"))
    assert compare_deletions(trace, prediction).outside == []


def test_a_certain_eviction_that_was_not_recorded_is_absent_and_a_possible_one_is_not() -> None:
    prediction = predicted(("a/p", 1.0, 2.0, "certain"), ("a/q", 1.0, 2.0, "possible"))
    comparison = compare_deletions(recording(), prediction)
    assert [expected.subject for expected in comparison.absent] == ["a/p"]
    assert [expected.subject for expected in comparison.not_happened] == ["a/q"]


def test_nothing_is_absent_that_may_happen_after_the_recording_ended() -> None:
    end = recording().end_seconds
    comparison = compare_deletions(recording(), predicted(("a/p", 1.0, end, "certain")))
    assert comparison.absent == []


def test_a_second_delete_of_a_terminating_pod_leaves_no_mark() -> None:
    trace = recording(deleting("a/p", 1.0, "u1"))
    prediction = predicted(("a/p", 1.0, 1.0, "certain"), ("a/p", 5.0, 5.0, "certain"))
    assert_agrees(compare_deletions(trace, prediction))


def test_a_second_eviction_after_the_first_pod_was_gone_has_to_show() -> None:
    trace = recording(deleting("a/p", 1.0, "u1"), deleting("a/p", 2.0, "u1", "gone"))
    prediction = predicted(("a/p", 1.0, 1.0, "certain"), ("a/p", 5.0, 5.0, "certain"))
    assert len(compare_deletions(trace, prediction).absent) == 1


def test_a_pod_deleted_without_grace_shows_only_its_end() -> None:
    trace = recording(deleting("a/p", 3.0, "u1", "gone"))
    assert [fact.at_seconds for fact in deletions(trace)] == [3.0]


def test_deletions_before_the_start_are_not_the_scenarios() -> None:
    assert deletions(recording(deleting("a/p", -1.0, "u1"))) == []


# -- make fidelity ----------------------------------------------------------------------------------


def make_fidelity(*folders: Path) -> subprocess.CompletedProcess[str]:
    script = str(REPOSITORY / "benchmarks" / "fidelity.py")
    command = [sys.executable, script, *map(str, folders)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_fidelity_fits_100_columns_and_agrees_for_any_folder_of_the_same_shape(
    tmp_path: Path,
) -> None:
    (tmp_path / "an-unknown-trace-with-a-very-long-name").symlink_to(TRACES / TAINTS_ONLY[0])
    done = make_fidelity(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_fidelity_fails_when_a_real_deletion_is_not_explained(tmp_path: Path) -> None:
    trace = tmp_path / "contradiction"
    trace.mkdir()
    for name in ("cluster.json", "observed.json", "scenario.yaml"):
        (trace / name).write_bytes((TRACES / TAINTS_ONLY[0] / name).read_bytes())
    scenario = (trace / "scenario.yaml").read_text()
    (trace / "scenario.yaml").write_text(scenario.replace("at: 2s", "at: 4s"))
    done = make_fidelity(trace)
    assert done.returncode == 1
    assert "OUTSIDE contradiction: evictions: default/" in done.stdout
    assert "ABSENT contradiction: evictions: default/" in done.stdout


def test_fidelity_says_so_when_there_is_nothing_to_compare(tmp_path: Path) -> None:
    assert not is_trace(tmp_path)
    assert make_fidelity(tmp_path).returncode == 2
    assert make_fidelity(tmp_path / "missing").returncode == 2


def test_the_readme_quotes_the_comparison_by_release() -> None:
    pairs = {name: trace_and_prediction(name) for name in NAMES}
    folders = trace_folders(DRAINS)
    drains = [compare_drain(folder) for folder in folders if is_drain_recording(folder)]
    others = [load_trace(folder) for folder in folders if not is_drain_recording(folder)]
    pairs |= {trace.name: (trace, predict_trace(trace)) for trace in others}
    runs = [
        Run(
            name,
            compare_deletions(*pair),
            {what: compare(*pair) for what, compare in NODE_FACTS.items()},
            [],
        )
        for name, pair in pairs.items()
    ]
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert "\n".join([BLOCK_BEGIN.rstrip(), *readme_block(runs, drains), BLOCK_END]) in readme
