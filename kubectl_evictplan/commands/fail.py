"""``what-if fail``: kubelets fall silent, one by one or by zone, or the control plane is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.node_arguments import NodeArguments, nodes_of_zones
from kubectl_evictplan.commands.options import (
    WhatIfOptions,
    node_options,
    parsed,
    what_if_command,
)
from kubectl_evictplan.commands.run import what_if_events
from kubectl_evictplan.errors import Correction, InputError, Problem, help_on, mistake, mistyped
from kubectl_evictplan.scenarios.names import NODE_WORDS, OTHER_TYPES, listed, similar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubectl_evictplan.commands.run import Events
    from kubectl_evictplan.kube.objects import ClusterSnapshot, Node

ZONE_WORDS = ("zone", "zones")
_ZONE_SYNONYMS = ("az", "azs", "availability-zone", "datacenter", "dc")
_REGION_WORDS = ("region", "regions")
_NODE_SYNONYMS = ("kubelet", "kubelets", "machine", "machines", "host", "hosts", "vm", "server")
# By the words of `Outage`.
_COMPONENTS = {
    "control-plane": "control-plane",
    **dict.fromkeys(("controller-manager", "kube-controller-manager"), "controller-manager"),
    **dict.fromkeys(("apiserver", "kube-apiserver"), "apiserver"),
}
_COMPONENT_SYNONYMS = {
    **dict.fromkeys(("controlplane", "master", "masters", "control-planes", "cp"), "control-plane"),
    **dict.fromkeys(
        ("controller", "controllers", "kcm", "controllermanager"), "controller-manager"
    ),
    **dict.fromkeys(("api-server", "api", "etcd", "kube-api-server"), "apiserver"),
}


@what_if_command(
    "kubectl evictplan what-if fail node n1 n2 -f cluster.json",
    "kubectl evictplan what-if fail zone eu-1a -f cluster.json",
    "# Who is evicted when it comes back?",
    "kubectl evictplan what-if fail control-plane --for 10m -f cluster.json",
    "# Why that pod?",
    "kubectl evictplan what-if fail zone eu-1a -f cluster.json --explain shop/web-0",
)
@click.argument(
    "words",
    nargs=-1,
    metavar="node NAME... | zone ZONE... | control-plane | controller-manager | apiserver",
)
@node_options
@click.option("--for", "duration", metavar="DURATION", help="Back after this long; default: never.")
def fail(
    options: WhatIfOptions,
    words: tuple[str, ...],
    selector: str,
    all_nodes: bool,
    duration: str | None,
) -> None:
    """Nodes or whole zones fall silent, or the control plane is away.

    A zone is named by its label, or as region/zone. Nodes take along what the input shows on them of the control plane:
    the leader of kube-controller-manager, a majority of etcd, every API server. Of the control plane all replicas fail: both its
    components, kube-controller-manager alone, or kube-apiserver alone.
    """
    from kubectl_evictplan.kube.durations import parse_bounded_duration_ns

    kind, names = _kind_and_names(words)
    arguments = NodeArguments(names, selector, all_nodes)
    if kind == "node":
        arguments.check()
    elif kind in _COMPONENTS and (selector or all_nodes):
        message = f"{kind} is one: no node is chosen with --selector or --all"
        raise mistake(message, help_on("what-if", "fail"))
    elif selector or all_nodes:
        message = "cannot specify both a zone and --selector or --all"
        raise mistake(message, help_on("what-if", "fail"))

    problems: list[Problem] = []
    back_ns = parsed("--for", duration, parse_bounded_duration_ns, _likely_duration, problems)
    if problems:
        raise InputError(problems)
    if kind in _COMPONENTS:
        what_if_events(options, lambda snapshot: _outage(kind, duration, snapshot, options))
        return

    def events(snapshot: ClusterSnapshot) -> Events:
        _refuse_mixed_up(kind, words, snapshot)
        chosen = nodes_of_zones(snapshot, names) if kind == "zone" else arguments.nodes(snapshot)
        return _silence(chosen, back_ns, snapshot, options)

    what_if_events(options, events)


def _silence(
    nodes: Sequence[Node], back_ns: int | None, snapshot: ClusterSnapshot, options: WhatIfOptions
) -> Events:
    """Return the events of nodes that fail and may be back, with whatever of the control plane runs on them."""
    from kubectl_evictplan.kube.objects import Warning as ClusterWarning
    from kubectl_evictplan.scenarios.failing_nodes import Fallen, control_plane_nodes

    targets = tuple(node.name for node in nodes)
    silent = tuple(f"node/{node.name}" for node in nodes if node.ready_status != "True")
    warnings = []
    if silent:
        message = "is not Ready already: what its controllers began before goes on"
        warnings.append(ClusterWarning("node-not-ready-at-start", message, silent))
    known = control_plane_nodes(snapshot)
    all_lost = known.fallen(targets) is Fallen.CONTROL_PLANE
    grace_ns = _grace_period_ns(snapshot, options) if all_lost else 0
    events = known.events(targets, back_ns, snapshot, grace_ns, options.title)
    return events, [*warnings, *known.warnings(targets, back_ns)]


def _grace_period_ns(snapshot: ClusterSnapshot, options: WhatIfOptions) -> int:
    from kubectl_evictplan.controllers.flags import resolve_configuration

    given = options.given().settings
    return resolve_configuration(given, snapshot.control_plane).node_monitor_grace_period_ns


def _outage(
    kind: str, duration: str | None, snapshot: ClusterSnapshot, options: WhatIfOptions
) -> Events:
    """Return the events of an outage of the control plane, and what they rest on."""
    from kubectl_evictplan.kube.durations import parse_duration_ns
    from kubectl_evictplan.scenarios import outages
    from kubectl_evictplan.scenarios.scenario import Outage

    duration_ns = None if duration is None else parse_duration_ns(duration)
    outage = Outage(kind)
    if message := outages.not_predicted(outage, duration_ns, outages.control_plane_of(snapshot)):
        known = Correction((options.title.split()[-1],), ("control-plane",), example=True)
        if duration is not None:
            known = Correction((duration,), ("1m",), example=True, option=("--for",))
        raise mistake(message, known)
    grace_ns = _grace_period_ns(snapshot, options)
    events = outages.outage_events(outage, duration_ns, snapshot, grace_ns, options.title)
    return events, [*outages.outage_warnings(outage, duration_ns, snapshot, grace_ns)]


def _likely_duration(text: str) -> str:
    from kubectl_evictplan.commands.likely import likely_duration  # only mistakes pay for it

    return likely_duration(text)


def _kind_and_names(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return ("node" or "zone", names), (a component, ()); ("", names) when the first word is no type."""
    expected = "node NAME, zone ZONE, control-plane, controller-manager or apiserver"
    if not words:
        right = ["fail", "node", "--all"]
        raise mistyped("what fails?", ["fail"], right, example=True, expected=expected)
    first, kind = words[0], words[0].lower().partition("/")[0]
    if first.lower() in NODE_WORDS:
        return "node", words[1:]
    if kind in NODE_WORDS:
        return "node", words
    if first.lower() in ZONE_WORDS:
        return "zone", words[1:]
    if first.lower() in _NODE_SYNONYMS and words[1:]:
        raise mistyped("write `node NAME`", [first], ["node"], got=first)
    if first.lower() in _ZONE_SYNONYMS:
        raise mistyped("write `zone ZONE`", [first], ["zone"], got=first)
    if [word.lower() for word in words[:2]] == ["control", "plane"]:
        raise mistyped("control-plane is one word", words[:2], ["control-plane"])
    if component := _COMPONENTS.get(first.lower()):
        if len(words) > 1:
            raise mistyped(f"one word too many: {component} is whole", words, words[:1])
        return component, ()
    if likely := _COMPONENT_SYNONYMS.get(first.lower()):
        raise mistyped(f"write `{likely}`", [first], [likely], got=first)
    if kind in OTHER_TYPES:
        message = "only nodes, zones and the control plane can fail"
        raise mistake(message, help_on("what-if", "fail"), got=first, expected=expected)
    return "", words


