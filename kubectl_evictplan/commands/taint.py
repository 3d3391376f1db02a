"""``what-if taint``: the words of ``kubectl taint``, adding and removing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.node_arguments import NodeArguments
from kubectl_evictplan.commands.options import (
    WhatIfOptions,
    node_options,
    settle_option,
    what_if_command,
)
from kubectl_evictplan.commands.pacing import one_node_after_another, settle_ns
from kubectl_evictplan.commands.run import what_if_events

if TYPE_CHECKING:
    from kubectl_evictplan.commands.run import Events
    from kubectl_evictplan.kube.objects import ClusterSnapshot


@what_if_command(
    "# Evict what does not tolerate it",
    "kubectl evictplan what-if taint node n1 maint=yes:NoExecute -f cluster.json",
    "# Remove it again",
    "kubectl evictplan what-if taint node n1 maint:NoExecute- -f cluster.json",
    "# All nodes of a pool",
    "kubectl evictplan what-if taint node -l pool=blue maint=yes:NoExecute -f cluster.json",
)
@click.argument("words", nargs=-1, metavar="node NAME... KEY[=VALUE]:EFFECT... | KEY[:EFFECT]-...")
@node_options
@settle_option
@click.option("--overwrite", is_flag=True, help="Replace taints that are there already.")
def taint(
    options: WhatIfOptions,
    words: tuple[str, ...],
    selector: str,
    all_nodes: bool,
    overwrite: bool,
    settle: str | None,
) -> None:
    """Taints of nodes are added or, with a trailing '-', removed."""
    from kubectl_evictplan.scenarios.taint_arguments import (
        parse_taint_arguments,
        resolve_taint_events,
    )

    request = parse_taint_arguments(
        words, selector=selector, all_nodes=all_nodes, overwrite=overwrite
    )
    arguments = NodeArguments(request.node_names, selector, all_nodes)
    pause_ns = settle_ns(settle)

    def events(snapshot: ClusterSnapshot) -> Events:
        nodes = arguments.nodes(snapshot)
        found, warnings = resolve_taint_events(request, nodes, origin=options.title)
        return one_node_after_another(found, pause_ns), warnings

    what_if_events(options, events)
