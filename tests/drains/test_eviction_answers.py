"""What kubectl makes of answers of the Eviction API that are not yes: refusals that say when to ask again, errors, namespaces that end."""

from __future__ import annotations

import pytest
from building.builders import START_NS, make_event, ns
from drawn.drain_worlds import App, drain, drained_cluster
from msgspec.structs import replace
from realities.drain_runs import about, deleted, ends, exit_codes, moments, play

from kubectl_evictplan.cluster.timeline import (
    EvictionNotAllowed,
    NodeDrainEnded,
    PodDeleted,
)
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.infrastructure import Infrastructure, Namespace
from kubectl_evictplan.kube.objects import ClusterSnapshot, ControlPlaneFlags
from kubectl_evictplan.scenarios.scenario import ControllerSettings

FREE = App("free", ["a1", "b1"])


def stale(app: App) -> ClusterSnapshot:
    """The budget's spec is newer than its status."""
    snapshot = drained_cluster(app)
    return replace(snapshot, budgets=tuple(replace(one, generation=2) for one in snapshot.budgets))


STOPPED = make_event(0, "controller-stop")
TWO = App("web", ["a1", "b1"], least=1)


@pytest.mark.parametrize(("release", "gone"), [("1.20", 26), ("1.21", 31), ("1.37", 31)])
def test_from_1_21_on_client_go_repeats_a_refusal_by_an_old_status_every_10_seconds(
    release: str, gone: int
) -> None:
    configuration = resolve_configuration(
        ControllerSettings(kubernetes_version=f"{release}.0"), ControlPlaneFlags()
    )
    events = STOPPED, drain("a1", timeout_ns=ns(60)), make_event(25, "controller-start")
    run = play(stale(TWO), *events, horizon=120, configuration=configuration)
    assert moments(run, PodDeleted, "web-0") == about(gone)


def test_client_go_evicts_after_the_timeout_and_kubectl_takes_one_more_look() -> None:
    events = STOPPED, drain("a1", timeout_ns=ns(8)), make_event(3, "controller-start")
    run = play(stale(TWO._replace(grace=0)), *events, horizon=120)
    assert moments(run, PodDeleted, "web-0") == [11.0]
    assert ends(run) == [("a1", "drained")]
    waits = play(stale(TWO), *events, exit_at=1, horizon=120)
    assert moments(waits, NodeDrainEnded) == [11.0]
    assert ends(waits) == [("a1", "timeout")]


def test_kubectl_sees_its_timeout_when_client_go_has_asked_ten_times_more() -> None:
    run = play(stale(TWO), STOPPED, drain("a1", timeout_ns=ns(8)), horizon=300)
    assert ends(run) == [("a1", "timeout")]
    assert moments(run, NodeDrainEnded) == about(1 + 10 * 10 + 5)


def test_where_some_pods_go_at_a_time_the_timeout_is_seen_at_each_retry() -> None:
    run = play(stale(TWO), STOPPED, drain("a1", timeout_ns=ns(8), parallel=1), horizon=300)
    assert moments(run, NodeDrainEnded) == about(1 + 10)


# -- answers that kubectl takes for an error, or does not -----------------------------------------------------


def negative(app: App) -> ClusterSnapshot:
    """Somebody wrote a number into the budget's status that the disruption controller never does."""
    snapshot = drained_cluster(app)
    budgets = tuple(replace(one, disruptions_allowed=-1) for one in snapshot.budgets)
    return replace(snapshot, budgets=budgets)


def test_a_negative_status_is_an_error_that_kubectl_does_not_repeat() -> None:
    run = play(negative(TWO), STOPPED, drain("a1"), horizon=120)
    [refused] = [entry for entry in run.entries if isinstance(entry, EvictionNotAllowed)]
    assert (refused.code, refused.budgets, refused.is_repeated) == (403, ("default/web",), False)
    assert (ends(run), exit_codes(run), deleted(run)) == ([("a1", "error")], [1], [])


def test_until_the_disruption_controller_has_corrected_it() -> None:
    run = play(negative(TWO), drain("a1", at=6))
    assert (ends(run), deleted(run)) == ([("a1", "drained")], ["web-0"])


TERMINATING = Infrastructure(namespaces=(Namespace("default", phase="Terminating"),))


