"""``what-if cordon`` and ``what-if uncordon``."""

from __future__ import annotations

import click

from kubectl_evictplan.commands.node_arguments import NodeArguments
from kubectl_evictplan.commands.options import (
    WhatIfOptions,
    selector_option,
    settle_option,
    what_if_command,
)
from kubectl_evictplan.commands.pacing import settle_ns


@what_if_command(
    "kubectl evictplan what-if cordon n1 -f cluster.json",
    "kubectl evictplan what-if cordon -l pool=blue -f cluster.json",
)
@click.argument("words", nargs=-1, metavar="NODE...")
@selector_option
@settle_option
def cordon(
    options: WhatIfOptions, words: tuple[str, ...], selector: str, settle: str | None
) -> None:
    """Nodes become unschedulable; that alone evicts nothing."""
    from kubectl_evictplan.scenarios.actions.nodes import Cordon

    NodeArguments(words, selector).ask(options, Cordon, settle_ns(settle))


@what_if_command(
    "kubectl evictplan what-if uncordon n1 -f cluster.json",
    "kubectl evictplan what-if uncordon node/n1 node/n2 -f cluster.json",
)
@click.argument("words", nargs=-1, metavar="NODE...")
@selector_option
@settle_option
def uncordon(
    options: WhatIfOptions, words: tuple[str, ...], selector: str, settle: str | None
) -> None:
    """Nodes become schedulable again."""
    from kubectl_evictplan.scenarios.actions.nodes import Uncordon

    NodeArguments(words, selector).ask(options, Uncordon, settle_ns(settle))
