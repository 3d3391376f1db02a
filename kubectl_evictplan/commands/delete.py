"""``what-if delete node``: the Node objects go; what happens to their pods follows."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.help_text import examples
from kubectl_evictplan.commands.options import WhatIfOptions, what_if_options
from kubectl_evictplan.errors import InputError, Problem

if TYPE_CHECKING:
    from kubectl_evictplan.commands.run import Events
    from kubectl_evictplan.kube.objects import ClusterSnapshot


@click.command(
    epilog=examples(
        "kubectl evictplan what-if delete node n1 -f cluster.json",
        "kubectl evictplan what-if delete nodes -l pool=blue -f cluster.json",
    ),
)
@click.argument("words", nargs=-1, metavar="node NAME... | node/NAME...")
@click.option("-l", "--selector", default="", help="Nodes whose labels match, as in kubectl.")
@click.option("--all", "all_nodes", is_flag=True, help="Every node.")
@what_if_options
def delete(options: WhatIfOptions, words: tuple[str, ...], selector: str, all_nodes: bool) -> None:
    """Node objects are deleted, as by `kubectl delete node`."""
    from kubectl_evictplan.commands.run import what_if_events
    from kubectl_evictplan.commands.words import refuse_mixed_targets, select_nodes
    from kubectl_evictplan.scenarios.actions.nodes import DeleteNode

    names = _names(words)
    refuse_mixed_targets(names, selector, all_nodes)
    title = shlex.join(["delete", *words])

    def events(snapshot: ClusterSnapshot) -> Events:
        nodes = {node.name: node for node in snapshot.nodes}
        selected = select_nodes(nodes, names, selector=selector, all_nodes=all_nodes)
        targets = tuple(node.name for node in selected)
        return [DeleteNode(at_ns=0, nodes=targets, origin=title)], []

    what_if_events(options, title, events)


def _names(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names after the type, or the TYPE/NAME words."""
    from kubectl_evictplan.commands.words import NODE_WORDS

    if not words:
        raise InputError(Problem("what is deleted?", expected="node NAME"))
    if words[0].lower() in NODE_WORDS:
        return words[1:]
    if "/" in words[0]:
        return words
    raise InputError(Problem("only nodes can be deleted here", got=words[0], expected="node NAME"))
