"""Wrong and hostile questions: time, scenarios, flags, what is explained, and every output.

The second half of ``test_bad_input``: there the cluster is wrong, here it is what is asked of it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from building.command_lines import CLUSTER, READY, Ask, asker, node, pod

SCENARIO = "apiVersion: evictplan.dev/v1alpha1\nkind: Scenario\n"
HOSTILE = "\x1b[31mX\a\b\r\n\u202e\u200b\u009b<script>|`'\"${x}"
SHOWN = HOSTILE.encode("unicode_escape").decode().replace("\\r\\n", "\\x0d\\x0a")
NAME = json.dumps(HOSTILE)
HOSTILE_CLUSTER = f"""\
{node("n1")}---
apiVersion: v1
kind: Node
metadata: {{name: {NAME}, uid: a, labels: {{topology.kubernetes.io/zone: {NAME}}}}}
spec: {{taints: [{{key: {NAME}, value: {NAME}, effect: NoExecute}}]}}
{READY.replace("type: Ready", f"type: Ready, reason: {NAME}, message: {NAME}")}
---
apiVersion: v1
kind: Pod
metadata:
  name: {NAME}
  namespace: {NAME}
  uid: {NAME}
  ownerReferences: [{{apiVersion: a/v1, kind: {NAME}, name: {NAME}, uid: x, controller: true}}]
spec:
  nodeName: {NAME}
  tolerations: [{{key: {NAME}, operator: Exists, effect: NoExecute, tolerationSeconds: 30}}]
