"""``what-if delete node``: the Node objects go; what happens to their pods follows."""

from __future__ import annotations

import shlex

import click

from kubectl_evictplan.commands.command import Command, examples
from kubectl_evictplan.commands.node_arguments import NodeArguments
from kubectl_evictplan.commands.options import (
    WhatIfOptions,
    all_option,
    selector_option,
    what_if_options,
)
from kubectl_evictplan.errors import Correction, help_on, mistake


@click.command(
    cls=Command,
    epilog=examples(
        "kubectl evictplan what-if delete node n1 -f cluster.json",
        "kubectl evictplan what-if delete nodes -l pool=blue -f cluster.json",
    ),
)
@click.argument("words", nargs=-1, metavar="node NAME... | node/NAME...")
@selector_option
@all_option
@what_if_options
def delete(options: WhatIfOptions, words: tuple[str, ...], selector: str, all_nodes: bool) -> None:
    """Node objects are deleted, as by `kubectl delete node`."""
    from kubectl_evictplan.scenarios.actions.nodes import DeleteNode

    arguments = NodeArguments(_names(words), selector, all_nodes)
    arguments.ask(options, shlex.join(["delete", *words]), DeleteNode)


def _names(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names after the type, or the TYPE/NAME words."""
    from kubectl_evictplan.scenarios.targets import NODE_WORDS, OTHER_TYPES

    first = words[0] if words else ""
    kind = first.lower().partition("/")[0]
    if first.lower() in NODE_WORDS:
        return words[1:]
    if kind in OTHER_TYPES:
        message = "only nodes are deleted here; a scenario file can delete pods (`pod-delete`)"
        raise mistake(message, help_on("what-if", "scenario"), got=first, expected="node NAME")
    if "/" in first and "." not in kind:
        return words
    if not words:
        known = Correction(("delete",), ("delete", "node", "--all"), example=True)
        raise mistake("what is deleted?", known, expected="node NAME")
    instead = ("node",) if kind.partition(".")[0] in NODE_WORDS else ("node", first)
    message = "the type comes first: write `node NAME`"
    raise mistake(message, Correction((first,), instead), got=first)
