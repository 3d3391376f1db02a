"""The words of ``kubectl taint``: what they add, what they remove, and on which nodes.

A command line is accepted here exactly when kubectl accepts it, and the first thing that kubectl
would refuse is reported (kubectl ``pkg/cmd/taint``: ``Complete``, ``parseTaints``, ``Validate``); the
messages say more than kubectl's. A node that kubectl would refuse to change is skipped with a
warning, as kubectl goes on with the others (continue on error); when every node is refused, that
is the answer: an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kubectl_evictplan.errors import (
    Correction,
    InputError,
    Problem,
    WrongWord,
    help_on,
    mistake,
    mistyped,
)
from kubectl_evictplan.kube.objects import EFFECTS, Node, Taint
from kubectl_evictplan.kube.objects import Warning as ClusterWarning
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, RemoveTaint
from kubectl_evictplan.scenarios.names import NODE_WORDS, OTHER_TYPES, similar
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.scenarios.taint_words import (
    EFFECTS_RULE,
    TaintRemoval,
    likely_taint,
    parse_taint,
    parse_taint_removal,
)

_EXAMPLE = "maint=true:NoExecute"


class TaintRequest(NamedTuple):
    """A parsed ``kubectl taint`` command; ``node_names`` are as typed, unchecked.

    ``removal_words`` are the words of ``removals``, each with its '-'.
    """

    node_names: tuple[str, ...]
    additions: tuple[Taint, ...]
    removals: tuple[TaintRemoval, ...]
    removal_words: tuple[str, ...]
    overwrite: bool


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
    """Return what the words after ``taint`` ask for; InputError for the first that is wrong.

    Checks come in kubectl's order.
    """
    resources, changes = _split_words(arguments)
    if not resources:
        message = "which nodes? write `node NAME...` before the taint"
        right = ["node", "--all", *(arguments or [_EXAMPLE])]
        raise mistyped(message, arguments, right, example=True)
    if not changes:
        raise _no_change(resources)
    try:
        additions, removals = _parse_changes(changes)
    except WrongWord as error:
        _refuse_blanks(arguments)
        raise mistake(str(error), error.correction()) from None
    _refuse_other_types(resources[0])
    removal_words = tuple(word for word in changes if word.endswith("-"))
    for removal, word in zip(removals, removal_words, strict=True):
        if both := [t.key for t in additions if removal.removes(t.key, t.effect)]:
            message = f"one command cannot set and remove the same taint: {both[0]!r}"
            raise mistyped(message, [word], [])
    if all_nodes and selector:
        message = "--all and --selector exclude each other: every node, or those whose labels match"
        raise mistyped(message, ["--all"], [])
    if not all_nodes and not selector and len(resources) < 2:
        message = "which nodes? name them, or choose with --selector or --all"
        raise mistyped(message, resources, ["node", "--all"], example=True)
    return TaintRequest(tuple(resources[1:]), additions, removals, removal_words, overwrite)


def resolve_taint_events(
    request: TaintRequest, nodes: Iterable[Node], *, origin: str = ""
) -> tuple[list[ScenarioEvent], list[ClusterWarning]]:
    """Return the events of the command on these (already selected) nodes, and its warnings.

    Nodes that kubectl would leave alone (an addition that exists without ``--overwrite``, a removal
    of what is absent) are skipped, each with a warning; InputError when no node is left.
    Additions come before removals, so that no pod sees an instant in which neither the old nor the
    new taint is there: kubectl sends one patch.
    """
    targets = sorted(nodes, key=lambda node: node.name)
    refusals = {node.name: _refusals(request, node) for node in targets}
    names = tuple(name for name, problems in refusals.items() if not problems)
    if not names:
        found = [problem for problems in refusals.values() for problem in problems]
        raise InputError(found or Problem("no node is selected"))
    warnings = [
        ClusterWarning("kubectl-refuses", f"kubectl refuses: {problem.message}", (f"node/{name}",))
        for name, problems in refusals.items()
        for problem in problems
    ]
    # Each addition goes to the front of the node's list; from last to first, they end up as kubectl
    # sends them: in the order of the arguments, before the old ones.
    additions = [
        AddTaint(at_ns=0, nodes=names, taint=taint, origin=origin)
        for taint in reversed(request.additions)
    ]
    removals = [
        RemoveTaint(at_ns=0, nodes=names, removal=removal, origin=origin)
        for removal in request.removals
    ]
    return [*additions, *removals], warnings


def _no_change(resources: Sequence[str]) -> InputError:
    """Say that no word is a taint; the last one may be half of one."""
    message = f"which taint? write KEY=VALUE:EFFECT: {EFFECTS_RULE}"
    last = resources[-1]
    if len(resources) > 2 or last in EFFECTS:
        return mistyped(message, [last], [likely_taint(last)], example=True)
    named = resources if resources[0].lower() in NODE_WORDS else ["node", *resources]
    return mistyped(message, resources, [*named, _EXAMPLE], example=True)


def _refuse_other_types(word: str) -> None:
    """Raise unless the word is the type of which names follow."""
    kind, _, name = word.partition("/")
    kind = kind.lower()
    if word.lower() in NODE_WORDS:
        return
    if kind in NODE_WORDS:
        raise mistyped("the type and the name are two words here", [word], ["node", name])
    if kind.partition(".")[0] in NODE_WORDS:
        raise mistyped(f"the type is written `node`, not {word!r}", [word], ["node"])
    if kind in OTHER_TYPES:
        raise mistake(f"only nodes have taints (got {word!r})", help_on("what-if", "taint"))
    message = f"the type comes first: `node`, then the names (got {word!r})"
    raise mistyped(message, [word], ["node", word])


def _split_words(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return (resources, taint changes): what stands before and from the first change on."""
    taints = [word for word in arguments if looks_like_taint(word)]
    names = [word for word in arguments if not looks_like_taint(word)]
    if [*names, *taints] != list(arguments):
        _refuse_blanks(arguments)
        first = next(i for i, word in enumerate(arguments) if looks_like_taint(word))
        late = next(word for word in arguments[first:] if not looks_like_taint(word))
        message = f"nodes are named before the taints: {late!r} comes too late"
        raise mistyped(message, arguments, [*names, *taints])
    return names, taints


