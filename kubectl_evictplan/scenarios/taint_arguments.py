"""The words of ``kubectl taint``: what they add, what they remove, and on which nodes.

Rules: those of kubectl's pkg/cmd/taint, in its order and with its messages, so that a command line is
accepted here exactly when kubectl accepts it. A node that kubectl would refuse to
change is skipped with a warning, as kubectl goes on with the others (continue on error); when every
node is refused, that is the answer: an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.objects import Node, Taint
from kubectl_evictplan.kube.objects import Warning as ClusterWarning
from kubectl_evictplan.scenarios.actions.taints import AddTaint, RemoveTaint
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.scenarios.taint_words import (
    TaintRemoval,
    parse_taint,
    parse_taint_removal,
)

NODE_RESOURCES = ("node", "nodes")
# kubectl's short name, accepted though its message does not list it.
NODE_SHORT_NAMES = ("no",)


class TaintRequest(msgspec.Struct, frozen=True):
    """A parsed ``kubectl taint`` command; ``node_names`` are as typed, unchecked."""

    node_names: tuple[str, ...]
    additions: tuple[Taint, ...]
    removals: tuple[TaintRemoval, ...]
    selector: str = ""
    all_nodes: bool = False
    overwrite: bool = False


def looks_like_taint(word: str) -> bool:
    """Tell whether kubectl takes the word for a change of a taint instead of a resource."""
    return "=" in word or ":" in word or word.endswith("-")


def parse_taint_arguments(
    arguments: Sequence[str],
    *,
    selector: str = "",
    all_nodes: bool = False,
    overwrite: bool = False,
) -> TaintRequest:
    """Return what the words after ``taint`` ask for; InputError has kubectl's message.

    Checks come in kubectl's order and, as there, the first one that fails is reported.
    """
    resources, changes = _split_words(arguments)
    if not resources:
        raise _usage("one or more resources must be specified as <resource> <name>")
    if not changes:
        raise _usage("at least one taint update is required")
    try:
        additions, removals = _parse_changes(changes)
    except ValueError as error:
        raise _usage(str(error)) from None
    if resources[0].lower() not in (*NODE_RESOURCES, *NODE_SHORT_NAMES):
        supported = " ".join(f'"{name}"' for name in NODE_RESOURCES)
        raise _usage(f"invalid resource type {resources[0]}, only [{supported}] are supported")
    _refuse_conflicts(additions, removals)
    if all_nodes and selector:
        raise _usage("setting 'all' parameter with a non empty selector is prohibited")
    if not all_nodes and not selector and len(resources) < 2:
        raise _usage(
            "at least one resource name must be specified since 'all' parameter is not set"
        )
    return TaintRequest(
        node_names=tuple(resources[1:]),
        additions=additions,
        removals=removals,
        selector=selector,
        all_nodes=all_nodes,
        overwrite=overwrite,
    )


def resolve_taint_events(
    request: TaintRequest, nodes: Iterable[Node], *, at_ns: int = 0, origin: str = ""
) -> tuple[list[ScenarioEvent], list[ClusterWarning]]:
    """Return the events of the command on these (already selected) nodes, and its warnings.

    Nodes that kubectl would leave alone (an addition that exists without ``--overwrite``, a removal
    of what is absent) are skipped, each with a warning; InputError when no node is left.
    Additions come before removals, so that no pod sees an instant in which neither the old nor the
    new taint is there: kubectl sends one patch.
    """
    targets = sorted(nodes, key=lambda node: node.name)
    refusals = {node.name: _refusals(request, node) for node in targets}
    names = tuple(name for name, messages in refusals.items() if not messages)
    if not names:
        raise InputError(
            [
                Problem(message, subject=f"Node {name}")
                for name, messages in refusals.items()
                for message in messages
            ]
            or Problem("no node is selected")
        )
    warnings = [
        ClusterWarning("taint-not-applied", f"kubectl refuses: {message}", (f"node/{name}",))
        for name, messages in refusals.items()
        for message in messages
    ]
    return _events(request, names, at_ns, origin), warnings


def _split_words(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return (resources, taint changes): what stands before and from the first change on."""
    resources: list[str] = []
    changes: list[str] = []
    for word in arguments:
        if looks_like_taint(word):
            changes.append(word)
        elif changes:
            raise _usage(f"all resources must be specified before taint changes: {word}")
        else:
            resources.append(word)
    return resources, changes


def _parse_changes(
    words: Sequence[str],
) -> tuple[tuple[Taint, ...], tuple[TaintRemoval, ...]]:
    """Return the additions and removals (kubectl's ``parseTaints``)."""
    additions: list[Taint] = []
    removals: list[TaintRemoval] = []
    seen: set[tuple[str, str]] = set()
    for word in words:
        if word.endswith("-"):
            removals.append(parse_taint_removal(word[:-1]))
            continue
        taint = parse_taint(word)
        if (taint.key, taint.effect) in seen:
            raise ValueError(f"duplicated taints with the same key and effect: {word}")
        seen.add((taint.key, taint.effect))
        additions.append(taint)
    return tuple(additions), tuple(removals)


def _refuse_conflicts(additions: Sequence[Taint], removals: Sequence[TaintRemoval]) -> None:
    """Raise when one command both adds and removes a taint."""
    conflicts = [
        f"{removal.key}={removal.effect}"
        for taint in additions
        for removal in removals
        if removal.removes(taint.key, taint.effect)
    ]
    if conflicts:
        raise _usage(
            "can not both modify and remove the following taint(s) in the same command: "
            + ", ".join(conflicts)
        )


def _refusals(request: TaintRequest, node: Node) -> list[str]:
    """Return why kubectl would leave this node as it is (``reorderTaints``)."""
    present = {(taint.key, taint.effect) for taint in node.taints}
    existing = [taint.key for taint in request.additions if (taint.key, taint.effect) in present]
    if existing and not request.overwrite:
        taints = f"{','.join(existing)} taint(s) with same effect(s)"
        return [f"node {node.name} already has {taints} and --overwrite is false"]
    messages = []
    left = list(node.taints)
    # One after the other: after "k:NoExecute-", a further "k-" needs another effect to remove.
    for removal in request.removals:
        kept = [taint for taint in left if not removal.removes(taint.key, taint.effect)]
        if len(kept) == len(left):
            messages.append(f'taint "{removal}" not found')
        left = kept
    return messages


def _events(
    request: TaintRequest, names: tuple[str, ...], at_ns: int, origin: str
) -> list[ScenarioEvent]:
    """Return one event per change, additions first.

    Each addition goes to the front of the node's list; from last to first, they end up as kubectl
    sends them: in the order of the arguments, before the old ones.
    """
    added = [
        AddTaint(at_ns=at_ns, nodes=names, taint=taint, origin=origin)
        for taint in reversed(request.additions)
    ]
    removed = [
        RemoveTaint(at_ns=at_ns, nodes=names, removal=removal, origin=origin)
        for removal in request.removals
    ]
    return [*added, *removed]


def _usage(message: str) -> InputError:
    return InputError(Problem(message))
