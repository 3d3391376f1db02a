"""The warnings of a prediction as a whole: none without a reason, merged, and all documented."""

from __future__ import annotations

import ast
import functools
import re
import weakref
from functools import partial
from pathlib import Path

from building.builders import (
    START_NS,
    UNREACHABLE,
    default_tolerations,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from building.warning_runs import TAINT, configured, message, objects, warn, warnings_of
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION, PodDeleted, Timeline
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.prediction.records import RowsByCode, where_code
from kubectl_evictplan.prediction.warnings.registry import CODES
from kubectl_evictplan.report import render
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_plain_prediction_has_few_warnings() -> None:
    pod = make_pod("web", "n1", owner="ReplicaSet/web", tolerations=default_tolerations())
    seen = ("PodDisruptionBudget", "ReplicaSet")
    snapshot = replace(make_snapshot(["n1"], [pod]), kinds_seen=seen)
    assert warn([], events=[TAINT], snapshot=snapshot) == []


def test_a_cluster_that_is_left_alone_has_none() -> None:
    assert warn(["n1"], [make_pod("p", "n1")]) == []


def test_objects_are_sorted_and_named_once() -> None:
    cordons = [make_event(at, "cordon", names) for at, names in ((1, "n2"), (2, ["n1", "n2"]))]
    assert [w.objects for w in warn(["n1", "n2"], events=cordons)[1:]] == [("n1", "n2")]


def test_warnings_of_some_codes_are_found_without_the_others() -> None:
    lone = make_pod("lone", "n1")
    returning = make_pod("web", "n1", owner="ReplicaSet/web", tolerations=[tolerates("maint", 60)])
    asked = make_snapshot(["n1"], [lone, returning]), make_scenario([TAINT]), configured()
    every = tuple(predict(*asked).warnings)
    assert {"bare-pod-lost", "replacement-may-return"} <= {one.code for one in every}

    later = predict(*asked).warnings
    for code in {one.code for one in every}:
        assert [*where_code(later, code.__eq__)] == [one for one in every if one.code == code]
        assert [*where_code(every, code.__eq__)] == [one for one in every if one.code == code]
    assert "rows" not in vars(later)
    assert later == every


def test_the_author_of_a_code_is_asked_once_and_only_if_somebody_wants_to_know() -> None:
    asked: list[str] = []

    def author(code: str) -> list[Warning]:
        asked.append(code)
        return [Warning(code, "so it is")]

    others = [Warning("given", "known before")]
    warnings = RowsByCode({code: partial(author, code) for code in ("a", "b", "c")}, others)
    assert [one.code for one in where_code(warnings, {"b", "given"}.__contains__)] == ["b", "given"]
    assert asked == ["b"]
    assert [one.code for one in warnings] == ["a", "b", "c", "given"]
    assert asked == ["b", "a", "c"]


def test_what_settled_warnings_were_found_from_is_not_kept() -> None:
    class Known:
        def tell(self) -> list[Warning]:
            return [Warning("a", "so it is")]

    known = Known()
    gone = weakref.ref(known)
    warnings = RowsByCode({"a": known.tell}, ())
    del known
    assert len(warnings) == 1
    assert gone() is not None
    warnings.settle()
    assert gone() is None
    assert [one.code for one in where_code(warnings, "a".__eq__)] == ["a"]


def test_a_short_answer_does_not_look_for_the_pods_of_warnings_that_it_does_not_tell() -> None:
    pods = [make_pod("web", "n1", tolerations=default_tolerations(30))]
    silent = make_scenario([make_event(0, "kubelet-stop", "n1")])
    prediction = predict(make_snapshot(["n1", "n2"], pods), silent, configured())
    short = "".join(render(prediction, "table"))
    assert "its kubelet is silent" in short
    assert "rows" not in vars(prediction.warnings)
    stuck = [one for one in prediction.warnings if one.code == "unreachable-stuck-terminating"]
    assert [one.objects for one in stuck] == [("default/web",)]
    assert "".join(render(prediction, "table")) == short


def test_nodes_that_are_not_affected_are_not_named() -> None:
    odd = make_node("n2", ready=None, labels={"failure-domain.beta.kubernetes.io/zone": "x"})
    snapshot = replace(make_snapshot(["n1", odd]), leases={"n1": make_lease("n1")})
    warnings = warnings_of(
        snapshot, make_scenario([TAINT]), configured(), Timeline(START_NS), {"n1"}, {}
    )
    assert not any("n2" in warning.objects for warning in warnings)


def test_an_eviction_of_another_admissible_run_counts() -> None:
    """The nominal run may not evict what some other run does."""
    pod = make_pod("p", "n1", tolerations=[tolerates("", 60), tolerates(UNREACHABLE)])
    taint = make_event(0, "taint", "n1", taint=f"{UNREACHABLE}:NoExecute").taint
    occurrence = PossibleEviction(((0, ns(60)),), False, "n1", taint, 0, 60, None, None, None, None)
    warnings = warnings_of(
        make_snapshot(["n1"], [pod]),
        make_scenario(),
        configured(),
        Timeline(START_NS),
        {"n1"},
        {EvictionKey(pod.key, pod.uid, "taint-eviction", 0): occurrence},
    )
    assert objects(warnings, "first-match-surprise") == ["default/p"]
    assert objects(warnings, "bare-pod-lost") == ["default/p"]


def test_throttling_adds_up_over_neighbouring_instants() -> None:
    timeline = Timeline(START_NS)
    for second in range(10):
        for pod in range(30):
            timeline.append(
                PodDeleted(ns(second), (), f"default/p{second}-{pod}", "", "n1", TAINT_EVICTION)
            )
    warnings = warnings_of(
        make_snapshot(["n1"]), make_scenario(), configured("1.25"), timeline, {"n1"}, {}
    )
    # 300 requests in 9 seconds against 30 at once and 20 a second: 90 are left over.
    assert "about 4.5s later" in message(warnings, "api-throttling")


def package_texts() -> list[str]:
    package = REPOSITORY / "kubectl_evictplan"
    return [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]


@functools.cache
def emitted_codes() -> set[str]:
    """First arguments (or ``code=``), as literals, of everything that makes a warning in the package."""
    makers = {"Warning", "ClusterWarning", "FileWarning", "warning"}
    found = set()
    for text in package_texts():
        calls = ast.walk(ast.parse(text)) if any(f"{maker}(" in text for maker in makers) else ()
        for node in calls:
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                codes = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "code")]
                if name in makers:
                    found.update(code.value for code in codes if isinstance(code, ast.Constant))
    return {code for code in found if isinstance(code, str) and re.fullmatch(r"[a-z0-9-]+", code)}


def documented_codes() -> list[str]:
    text = (REPOSITORY / "docs" / "warnings.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ((?:`[a-z0-9-]+`(?:, )?)+) \|", text, re.MULTILINE)
    return [code for cell in cells for code in re.findall(r"`([a-z0-9-]+)`", cell)]


def test_every_code_is_documented_once() -> None:
    documented = documented_codes()
    assert len(documented) == len(set(documented))
    assert (emitted_codes() | CODES.keys()) - set(documented) == set()


def test_every_code_has_one_author() -> None:
    """What a prediction says under a code nobody else says: no loader, no command."""
    assert emitted_codes() & CODES.keys() == set()


def test_every_documented_code_is_emitted() -> None:
    sources = "".join(package_texts())
    others = [code for code in documented_codes() if code not in CODES]
    assert [code for code in others if f'"{code}"' not in sources] == []
