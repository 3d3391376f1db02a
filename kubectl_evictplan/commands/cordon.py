"""``what-if cordon`` and ``what-if uncordon``."""

from __future__ import annotations

import shlex

import click

from kubectl_evictplan.commands.command import Command, examples
from kubectl_evictplan.commands.node_arguments import NodeArguments
from kubectl_evictplan.commands.options import WhatIfOptions, selector_option, what_if_options


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
    from kubectl_evictplan.scenarios.actions.nodes import Cordon

    NodeArguments(names, selector).ask(options, shlex.join(["cordon", *names]), Cordon)


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
    from kubectl_evictplan.scenarios.actions.nodes import Uncordon

    NodeArguments(names, selector).ask(options, shlex.join(["uncordon", *names]), Uncordon)
