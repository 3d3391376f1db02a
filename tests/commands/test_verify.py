"""``kubectl evictplan verify`` as it is typed, against a server on which something happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from building.command_lines import Ask, asker
from live.watched_server import WatchedServer, deleting, gone, time_of

from kubectl_evictplan.world import World

STARTED = ("--started-at", time_of(0))
TAINT = ("what-if", "taint", "node", "n1", "maint=yes:NoExecute")


def pod(name: str, tolerates: int | None = None) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    spec: dict[str, Any] = {"nodeName": "n1"}
    if tolerates is not None:
        toleration = {"key": "maint", "operator": "Exists", "effect": "NoExecute"}
        spec["tolerations"] = [{**toleration, "tolerationSeconds": tolerates}]
    return {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {**meta, "creationTimestamp": time_of(-900)}, "spec": spec,
        "status": {"phase": "Running"},
    }  # fmt: skip


def node() -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": time_of(-900)}
    meta = {"name": "n1", "uid": "uid-n1", "resourceVersion": "1"}
    return {
        "kind": "Node", "apiVersion": "v1", "metadata": meta, "status": {"conditions": [ready]},
    }  # fmt: skip


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    monkeypatch.chdir(tmp_path)
    asking = asker(capsys, monkeypatch)
    items = [node(), pod("now"), pod("soon", 8)]
    Path("cluster.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": items})
    )
    answer = asking(*TAINT, "-f", "cluster.json", "-o", "json")
    assert answer.code == 0, answer.err
    Path("prediction.json").write_text(answer.out)
    return asking


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> WatchedServer:
    found = WatchedServer()
    # A piece of its watch takes its second on the virtual clock alone, and who asks must not think that it ended at once.
    ours = World(monotonic=found.clock.world().monotonic, sleep=found.clock.world().sleep)
    monkeypatch.setattr(World.__new__, "__defaults__", tuple(ours))
    found.add(node(), pod("now"), pod("soon", 8))
    return found


def verdicts(text: str) -> dict[str, str]:
    return {one["pod"]: one["verdict"] for one in json.loads(text)["pods"]}


def told(text: str) -> list[str]:
    """Return the lines but the one that warns of a connection without TLS."""
    return [line for line in text.splitlines() if not line.startswith("warning: ")]


def test_what_happened_in_time_is_inside_and_exits_with_0(ask: Ask, server: WatchedServer) -> None:
    server.happens = [deleting("now", 0.2), deleting("soon", 8.3), gone("now", 2.0)]
    server.clock.advance(10)
    with server.serve():
        answer = ask("verify", "prediction.json", *STARTED, "-s", server.url)
    assert "Of 1 pod it is not known when it went" in answer.out
    assert answer.code == 0


def test_following_it_tells_each_pod_once_and_ends_when_all_is_decided(
    ask: Ask, server: WatchedServer
) -> None:
    server.happens = [
        deleting("now", 0.2, reason="DeletionByTaintManager"),
        gone("now", 1.1),
        deleting("soon", 8.3),
    ]
    with server.serve():
        answer = ask("verify", "prediction.json", *STARTED, "-w", "-s", server.url, "-o", "json")
    assert answer.code == 0, answer.err
    assert verdicts(answer.out) == {"now": "inside", "soon": "inside"}
    first, now, soon = told(answer.err)
    assert first == "following the pods of 1 node; ^C ends it"
    assert now.startswith("22:00:00  default/now on n1 deleted +0s")
    assert "by taint-eviction: inside" in now
    assert "default/soon" in soon


def test_reality_that_left_the_windows_exits_with_1(ask: Ask, server: WatchedServer) -> None:
    server.happens = [deleting("now", 6.2)]
    server.clock.advance(60)
    with server.serve():
        answer = ask("verify", "prediction.json", *STARTED, "-s", server.url)
    assert answer.code == 1
    assert "1 pod was deleted outside of its window: default/now; by up to 5" in answer.out
    assert "1 pod stayed that was certain to be deleted: default/soon" in answer.out


def test_a_page_for_the_ticket_has_a_title_and_a_table(ask: Ask, server: WatchedServer) -> None:
    server.happens = [deleting("now", 0.2)]
    server.clock.advance(5)
    with server.serve():
        answer = ask("verify", "prediction.json", *STARTED, "-s", server.url, "-o", "markdown")
    assert answer.out.startswith("# Predicted and actual: taint")
    assert "| inside | default | now |" in answer.out


def test_unknown_fails_only_where_that_is_asked_for(ask: Ask, server: WatchedServer) -> None:
    server.objects["pods"].clear()
    server.clock.advance(600)
    with server.serve():
        command = ("verify", "prediction.json", *STARTED, "-s", server.url)
        assert ask(*command).code == 0
        assert ask(*command, "--fail-on-unknown").code == 1


def test_the_time_at_which_a_node_was_tainted_tells_when_it_began(
    ask: Ask, server: WatchedServer
) -> None:
    added = time_of(100)
    taint = {"key": "maint", "value": "yes", "effect": "NoExecute", "timeAdded": added}
    server.objects["nodes"][0]["spec"] = {"taints": [taint]}
    server.happens = [deleting("now", 100.2)]
    server.clock.advance(102)
    with server.serve():
        answer = ask("verify", "prediction.json", "-s", server.url, "-o", "json")
    ledger = json.loads(answer.out)
    assert (ledger["start"], ledger["startSource"]) == (added, "nodes")
    assert verdicts(answer.out) == {"now": "inside", "soon": "not-yet-due"}


def test_without_a_beginning_it_asks_for_one(ask: Ask, server: WatchedServer) -> None:
    with server.serve():
        answer = ask("verify", "prediction.json", "-s", server.url)
    said, example = told(answer.err)
    assert answer.code == 2
    assert said == "error: nothing in the cluster tells when the change began"
    assert "--started-at" in example


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ('{"kind": "Pod", "apiVersion": "v1"}', "not a prediction"),
        ('{"kind": "Plan", "apiVersion": "evictplan.dev/v1alpha1"}', "made by another version"),
        (
            '{"kind": "Plan", "apiVersion": "evictplan.dev/v1alpha1", "fingerprint": 1}',
            "as a plan has it",
        ),
        ("[]", "not a prediction"),
    ],
)
def test_a_file_that_was_never_reviewed_is_refused(ask: Ask, text: str, said: str) -> None:
    Path("x.json").write_text(text)
    assert said in ask("verify", "x.json").problem()


def test_windows_that_no_clock_has_are_refused(ask: Ask) -> None:
    tree = json.loads(Path("prediction.json").read_text())
    for wrong in (1e300, -5.0):
        tree["evictions"][0]["latestSeconds"] = wrong
        Path("x.json").write_text(json.dumps(tree))
        assert "a window ends before it begins" in ask("verify", "x.json").problem()


def test_an_interrupt_shows_what_was_seen_so_far(
    ask: Ask, server: WatchedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubectl_evictplan.live.observation import Observation

    def interrupted(self: Observation) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Observation, "more", interrupted)
    server.happens = [deleting("now", 0.2)]
    server.clock.advance(1)
    with server.serve():
        answer = ask("verify", "prediction.json", *STARTED, "-w", "-s", server.url, "-o", "json")
    assert answer.code == 130
    assert verdicts(answer.out) == {"now": "inside", "soon": "not-yet-due"}
    assert told(answer.err)[-1] == "interrupted: this is what was seen so far"


def test_a_capture_with_events_tells_it_without_a_cluster(ask: Ask) -> None:
    event = {
        "kind": "Event", "apiVersion": "v1", "reason": "TaintManagerEviction",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "soon"},
        "message": "Marking for deletion Pod default/soon",
        "firstTimestamp": time_of(8), "lastTimestamp": time_of(8),
    }  # fmt: skip
    later = {
        **pod("other"),
        "metadata": {**pod("other")["metadata"], "creationTimestamp": time_of(60)},
    }
    items = [node(), later, event]
    Path("after.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    answer = ask("verify", "prediction.json", "-f", "after.json", *STARTED, "-o", "json")
    assert answer.code == 0, answer.err
    assert verdicts(answer.out) == {"now": "unknown", "soon": "inside"}


def test_files_are_not_watched(ask: Ask) -> None:
    answer = ask("verify", "prediction.json", "-f", "cluster.json", "--watch")
    assert answer.problem() == "--watch follows a live cluster, not files"


def test_a_snapshot_of_ours_is_a_look_as_well(ask: Ask) -> None:
    gone = pod("soon", 8)
    gone["metadata"] |= {"deletionTimestamp": time_of(39), "deletionGracePeriodSeconds": 30}
    later = pod("other")
    later["metadata"]["creationTimestamp"] = time_of(60)
    items = [node(), later, gone]
    Path("after.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    assert ask("snapshot", "-f", "after.json", "-o", "after.snap.json.gz").code == 0
    command = ("verify", "prediction.json", *STARTED, "-o", "json", "-f")
    by_snapshot, by_list = (ask(*command, f"after.{end}") for end in ("snap.json.gz", "json"))
    assert verdicts(by_snapshot.out) == {"now": "unknown", "soon": "inside"}
    assert json.loads(by_snapshot.out)["pods"] == json.loads(by_list.out)["pods"]


def test_files_made_before_the_change_began_tell_nothing_of_it(ask: Ask) -> None:
    lease = {
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "n1", "namespace": "kube-node-lease"},
        "spec": {"leaseDurationSeconds": 40, "renewTime": time_of(0)},
    }  # fmt: skip
    items = [node(), lease, pod("now"), pod("soon", 8)]
    Path("cluster.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": items})
    )
    answer = ask("verify", "prediction.json", "-f", "cluster.json", "--started-at", time_of(86_400))
    assert answer.code == 2, answer.out
    said, example = answer.err.splitlines()
    assert "the files show nothing after " in said
    assert example.startswith(
        "for example: kubectl evictplan verify prediction.json -f cluster.json"
    )
