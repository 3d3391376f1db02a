"""The commands of a change ticket: to do what was predicted, to watch it and to undo it.

First this program's own, which hold the cluster to what was reviewed, then kubectl's. Only what somebody does is
here: nobody orders a node to fall silent. A name that is none of Kubernetes' never becomes part of a command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kubectl_evictplan.plans.fingerprint import short
from kubectl_evictplan.plans.operations import can_be_carried_out
from kubectl_evictplan.prediction.document import EventSummary, Prediction
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Commands

# A line of so many names is one that nobody pastes.
_NODES_MAX = 100
_WATCHED_MAX = 5
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_WORD = re.compile(r"[-\w.,/:=+!() ]+", re.ASCII)
_TOOL = "kubectl evictplan"
_PLAN, _JOURNAL = "plan.json", "plan.journal.jsonl"
# How apply drains: kubectl has no such flags.
_NOT_KUBECTL = ("--parallel", "--settle")
_PARTLY = "Not everything that was predicted is done by these commands: see the events."
_DO = (
    "Refused, with nothing done: any other plan than this ticket's, and a cluster that is not as it was reviewed. "
    "Add --dry-run=server to try it first."
)
_MAKE = (
    "The plan is made, and predicted, from the cluster as it is then; apply shows it and asks. Written in one go, "
    "with --out plan.json -o markdown, a ticket names its plan's fingerprint."
)
_SCENARIO = f"scenario.yaml is what was asked here, as --save-scenario writes it. {_MAKE}"
_AGAIN = "The first tells how far it came, the second goes on."
_UNDO = "An eviction cannot be undone; this stops those that have not happened yet."
_TAKE_BACK = f"{_UNDO} What others changed since is left alone."
_VERIFY = "verify says of each pod whether it goes as predicted."
_STORED = f"{_VERIFY} prediction.json is what -o json writes instead of this page: its fingerprint is the same."
_BY_HAND = "Nothing compares the cluster with what was reviewed."


class PlanFile(NamedTuple):
    """The plan that was written together with a ticket, and where its run keeps its journal.

    ``applies``: it was made from a live cluster, so ``apply`` takes it. ``cluster`` says which.
    """

    path: str
    journal: str
    fingerprint: str
    applies: bool
    cluster: str = ""


def commands(prediction: Prediction, plan: PlanFile | None = None) -> Iterator[Commands]:
    """Yield what to run, each block for one purpose; nothing for what nobody runs."""
    events = prediction.inputs.events
    plan = plan if plan is not None and plan.applies else None
    done = [line for event in events if (line := _by_kubectl(event.command, event))]
    undone = [line for event in reversed(events) if (line := _by_kubectl(event.undo, event))]
    undone = list(dict.fromkeys(undone))
    if events and all(map(can_be_carried_out, events)):
        yield from _applied(events, plan)
        yield _watched(prediction, f"verify {shlex.quote(plan.path if plan else _PLAN)} --watch")
        if done:
            yield Commands("The same with kubectl alone", tuple(done), _BY_HAND)
        if undone:
            yield Commands("Undo it with kubectl alone", tuple(undone), _UNDO)
        return
    if done:
        yield Commands("Do it", tuple(done), "" if len(done) == len(events) else _PARTLY)
        if undone:
            yield Commands("Undo it", tuple(undone), _UNDO)
    if events:
        yield _watched(prediction, "verify prediction.json --watch", _STORED)


def _applied(events: Sequence[EventSummary], plan: PlanFile | None) -> Iterator[Commands]:
    """Yield how this program does it, goes on after a crash, and takes it back."""
    if plan is not None:
        path, journal = shlex.quote(plan.path), shlex.quote(plan.journal)
        digest = short(plan.fingerprint)
        yield Commands("Do it", (f"{_TOOL} apply {path} --plan-digest {digest}",), _DO)
    else:
        path, journal = _PLAN, _JOURNAL
        asked = ""
        if len(events) == 1:
            asked = _line((*_TOOL.split(), "what-if", *events[0].command[1:]), events[0])
        made = asked or f"{_TOOL} what-if scenario scenario.yaml"
        note = _MAKE if asked else _SCENARIO
        yield Commands("Do it", (f"{made} --out {path}", f"{_TOOL} apply {path}"), note)
    again = (f"{_TOOL} apply --status {journal}", f"{_TOOL} apply --resume {journal}")
    yield Commands("If it stops", again, _AGAIN)
    yield Commands("Undo it", (f"{_TOOL} apply --rollback {journal}",), _TAKE_BACK)


def _watched(prediction: Prediction, verify: str, note: str = _VERIFY) -> Commands:
    """Return how to follow it: against the prediction, and as it is."""
    events = prediction.inputs.events
    nodes = [n for n in dict.fromkeys(n for event in events for n in event.nodes) if _is_name(n)]
    lines = [
        f"kubectl get pods --all-namespaces --watch --field-selector spec.nodeName={node}"
        for node in nodes[:_WATCHED_MAX]
    ]
    more = len(nodes) - len(lines)
    rest = f" The last line likewise for {words.count(more, 'more node')}." if more > 0 else ""
    return Commands("Watch it", (f"{_TOOL} {verify}", *lines), note + rest)


def _by_kubectl(command: Sequence[str], event: EventSummary) -> str:
    words = [word for word in command if word.partition("=")[0] not in _NOT_KUBECTL]
    return _line(words, event)


def _line(command: Sequence[str], event: EventSummary) -> str:
    """Return a command with the nodes of its event; "" where there is none that can be pasted."""
    nodes = event.nodes
    safe = all(map(_is_name, nodes)) and all(_WORD.fullmatch(w) for w in command if w != "{nodes}")
    if not command or not nodes or not safe or len(nodes) > _NODES_MAX:
        return ""
    found: list[str] = []
    for word in command:
        found += nodes if word == "{nodes}" else (word,)
    return shlex.join(found)


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None
