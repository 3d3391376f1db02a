"""``what-if cordon`` and ``what-if uncordon``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.help_text import examples
from kubectl_evictplan.commands.options import WhatIfOptions, what_if_options

if TYPE_CHECKING:
    from kubectl_evictplan.commands.run import Events
    from kubectl_evictplan.kube.objects import ClusterSnapshot


@click.command(
    epilog=examples(
        "kubectl evictplan what-if cordon n1 -f cluster.json",
        "kubectl evictplan what-if cordon -l pool=blue -f cluster.json",
    ),
)
@click.argument("names", nargs=-1, metavar="NODE...")
@click.option("-l", "--selector", default="", help="Nodes whose labels match, as in kubectl.")
@what_if_options
def cordon(options: WhatIfOptions, names: tuple[str, ...], selector: str) -> None:
    """Nodes become unschedulable; that alone evicts nothing."""
    _set_schedulable("cordon", options, names, selector)


@click.command(
    epilog=examples(
        "kubectl evictplan what-if uncordon n1 -f cluster.json",
        "kubectl evictplan what-if uncordon node/n1 node/n2 -f cluster.json",
    ),
)
@click.argument("names", nargs=-1, metavar="NODE...")
@click.option("-l", "--selector", default="", help="Nodes whose labels match, as in kubectl.")
@what_if_options
def uncordon(options: WhatIfOptions, names: tuple[str, ...], selector: str) -> None:
    """Nodes become schedulable again."""
    _set_schedulable("uncordon", options, names, selector)


def _set_schedulable(
    action: str, options: WhatIfOptions, names: tuple[str, ...], selector: str
) -> None:
    from kubectl_evictplan.commands.run import what_if_events
    from kubectl_evictplan.commands.words import refuse_mixed_targets, select_nodes
    from kubectl_evictplan.scenarios.actions.nodes import Cordon, Uncordon

    refuse_mixed_targets(names, selector)
    made = Cordon if action == Cordon.action else Uncordon
    title = shlex.join([action, *names])

    def events(snapshot: ClusterSnapshot) -> Events:
        nodes = {node.name: node for node in snapshot.nodes}
        targets = tuple(node.name for node in select_nodes(nodes, names, selector=selector))
        return [made(at_ns=0, nodes=targets, origin=title)], []

    what_if_events(options, title, events)
