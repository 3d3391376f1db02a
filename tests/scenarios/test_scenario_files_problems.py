"""What is wrong with a scenario file, line by line."""

from __future__ import annotations

import pytest
from building.scenario_texts import (
    CONTRACT_EXAMPLE,
    SNAPSHOT,
    events_of,
    load,
    problem_of,
    problems_of,
    with_events,
)
from hypothesis import given
from hypothesis import strategies as st

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.scenarios.files import load_scenario

HEADER = "apiVersion: evictplan.dev/v1alpha1\nkind: Scenario\n"
WRONG_EVENTS = [
    (
        "{at: 0, action: cordon, nodes: [a9]}",
        "5:37: spec.events[0].nodes[0]: no node is called 'a9'",
    ),
    ("{at: 0, action: cordon, nodes: []}", "the list is empty"),
    ("{at: 0, action: cordon, nodes: a1}", "nodes: must be a list (got 'a1')"),
    (
        "{at: 0, action: cordon, nodes: [1]}",
        "must be a string, but it is read as a number: quote it",
    ),
    ("{at: 0, action: cordon, nodes: [no]}", "quote it (got 'no')"),
    ("{at: 0, action: cordon, selector: pool=red}", "no node matches the selector 'pool=red'"),
    ('{at: 0, action: cordon, selector: "a in ("}', "column 7: found ''"),
    ('{at: 0, action: cordon, selector: ""}', "the selector is empty"),
    ("{at: 0, action: cordon, zone: eu-1c}", "did you mean 'eu-1a' or 'eu-1b'?"),
    ("{at: 0, action: cordon, allNodes: false}", "only 'allNodes: true'"),
    ('{at: 0, action: cordon, allNodes: "true"}', "must be a boolean"),
    ("{at: 0, action: cordon}", "one target is needed, given: none"),
    ("{at: 0, action: cordon, zone: eu-1a, nodes: [a1]}", "both 'nodes' and 'zone'"),
    ("{at: 0, action: cordon, nodes: [a1], taint: k}", "unknown key 'taint'"),
    ("{at: 0, action: cordon, node: [a1], nodes: [a1]}", "did you mean 'nodes'?"),
    ("{at: 0, action: cordn, nodes: [a1]}", "did you mean 'cordon'?"),
    ("{action: cordon, nodes: [a1]}", "required key 'at' is missing"),
    ("{at: 5, action: cordon, nodes: [a1]}", "a unit is missing after 5"),
    ("{at: -5s, action: cordon, nodes: [a1]}", "duration is negative"),
    ("{at: 1h30, action: cordon, nodes: [a1]}", "a unit is missing after 30"),
    ("{at: 1:30, action: cordon, nodes: [a1]}", "unknown unit ':'"),
    ("{at: 0, action: taint, nodes: [a1]}", "spec.events[0]: required key 'taint' is missing"),
    ("{at: 0, action: taint, nodes: [a1], taint: k=v}", "the effect of taint 'k=v' is missing"),
    (
        '{at: 0, action: taint, nodes: [a1], taint: "k:NoExcute"}',
        "'NoExcute' is not an effect: NoExecute evicts",
    ),
    ("{at: 0, action: taint, nodes: [a1], taint: k-}", "write action: untaint"),
    ("{at: 0, action: untaint, nodes: [dark], taint: maint-}", "leave out the trailing '-'"),
    ('{at: 0, action: node-ready, nodes: [a1], status: "true"}', "not a status of Ready"),
    (
        "{at: 0, action: node-ready, nodes: [a1], status: True}",
        "must be a string, but it is read as a boolean: quote it",
    ),
    ("{at: 1s, action: kubelet-stop, nodes: [a1], lastHeartbeat: 2s}", "after the stop itself"),
    (
        "{at: 0, action: controller-stop, outage: {component: etcd}}",
        "'etcd' is nothing that `what-if fail` takes away (expected component: one of control-plane,",
    ),
    (
        "{at: 0, action: controller-stop, outage: {component: apiserver, until: 5}}",
        "a unit is missing after 5",
    ),
    ("{at: 0, action: controller-stop, outage: {until: 5m}}", "required key 'component'"),
    ("{at: 0, action: pod-delete, pods: [default/web-1]}", "did you mean 'default/web-0'?"),
    ("{at: 0, action: pod-delete, pods: [db]}", "expected NAMESPACE/NAME"),
    (
        "{at: 0, action: pod-create, manifest: {apiVersion: v1, kind: Node, metadata: {}}}",
        "manifest.kind: a Pod is needed (got 'Node')",
    ),
    (
        "{at: 0, action: pod-create, manifest: {apiVersion: v1, kind: Pod, metadata: {}}}",
        "metadata.name: is missing",
    ),
    (
        "{at: 0, action: pod-create, manifest: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: a9}}}",
        "no node is called 'a9'",
    ),
    (
        "{at: 0, action: node-create, manifest: {apiVersion: v1, kind: Node, metadata: {name: a1}}}",
        "exists already",
    ),
    ("cordon", "expected a map with 'at' and 'action'"),
]