def _refuse_mixed_up(kind: str, words: tuple[str, ...], snapshot: ClusterSnapshot) -> None:
    """Raise when the type is missing, or when the names are those of the other type."""
    from kubectl_evictplan.scenarios.targets import zones_of

    nodes = {node.name: node for node in snapshot.nodes}
    zones = zones_of(nodes)
    only_zones, only_nodes = set(zones) - set(nodes), set(nodes) - set(zones)
    first, rest = words[0], words[1:]
    if kind == "zone" and not rest:
        known = Correction((first,), (first, *zones[:1]), example=True) if zones else None
        raise mistake(f"which zone? zones are {listed(zones)}", known)
    if kind == "node" and rest and set(rest) <= only_zones:
        raise mistyped(f"{rest[0]!r} is a zone, not a node", [first], ["zone"])
    if kind == "zone" and set(rest) <= only_nodes:
        raise mistyped(f"{rest[0]!r} is a node, not a zone", [first], ["node"])
    if kind:
        return
    likely = next(iter(similar(first.lower(), _COMPONENTS)), "")
    if likely and not rest and not similar(first, [*nodes, *zones]):
        raise mistyped(f"no {first!r}; did you mean {likely!r}?", [first], [likely])
    stated, _, value = first.replace(":", "=").partition("=")
    right = "zone" if set(words) <= only_zones else "node"
    known = Correction((first,), (right, first))
    message = "the type comes first: write `node NAME` or `zone ZONE`"
    if value and stated.lower() in (*NODE_WORDS, *ZONE_WORDS):
        known = Correction((first,), (stated, value))
        message = "the type and the name are two words"
    elif first.lower() in _REGION_WORDS and rest:
        of_region = [zone for region in rest for zone in zones_of(nodes, region)]
        known = Correction(words, ("zone", *of_region)) if of_region else None
        message = f"a region fails as all its zones (zones are {listed(zones)})"
    raise mistake(message, known, got=first)
