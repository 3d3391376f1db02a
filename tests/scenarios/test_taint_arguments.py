"""``what-if taint`` accepts the words of ``kubectl taint`` exactly when kubectl does."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import Node, Taint
from kubectl_evictplan.scenarios.taint_arguments import (
    parse_taint_arguments,
    resolve_taint_events,
)
from kubectl_evictplan.scenarios.taint_words import (
    TaintRemoval,
    likely_taint,
    parse_taint,
    parse_taint_removal,
)

MAINTENANCE = Taint("maint", "NoExecute", "yes")


def message_of(*words: str, selector: str = "", all_nodes: bool = False) -> str:
    with pytest.raises(InputError) as raised:
        parse_taint_arguments(words, selector=selector, all_nodes=all_nodes)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("k=v:NoExecute", Taint("k", "NoExecute", "v")),
        ("k:NoExecute", Taint("k", "NoExecute")),
        ("k=:NoSchedule", Taint("k", "NoSchedule")),
        (
            "example.com/k=v:PreferNoSchedule",
            Taint("example.com/k", "PreferNoSchedule", "v"),
        ),
    ],
)
def test_the_three_forms_that_add(text: str, taint: Taint) -> None:
    assert parse_taint(text) == taint


@pytest.mark.parametrize(
    ("text", "removal"),
    [
        ("k", TaintRemoval("k")),
        ("k:NoExecute", TaintRemoval("k", "NoExecute")),
        ("k=v:NoExecute", TaintRemoval("k", "NoExecute")),
    ],
)
def test_the_forms_that_remove_ignore_the_value(text: str, removal: TaintRemoval) -> None:
    assert parse_taint_removal(text) == removal


def test_words_before_the_first_taint_are_resources() -> None:
    request = parse_taint_arguments(["nodes", "n1", "n2", "maint=yes:NoExecute", "old-"])
    assert request.node_names == ("n1", "n2")
    assert request.additions == (MAINTENANCE,)
    assert request.removals == (TaintRemoval("old"),)


def test_a_resource_after_a_taint_is_an_error() -> None:
    expected = "nodes are named before the taints: 'n2' comes too late"
    assert message_of("node", "n1", "k:NoExecute", "n2") == expected


def test_what_is_missing_is_asked_for() -> None:
    assert message_of() == "which nodes? write `node NAME...` before the taint"
    assert message_of("k:NoExecute") == message_of()
    assert message_of("node", "n1").startswith("which taint? write KEY=VALUE:EFFECT")
    assert message_of("node", "k:NoExecute").startswith("which nodes? name them")
    assert message_of("pod", "p", "k-") == "only nodes have taints (got 'pod')"


def test_all_and_selector_exclude_each_other() -> None:
    message = message_of("node", "k:NoExecute", selector="a=b", all_nodes=True)
    assert message.startswith("--all and --selector exclude each other")
    assert parse_taint_arguments(["node", "k-"], all_nodes=True).node_names == ()
    assert parse_taint_arguments(["node", "k-"], selector="a=b").node_names == ()


def test_adding_and_removing_one_taint_in_one_command_is_an_error() -> None:
    expected = "one command cannot set and remove the same taint: 'k'"
    assert message_of("node", "n1", "k=v:NoExecute", "k-") == expected
    assert message_of("node", "n1", "k:NoExecute", "k:NoExecute-") == expected
    assert parse_taint_arguments(["node", "n1", "k:NoExecute", "k:NoSchedule-"]).removals


def test_the_same_key_and_effect_twice_is_an_error() -> None:
    text = message_of("node", "n1", "k=a:NoExecute", "k=b:NoExecute")
    assert text == "one taint is given twice, as 'k=a:NoExecute' and as 'k=b:NoExecute'"
    assert len(parse_taint_arguments(["node", "n", "k:NoExecute", "k:NoSchedule"]).additions) == 2


@pytest.mark.parametrize(
    ("typed", "taint"),
    [
        ("k=v", "k=v:NoExecute"),
        ("k", "k:NoExecute"),
        ("k:NoSched", "k:NoSchedule"),
        ("k=v:preferNoSchedule", "k=v:PreferNoSchedule"),
        ("k:NoExecute=v", "k=v:NoExecute"),
        ("k:v:NoExecute", "k=v:NoExecute"),
        ("a.b/c=d:noexecute", "a.b/c=d:NoExecute"),
        ("my key=v w:NoExecute", "my-key=v-w:NoExecute"),
        ("=v:NoExecute", "maint=v:NoExecute"),
        ("a/b/c:NoExecute", "maint:NoExecute"),
        ("", "maint:NoExecute"),
    ],
)
def test_a_mistyped_taint_has_a_likely_meaning(typed: str, taint: str) -> None:
    assert likely_taint(typed) == taint


SPECS = [
    *(
        "k=v:NoExecute",
        "k:NoExecute",
        "k=:NoExecute",
        "k:NoExecute-",
        "k=v:NoExecute-",
        "k-",
    ),
    *(
        "k=v",
        "k=v-",
        "k:NoExecute:x",
        "k=v=w:NoExecute",
        "=v:NoExecute",
        "k=v:",
        ":NoExecute",
    ),
    *(
        "k=v-:NoExecute",
        "k=-v:NoExecute",
        "k=v:NoExcute",
        "k=v:noexecute",
        "k=v:NoExecute--",
    ),
    *(
        "a.b/c=d:NoSchedule",
        "A.b/c:NoSchedule",
        "/c:NoSchedule",
        "a/b/c:NoSchedule",
        "k--",
        "-",
    ),
    *(
        "k=" + "v" * 63 + ":NoExecute",
        "k=" + "v" * 64 + ":NoExecute",
        "k" * 64 + ":NoExecute",
    ),
    *(
        "k=v w:NoExecute",
        "k =v:NoExecute",
        "k:",
        "k:-",
        "=",
        ":",
        "_k:NoExecute",
        "k_.-x:NoExecute",
    ),
    *("k:PreferNoSchedule", "k=\u0663:NoExecute", "k\n:NoExecute", "k=v\n:NoExecute"),
]


def accepted(words: list[str]) -> bool:
    try:
        parse_taint_arguments(["node", "n1", *words])
    except InputError:
        return False
    return True


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize(
    "words",
    [[spec] for spec in SPECS if spec != "-"]
    + [
        [],
        ["k:NoExecute", "k=v:NoExecute"],
        ["k:NoExecute", "n2"],
        ["k-", "k-"],
        ["n2", "k-"],
    ],
)
def test_kubectl_gives_the_same_verdict(words: list[str]) -> None:
    command = ["kubectl", "taint", "--server=http://127.0.0.1:1", "node", "n1", *words]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    # What kubectl accepts, it tries to send: only then does it miss the server.
    assert accepted(words) == ("The connection to the server" in run.stderr), run.stderr


def test_without_overwrite_an_existing_taint_stops_the_command_for_that_node() -> None:
    node = Node("n1", taints=(MAINTENANCE,))
    request = parse_taint_arguments(["node", "n1", "maint=yes:NoExecute"])
    with pytest.raises(InputError, match=r"Node n1: has taint maint:NoExecute already"):
        resolve_taint_events(request, [node])
    request = parse_taint_arguments(["node", "n1", "maint=no:NoExecute"], overwrite=True)
    events, _ = resolve_taint_events(request, [node])
    assert [event.taint for event in events] == [Taint("maint", "NoExecute", "no")]


def test_removing_what_is_absent_is_an_error_for_that_node() -> None:
    request = parse_taint_arguments(["node", "n1", "maint:NoSchedule-"])
    with pytest.raises(
        InputError, match="Node n1: has no taint maint:NoSchedule to remove; its taints: maint:NoEx"
    ):
        resolve_taint_events(request, [Node("n1", taints=(MAINTENANCE,))])
    request = parse_taint_arguments(["node", "n1", "maint:NoExecute-", "maint-"])
    with pytest.raises(InputError, match="has no taint to remove; without the '-', maint is added"):
        resolve_taint_events(request, [Node("n1", taints=(MAINTENANCE,))])


def test_other_nodes_of_the_command_are_still_changed() -> None:
    nodes = [Node("n2"), Node("n1", taints=(MAINTENANCE,))]
    events, warnings = resolve_taint_events(
        parse_taint_arguments(["node", "maint-"], all_nodes=True), nodes
    )
    assert [(event.action, event.nodes) for event in events] == [("untaint", ("n1",))]
    assert [(w.code, w.objects) for w in warnings] == [("kubectl-refuses", ("node/n2",))]


def test_additions_come_before_removals() -> None:
    node = Node("n1", taints=(MAINTENANCE,))
    request = parse_taint_arguments(["node", "n1", "maint-", "new:NoExecute"])
    events, _ = resolve_taint_events(request, [node], origin="o")
    assert [event.action for event in events] == ["taint", "untaint"]
    assert {(event.at_ns, event.origin) for event in events} == {(0, "o")}