"""
STOP = "{at: 1s, action: kubelet-stop, nodes: [n1]}"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty directory with a small cluster."""
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(f"{CLUSTER}---\n{pod()}")
    return tmp_path


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run one command line in this process."""
    return asker(capsys, monkeypatch)


@pytest.fixture
def cordon(ask: Ask) -> Ask:
    """Cordon n1 of the small cluster, with more words."""
    return lambda *words: ask("what-if", "cordon", "n1", "-f", "c.yaml", "-o", "json", *words)


@pytest.fixture
def scenario(ask: Ask) -> Ask:
    """Ask about a scenario file of the given events, or of a whole text."""

    def run(text: str, *words: str) -> Any:
        whole = text if "\n" in text else f"{SCENARIO}spec: {{events: [{text}]}}\n"
        Path("s.yaml").write_text(whole)
        return ask("what-if", "scenario", "s.yaml", "-f", "c.yaml", "-o", "json", *words)

    return run


# Time


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("5", "a unit is missing after 5"),
        ("-5m", "duration is negative"),
        ("5 m", "unknown unit ' m'"),
        ("1h30", "a unit is missing after 30"),
        ("P1D", "a number is missing before 'P'"),
        ("NaN", "a number is missing before 'NaN'"),
        ("inf", "a number is missing before 'inf'"),
        ("1e9h", "unknown unit 'e'"),
        ("\u0663s", "a number is missing before '\u0663s'"),
        ("1_0s", "unknown unit '_'"),
        ("", "not a duration"),
        ("100000h", "duration is longer than 10 years"),
        ("0s", "must be longer than 0"),
    ],
)
def test_durations_are_gos(cordon: Ask, text: str, reason: str) -> None:
    assert cordon("--horizon", text).problem().startswith(f"--horizon: {reason}")


def test_a_fraction_is_a_duration(cordon: Ask) -> None:
    assert cordon("--horizon", "1.5h").prediction()["inputs"]["horizon"]["value"] == "1h30m0s"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2020-01-01T00:00:00Z", "the start lies before the snapshot was taken, 2026-11-20T21:59"),
        ("2026-11-21T00:00:00", "timestamp needs Z or an offset"),
        ("2027-02-30T00:00:00Z", "no such day"),
        ("yesterday", "not an RFC 3339 timestamp"),
    ],
)
def test_a_wrong_start_says_why(cordon: Ask, text: str, reason: str) -> None:
    assert cordon("--start", text).problem().startswith(f"--start: {reason}")


# Scenarios


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{at: -1s, action: cordon, nodes: [n1]}", "3:22: spec.events[0].at: duration is negative"),
        (f"{SCENARIO}spek: 1\nspec: {{events: []}}\n", "3:1: unknown key 'spek'; did you mean 's"),
        ("apiVersion: evictplan.dev/v9\nkind: Scenario\nspec: {events: []}", "1:13: apiVersion: "),
        ("kind: Scenario\nspec: {events: []}\n", "1:1: required key 'apiVersion' is missing"),
        (CLUSTER, "2:7: kind: not a scenario: kind must be Scenario; cluster state is given wit"),
        (
            "{at: 0, action: cordon, nodes: [n9]}",
            "3:49: spec.events[0].nodes[0]: no node is called",
        ),
        ("{at: 0, action: cordon, nodes: ['n.*']}", "3:49: spec.events[0].nodes[0]: no node is c"),
        ("{at: 0, action: cordon, selector: a=b}", "3:51: spec.events[0].selector: no node match"),
        (
            f"{STOP}, {STOP}",
            "3:62: spec.events[1]: the kubelet of n1 is already silent since s.yaml:3 (at 1s)",
        ),
        (
            "{at: 1s, action: kubelet-start, nodes: [n1]}",
            "3:17: spec.events[0]: the kubelet of n1 was never stop",
        ),
        (
            "{at: 1s, action: untaint, nodes: [n1], taint: a}",
            "3:17: spec.events[0]: taint a is not on n1: never",
        ),
        (f"{SCENARIO}spec: {{horizon: 0s, events: []}}\n", "3:17: spec.horizon: the horizon must"),
        (f"{SCENARIO}spec: {{horizon: 100000h, events: []}}\n", "3:17: spec.horizon: duration is"),
    ],
)
def test_a_wrong_scenario_is_named_with_its_place(scenario: Ask, text: str, problem: str) -> None:
    assert scenario(text).problem().startswith(f"s.yaml:{problem}")


def test_events_of_one_instant_keep_the_order_of_the_file(scenario: Ask) -> None:
    answer = scenario("{at: 1s, action: cordon, nodes: [n1]}, {at: 1s, action: uncordon, zone: ''}")
    assert answer.code == 2
    answer = scenario(
        "{at: 1s, action: cordon, nodes: [n1]}, {at: 1s, action: uncordon, nodes: [n1]}"
    )
    assert "tie-at-instant" in answer.codes()
    events = answer.prediction()["inputs"]["events"]
    assert [event["action"] for event in events] == ["cordon", "uncordon"]


def test_a_cluster_is_no_scenario_and_a_scenario_no_cluster(ask: Ask, scenario: Ask) -> None:
    scenario("{at: 0, action: cordon, nodes: [n1]}")
    assert ask("what-if", "cordon", "n1", "-f", "s.yaml").problem() == (
        "s.yaml: a scenario, not cluster objects: use `what-if scenario FILE`"
    )
    Path("sub").mkdir()
    folder = ask("what-if", "scenario", "sub", "-f", "c.yaml")
    assert folder.problem() == "sub: is a directory: name the file in it"


API_SERVER = """\
apiVersion: v1
kind: Pod
metadata:
  name: kube-apiserver-n2
  namespace: kube-system
  uid: api
  labels: {component: kube-apiserver, tier: control-plane}
spec:
  nodeName: n2
  containers:
  - name: kube-apiserver
    image: registry.k8s.io/kube-apiserver:v1.29.6
    command: [kube-apiserver, --default-unreachable-toleration-seconds=20]
"""
CREATE = """\
apiVersion: evictplan.dev/v1alpha1
kind: Scenario
spec:
  events:
  - at: 1s
    action: pod-create
    manifest:
      apiVersion: v1
      kind: Pod
      metadata: {name: new, namespace: d}
      spec: {nodeName: n1}
  - {at: 2s, action: taint, nodes: [n1], taint: "node.kubernetes.io/unreachable:NoExecute"}
