"""``what-if delete node``: the Node objects go; what happens to their pods follows."""

from __future__ import annotations

import click

from kubectl_evictplan.commands.node_arguments import NodeArguments
from kubectl_evictplan.commands.options import WhatIfOptions, node_options, what_if_command
from kubectl_evictplan.errors import help_on, mistake, mistyped
from kubectl_evictplan.scenarios.names import NODE_WORDS, OTHER_TYPES


@what_if_command(
    "kubectl evictplan what-if delete node n1 -f cluster.json",
    "kubectl evictplan what-if delete nodes -l pool=blue -f cluster.json",
)
@click.argument("words", nargs=-1, metavar="node NAME... | node/NAME...")
@node_options
def delete(options: WhatIfOptions, words: tuple[str, ...], selector: str, all_nodes: bool) -> None:
    """Node objects are deleted, as by `kubectl delete node`."""
    from kubectl_evictplan.scenarios.actions.nodes import DeleteNode

    NodeArguments(_names(words), selector, all_nodes).ask(options, DeleteNode)


def _names(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names after the type, or the TYPE/NAME words."""
    if not words:
        right = ["delete", "node", "--all"]
        raise mistyped("what is deleted?", ["delete"], right, example=True, expected="node NAME")
    first, kind = words[0], words[0].lower().partition("/")[0]
    if first.lower() in NODE_WORDS:
        return words[1:]
    if kind in OTHER_TYPES:
        message = "only nodes are deleted here; a scenario file can delete pods (`pod-delete`)"
        raise mistake(message, help_on("what-if", "scenario"), got=first, expected="node NAME")
    if "/" in first and "." not in kind:
        return words
    instead = ("node",) if kind.partition(".")[0] in NODE_WORDS else ("node", first)
    raise mistyped("the type comes first: write `node NAME`", [first], instead, got=first)
