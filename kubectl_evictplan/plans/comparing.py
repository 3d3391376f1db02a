"""What two plans do not have in common: what is done, how, what is lost, what they were made from; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kubectl_evictplan.plans.document import (
    AnyOperation,
    ClusterIdentity,
    Evict,
    Execution,
    NodeBefore,
    Plan,
    PodBefore,
    taint_words,
)
from kubectl_evictplan.prediction.difference_document import (
    FactDifference,
    OperationDifference,
    PlanDifferences,
)


def compare_plans(a: Plan, b: Plan) -> PlanDifferences:
    """Return what differs in ``b``, but for the predictions."""
    operations = tuple(_operations(a, b))
    execution = tuple(_execution(a.execution, b.execution))
    lost_a, lost_b = (
        [f"{loss.kind} {loss.namespace}/{loss.pod}" for loss in plan.losses] for plan in (a, b)
    )
    scenario = tuple(_scenario(a.scenario, b.scenario))
    return PlanDifferences(
        same=not (operations or execution or scenario) and lost_a == lost_b,
        operations=operations,
        execution=execution,
        losses_only_in_a=tuple(loss for loss in lost_a if loss not in lost_b),
        losses_only_in_b=tuple(loss for loss in lost_b if loss not in lost_a),
        basis=tuple(_basis(a, b)),
        scenario=scenario,
        pods=tuple(_pods(a.pods, b.pods)),
    )


def _operations(a: Plan, b: Plan) -> Iterator[OperationDifference]:
    """Yield operations of one plan alone, and those that come at another time or in another order."""
    in_a, in_b = _by_meaning(a), _by_meaning(b)
    places_a, places_b = (
        {key: place for place, key in enumerate(key for key in mine if key in others)}
        for mine, others in ((in_a, in_b), (in_b, in_a))
    )
    told_in = [{one.told for one in mine.values()} for mine in (in_a, in_b)]
    for key in dict.fromkeys((*in_a, *in_b)):
        first, second = in_a.get(key), in_b.get(key)
        one = first or second
        assert one is not None, "the key is of one of them"
        if first and second and places_a[key] == places_b[key]:
            if first.at_seconds == second.at_seconds:
                continue
        is_other_pod = not (first and second) and one.told in told_in[0] & told_in[1]
        uid = f" (UID {one.uid})" if isinstance(one, Evict) and is_other_pod else ""
        yield OperationDifference(
            node=one.node,
            operation=one.told + uid,
            a=first.number if first else None,
            b=second.number if second else None,
            a_seconds=first.at_seconds if first else None,
            b_seconds=second.at_seconds if second else None,
        )


def _by_meaning(plan: Plan) -> dict[tuple[AnyOperation, int], AnyOperation]:
    """Return the operations by what they do, whatever their number and time; the n-th of its like."""
    found: dict[tuple[AnyOperation, int], AnyOperation] = {}
    times: Counter[AnyOperation] = Counter()
    for one in plan.operations:
        meaning = replace(one, number=0, at_seconds=0.0)
        found[(meaning, times[meaning])] = one
        times[meaning] += 1
    return found


def _execution(a: Execution, b: Execution) -> Iterator[FactDifference]:
    for name in Execution.__struct_fields__:
        yield from _fact(name, getattr(a, name), getattr(b, name))


def _scenario(a: object, b: object) -> Iterator[FactDifference]:
    """Yield the fields of two scenario documents that are not the same."""
    in_a, in_b = dict(_fields("", a)), dict(_fields("", b))
    for name in dict.fromkeys((*in_a, *in_b)):
        # It is when the plan was made, which the basis tells.
        if name != "spec.start":
            yield from _fact(name, in_a.get(name, ""), in_b.get(name, ""))


def _fields(path: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the plain values of a document with their paths; a list of plain values is one."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _fields(f"{path}.{name}" if path else str(name), one)
    elif isinstance(value, list | tuple) and any(isinstance(one, dict | list) for one in value):
        for index, one in enumerate(value):
            yield from _fields(f"{path}[{index}]", one)
    else:
        yield path, _told(tuple(value) if isinstance(value, list) else value)


def _pods(a: Iterable[PodBefore], b: Iterable[PodBefore]) -> Iterator[FactDifference]:
    """Yield what decides what is lost with a pod, or who replaces it; which pods there are, operations tell."""
    in_a, in_b = ({pod.uid: pod for pod in pods} for pods in (a, b))
    for uid, pod in in_a.items():
        if uid in in_b:
            yield from _fact(f"pod {pod.key}", _pod_words(pod), _pod_words(in_b[uid]))


def _pod_words(pod: PodBefore) -> str:
    data = "emptyDir data" if pod.empty_dir else "no emptyDir data"
    return f"on {pod.node}, {f'of {pod.owner}' if pod.owner else 'of no controller'}, {data}"


def _basis(a: Plan, b: Plan) -> Iterator[FactDifference]:
    for name in ("title", "created_at", "tool_version", "assume_ready_seconds"):
        yield from _fact(name, getattr(a, name), getattr(b, name))
    for name in ClusterIdentity.__struct_fields__:
        yield from _fact(f"cluster.{name}", getattr(a.cluster, name), getattr(b.cluster, name))
    for name in ("digest", "taken_at", "not_evaluated", "namespace"):
        yield from _fact(f"snapshot.{name}", getattr(a.snapshot, name), getattr(b.snapshot, name))
    nodes_a, nodes_b = ({node.name: _node_words(node) for node in one.nodes} for one in (a, b))
    for name in sorted(nodes_a.keys() | nodes_b.keys()):
        yield from _fact(f"node {name}", nodes_a.get(name, ""), nodes_b.get(name, ""))


def _node_words(node: NodeBefore) -> str:
    """Return what of a node a plan rests on, in words; its resourceVersion changes all the time."""
    taints = ", ".join(map(taint_words, node.taints)) or "no taints"
    state = "cordoned" if node.unschedulable else "schedulable"
    return f"UID {node.uid}, {taints}, {state}, Ready={node.ready}"


def _fact(name: str, a: object, b: object) -> Iterator[FactDifference]:
    if a != b:
        yield FactDifference(name, _told(a), _told(b))


def _told(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
