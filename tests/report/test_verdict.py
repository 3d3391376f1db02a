"""The answer in sentences: what an operator reads first, and that it promises nothing false."""

from __future__ import annotations

import pytest
from report.builders import (
    eviction,
    inputs,
    kept,
    node_report,
    prediction,
    text_of,
)

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import (
    Coverage,
    Eviction,
    Joint,
    Prediction,
    Sourced,
    Window,
    WorkloadReport,
)
from kubectl_evictplan.prediction.pod_ends import Stuck


def sentences(value: Prediction) -> list[str]:
    """The verdict, one sentence a line."""
    lines: list[str] = []
    for line in text_of(value).split("\n\n")[0].splitlines():
        if line.startswith("  "):
            lines[-1] += line[1:]
        else:
            lines.append(line)
    return lines


def possible(pod: str, earliest: float = 10.0, latest: float = 20.0, node: str = "n1") -> Eviction:
    return eviction(
        pod,
        earliest,
        earliest_seconds=earliest,
        latest_seconds=latest,
        certainty="possible",
        node=node,
    )


def test_the_first_sentence_says_how_many_from_where_and_when() -> None:
    value = prediction(evictions=(eviction("a", 60.0),))
    assert sentences(value)[0] == (
        "1 pod is evicted for certain, from node n1: at 22:01:00 UTC (+1m0s)."
    )


def test_the_first_and_the_last_eviction_are_told_where_they_are_apart() -> None:
    value = prediction(
        evictions=(
            eviction("a", 60.0, latest_seconds=70.0),
            eviction("b", 300.0, latest_seconds=310.5, node="n2"),
        )
    )
    assert sentences(value)[0] == (
        "2 pods are evicted for certain, from nodes n1, n2: the first between 22:01:00 and 22:01:10 "
        "UTC (+1m0s .. +1m10s), the last between 22:05:00 and 22:05:11 UTC (+5m0s .. +5m11s)."
    )


def test_windows_that_overlap_are_one_span() -> None:
    value = prediction(
        evictions=(
            eviction("a", 60.0, latest_seconds=70.0),
            eviction("b", 65.0, latest_seconds=80.0),
        )
    )
    assert sentences(value)[0].endswith("between 22:01:00 and 22:01:20 UTC (+1m0s .. +1m20s).")


def test_many_nodes_are_counted_with_their_zone() -> None:
    names = ("n1", "n2", "n3", "n4")
    value = prediction(
        evictions=tuple(eviction(f"p-{name}", node=name) for name in names),
        nodes=tuple(node_report(name, changes=()) for name in names),
    )
    assert "from 4 nodes of zone eu/1a: " in sentences(value)[0]


def test_a_node_that_is_not_in_the_input_is_no_zone_of_its_own() -> None:
    names = ("n1", "n2", "n3", "gone")
    value = prediction(
        evictions=tuple(eviction(f"p-{name}", node=name) for name in names),
        nodes=tuple(node_report(name, changes=()) for name in names),
        warnings=(
            Warning("pod-on-unknown-node", "its node is not in the input", ("default/p-gone",)),
        ),
    )
    assert "from 3 nodes of zone eu/1a and 1 node that is not in the input: " in sentences(value)[0]


def test_a_pod_that_terminates_already_is_not_said_to_stay() -> None:
    value = prediction(
        evictions=(eviction("a", 60.0), possible("b"), possible("c")),
        warnings=(Warning("pod-already-terminating", "it is being deleted", ("default/c",)),),
    )
    span = "from node n1: between 22:00:10 and 22:00:20 UTC (+10s .. +20s)."
    assert sentences(value)[1:3] == [
        f"1 more pod may be evicted or stay, depending on timing that nobody can see, {span}",
        f"1 pod terminates already and may be deleted once more before it is gone, {span}",
    ]


def test_what_has_no_end_that_is_known_is_said_to_be_later() -> None:
    open_end = possible("b", latest=86_400.0)
    assert (
        "from 22:00:10 UTC on (+10s or later)." in sentences(prediction(evictions=(open_end,)))[0]
    )


def test_who_may_be_gone_in_the_end_is_not_said_to_stay_terminating() -> None:
    end = Window(70.0, None, Stuck.NOT_CERTAIN.value)
    value = prediction(evictions=(eviction("a", 60.0, gone=end),))
    assert "Of 1 pod it is not certain that it is gone in the end." in sentences(value)
    assert "+1m10s or later" in text_of(value)
    assert "stuck" not in text_of(value)


