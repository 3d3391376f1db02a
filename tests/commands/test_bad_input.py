"""What people give and what they are told: wrong and hostile input at the command line.

An error exits 2 with one line per problem and nothing else; what is only odd goes on and is a
warning in the answer. Everything runs the real program on real files; time, scenarios, flags and
outputs are in ``test_bad_questions``.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from building.command_lines import CLUSTER, Answer, Ask, asker, node, pod

from kubectl_evictplan.sources.reading import GET_COMMAND

SNAPSHOT_HEAD = b'{"apiVersion":"evictplan.dev/v1alpha1","kind":"Snapshot"'


def written(**parts: str) -> str:
    return pod(stored=False, **parts)


def tolerating(toleration: str, *, stored: bool = True) -> str:
    return pod(spec=f", tolerations: [{toleration}]", stored=stored)


def tolerated_for(seconds: str) -> str:
    toleration = "key: m, operator: Exists, effect: NoExecute"
    return tolerating(f"{{{toleration}, tolerationSeconds: {seconds}}}")


def created(text: str) -> str:
    return pod(meta=f', creationTimestamp: "{text}"')


def lease(spec: str) -> str:
    head = "apiVersion: coordination.k8s.io/v1\nkind: Lease\n"
    return f"{head}metadata: {{name: n1, namespace: kube-node-lease, uid: l}}\nspec: {spec}\n"


RENEWED = lease("{holderIdentity: n1, renewTime: 2026-11-20T21:59:50.0Z}")


def budget(spec: str) -> str:
    head = "apiVersion: policy/v1\nkind: PodDisruptionBudget\n"
    return f"{head}metadata: {{name: b, namespace: d, uid: b}}\nspec: {spec}\n"


def json_pod(field: str) -> str:
    metadata = '"metadata":{"name":"p","namespace":"d","uid":"u"}'
    return f'{{"apiVersion":"v1","kind":"Pod",{metadata},"spec":{{"nodeName":"n1",{field}}}}}'


def grace(value: str) -> str:
    return json_pod(f'"terminationGracePeriodSeconds":{value}')


def listed(**fields: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "PodList", **fields})


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run in an empty directory with a small cluster; nothing half-written may stay behind."""
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(CLUSTER)
    yield tmp_path
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run one command line in this process."""
    return asker(capsys, monkeypatch)


@pytest.fixture
def taint(ask: Ask) -> Ask:
    """Taint n1 of the small cluster plus one file of the given content."""

    def run(content: str | bytes, *words: str, name: str = "f.yaml") -> Answer:
        data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        Path(name).write_bytes(data)
        event = ("what-if", "taint", "node", "n1", "m=x:NoExecute", "-o", "json")
        release = () if "--kubernetes-version" in words else ("--kubernetes-version", "1.29")
        return ask(*event, "-f", "c.yaml", "-f", name, *release, *words)

    return run


@pytest.fixture
def cordon(ask: Ask) -> Ask:
    """Cordon n1 of the small cluster, with more words."""
    return lambda *words: ask("what-if", "cordon", "n1", "-f", "c.yaml", "-o", "json", *words)


# Files and encodings: (what is given, its name, its content, what is told after the name)
BYTES = [
    ("utf-16", "f.yaml", pod().encode("utf-16"), ": not UTF-8 (looks like UTF-16 or UTF-32)"),
    ("utf-32", "f.json", b"\x00\x00\xfe\xff", ": not UTF-8 (looks like UTF-16 or UTF-32)"),
    (
        "a table",
        "f.txt",
        b"NAME   STATUS\nn1     Ready\n",
        ": the table that kubectl prints: add `-o j",
    ),
    (
        "names only",
        "f.txt",
        b"node/n1\nnode/n2\n",
        ": the table that kubectl prints: add `-o json`",
    ),
    ("a description", "f.txt", b"Name:         n1\n", ": looks like `kubectl describe`: use `kube"),
    ("a message", "f.json", b'Warning: old\n{"a": 1}', ": begins with what kubectl told, not with"),
    ("an error", "f.json", b"Error from server: no\n", ": begins with what kubectl told, not with"),
    ("HTML", "f.yaml", b"<html>login</html>", ": HTML, not objects: did a proxy or a login page"),
    ("an invalid byte", "f.yaml", b"a: \xff", ": not UTF-8 (invalid byte at offset 3)"),
    ("nul", "f.yaml", b"a: \x00\n", ":1:4: a control character or byte that YAML does not"),
    ("json", "f.json", b'{"a":"\x01"}', ":1:7: control character inside a string"),
    ("cr", "f.yaml", b"a: x\rb: y", ":1:5: a line separator other than LF or CRLF"),
    ("nel", "f.yaml", b"a: x\xc2\x85b: y", ":1:5: a line separator other than LF or CRLF"),
    ("png", "f.yaml", b"\x89PNG\r\n\x1a\n", ": looks like binary (PNG)"),
    ("gif", "f.yaml", b"GIF89a\x00", ": looks like binary (GIF)"),
    ("gzip of something else", "f.gz", gzip.compress(b"{}"), ": not a Kubernetes object: kind is"),
    ("a gzip bomb", "f.gz", gzip.compress(bytes(70_000_000)), ": unpacks to an absurd size"),
    ("cut", "f.gz", gzip.compress(SNAPSHOT_HEAD)[:-4], ": damaged snapshot (truncated)"),
    ("more", "f.gz", gzip.compress(SNAPSHOT_HEAD) + b"x", ": damaged snapshot (data after"),
    (
        "a cut list",
        "f.gz",
        gzip.compress(b'{"kind": "List", "items": []}')[:-9],
        ": damaged or cut archive (it ends too early",
    ),
    (
        "a list and more",
        "f.gz",
        gzip.compress(b"{}") + b"x",
        ": damaged or cut archive (what follows the",
    ),
    ("a cut ZIP", "f.yaml", b"PK\x03\x04", ": damaged or cut archive (File is not a zip file)"),
    ("JSON that was cut", "f.json", b'{"a": ', ":1:7: unexpected end of the file"),
    ("comma", "f.json", b'{"a": 1,}', ":1:9: trailing comma: JSON has none"),
    ("quotes", "f.json", b"{'a': 1}", ":1:2: single quotes: JSON strings need double"),
    ("comment", "f.json", b'{//x\n"a":1}', ":1:2: comments are not JSON"),
    ("nan", "f.json", b'{"a":\n NaN}', ":2:2: NaN is not JSON (got NaN)"),
    ("1e400", "f.json", b'{"a": 1e400}', ":1:7: number out of range (got 1e400)"),
    (
        "a duplicate key in JSON",
        "f.json",
        b'{"a":1,\n"a":2}',
        ':2:1: duplicate key "a", first on line 1',
    ),
    ("two JSON values", "f.json", b"{}\n{}", ":2:1: more than one JSON value in the file"),
    ("deep nesting", "f.json", b"[" * 300 + b"]" * 300, ":1:201: nested deeper than 200"),
    ("deep nesting: bomb", "f.json", b'{"a":' * 100_000, ":1:1001: nested deeper than 200"),
    ("string", "f.json", b'"x"', ': expected an object (got "x")'),
    ("null", "f.json", b"null", ": expected an object (got null)"),
    ("list", "f.json", b"[]", ": expected an object (got a list)"),
    ("tab", "f.yaml", b"a:\n\tb: 1", ":2:1: a tab: YAML is indented with spaces"),
    ("quote", "f.yaml", b'a: "x', ":1:6: while scanning a quoted scalar"),
    ("alias", "f.yaml", b"a: *u", ":1:4: undefined alias (got *u)"),
    ("an alias to itself", "f.yaml", b"a: &a {b: *a}", ":1:11: alias refers to itself (got *a)"),
    (
        "a tag",
        "f.yaml",
        b"a: !!python/object/apply:os.system [x]",
        ":1:4: this tag is not accepted",
    ),
    (
        "a tag: binary",
        "f.yaml",
        b"a: !!binary eA==",
        ":1:4: this tag is not accepted (got !!binary)",
    ),
    (
        "a missing ---",
        "f.yaml",
        f"{pod()}{pod('q')}".encode(),
        ':5:1: duplicate key "apiVersion", first on line 1: is a line `---` missing',
    ),
    (
        "a duplicate key in YAML",
        "f.yaml",
        b"a: 1\na: 2",
        ':2:1: duplicate key "a", first on line 1 (kubectl keeps',
    ),
    ("a merge of no mapping", "f.yaml", b"a: {<<: 3}", ":1:9: << must refer to a mapping"),
    (
        "a key that is no string",
        "f.yaml",
        b"1: x",
        ":1:1: a mapping key must be a string: quote it (got 1)",
    ),
    (
        "a tag directive",
        "f.yaml",
        b"%TAG ! tag:x:\n---\na: 1",
        ":1:1: %TAG directives are not accepted",
    ),
    ("json", "f.json", b'{"a":"\\ud800"}', ":1:6: a string is not valid Unicode"),
    (
        "a template",
        "f.yaml",
        b"a: 1\nb: {{ .Values.x }}",
        ":2:5: looks like an unrendered template",
    ),
    (
        "b52",
        "f.yaml",
        b"services: {web: {}}",
        ": not a Kubernetes object (looks like docker-com",
    ),
]


@pytest.mark.parametrize(
    ("name", "content", "problem"), [row[1:] for row in BYTES], ids=[row[0] for row in BYTES]
)
def test_bytes_and_syntax_are_refused_with_their_place(
    taint: Ask, name: str, content: bytes, problem: str
) -> None:
    assert taint(content, name=name).problem().startswith(name + problem)


def test_aliases_that_expand_to_too_much(taint: Ask) -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{key}: &{key} [{','.join(['*' + before] * 10)}]\n"
        for before, key in zip("abcdef", "bcdefg", strict=True)
    )
    assert "aliases expand to an absurd size" in taint(bomb).problem()


@pytest.mark.parametrize("name", ["missing", "dangling", "a\nb\x1b[31m\u202e"])
def test_a_missing_file_is_named_as_given_and_escaped(ask: Ask, name: str) -> None:
    Path("dangling").symlink_to("nowhere")
    shown = name.replace("\n", "\\x0a").replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert ask("what-if", "cordon", "n1", "-f", name).problem() == f"{shown}: no such file"


def test_a_directory_needs_recursive(ask: Ask, directory: Path) -> None:
    Path("sub").mkdir()
    assert ask("what-if", "cordon", "n1", "-f", ".").problem() == (
        ".: is a directory (use -R/--recursive)"
    )
    assert ask("what-if", "cordon", "n1", "-R", "-f", ".", "-o", "name").code == 0
    answer = ask("what-if", "cordon", "n1", "-R", "-f", "sub").problem()
    assert answer.startswith("sub: contains no Kubernetes objects")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(ask: Ask) -> None:
    Path("c.yaml").chmod(0)
    assert ask("what-if", "cordon", "n1", "-f", "c.yaml").problem() == "c.yaml: permission denied"


@pytest.mark.parametrize("content", ["", " \n\t\n", "# nothing\n", "---\n"])
def test_a_file_without_objects_is_an_error_alone_and_a_warning_beside(
    ask: Ask, taint: Ask, content: str
) -> None:
    assert "empty-file" in taint(content).codes()
    problem = ask("what-if", "cordon", "n1", "-f", "f.yaml").problem()
    hint = f"(expected the output of `{GET_COMMAND}`)"
    assert problem == f"f.yaml: contains no Kubernetes objects {hint}"


def test_standard_input(ask: Ask) -> None:
    words = ("what-if", "cordon", "n1", "-f", "-")
    assert ask(*words, "-o", "name", stdin=CLUSTER.encode()).code == 0
    assert ask(*words).problem().startswith("-: contains no Kubernetes objects (expected the outp")
    assert ask(*words, "-f", "-").problem() == "-: standard input is given twice"
    both = ask("what-if", "scenario", "-", "-f", "-").problem()
    assert both == "standard input can be the scenario or the cluster, not both"


def test_objects_given_twice(taint: Ask) -> None:
    Path("g.yaml").write_text(pod())
    assert "loaded-once" in taint(pod(), "-f", "g.yaml").codes()
    assert "loaded-once" in taint(pod(), "-f", "f.yaml").codes()
    assert taint(pod(spec=", hostNetwork: true"), "-f", "g.yaml").problem() == (
        "g.yaml: Pod d/p: given twice with different content, first in f.yaml"
    )
    assert taint(f"{pod()}---\n{pod()}").problem() == (
        "f.yaml:8:11: Pod d/p: given twice, first in f.yaml:3:11, again in doc 2"
    )
    other = pod().replace("namespace: d", "namespace: e").replace("u-p", "u-q")
    assert len(taint(f"{pod()}---\n{other}").evicted_after()) == 2


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbf" + pod().encode(), pod().replace("\n", "\r\n").encode()]
)
def test_a_byte_order_mark_and_crlf_are_fine(taint: Ask, content: bytes) -> None:
    assert taint(content).evicted_after() == [0]


def test_only_regular_files_and_pipes_say_how(ask: Ask) -> None:
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for name in ("/dev/zero", "/dev/full", "socket"):
            problem = ask("what-if", "cordon", "n1", "-f", name).problem()
            assert problem == f"{name}: not a regular file"
    for words in (("what-if", "cordon", "n1"), ("snapshot", "-o", "x.gz")):
        problem = ask(*words, "-f", "fifo").problem()
        assert problem.startswith("fifo: not a regular file but a pipe") and "`-f -`" in problem
    assert not Path("x.gz").exists()


# What a field may hold: (what is given, its content, what is told after file and place)
FIELDS = [
    ("a number of 5000 digits", grace("9" * 5000), "Pod d/p: spec.terminationGracePeriodSeconds: does not fit in 64 b"),
    ("a fraction for an integer", grace("1.0"), "Pod d/p: spec.terminationGracePeriodSeconds: must be an integer"),
    ("a number beyond int64", grace(str(2**63)), "Pod d/p: spec.terminationGracePeriodSeconds: does not fit in 64"),
    ("yes for a string", pod(meta=", labels: {a: yes}"), "Pod d/p: metadata.labels.a: must be a string, but"),
    ("a number for a string", pod(meta=", labels: {a: 1e3}"), "Pod d/p: metadata.labels.a: must be a string, but"),
    ("no kind", "metadata: {name: x}", "not a Kubernetes object"),
    ("no kind: list", listed(kind="List", items=[{"kind": "Pod"}]), "items[0]: apiVersion is missing"),
    ("no kind: doc", f"{pod()}---\nkind: Pod\n", "doc 2: apiVersion is missing"),
    ("items that are no list", listed(items={}), "items: must be a list (got an object)"),
    ("half a list", listed(items=[], metadata={"continue": "x"}), "incomplete list: metadata.continue"),
    ("a table in JSON", '{"kind":"Table","apiVersion":"meta.k8s.io/v1"}', "a table, not objects: use `kube"),
    ("a misspelled kind", pod().replace("Pod", "Podd"), 'Podd d/p: unknown kind "Podd": did you me'),
    ("a kind of another group", pod().replace("v1", "apps/v1"), "Pod d/p: Pod is of apiVersion v1"),
    ("a number for a time", created("x").replace('"x"', "1795212000"), "Pod d/p: metadata.creationTimestamp: must be a time"),
    ("a percentage", budget("{maxUnavailable: 101%}").replace(", uid: b", ""), "PodDisruptionBudget d/b: spec.maxUnavailable: a percentage above"),
    ("a name that is a number", pod(name="123"), "metadata.name: must be a string, but it is rea"),
    ("a kind in lower case", pod().replace("Pod", "pod"), 'pod d/p: unknown kind "pod": did you mean Pod?'),
    ("no metadata", "kind: Pod\napiVersion: v1\nmetadata: []", "metadata: must be an object (got a list)"),
    ("an empty name", pod(name='""'), "metadata.name: is missing"),
    ("an invalid name", written(name="Upper_"), "Pod d/Upper_: metadata.name: a lowercase RFC 1123 subdomain"),
    ("no namespace", pod().replace("namespace: d, ", ""), "Pod p: metadata.namespace: is missing"),
    ("a string for a list", pod(spec=", tolerations: x"), 'Pod d/p: spec.tolerations: must be a list (got "x")'),
    ("a string for a list: map", pod(meta=", labels: []"), "Pod d/p: metadata.labels: must be an object (got a li"),
    (
        "one taint twice",
        node(spec="{taints: [{key: a, effect: NoExecute}, {key: a, effect: NoExecute}]}",
             stored=False),
        "Node n3: spec.taints[1]: taints must be unique by key and effect pair",
    ),
    (
        "an unknown effect",
        node(spec="{taints: [{key: a, effect: NoExec}]}", stored=False),
        'Node n3: spec.taints[0].effect: supported values: "NoSchedule"',
    ),
    ("a lease without a time", lease('{renewTime: "soon"}'), "Lease kube-node-lease/n1: spec.renewTime: not an RFC"),
    ("a time without zone", created("2026-11-20T22:00:00"), "Pod d/p: metadata.creationTimestamp: timestamp needs"),
    ("zone", created("2026-11-20T22:00:00+25:00"), "Pod d/p: metadata.creationTimestamp: zone"),
    ("day", created("2026-02-30T00:00:00Z"), "Pod d/p: metadata.creationTimestamp: no such d"),
    ("hour", created("2026-01-01T24:00:00Z"), "Pod d/p: metadata.creationTimestamp: hour, mi"),
    ("the year 10000", created("10000-01-01T00:00:00Z"), "Pod d/p: metadata.creationTimestamp: year out of"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "problem"), [row[1:] for row in FIELDS], ids=[row[0] for row in FIELDS]
)
def test_a_wrong_field_is_named_with_its_object(taint: Ask, content: str, problem: str) -> None:
    found = taint(content, name="f.json" if content.startswith("{") else "f.yaml").problem()
    assert re.sub(r"^f\.(json|yaml)(:\d+:\d+)?: ", "", found).startswith(problem), found


@pytest.mark.parametrize(
    "seconds", ["0300", "0o300", "0x12c", "3_00", "1:30", "3e2", "300.0", '"300"', "+300", ".inf"]
)
def test_only_plain_decimal_integers(taint: Ask, seconds: str) -> None:
    problem = taint(tolerated_for(seconds)).problem()
    where = "f.yaml:4:85: Pod d/p: spec.tolerations[0].tolerationSeconds: "
    assert re.sub(r":4:\d+:", ":4:85:", problem).startswith(where)
    assert "plain decimal" in problem


@pytest.mark.parametrize(
    "toleration",
    [
        "{key: m, operator: Exists, tolerationSeconds: 3}",
        "{operator: Equal}",
        "{key: m, operator: exists}",
        "{key: m, operator: Exists, value: x}",
        "{key: m, effect: NoExec}",
        '{key: m, operator: Gt, value: "5"}',
    ],
)
def test_tolerations_are_errors_when_written_and_warnings_when_stored(
    taint: Ask, toleration: str
) -> None:
    assert "Pod d/p: spec.tolerations[0]." in taint(tolerating(toleration, stored=False)).problem()
    codes = taint(tolerating(toleration)).codes()
    assert codes & {"invalid-toleration", "lt-gt-operator-gate-off"}


# What goes on with a warning: (what is given, its content, the warning's code)
ODD = [
    ("an anchor twice", "a: &x 1\nb: &x 2\nkind: ConfigMap\napiVersion: v1\n", "duplicate-anchor"),
    ("a tag directive", f"%YAML 1.1\n---\n{pod()}", "yaml-directive"),
    ("null items", listed(items=None), "empty-list"),
    ("a future version", '{"kind":"PodDisruptionBudget","apiVersion":"policy/v2"}', "unknown-version"),
    ("an empty name", written().replace("name: p", "generateName: p-"), "synthetic-name"),
    ("an invalid name", pod(name="Upper_"), "invalid-name"),
    ("no namespace", written().replace(", namespace: d", ""), "namespace-defaulted"),
    ("a node with a namespace", node().replace("name: n3", "name: n3, namespace: d"), "namespace-ignored"),
    ("a misspelled field", written(spec=", toleration: []"), "misspelled-field"),
    ("one uid twice", f"{pod()}---\n{pod(name='q').replace('u-q', 'u-p')}", "duplicate-uid"),
    ("an unknown effect", node(spec="{taints: [{key: a, effect: NoExec}]}"), "unknown-taint-effect"),
    ("an odd Ready condition", node(status="status: {conditions: [{type: Ready, status: odd}]}"), "odd-ready-condition"),
    ("a lease without a time", lease("null"), "odd-lease"),
    ("unschedulable without taint", node(spec="{unschedulable: true}"), "unschedulable-mismatch"),
    ("names that look alike", node("N1"), "confusable-names"),
    ("a pod on no node", pod().replace("n1", "gone"), "pod-on-unknown-node"),
    ("seconds that overflow", tolerated_for("9223372037"), "toleration-seconds-overflow"),
    ("negative", pod(spec=", terminationGracePeriodSeconds: -3"), "negative-grace-period"),
    ("long", pod(spec=", terminationGracePeriodSeconds: 315360000"), "long-grace-period"),
    ("an odd budget", budget("{minAvailable: '50', selector: {}}"), "odd-budget"),
    ("an odd budget: operator", budget("{maxUnavailable: 1, selector: {matchExpressions: "
                            "[{key: a, operator: Near}]}}"), "odd-budget"),
    ("an unknown phase", f"{pod()}status: {{phase: Weird}}\n", "unknown-phase"),
    ("a leap second", created("2016-12-31T23:59:60Z"), "leap-second"),
    ("a time in the future", f"{RENEWED}---\n{created('2030-01-01T00:00:00Z')}", "future-timestamp"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "code"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_what_is_odd_goes_on_with_a_warning(taint: Ask, content: str, code: str) -> None:
    name = "f.json" if content.startswith("{") else "f.yaml"
    assert code in taint(content, name=name).codes()
    assert taint(content, "--strict", name=name).code == 2


@pytest.mark.parametrize(
    ("seconds", "offsets"),
    [("-5", [0]), ("0", [0]), ("7", [7]), ("18446744074", [0.290448]), (str(2**63 - 1), [])],
)
def test_odd_seconds_are_predicted_as_the_controller_counts(
    taint: Ask, seconds: str, offsets: list[float]
) -> None:
    assert taint(tolerated_for(seconds)).evicted_after() == offsets


def test_a_name_of_a_megabyte_does_not_fill_the_terminal(ask: Ask, taint: Ask) -> None:
    assert len(taint(pod(name="x" * 1_000_000, spec=", tolerations: 5")).problem()) < 600
    assert len(ask("what-if", "cordon", "x" * 1_000_000, "-f", "c.yaml").problem()) < 600


def test_no_nodes_is_an_error_and_no_pods_an_empty_answer(ask: Ask, cordon: Ask) -> None:
    Path("p.yaml").write_text(pod())
    problem = ask("what-if", "cordon", "n1", "-f", "p.yaml").problem()
    assert problem.startswith("p.yaml: no nodes: nothing to simulate")
    assert cordon().prediction()["evictions"] == []