"""


def test_created_pods_are_admitted_by_the_clusters_own_api_server(ask: Ask, scenario: Ask) -> None:
    Path("api.yaml").write_text(API_SERVER)
    words = ("--kubernetes-version", "1.29", "--controller-flag", "node-monitor-period=1h")
    answers = scenario(CREATE, *words), scenario(CREATE, *words, "-f", "api.yaml")
    found = [
        [e["offsetSeconds"] for e in answer.prediction()["evictions"] if e["pod"] == "new"]
        for answer in answers
    ]
    assert found == [[302.0], [22.0]]


def test_created_pods_are_validated_by_the_release(scenario: Ask) -> None:
    toleration = "tolerations: [{key: a, operator: Gt, value: '5'}]"
    text = CREATE.replace("nodeName: n1", f"nodeName: n1, {toleration}")
    for version, code in (("1.29", 2), ("1.36", 0)):
        assert scenario(text, "--kubernetes-version", version).code == code
    given = text.replace(
        "spec:\n  events", "spec:\n  controller: {kubernetesVersion: '1.29'}\n  events"
    )
    assert "supported values" in scenario(given).problem()
    assert scenario(given, "--kubernetes-version", "1.36").code == 0


DAEMON = (
    ", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: x, uid: w, controller: true}]"
)


@pytest.mark.parametrize(
    ("meta", "evicted"),
    [
        ("", True),
        (DAEMON, False),
        (", annotations: {kubernetes.io/config.source: file}", False),
    ],
)
def test_written_daemon_set_and_static_pods_outlive_an_unreachable_node(
    ask: Ask, meta: str, evicted: bool
) -> None:
    Path("w.yaml").write_text(pod("w", meta=meta, stored=False))
    taint = "node.kubernetes.io/unreachable:NoExecute"
    words = ("--horizon", "1h", "--controller-flag", "node-monitor-period=2h", "-f", "w.yaml")
    answer = ask("what-if", "taint", "node", "n1", taint, "-f", "c.yaml", "-o", "json", *words)
    names = {eviction["pod"] for eviction in answer.prediction()["evictions"]}
    assert ("w" in names) == evicted


def test_a_saved_scenario_asks_the_same_question_again(ask: Ask) -> None:
    words = ("-f", "c.yaml", "-o", "json")
    asked = ("--kubernetes-version", "1.29", "--horizon", "90s", "--monitor-phase", "2s")
    first = ask("what-if", "fail", "node", "n1", *words, *asked, "--save-scenario", "s.yaml")
    again = ask("what-if", "scenario", "s.yaml", *words)
    # Only where the event and the release were written differs, and with that the whole's fingerprint.
    one = first.out.replace('"fail node n1"', '""').replace(": fail node n1", "")
    one = one.replace('"the command line"', '""')
    two = again.out.replace('"s.yaml:12"', '""').replace(": s.yaml:12", "")
    two = two.replace('"s.yaml:9:24"', '""')
    assert first.code == again.code == 0
    one, two = (re.sub('"fingerprint": "[^"]*"', "", text, count=1) for text in (one, two))
    assert one == two


@pytest.mark.parametrize("target", ["sub", "no/such", "/dev/full", "c.yaml", "link", ""])
def test_outputs_replace_nothing(ask: Ask, target: str) -> None:
    Path("sub").mkdir()
    Path("link").symlink_to("nowhere")
    before = sorted(path.name for path in Path().iterdir())
    force = () if target == "c.yaml" else ("--force",)
    words = ("what-if", "cordon", "n1", "-f", "c.yaml", "-o", "json", "--save-scenario", target)
    assert ask(*words, *force).problem().startswith(f"{target or '--save-scenario'}: ")
    assert sorted(path.name for path in Path().iterdir()) == before
    assert Path("c.yaml").read_text().startswith(CLUSTER)


# Flags


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("pod-eviction-timeout=3m", "flag does not exist in Kubernetes 1.29: removed in 1.27"),
        (
            "node-monitor-perod=3s",
            "unknown kube-controller-manager flag; did you mean 'node-monitor-period'?",
        ),
        ("unhealthy-zone-threshold=1.5", "must be between 0 and 1"),
        ("unhealthy-zone-threshold=NaN", "not a finite number"),
        ("node-eviction-rate=1e400", "not a finite number"),
        ("node-monitor-period=0s", "must be at least 1ms"),
        ("terminated-pod-gc-threshold=1_0", "not an integer"),
        ("large-cluster-size-threshold=\u0663", "not an integer"),
    ],
)
def test_a_wrong_controller_flag_says_why(cordon: Ask, flag: str, problem: str) -> None:
    name = flag.partition("=")[0]
    answer = cordon("--kubernetes-version", "1.29", "--controller-flag", flag)
    assert answer.problem().startswith(f"--controller-flag {name}: {problem}")


@pytest.mark.parametrize("flag", ["", "=x", "node-monitor-period", "--"])
def test_a_flag_needs_a_name_and_a_value(cordon: Ask, flag: str) -> None:
    problem = cordon("--controller-flag", flag).problem()
    assert problem.startswith("--controller-flag: expected NAME=VALUE")


def test_a_phase_lies_within_a_period(cordon: Ask) -> None:
    assert cordon("--monitor-phase", "7s").problem() == (
        "--monitor-phase: the first monitor tick comes within one --node-monitor-period "
        "(got 7s; expected less than 5s)"
    )


def test_a_start_near_the_end_of_the_calendar_is_one_clear_line(cordon: Ask) -> None:
    assert cordon("--start", "9999-12-31T23:59:59Z").problem() == (
        "--start: the start is too near the end of the year 9999; the latest is 9990-01-02T23:59:59Z"
    )


@pytest.mark.parametrize("version", ["1.9", "2.0", "latest", "v1.29.99", "x", "1", "1.29."])
def test_an_unknown_release_names_the_known_ones(cordon: Ask, version: str) -> None:
    problem = cordon(
        "--kubernetes-version", version, "--controller-flag", "kube-api-qps=1"
    ).problem()
    assert problem.startswith(f"--kubernetes-version: unknown Kubernetes release (got '{version}'")
    assert "expected 1.16 to 1.37" in problem


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--context", "x"], "--context: the cluster is read from files: leave it out"),
        (["-o", "yaml"], "--output is given twice, as 'json' and 'yaml'"),
        (["-f", ""], "--filename: the file name is empty"),
        (["-l", "a==b==c"], "cannot specify both a node name and --selector"),
        (["--", "-n2"], "not the name of a node (got '-n2')"),
        ([""], "not the name of a node (got '')"),
        (["--color", "maybe"], "--color: unknown value (got 'maybe'; expected auto, always or"),
        (["--by", "pods"], "--by: unknown value (got 'pods'; expected pod, node, "),
        (
            ["--time-zone", "Europe/Berln"],
            (
                "--time-zone: no such time zone; did you mean 'Europe/Berlin'? (got 'Europe/Berln'; "
                "expected UTC, local or a name such as Europe/Berlin)"
            ),
        ),
        (["--time-zone", "../../etc/passwd"], "--time-zone: no such time zone (got"),
        (["--time-zone", "Europe"], "--time-zone: no such time zone"),
        (["--time-zone", ""], "--time-zone: no such time zone (got ''"),
        (["--time-zone", "a\x00b"], "--time-zone: no such time zone"),
    ],
)
def test_words_that_make_no_sense(cordon: Ask, words: list[str], problem: str) -> None:
    assert cordon(*words).problem().startswith(problem)


@pytest.mark.parametrize("selector", ["a==b==c", "a in (", "!", "a in b", "a>x"])
def test_a_wrong_selector_names_the_column(ask: Ask, selector: str) -> None:
    problem = ask("what-if", "cordon", "-l", selector, "-f", "c.yaml").problem()
    assert problem.startswith("--selector: column ")


# What is explained


def test_explaining_evicted_kept_and_unknown_pods(ask: Ask) -> None:
    def explain(name: str, taint: str) -> Any:
        words = ("what-if", "taint", "node", "n1", taint, "-f", "c.yaml", "--explain", name)
        return ask(*words)

    assert explain("d/p", "m:NoExecute").out.startswith("Pod d/p is deleted for certain")
    assert explain("pod/p", "m:NoSchedule").out.startswith("Pod d/p stays: ")
    assert explain("d/q", "m:NoExecute").problem() == (
        "--explain: no pod is called 'd/q'; did you mean 'd/p'? (expected NAMESPACE/NAME)"
    )
    for name in ("", "/", "d/", "d/p/q", HOSTILE):
        assert explain(name, "m:NoExecute").problem().startswith("--explain: no pod is called")


def test_a_garbage_collected_pod_has_a_short_reason(ask: Ask) -> None:
    answer = ask("what-if", "delete", "node", "n1", "-f", "c.yaml")
    assert "WHY node-gone: pod-gc deletes the pod: its node no longer exists" in answer.out


# Our own files


@pytest.fixture
def snapshot(ask: Ask) -> dict[str, Any]:
    """Return a snapshot's document."""
    assert ask("snapshot", "-f", "c.yaml", "-o", "c.gz").out == (
        "snapshot of 2 nodes, 1 pod written to c.gz\n"
    )
    document: dict[str, Any] = json.loads(gzip.decompress(Path("c.gz").read_bytes()))
    return document


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"apiVersion": "evictplan.dev/v2"}, "written by a newer kubectl-evictplan"),
        ({"metadata": {"schemaVersion": 99}}, "written by a newer kubectl-evictplan"),
        ({"metadata": {"schemaVersion": 1}}, "damaged snapshot: its digest is missing or does not"),
        ({"metadata": {}}, "damaged snapshot"),
        ({"content": {}}, "damaged snapshot"),
        ({"content": None}, "damaged snapshot"),
        ({"metadata": 5}, "damaged snapshot"),
    ],
)
def test_other_and_damaged_snapshots_are_refused(
    ask: Ask, snapshot: dict[str, Any], change: dict[str, Any], problem: str
) -> None:
    Path("d.json").write_text(json.dumps({**snapshot, **change}))
    found = ask("what-if", "cordon", "n1", "-f", "d.json").problem()
    assert found.startswith(f"d.json: {problem}"), found


