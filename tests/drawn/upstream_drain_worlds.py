"""Drains for upstream's own code (``tests/upstream/drains``): an empty cluster, what owners make in it, and ``kubectl drain``.

Owners, budgets and pods are there for a while before the start, so that whatever a snapshot shows of them was made by upstream's
controllers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from drawn.upstream_worlds import NAMESPACE, Flags, Happening, Manifest

from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS

# From a container's exit to the report of it (``Latency.REPORT_EXIT``).
EXIT_IS_TOLD_NS = 150 * MILLISECOND_NS, 600 * MILLISECOND_NS
# From the beginning of the cluster to the start: kubelets have posted, pods are ready, budgets have their statuses.
_PAST_NS = 60 * SECOND_NS, 180 * SECOND_NS
_RESOURCES = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "PodDisruptionBudget": "poddisruptionbudgets",
}


class DrainHappening(Happening, rename="camel", omit_defaults=True):
    """One thing that is done to the cluster; ``fields`` are those of a drain in a scenario file."""

    resource: str = ""
    app: str = ""
    count: int = 0
    nodes: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    fields: dict[str, Any] = msgspec.field(default_factory=dict)


class UpstreamDrainWorld(msgspec.Struct, rename="camel"):
    """All that is done to a cluster; the scenario is what comes from ``start_ns`` on."""

    seed: int
    start_ns: int
    end_ns: int
    events: list[DrainHappening]
    # From when to when after its binding a pod of an owner is Ready.
    ready_ns: tuple[int, int]
    # 0 is what kubectl has by itself, -1 a client without limits.
    kubectl_qps: float = 0
    exit_is_told_ns: tuple[int, int] = EXIT_IS_TOLD_NS
    slowest_write_ns: int = 0
    tick_cost_ns: int = 1_000
    flags: Flags = msgspec.field(
        default_factory=lambda: Flags(node_monitor_grace_period_ns=50 * SECOND_NS)
    )


def draw_upstream_drain_world(seed: int) -> UpstreamDrainWorld:
    """The world of a seed."""
    rng = random.Random(f"upstream drain {seed}")
    start_ns = rng.randint(*_PAST_NS)
    end_ns = start_ns + rng.choice((60, 200, 400, 900)) * SECOND_NS
    low_ns = rng.choice((0, 1, 2, 5, 10, 30)) * SECOND_NS
    high_ns = low_ns + rng.choice((0, 0, 1, 5, 20)) * SECOND_NS
    events = sorted(_DrainDrawing(rng, start_ns, end_ns).all(), key=lambda one: one.at_ns)
    return UpstreamDrainWorld(seed, start_ns, end_ns, list(_possible(events)), (low_ns, high_ns))


def _possible(events: list[DrainHappening]) -> Iterator[DrainHappening]:
    """What can happen at its time, given what happened before."""
    deleted: set[str] = set()
    silent: set[str] = set()
    tainted: set[str] = set()
    for one in events:
        name, action = one.node, one.action
        if deleted & {name, *one.nodes}:
            continue
        if action == "untaint" and name not in tainted:
            continue
        if action.startswith("kubelet") and (name in silent) is (action == "kubelet-stop"):
            continue
        match action:
            case "node-delete":
                deleted.add(name)
            case "kubelet-stop" | "kubelet-start":
                (silent.add if action == "kubelet-stop" else silent.discard)(name)
            case "taint" | "untaint":
                (tainted.add if action == "taint" else tainted.discard)(name)
        yield one


class _DrainDrawing:
    """Everything that happens."""

    def __init__(self, rng: random.Random, start_ns: int, end_ns: int) -> None:
        self._rng, self._start_ns, self._end_ns = rng, start_ns, end_ns
        self._nodes = [f"n{number}" for number in range(1, rng.choice((2, 3, 3, 4, 5)) + 1)]
        self._replicas: dict[str, int] = {}

    def all(self) -> Iterator[DrainHappening]:
        rng = self._rng
        yield DrainHappening(0, "controller-start")
        for name in self._nodes:
            phase_ns = rng.randint(0, 3 * SECOND_NS)
            manifest = _node(name)
            yield DrainHappening(0, "node-create", name, manifest=manifest, phase_ns=phase_ns)
        for number in range(rng.choice((1, 1, 2, 3, 4))):
            yield from self._app(f"app{number}")
            if rng.random() < 0.4:
                before = (self._losses, self._losses, self._new_bounds, self._scaled)
                yield from rng.choice(before)(f"app{number}")
        if rng.random() < 0.1:
            budget = self._budget("wide", *rng.choice(_BUDGETS))
            selected = {"key": "app", "operator": "In", "values": ["app0", "app1"]}
            budget["spec"]["selector"] = {"matchExpressions": [selected]}
            yield _applied(rng.randint(SECOND_NS, 50 * SECOND_NS), budget)
        yield from self._drains()
        if rng.random() < 0.1:
            yield from self._restart()
        while rng.random() < 0.35:
            yield from self._disturbances()

    def _app(self, name: str) -> Iterator[DrainHappening]:
        rng = self._rng
        kinds = ("Deployment", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "")
        kind, replicas = rng.choice(kinds), rng.choice((1, 2, 3, 3, 4, 5, 6, 8, 14, 25))
        self._replicas[name] = replicas
        least, most = rng.choice(_BUDGETS)
        made_ns = rng.randint(SECOND_NS, 5 * SECOND_NS)
        if least is not None or most is not None:
            if rng.random() < 0.2 and replicas > 1:
                least, most = replicas - 1, None
            yield _applied(made_ns - SECOND_NS // 2, self._budget(name, least, most))
        grace = rng.choice((0, 1, 5, 10, 30))
        template = _template(name, grace, emptydir=rng.random() < 0.1)
        if kind:
            yield _applied(made_ns, self._owner(kind, name, replicas, template))
            return
        for number in range(replicas):
            manifest = _bare(f"{name}-{number}", rng.choice(self._nodes), template)
            if rng.random() < 0.15:
                manifest["status"] = {"phase": rng.choice(("Succeeded", "Failed"))}
            elif rng.random() < 0.1:
                manifest["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "m"}
            yield DrainHappening(made_ns, "pod-create", manifest=manifest)

    def _budget(self, name: str, least: int | str | None, most: int | str | None) -> Manifest:
        rng = self._rng
        bounds = {"minAvailable": least, "maxUnavailable": most}
        spec: Manifest = {key: value for key, value in bounds.items() if value is not None}
        policy = rng.choice(("", "", "AlwaysAllow", "IfHealthyBudget"))
        if policy:
            spec["unhealthyPodEvictionPolicy"] = policy
        spec["selector"] = {"matchLabels": {"app": name}}
        return _object("policy/v1", "PodDisruptionBudget", name, spec)

    def _owner(self, kind: str, name: str, replicas: int, template: Manifest) -> Manifest:
        rng = self._rng
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        if kind != "DaemonSet":
            spec["replicas"] = replicas
        if kind == "StatefulSet":
            spec["serviceName"] = name
            spec["podManagementPolicy"] = rng.choice(("OrderedReady", "Parallel"))
        if kind in ("Deployment", "StatefulSet") and rng.random() < 0.15:
            spec["minReadySeconds"] = rng.choice((1, 5, 10))
        return _object("apps/v1", kind, name, spec)

    def _losses(self, name: str) -> Iterator[DrainHappening]:
        """Before the start pods are deleted, or are not ready any more."""
        rng = self._rng
        at_ns = self._start_ns - rng.randint(0, rng.choice((1, 8, 40)) * SECOND_NS)
        yield DrainHappening(
            at_ns, rng.choice(("unready", "lose")), app=name, count=rng.choice((1, 1, 2, 3))
        )

    def _new_bounds(self, name: str) -> Iterator[DrainHappening]:
        """Somebody changes the budget before the start; its status may not say so yet."""
        at_ns = self._start_ns - self._rng.randint(0, self._rng.choice((1, 30)) * SECOND_NS // 10)
        budget = self._budget(name, *self._rng.choice(_BUDGETS))
        yield DrainHappening(at_ns, "allow", app=name, manifest=budget["spec"])

    def _scaled(self, name: str) -> Iterator[DrainHappening]:
        """Before the start an owner gets more pods, which are not Ready yet."""
        rng = self._rng
        at_ns = self._start_ns - rng.randint(0, rng.choice((1, 5, 40)) * SECOND_NS)
        for kind in ("Deployment", "ReplicaSet", "StatefulSet"):
            count = self._replicas[name] + rng.choice((1, 2, 4))
            yield DrainHappening(at_ns, "scale", app=name, resource=_RESOURCES[kind], count=count)

    def _disturbances(self) -> Iterator[DrainHappening]:
        """Something else happens while nodes are drained."""
        rng = self._rng
        at_ns = self._start_ns + rng.randint(0, 60 * SECOND_NS)
        back_ns, node = at_ns + rng.randint(SECOND_NS // 2, 40 * SECOND_NS), rng.choice(self._nodes)
        taint = {"key": "maint", "value": "yes", "effect": rng.choice(("NoExecute", "NoSchedule"))}
        match rng.choice(_DISTURBING):
            case "taint":
                yield DrainHappening(at_ns, "taint", node, taint=taint)
                if rng.random() < 0.5:
                    yield DrainHappening(back_ns, "untaint", node, taint=taint)
            case "kubelet-stop":
                yield DrainHappening(at_ns, "kubelet-stop", node)
                if rng.random() < 0.5:
                    yield DrainHappening(back_ns, "kubelet-start", node)
            case "pod-delete":
                pod = f"app{rng.randint(0, 3)}-{rng.randint(0, 2)}"
                yield DrainHappening(at_ns, "pod-delete", pod=pod)
            case action:
                yield DrainHappening(at_ns, action, node)

    def _restart(self) -> Iterator[DrainHappening]:
        rng = self._rng
        at_ns = self._start_ns + rng.randint(-SECOND_NS, 30 * SECOND_NS)
        yield DrainHappening(at_ns, "controller-stop")
        if rng.random() < 0.7:
            yield DrainHappening(at_ns + rng.randint(SECOND_NS, 60 * SECOND_NS), "controller-start")

    def _drains(self) -> Iterator[DrainHappening]:
        rng = self._rng
        at_ns = self._start_ns + rng.randint(0, 20 * SECOND_NS)
        for _ in range(rng.choice((1, 1, 1, 2))):
            count = min(rng.choice((1, 1, 2, 3)), len(self._nodes) - (rng.random() < 0.8))
            nodes = tuple(rng.sample(self._nodes, max(count, 1)))
            fields = self._fields()
            yield DrainHappening(
                at_ns, "drain", nodes=nodes, arguments=_arguments(fields), fields=fields
            )
            at_ns += rng.randint(0, rng.choice((0, 2, 30)) * SECOND_NS)

    def _fields(self) -> dict[str, Any]:
        rng = self._rng
        fields: dict[str, Any] = {}
        for name, chance in (
            ("force", 0.8),
            ("ignoreDaemonsets", 0.9),
            ("deleteEmptydirData", 0.7),
        ):
            if rng.random() < chance:
                fields[name] = True
        if rng.random() < 0.4:
            fields["timeout"] = f"{rng.choice((3, 10, 30, 60, 120))}s"
        if rng.random() < 0.2:
            fields["gracePeriod"] = f"{rng.choice((0, 1, 2, 10))}s"
        if rng.random() < 0.1:
            fields["disableEviction"] = True
        if rng.random() < 0.1:
            fields["skipWaitForDeleteTimeout"] = f"{rng.choice((1, 5))}s"
        if rng.random() < 0.1:
            fields["podSelector"] = rng.choice(("app=app0", "app!=app0", "app in (app0,app1)"))
        return fields


_DISTURBING = ("taint", "uncordon", "cordon", "kubelet-stop", "node-delete", "pod-delete")
_BUDGETS: tuple[tuple[int | str | None, int | str | None], ...] = (
    *((None, None), (None, None), (1, None), (2, None), ("50%", None), ("30%", None)),
    *((None, 1), (None, 1), (None, 2), (None, "30%"), (None, "50%"), (None, 0)),
)


def _arguments(fields: dict[str, Any]) -> tuple[str, ...]:
    """The flags of kubectl."""
    found = []
    for name, value in fields.items():
        flag = "--" + re.sub("[A-Z]", lambda capital: f"-{capital[0].lower()}", name)
        whole = name in ("gracePeriod", "skipWaitForDeleteTimeout")
        found.append(flag if value is True else f"{flag}={value[:-1] if whole else value}")
    return tuple(found)


def _applied(at_ns: int, manifest: Manifest) -> DrainHappening:
    resource = _RESOURCES[manifest["kind"]]
    return DrainHappening(at_ns, "apply", manifest=manifest, resource=resource)


def _object(version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _template(app: str, grace_seconds: int, *, emptydir: bool) -> Manifest:
    spec: Manifest = {
        "terminationGracePeriodSeconds": grace_seconds,
        "containers": [{"name": "c", "image": "i"}],
    }
    if emptydir:
        spec["volumes"] = [{"name": "v", "emptyDir": {}}]
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def _bare(name: str, node: str, template: Manifest) -> Manifest:
    spec = template["spec"] | {"nodeName": node}
    pod = _object("v1", "Pod", name, spec)
    pod["metadata"]["labels"] = template["metadata"]["labels"]
    return pod


def _node(name: str) -> Manifest:
    conditions = [{"type": "Ready", "status": "True"}]
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    head = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    return head | {"spec": {}, "status": {"conditions": conditions}}