@pytest.mark.parametrize(("event", "message"), WRONG_EVENTS)
def test_a_wrong_event_is_named_with_its_place(event: str, message: str) -> None:
    problem = problem_of(event)
    assert problem.startswith("s.yaml:5:"), problem
    assert message in problem


def test_a_manifests_problems_have_their_own_places() -> None:
    manifest = "{apiVersion: v1, kind: Pod, metadata: {name: 1e3}, spec: {nodeName: no}}"
    text = with_events(f"{{at: 0, action: pod-create, manifest: {manifest}}}")
    with pytest.raises(InputError) as raised:
        load_scenario(text, "s.yaml", SNAPSHOT)
    found = [str(problem) for problem in raised.value.problems]
    assert found[0].startswith("s.yaml:5:88: metadata.name: must be a string"), found


@pytest.mark.parametrize(
    ("toleration", "message"),
    [
        ("{key: A, operator: Exists, tolerationSeconds: 5}", "effect must be 'NoExecute'"),
        ("{operator: Equal}", "operator must be Exists when `key` is empty"),
        ("{key: A, operator: exists}", 'supported values: "Equal", "Exists"'),
        ("{key: A, operator: Exists, value: x}", "value must be empty"),
        ("{key: A, effect: NoExec}", 'supported values: "NoSchedule"'),
        ('{key: A, effect: NoExecute, tolerationSeconds: "5"}', "plain decimal"),
        ("{key: A, effect: NoExecute, tolerationSeconds: 0300}", "plain decimal"),
        ("{key: A, effect: NoExecute, tolerationSeconds: 9223372036854775808}", "64 bits"),
        ("{key: A, effekt: NoExecute}", "did you mean 'effect'?"),
    ],
)
def test_tolerations_follow_the_api_servers_rules(toleration: str, message: str) -> None:
    text = f"{{at: 0, action: pod-tolerations, pods: [shop/db], tolerations: [{toleration}]}}"
    assert message in problem_of(text)


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    text = CONTRACT_EXAMPLE.replace("kind: Scenario", "kind: Scenario\nspek: 1")
    text = text.replace("30m", "30").replace("0s\n", "-1s\n").replace("[a2]", "[a8]")
    problems = problems_of(text)
    lines = [int(problem.split(":")[1]) for problem in problems]
    assert lines == sorted(lines) and len(problems) == 4, problems
    assert "unknown key 'spek'; did you mean 'spec'?" in problems[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml:1:1: the file is empty"),
        ("# nothing\n---\n", "the file is empty"),
        ("[]", "not a Scenario"),
        ("kind: Scenario\nspec: {events: []}", "required key 'apiVersion' is missing"),
        (
            "apiVersion: evictplan.dev/v1\nkind: Scenario\nspec: {events: []}",
            "must be evictplan.dev/v1alpha1",
        ),
        ("apiVersion: v1\nkind: List\nitems: []", "must be Scenario"),
        ("apiVersion: evictplan.dev/v1alpha1\nkind: Scenario\n", "required key 'spec' is missing"),
        ("apiVersion: evictplan.dev/v1alpha1\nkind: Scenario\nspec: {start: x}\n", "not a time"),
        (
            "apiVersion: evictplan.dev/v1alpha1\nkind: Scenario\nspec: {horizon: 0s, events: []}\n",
            "longer than 0",
        ),
        (f"{HEADER}spec: []", "3:7: spec: must be an object"),
        (f"{HEADER}spec: {{events: }}", "required key 'events' is missing"),
        (f"{HEADER}spec: {{events: {{}}}}", "spec.events: must be a list"),
        (f"{HEADER}spec: {{start: 5, events: []}}", "spec.start: must be a string"),
        (f"{HEADER}spec: {{controller: [], events: []}}", "spec.controller: must be an object"),
        (
            f"{HEADER}spec: {{controller: {{flags: {{a: [1]}}}}, events: []}}",
            "flags.a: must be a value",
        ),
        (
            f"{HEADER}spec: {{controller: {{flags: {{a: }}}}, events: []}}",
            "must be a value, not null",
        ),
        (f"{HEADER}spec: {{controller: {{flags: {{-a: 1}}}}, events: []}}", "without dashes"),
        (f"{HEADER}spec: {{controller: {{monitorPhase: []}}, events: []}}", "not a duration"),
        (f"{HEADER}metadata: {{name: 5}}\nspec: {{events: []}}", "metadata.name: must be a string"),
        ("a: 1\na: 2", '2:1: duplicate key "a", first on line 1'),
        ("a: !!python/object/apply:os.system [x]", "tag"),
        ("a: &a [*a]", "refers to itself"),
        ("a: [" * 300, "nested deeper than 200"),
        ("a: b: c", "1:5: mapping values are not allowed in this context"),
        ("a: {{ .Values.x }}", "template"),
        ("a: \x07", "a control character or byte that YAML does not allow (got U+0007)"),
        ("a: 1\n---\nb: 1\n", "a second document"),
        ('a: "\\ud800"', "not valid Unicode"),
        ("a: x\u2028b: y", "a line separator other than LF or CRLF"),
        ("%TAG ! tag:x:\n---\na: 1", "%TAG"),
        ("1: x", "a mapping key must be a string"),
    ],
)
def test_a_wrong_document_is_named_with_its_place(text: str, message: str) -> None:
    problems = problems_of(text)
    assert any(message in problem for problem in problems), problems
    assert all(problem.startswith("s.yaml:") for problem in problems)