# Outputs


@pytest.mark.parametrize("output", ["table", "wide", "yaml", "name"])
@pytest.mark.parametrize("explain", [(), ("--explain", HOSTILE)])
def test_hostile_names_are_visible_in_every_output(
    ask: Ask, output: str, explain: tuple[str, ...]
) -> None:
    Path("h.yaml").write_text(HOSTILE_CLUSTER)
    words = ("what-if", "taint", "node", "--all", "q:NoExecute", "-f", "h.yaml", "-o", output)
    answer = ask(*words, *explain)
    assert (answer.code, answer.err) == (0, "")
    assert all(line.isprintable() for line in answer.out.splitlines())
    assert "\\x1b" in answer.out or "\\e" in answer.out or "\\u001B" in answer.out


def test_hostile_names_are_data_in_json_and_visible_in_errors(ask: Ask) -> None:
    Path("h.yaml").write_text(HOSTILE_CLUSTER)
    words = ("what-if", "taint", "node", "--all", "q:NoExecute", "-f", "h.yaml")
    (eviction, *_) = ask(*words, "-o", "json").prediction()["evictions"]
    assert (eviction["pod"], eviction["node"]) == (HOSTILE, HOSTILE)
    assert SHOWN[:20] in ask("what-if", "fail", "zone", "z", "-f", "h.yaml").problem()
    assert all(SHOWN[:20] in line for line in ask(*words, "--strict").problems())