def _refuse_blanks(arguments: Sequence[str]) -> None:
    """Raise when a taint fell apart at blanks around '=' or ':'."""
    joined = re.sub(r" ?([=:]) ?", r"\1", " ".join(arguments)).split()
    # A taint must not swallow the only name.
    if len(joined) < len(arguments) and len([w for w in joined if not looks_like_taint(w)]) > 1:
        raise mistyped("a taint is one word, without blanks", arguments, joined)


def _parse_changes(words: Sequence[str]) -> tuple[tuple[Taint, ...], tuple[TaintRemoval, ...]]:
    """Return the additions and removals (kubectl's ``parseTaints``)."""
    additions: dict[tuple[str, str], tuple[str, Taint]] = {}
    removals: list[TaintRemoval] = []
    for word in words:
        several = [part for part in word.split(",") if part]
        if len(several) > 1 and all(map(looks_like_taint, several)):
            raise WrongWord(
                f"taints are separated by spaces, not by commas: {word!r}",
                word,
                several,
                together=True,
            )
        if word.endswith("-"):
            removals.append(parse_taint_removal(word[:-1]))
            continue
        taint = parse_taint(word)
        first, _ = additions.setdefault((taint.key, taint.effect), (word, taint))
        if first is not word:
            message = f"one taint is given twice, as {first!r} and as {word!r}"
            raise WrongWord(message, first, together=True)
    return tuple(taint for _, taint in additions.values()), tuple(removals)


def _refusals(request: TaintRequest, node: Node) -> list[Problem]:
    """Return why kubectl would leave this node as it is (``reorderTaints``)."""
    present = {(taint.key, taint.effect) for taint in node.taints}
    existing = [f"{t.key}:{t.effect}" for t in request.additions if (t.key, t.effect) in present]
    subject = f"Node {node.name}"
    if existing and not request.overwrite:
        message = f"has taint {', '.join(existing)} already (--overwrite replaces its value)"
        return [Problem(message, Correction((), ("--overwrite",)), subject=subject)]
    problems = []
    left = list(node.taints)
    # One after the other: after "k:NoExecute-", a further "k-" needs another effect to remove.
    for removal, word in zip(request.removals, request.removal_words, strict=True):
        kept = [taint for taint in left if not removal.removes(taint.key, taint.effect)]
        if len(kept) == len(left):
            taints = ", ".join(f"{taint.key}:{taint.effect}" for taint in left)
            message = f"has no taint {removal} to remove; its taints: {taints}"
            if not taints:
                message = f"has no taint to remove; without the '-', {word[:-1]} is added"
            close = [f"{key}-" for key in similar(removal.key, {taint.key for taint in left})]
            instead = (*close, likely_taint(word[:-1]))[0]
            known = Correction((word,), (instead,), example=not close)
            problems.append(Problem(message, known, subject=subject))
        left = kept
    return problems
