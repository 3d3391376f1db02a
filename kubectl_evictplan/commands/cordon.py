"""``what-if cordon`` and ``what-if uncordon``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.command import Command, examples
from kubectl_evictplan.commands.node_arguments import NodeArguments
from kubectl_evictplan.commands.options import WhatIfOptions, selector_option, what_if_options

if TYPE_CHECKING:
    from kubectl_evictplan.commands.run import Events
    from kubectl_evictplan.kube.objects import ClusterSnapshot


@click.command(
    cls=Command,
    epilog=examples(
        "kubectl evictplan what-if cordon n1 -f cluster.json",
        "kubectl evictplan what-if cordon -l pool=blue -f cluster.json",
    ),
)
@click.argument("names", nargs=-1, metavar="NODE...")
@selector_option
@what_if_options
def cordon(options: WhatIfOptions, names: tuple[str, ...], selector: str) -> None:
    """Nodes become unschedulable; that alone evicts nothing."""
    _set_schedulable("cordon", options, NodeArguments(names, selector))


@click.command(
    cls=Command,
    epilog=examples(
        "kubectl evictplan what-if uncordon n1 -f cluster.json",
        "kubectl evictplan what-if uncordon node/n1 node/n2 -f cluster.json",
    ),
)
@click.argument("names", nargs=-1, metavar="NODE...")
@selector_option
@what_if_options
def uncordon(options: WhatIfOptions, names: tuple[str, ...], selector: str) -> None:
    """Nodes become schedulable again."""
    _set_schedulable("uncordon", options, NodeArguments(names, selector))


def _set_schedulable(action: str, options: WhatIfOptions, arguments: NodeArguments) -> None:
    from kubectl_evictplan.commands.run import what_if_events
    from kubectl_evictplan.scenarios.actions.nodes import Cordon, Uncordon

    arguments.check()
    made = Cordon if action == Cordon.action else Uncordon
    title = shlex.join([action, *arguments.words])

    def events(snapshot: ClusterSnapshot) -> Events:
        targets = tuple(node.name for node in arguments.nodes(snapshot))
        return [made(at_ns=0, nodes=targets, origin=title)], []

    what_if_events(options, title, events)