def test_what_is_only_possible_is_said_apart_and_that_it_may_stay() -> None:
    value = prediction(evictions=(eviction("a", 60.0), possible("b"), possible("c")))
    assert sentences(value)[1] == (
        "2 more pods may be evicted or stay, depending on timing that nobody can see, from node n1: "
        "between 22:00:10 and 22:00:20 UTC (+10s .. +20s)."
    )


def test_none_is_certain_is_said_and_nobody_is_said_to_be_alone() -> None:
    lines = sentences(prediction(evictions=(possible("a"),)))
    assert lines[0].startswith("1 pod may be evicted or stay, ")
    assert lines[0].endswith(" None is certain.")
    assert len(lines) == 1


def test_nothing_evicted_is_said_in_words() -> None:
    nothing = prediction(inputs=inputs(horizon=Sourced("5s", "until nothing more can happen")))
    assert sentences(nothing) == ["No pod is evicted."]
    assert sentences(prediction()) == ["No pod is evicted within 30m0s."]
    empty = prediction(inputs=inputs(pods=0))
    assert sentences(empty) == ["No pod is evicted within 30m0s: the input holds none."]
    assert "\x1b[1;31mNo pod" in text_of(empty, color=True)


@pytest.mark.parametrize(
    ("joint", "sentence"),
    [
        (
            Joint("zone/eu/1a", "nodes tainted", 1, 1, 4, 600.0),
            "In zone eu/1a, exactly 1 of 4 nodes is tainted by +10m0s (22:10:00).",
        ),
        (
            Joint("cluster", "nodes tainted", 0, 18, 40, 1800.0),
            "Taken together, at most 18 of 40 nodes are tainted by +30m0s (22:30:00).",
        ),
        (
            Joint("cluster", "pods evicted", 2, 18, 30, 1800.0),
            (
                "Taken together, at least 2 and at most 18 of 30 pods are evicted by +30m0s (22:30:00): "
                "at least 12 stay."
            ),
        ),
        (
            Joint("node/n1", "pods evicted", 3, 3, 4, 600.0),
            "On node n1, exactly 3 of 4 pods are evicted by +10m0s (22:10:00): 1 stays until then.",
        ),
        (
            Joint("cluster", "pods evicted", 2, 4, 4, 600.0),
            "Taken together, at least 2 of 4 pods are evicted by +10m0s (22:10:00).",
        ),
        (Joint("cluster", "pods evicted", 0, 4, 4, 600.0), None),
    ],
)
def test_possible_evictions_are_told_jointly(joint: Joint, sentence: str | None) -> None:
    lines = sentences(prediction(evictions=(possible("a"),), joint=(joint,)))
    assert lines[1:] == ([] if sentence is None else [sentence])


def test_joint_statements_are_not_told_where_everything_is_certain() -> None:
    joint = Joint("cluster", "pods evicted", 1, 1, 2, 600.0)
    assert "exactly" not in text_of(prediction(evictions=(eviction(),), joint=(joint,)))


def test_a_pod_that_goes_twice_counts_once_and_as_certain() -> None:
    value = prediction(evictions=(eviction("a"), possible("a", 400.0, 410.0)))
    lines = sentences(value)
    assert lines[0].startswith("1 pod is evicted for certain")
    assert lines[1] == "1 pod may go more than once: default/a. That makes 2 deletions."
    lines = sentences(prediction(evictions=(eviction("a"), eviction("a", 400.0))))
    assert lines[1] == "1 pod goes more than once: default/a. That makes 2 deletions."


def test_namespaces_are_counted_where_there_are_several() -> None:
    value = prediction(
        evictions=(eviction("a"), eviction("b", namespace="shop"), eviction("c", namespace="shop"))
    )
    assert "Namespaces: shop 2, default 1." in sentences(value)


def test_workloads_that_lose_every_pod_are_named() -> None:
    owners = ("ReplicaSet/web-1", "ReplicaSet/web-2")
    value = prediction(
        evictions=(
            eviction("a", owner="ReplicaSet/web-1"),
            eviction("b", owner="ReplicaSet/web-2"),
            eviction("c", owner="StatefulSet/db"),
        ),
        workloads=(
            WorkloadReport("default", "Deployment/web", owners, 2),
            WorkloadReport("default", "StatefulSet/db", ("StatefulSet/db",), 3),
        ),
    )
    assert "1 workload loses every pod it has now: default/web." in sentences(value)