def run(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    program = f'what_if() {{ {sys.executable} -m kubectl_evictplan what-if "$@"; }}; '
    return subprocess.run(
        [bash, "-c", program + command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_reader_that_leaves_early_is_no_error() -> None:
    result = run(
        "what_if taint node --all q:NoExecute -f c.yaml -o json | head -1; echo ${PIPESTATUS[0]}"
    )
    assert result.stdout.splitlines()[0] == "{" and result.stdout.split()[-1] in ("0", "141")
    assert result.stderr == ""


def test_an_odd_environment_is_no_error() -> None:
    Path("h.yaml").write_text(HOSTILE_CLUSTER.replace("X", "\u00e9"))
    odd = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C", "COLUMNS": "abc"}
    command = "unset HOME; what_if taint node --all q:NoExecute -f h.yaml"
    result = run(command, TERM="dumb", NO_COLOR="1", **odd)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.isascii() and "\x1b" not in result.stdout and "\\xe9" in result.stdout


def test_closed_streams_and_a_deleted_directory_are_no_bugs(directory: Path) -> None:
    cluster = directory / "c.yaml"
    closed = run(f"what_if cordon n1 -f {cluster} >&-")
    assert (closed.returncode, closed.stderr) == (2, "error: standard output is closed\n")
    silent = run("what_if cordon n1 -f - <&-")
    assert silent.returncode == 2
    assert silent.stderr.startswith("error: -: nothing on standard input\ntry: kubectl get ")
    gone = run(f'mkdir d && cd d && rmdir "$PWD" && what_if cordon n1 -f {cluster} -o name')
    assert gone.returncode == 0, gone.stderr