def test_aliases_and_merges_are_allowed_but_bombs_are_not() -> None:
    events = events_of("&e {at: 1s, action: cordon, nodes: [a1]}", "{<<: *e, nodes: [a2]}")
    assert [event.nodes for event in events] == [("a1",), ("a2",)]
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{key}: &{key} [{','.join(['*' + before] * 10)}]\n"
        for before, key in zip("abcde", "bcdef", strict=True)
    )
    assert any("aliases expand" in problem for problem in problems_of(bomb))


def test_more_than_ten_thousand_events_are_refused() -> None:
    text = '{"apiVersion": "evictplan.dev/v1alpha1", "kind": "Scenario", "spec": {"events": ['
    text += ",".join(["1"] * 10_001) + "]}}"
    assert problems_of(text) == ["s.yaml:1:81: spec.events: 10001 events: the limit is 10000"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            "kubelet-stop, nodes: [a1]",
            "kubelet-stop, zone: eu-1a",
            "a1 is already silent since s.yaml:5 (at 1s)",
        ),
        (
            "cordon, nodes: [a1]",
            "kubelet-start, nodes: [a1]",
            "was never stopped, and the node is Ready",
        ),
        (
            "kubelet-stop, nodes: [a1]",
            'node-ready, nodes: [a1], status: "True"',
            "a silent kubelet cannot",
        ),
        ("cordon, nodes: [a1]", "untaint, nodes: [a1], taint: maint", "never added before"),
        (
            "untaint, nodes: [dark], taint: maint",
            'untaint, nodes: [dark], taint: "maint:NoExecute"',
            "removed already by s.yaml:5",
        ),
        ("controller-stop", "controller-stop", "already stopped since s.yaml:5"),
        ("controller-start", "controller-start", "already running since s.yaml:5"),
        ("node-delete, nodes: [a1]", "cordon, nodes: [a1]", "'a1' is deleted at this instant"),
    ],
)
def test_events_that_contradict_each_other_name_both(first: str, second: str, message: str) -> None:
    problem = problem_of(f"{{at: 1s, action: {first}}}", f"{{at: 2s, action: {second}}}")
    assert problem.startswith("s.yaml:6:") and message in problem


def test_events_that_fit_are_no_contradiction() -> None:
    events_of(
        "{at: 1s, action: kubelet-start, nodes: [dark]}",
        "{at: 2s, action: kubelet-stop, nodes: [dark]}",
        "{at: 3s, action: node-delete, nodes: [dark]}",
        "{at: 4s, action: node-create, manifest: {apiVersion: v1, kind: Node, metadata: {name: dark}}}",
        "{at: 5s, action: kubelet-stop, nodes: [dark]}",
        "{at: 6s, action: untaint, nodes: [a1], taint: node.kubernetes.io/unreachable}",
        "{at: 7s, action: controller-start}",
        "{at: 8s, action: controller-stop}",
    )


@given(st.text(alphabet="{}[]:,-&*!|>'\"%@#\n\t a1", max_size=40))
def test_no_text_escapes_as_anything_but_problems_with_a_place(text: str) -> None:
    with pytest.raises(InputError) as raised:
        load(text)
    assert all(problem.location.startswith("s.yaml:") for problem in raised.value.problems)


def test_all_problems_of_one_event_are_told_each_with_its_line() -> None:
    event = "at: 5\n    action: taint\n    nodes: [a9]\n    taint: k=v:NoExcute\n    node: [a1]"
    problems = problems_of(with_events(event))
    assert [problem.split(": ")[0] for problem in problems] == [
        "s.yaml:5:9",
        "s.yaml:7:13",
        "s.yaml:8:12",
        "s.yaml:9:5",
    ]


def test_an_event_with_a_misspelt_action_is_read_as_the_one_that_is_proposed() -> None:
    problems = problems_of(with_events("{at: 1s, action: cordn, nodes: [a9]}"))
    assert len(problems) == 2
    assert "did you mean 'cordon'?" in problems[0] and "no node is called 'a9'" in problems[1]


def test_an_event_without_an_instant_meets_every_node_that_ever_exists() -> None:
    events = (
        "{at: 1s, action: node-delete, nodes: [a1]}",
        "{at: 2s, action: node-create, manifest: {apiVersion: v1, kind: Node, metadata: {name: new}}}",
        "{at: soon, action: cordon, nodes: [a1, new, never]}",
    )
    problems = problems_of(with_events(*events))
    assert len(problems) == 2
    assert "spec.events[2].at: " in problems[0] and "no node is called 'never'" in problems[1]


def test_an_event_with_a_problem_does_not_happen_to_those_after_it() -> None:
    problem = problem_of(
        "{at: 1s, action: node-delete, nodes: [a1, a9]}", "{at: 2s, action: cordon, nodes: [a1]}"
    )
    assert "no node is called 'a9'" in problem
