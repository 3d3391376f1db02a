"""``sweep nodes``, ``sweep zones`` and ``sweep pairs``: the N-1 table of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kubectl_evictplan.commands.node_arguments import NodeArguments
from kubectl_evictplan.commands.options import WhatIfOptions, node_options, selector_option
from kubectl_evictplan.commands.sweeping import Sweeping, sweep_command
from kubectl_evictplan.errors import Correction, InputError, Problem, WrongWord, help_on, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.sweeps.failures import Failure

# So many pairs are 450 nodes', and take minutes.
_PAIRS_MAX = 100_000


@sweep_command(
    "# Which node would cost most?",
    "kubectl evictplan sweep nodes -f cluster.json",
    "# Of one pool, with a faster detection",
    "kubectl evictplan sweep nodes -l pool=blue -f cluster.json "
    "--controller-flag node-monitor-grace-period=20s",
)
@click.argument("words", nargs=-1, metavar="[NAME...]")
@selector_option
def nodes(options: WhatIfOptions, words: tuple[str, ...], selector: str, **own: Any) -> None:
    """Every node fails, one at a time, and the worst failure comes first.

    All nodes, unless some are named or chosen by their labels.
    """
    from kubectl_evictplan.sweeps.failures import NODE, Failure

    chosen = NodeArguments(words, selector, all_nodes=not (words or selector))
    chosen.check()

    def failures(snapshot: ClusterSnapshot) -> list[Failure]:
        return [Failure(NODE, node.name, (node.name,)) for node in chosen.nodes(snapshot)]

    _sweep(Sweeping(options, own), "nodes", failures)


@sweep_command(
    "# Which zone would cost most?",
    "kubectl evictplan sweep zones -f cluster.json",
)
@click.argument("words", nargs=-1, metavar="[ZONE...]")
def zones(options: WhatIfOptions, words: tuple[str, ...], **own: Any) -> None:
    """Every zone fails, one at a time, and the worst failure comes first.

    All zones, unless some are named by their label or as region/zone.
    """
    _sweep(Sweeping(options, own), "zones", lambda snapshot: _of_zones(snapshot, words))


@sweep_command(
    "# The nodes of two power supplies",
    "kubectl evictplan sweep pairs n1 n2 n3 n4 -f cluster.json",
    "kubectl evictplan sweep pairs -l rack=7 -f cluster.json",
)
@click.argument("words", nargs=-1, metavar="NAME NAME...")
@node_options
def pairs(
    options: WhatIfOptions, words: tuple[str, ...], selector: str, all_nodes: bool, **own: Any
) -> None:
    """Every pair of the nodes fails together, and the worst failure comes first."""
    from kubectl_evictplan.sweeps.failures import failures_of_pairs

    chosen = NodeArguments(words, selector, all_nodes)
    chosen.check()

    def failures(snapshot: ClusterSnapshot) -> list[Failure]:
        names = [node.name for node in chosen.nodes(snapshot)]
        number = len(names) * (len(names) - 1) // 2
        if number == 0:
            raise mistake("a pair needs two nodes", help_on("sweep", "pairs"))
        if number > _PAIRS_MAX:
            message = f"{len(names)} nodes are {number} pairs, more than {_PAIRS_MAX}: choose fewer"
            raise mistake(message, help_on("sweep", "pairs"))
        return failures_of_pairs(names)

    _sweep(Sweeping(options, own), "pairs", failures)


def _sweep(sweeping: Sweeping, what: str, failures_of: Any) -> None:
    with sweeping.cluster() as (snapshot, progress):
        failures = failures_of(snapshot)
        found = sweeping.swept(snapshot, failures, what, progress)
    sweeping.show(found)


def _of_zones(snapshot: ClusterSnapshot, words: tuple[str, ...]) -> list[Failure]:
    """Return the zones that are named, else all; InputError for every wrong word."""
    from kubectl_evictplan.scenarios.targets import nodes_by_zone, zones_of
    from kubectl_evictplan.sweeps.failures import ZONE, Failure

    known = {node.name: node for node in snapshot.nodes}
    found: dict[str, Failure] = {}
    problems: list[Problem] = []
    for word in words or zones_of(known):
        try:
            names = tuple(node.name for node in nodes_by_zone(known, word))
            found[word] = Failure(ZONE, word, names)
        except WrongWord as error:
            problems.append(Problem(str(error), error.correction()))
    if problems:
        raise InputError(problems)
    if not found:
        known_way = Correction(("zones",), ("nodes",))
        raise mistake("no node has a zone label", known_way)
    return list(found.values())
