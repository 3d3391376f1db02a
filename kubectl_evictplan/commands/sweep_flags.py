"""``sweep flags``: what a faster detection, or shorter tolerations, would buy and cost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from kubectl_evictplan.commands.command import Choice
from kubectl_evictplan.commands.node_arguments import NodeArguments, nodes_of_zones
from kubectl_evictplan.commands.options import WhatIfOptions
from kubectl_evictplan.commands.sweeping import Sweeping, sweep_command
from kubectl_evictplan.errors import Correction, help_on, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.commands.terminal import Progress
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.sweeps.failures import Failure
    from kubectl_evictplan.sweeps.flags import Cell, FlagGrid

_TOLERATIONS = ("--tolerations",)
_CELLS_MAX = 1000
# The largest that an API server takes for a day's worth of anything.
_SECONDS_MAX = 10**9


@sweep_command(
    "# What would a faster detection buy, and cost, when the worst node fails?",
    "kubectl evictplan sweep flags --controller-flag node-monitor-grace-period=20s,40s,50s \\",
    "  --tolerations 30,60,300 -f cluster.json",
    "# When that zone fails?",
    "kubectl evictplan sweep flags --fail zone eu-1a --tolerations 30,300 -f cluster.json",
)
@click.argument("words", nargs=-1, metavar="[NAME...]")
@click.option(
    "--fail",
    "kind",
    type=Choice("node", "zone", meant={"nodes": "node", "zones": "zone", "az": "zone"}),
    help="What NAME is that fails; default: the node that costs most.",
)
@click.option(
    *_TOLERATIONS,
    metavar="SECONDS,...",
    help="Try these seconds where pods have the default toleration of silent nodes.",
)
def flags(
    options: WhatIfOptions,
    words: tuple[str, ...],
    kind: str | None,
    tolerations: str | None,
    **own: Any,
) -> None:
    """One failure, with other flags and tolerations: a row for each choice.

    Several values of a flag stand behind each other: --controller-flag NAME=VALUE,VALUE.
    """
    if bool(words) != (kind is not None):
        message = "--fail says whether it is a node or a zone that NAME means"
        known = Correction(words, ("--fail", "node", *words), example=True) if words else None
        raise mistake(message, known or help_on("sweep", "flags"))
    seconds = _seconds(tolerations)
    choices, single = _choices(options, seconds)
    sweeping = Sweeping(replace(options, controller_flags=single), own)
    with sweeping.cluster() as (snapshot, progress):
        failure, assumed = _failure(sweeping, snapshot, progress, kind, words)
        grid = _grid(sweeping, snapshot, failure)
        rows = tuple(sweeping.answers(grid.row, choices, progress))
        inputs = sweeping.failing(snapshot).inputs(failure)
    from kubectl_evictplan.sweeps.document import Sweep

    if seconds:
        assumed += (
            "--tolerations stand for the default seconds of admission (300, or the API server's): pods with others keep them",
        )
    sweeping.show(Sweep("flags", inputs, cells=rows, assumptions=assumed))


def _grid(sweeping: Sweeping, snapshot: ClusterSnapshot, failure: Failure) -> FlagGrid:
    from kubectl_evictplan.sweeps.flags import FlagGrid

    given = sweeping.given
    return FlagGrid(
        snapshot,
        given.settings,
        failure,
        snapshot.taken_at_ns if given.start_ns is None else given.start_ns,
        given.horizon_ns,
        sweeping.back_ns,
        given.assume_ready_ns,
    )


def _choices(options: WhatIfOptions, seconds: list[int]) -> tuple[list[Cell], tuple[str, ...]]:
    """Return all choices, and the flags that are the same in all; every value is checked."""
    from kubectl_evictplan.sweeps.flags import cells

    varied, single = _varied(options.controller_flags)
    choices = cells(varied, seconds)
    if len(choices) < 2:
        message = "what is to be tried? give several values of a flag, or --tolerations"
        known = Correction((), ("--tolerations", "30,60,300"), example=True)
        raise mistake(message, known)
    if len(choices) > _CELLS_MAX:
        message = f"{len(choices)} choices, more than {_CELLS_MAX}: try fewer"
        raise mistake(message, help_on("sweep", "flags"))
    for choice in choices:
        tried = tuple(f"{name}={value}" for name, value in choice.flags)
        replace(options, controller_flags=(*single, *tried)).given()
    return choices, single


def _failure(
    sweeping: Sweeping,
    snapshot: ClusterSnapshot,
    progress: Progress,
    kind: str | None,
    words: tuple[str, ...],
) -> tuple[Failure, tuple[str, ...]]:
    """Return the failure that is named, else that of the node that costs most, and what that rests on."""
    from kubectl_evictplan.sweeps.failures import NODE, ZONE, Failure

    name = ", ".join(words)
    if kind == "node":
        names = tuple(node.name for node in NodeArguments(words).nodes(snapshot))
        return Failure(NODE, name, names), ()
    if kind == "zone":
        names = tuple(node.name for node in nodes_of_zones(snapshot, words))
        return Failure(ZONE, name, names), ()
    singles = [Failure(NODE, node.name, (node.name,)) for node in snapshot.nodes]
    if not singles:
        raise mistake("the input holds no node that could fail")
    worst = sweeping.swept(snapshot, singles, "nodes", progress).failures[0]
    why = f"with the present flags the failure of this node costs most of {len(singles)}"
    return Failure(NODE, worst.name, worst.nodes), (why,)


def _varied(texts: tuple[str, ...]) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return the flags with several values, and the others as they stand."""
    from kubectl_evictplan.controllers.flags import flag_problem

    varied: dict[str, list[str]] = {}
    single = []
    for text in texts:
        name, _, value = text.partition("=")
        name = name.lstrip("-").replace("_", "-")
        # A list that is one value, such as that of --controllers, is none of several.
        if "," in value and flag_problem(name, value) is not None:
            varied.setdefault(name, []).extend(filter(None, value.split(",")))
        else:
            single.append(text)
    return {name: list(dict.fromkeys(values)) for name, values in varied.items()}, tuple(single)


def _seconds(text: str | None) -> list[int]:
    if text is None:
        return []
    parts = [part.strip().removesuffix("s") for part in text.split(",")]
    if all(p.isascii() and p.isdecimal() and int(p[:11]) <= _SECONDS_MAX for p in parts):
        return list(dict.fromkeys(map(int, parts)))
    known = Correction((text,), ("30,60,300",), True, _TOLERATIONS)
    expected = "seconds such as 30,60,300"
    raise mistake(
        "not a list of seconds", known, got=repr(text), expected=expected, location=_TOLERATIONS[0]
    )
