"""``what-if fail``: kubelets fall silent, one by one or by zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.node_arguments import NodeArguments, nodes_of_zones
from kubectl_evictplan.commands.options import WhatIfOptions, node_options, what_if_command
from kubectl_evictplan.commands.run import what_if_events
from kubectl_evictplan.errors import Correction, help_on, mistake, mistyped
from kubectl_evictplan.scenarios.names import NODE_WORDS, OTHER_TYPES, listed

if TYPE_CHECKING:
    from kubectl_evictplan.commands.run import Events
    from kubectl_evictplan.kube.objects import ClusterSnapshot

ZONE_WORDS = ("zone", "zones")
_ZONE_SYNONYMS = ("az", "azs", "availability-zone", "datacenter", "dc")
_REGION_WORDS = ("region", "regions")
_CONTROL_PLANE_WORDS = (
    *("control-plane", "controlplane", "controller-manager", "kube-controller-manager"),
    *("apiserver", "kube-apiserver", "api-server", "etcd", "master"),
)


@what_if_command(
    "kubectl evictplan what-if fail node n1 n2 -f cluster.json",
    "kubectl evictplan what-if fail zone eu-1a -f cluster.json",
    "# Why that pod?",
    "kubectl evictplan what-if fail zone eu-1a -f cluster.json --explain shop/web-0",
)
@click.argument("words", nargs=-1, metavar="node NAME... | zone ZONE...")
@node_options
def fail(options: WhatIfOptions, words: tuple[str, ...], selector: str, all_nodes: bool) -> None:
    """Nodes or whole zones fall silent: power, network or kubelet.

    A zone is named by its label, or as region/zone.
    """
    from kubectl_evictplan.scenarios.actions.processes import StopKubelet

    kind, names = _kind_and_names(words)
    arguments = NodeArguments(names, selector, all_nodes)
    if kind == "node":
        arguments.check()
    elif selector or all_nodes:
        message = "cannot specify both a zone and --selector or --all"
        raise mistake(message, help_on("what-if", "fail"))

    def events(snapshot: ClusterSnapshot) -> Events:
        from kubectl_evictplan.kube.objects import Warning as ClusterWarning

        _refuse_mixed_up(kind, words, snapshot)
        selected = nodes_of_zones(snapshot, names) if kind == "zone" else arguments.nodes(snapshot)
        targets = tuple(node.name for node in selected)
        silent = tuple(f"node/{node.name}" for node in selected if node.ready_status != "True")
        warnings = []
        if silent:
            message = "is not Ready already: what its controllers began before goes on"
            warnings.append(ClusterWarning("node-not-ready-at-start", message, silent))
        return [StopKubelet(at_ns=0, nodes=targets, origin=options.title)], warnings

    what_if_events(options, events)


def _kind_and_names(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return ("node" or "zone", names); ("", names) when the first word is no type."""
    expected = "node NAME or zone ZONE"
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
    if first.lower() in _ZONE_SYNONYMS:
        raise mistyped("write `zone ZONE`", [first], ["zone"], got=first)
    if first.lower() in _CONTROL_PLANE_WORDS:
        message = "only kube-controller-manager can be stopped and started, in a scenario file"
        raise mistake(message, help_on("what-if", "scenario"), got=first, expected=expected)
    if kind in OTHER_TYPES:
        message = "only nodes and zones can fail"
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