def test_in_a_terminating_namespace_nobody_is_evicted_and_kubectl_asks_until_its_timeout() -> None:
    snapshot = replace(drained_cluster(FREE), infrastructure=TERMINATING)
    assert ends(play(snapshot, drain("a1"), horizon=120)) == []
    run = play(snapshot, drain("a1", timeout_ns=ns(12)), horizon=120)
    [refused] = [entry for entry in run.entries if isinstance(entry, EvictionNotAllowed)]
    assert (refused.code, refused.budgets, refused.is_repeated) == (403, (), True)
    assert (ends(run), deleted(run)) == ([("a1", "timeout")], [])
    assert moments(run, NodeDrainEnded) == about(16.1)


def test_up_to_1_16_the_answer_does_not_say_why_and_is_an_error() -> None:
    snapshot = replace(drained_cluster(FREE), infrastructure=TERMINATING)
    old, new = (
        resolve_configuration(ControllerSettings(kubernetes_version=release), ControlPlaneFlags())
        for release in ("1.16", "1.17")
    )
    run = play(snapshot, drain("a1"), horizon=120, configuration=old)
    assert (ends(run), exit_codes(run), deleted(run)) == ([("a1", "error")], [1], [])
    assert ends(play(snapshot, drain("a1"), horizon=120, configuration=new)) == []


def test_kubectl_waits_for_the_end_of_a_pod_there_that_somebody_else_deletes() -> None:
    snapshot = replace(drained_cluster(FREE), infrastructure=TERMINATING)
    by_hand = make_event(8, "pod-delete", pods=("default/free-0",))
    run = play(snapshot, drain("a1"), by_hand, exit_at=0.5, horizon=120)
    assert (ends(run), exit_codes(run)) == ([("a1", "drained")], [0])
    # Deleted at 8 s, it exits 15 s later, and kubectl looks every second.
    assert moments(run, NodeDrainEnded) == about(24.0)


def test_and_asks_for_ever_if_the_pod_is_gone_before_it_was_seen_terminating() -> None:
    snapshot = replace(drained_cluster(FREE), infrastructure=TERMINATING)
    by_hand = make_event(8, "pod-delete", pods=("default/free-0",))
    assert ends(play(snapshot, drain("a1"), by_hand, exit_at=0.01, horizon=120)) == []


def test_disable_eviction_deletes_pods_of_a_terminating_namespace() -> None:
    snapshot = replace(drained_cluster(FREE), infrastructure=TERMINATING)
    run = play(snapshot, drain("a1", disable_eviction=True), horizon=120)
    assert (ends(run), deleted(run)) == ([("a1", "drained")], ["free-0"])


def changing(phase: str = "Running") -> ClusterSnapshot:
    """One of three is not Ready yet, and the budget is met by the others."""
    snapshot = drained_cluster(App("web", ["a1", "b1", "b1"], least=2, unready=[0]))
    pods = tuple(
        replace(pod, creation_timestamp_ns=START_NS, phase=phase) if pod.name == "web-0" else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=pods)


@pytest.mark.parametrize(
    ("release", "phase", "late"),
    [
        ("1.20", "Running", 5),
        ("1.21", "Running", 10),
        ("1.37", "Running", 10),
        # Of a Pending one the Eviction API itself tries again.
        ("1.19", "Pending", 0.5),
        ("1.37", "Pending", 0.5),
    ],
)
def test_a_pod_that_is_ready_in_the_moment_of_its_delete_is_asked_for_again(
    release: str, phase: str, late: float
) -> None:
    configuration = resolve_configuration(
        ControllerSettings(kubernetes_version=release), ControlPlaneFlags()
    )
    calm = play(changing(phase), drain("a1", at=0), ready=900, configuration=configuration)
    evicted = next(entry.at_ns for entry in calm.entries if isinstance(entry, PodDeleted)) / 1e9
    ready = evicted - 0.001
    run = play(changing(phase), drain("a1", at=0), ready=ready, configuration=configuration)
    again = next(entry.at_ns for entry in run.entries if isinstance(entry, PodDeleted)) / 1e9
    assert again - evicted == pytest.approx(late, abs=0.1)
    refused = [entry.code for entry in run.entries if isinstance(entry, EvictionNotAllowed)]
    assert refused == ([429] if phase == "Running" else [])