def test_what_does_not_come_back_is_named() -> None:
    value = prediction(
        evictions=(eviction("a"), eviction("b"), eviction("db-0")),
        warnings=(
            Warning("bare-pod-lost", "…", ("default/a", "default/b")),
            Warning("statefulset-waits-for-name", "…", ("default/db-0",)),
        ),
    )
    lines = sentences(value)
    assert (
        "2 pods have no controller and, once evicted, do not come back: default/a, default/b."
    ) in lines
    assert (
        "1 pod of a StatefulSet is not replaced until the old pod is gone: default/db-0." in lines
    )
    assert "bare-pod-lost" not in text_of(value)


def test_what_is_stuck_is_told_with_what_frees_it() -> None:
    stuck = Window(1, None, "its kubelet is silent; that ends when it is back")
    both = (eviction("a", gone=stuck), eviction("b", gone=stuck))
    assert (
        "Once deleted, both stay Terminating, each because its kubelet is silent; that ends when it "
        "is back."
    ) in sentences(prediction(evictions=both))
    assert (
        "Once deleted, 1 pod stays Terminating, because its kubelet is silent; that ends when it is "
        "back."
    ) in sentences(prediction(evictions=(both[0], eviction("b"))))


def test_what_stays_is_counted_by_reason_the_most_frequent_first() -> None:
    value = prediction(
        kept=(
            kept("a"),
            kept("b"),
            kept("c", code="after-horizon"),
            kept("d", code="some-new-code"),
        )
    )
    assert sentences(value)[-1] == (
        "4 pods on the affected nodes stay: 2 with a toleration without limit, 1 due only after "
        "the horizon, 1 (some-new-code)."
    )


def test_a_pod_that_may_go_does_not_count_as_one_that_stays() -> None:
    value = prediction(evictions=(possible("a"),), kept=(kept("a", namespace="default"),))
    assert not any("on the affected nodes" in line for line in sentences(value))


def test_only_where_all_go_for_certain_no_other_pod_is_there() -> None:
    assert sentences(prediction(evictions=(eviction(),)))[-1] == (
        "No other pod is on the affected nodes."
    )


@pytest.mark.parametrize("code", ["pods-not-listed", "single-namespace", "nodes-without-pods"])
def test_an_input_that_is_not_the_whole_cluster_is_said_first_and_loudly(code: str) -> None:
    value = prediction(warnings=(Warning(code, "there is more", ("n1",)),))
    lines = text_of(value).splitlines()
    assert lines[0].startswith("THE INPUT MAY NOT BE THE WHOLE CLUSTER: ")
    assert f"  {code}: there is more (n1)" in lines[:4]
    assert lines.count(f"  {code}: there is more (n1)") == 1
    colored = text_of(value, color=True)
    assert "\x1b[1;31mTHE INPUT" in colored
    assert "\x1b[32mNo pod is evicted" not in colored


NOT_EXACT = (
    "Windows: not exact: 2 evictions (may be wider than what can happen), 1 eviction (may be "
    "too narrow); -o wide tells why"
)


def test_every_report_ends_with_what_was_read_and_where_the_flags_come_from() -> None:
    last = text_of(prediction()).split("\n\n")[-1].replace("\n  ", " ").splitlines()
    assert last == [
        "Read: 3 nodes, 12 pods in 2 namespaces; Kubernetes 1.29.6 (detected); -o wide tells all",
        "Flags: node-eviction-rate=0.25, node-monitor-grace-period=6s (given); 1 at default of release",
        "Start: 2026-11-20 22:00:00 UTC (given) is +0s; horizon 30m0s (given)",
        NOT_EXACT,
    ]


def test_a_report_whose_windows_are_all_exact_says_nothing_of_them() -> None:
    exact = prediction(inputs=inputs(coverage=Coverage(3, 0, 0)))
    assert "Windows:" not in text_of(exact)


def test_wide_has_every_flag_event_and_assumption() -> None:
    value = prediction(inputs=inputs(assumptions=("kubelets are honest",)))
    text = text_of(value, "wide")
    assert "Flag: node-monitor-period=5s (default of release)\n" in text
    assert "  22:00:03  +3s  kubelet-stop n1\n" in text
    assert "Assumed: kubelets are honest\n" in text
    assert "Ignored: 1 ConfigMap, 2 Service\n" in text


def test_wide_tells_no_timeline_where_nothing_at_all_happens() -> None:
    text = text_of(prediction(inputs=inputs(events=())), "wide")

    assert text.startswith("No pod is evicted")
    assert "What happens" not in text
