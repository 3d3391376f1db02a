"""``what-if fail``: kubelets fall silent, one by one or by zone."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.help_text import examples
from kubectl_evictplan.commands.options import WhatIfOptions, what_if_options
from kubectl_evictplan.errors import InputError, Problem

if TYPE_CHECKING:
    from kubectl_evictplan.commands.run import Events
    from kubectl_evictplan.kube.objects import ClusterSnapshot, Node

ZONE_WORDS = ("zone", "zones")


@click.command(
    epilog=examples(
        "kubectl evictplan what-if fail node n1 n2 -f cluster.json",
        "kubectl evictplan what-if fail zone eu-1a -f cluster.json",
        "# Why that pod?",
        "kubectl evictplan what-if fail zone eu-1a -f cluster.json --explain shop/web-0",
    ),
)
@click.argument("words", nargs=-1, metavar="node NAME... | zone ZONE...")
@click.option("-l", "--selector", default="", help="With node: nodes whose labels match.")
@click.option("--all", "all_nodes", is_flag=True, help="With node: every node.")
@what_if_options
def fail(options: WhatIfOptions, words: tuple[str, ...], selector: str, all_nodes: bool) -> None:
    """Nodes or whole zones fall silent: power, network or kubelet.

    A zone is named by its label, or as region/zone.
    """
    from kubectl_evictplan.commands.run import what_if_events
    from kubectl_evictplan.scenarios.actions.kubelets import StopKubelet

    zones, names = _words(words)
    _check(zones, names, selector, all_nodes)
    title = shlex.join(["fail", *words])

    def events(snapshot: ClusterSnapshot) -> Events:
        from kubectl_evictplan.kube.objects import Warning as ClusterWarning

        selected = _selected(snapshot, zones, names, selector, all_nodes)
        targets = tuple(node.name for node in selected)
        silent = tuple(f"node/{node.name}" for node in selected if not _is_ready(node))
        warnings = []
        if silent:
            message = "is not Ready already: what its controllers began before goes on"
            warnings.append(ClusterWarning("node-not-ready-at-start", message, silent))
        return [StopKubelet(at_ns=0, nodes=targets, origin=title)], warnings

    what_if_events(options, title, events)


def _words(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (zones, names of nodes): one of them is empty."""
    from kubectl_evictplan.commands.words import NODE_WORDS

    if not words:
        raise InputError(Problem("what fails?", expected="node NAME or zone ZONE"))
    if words[0].lower() in ZONE_WORDS:
        if not words[1:]:
            raise InputError(Problem("which zone?", expected="zone ZONE"))
        return words[1:], ()
    if words[0].lower() in NODE_WORDS:
        return (), words[1:]
    if "/" in words[0]:
        return (), words
    raise InputError(
        Problem("only nodes and zones can fail", got=words[0], expected="node NAME or zone ZONE")
    )


def _check(zones: tuple[str, ...], names: tuple[str, ...], selector: str, all_nodes: bool) -> None:
    from kubectl_evictplan.commands.words import refuse_mixed_targets

    if not zones:
        refuse_mixed_targets(names, selector, all_nodes)
    elif selector or all_nodes:
        raise InputError(Problem("cannot specify both a zone and --selector or --all"))


def _selected(
    snapshot: ClusterSnapshot,
    zones: tuple[str, ...],
    names: tuple[str, ...],
    selector: str,
    all_nodes: bool,
) -> list[Node]:
    from kubectl_evictplan.commands.words import select_nodes
    from kubectl_evictplan.scenarios.targets import nodes_by_zone

    nodes = {node.name: node for node in snapshot.nodes}
    if not zones:
        return select_nodes(nodes, names, selector=selector, all_nodes=all_nodes)
    selected: dict[str, Node] = {}
    problems = []
    for zone in zones:
        try:
            selected |= {node.name: node for node in nodes_by_zone(nodes, zone)}
        except ValueError as error:
            problems.append(Problem(str(error)))
    if problems:
        raise InputError(problems)
    return [selected[name] for name in sorted(selected)]


def _is_ready(node: Node) -> bool:
    condition = node.condition("Ready")
    return condition is not None and condition.status == "True"
