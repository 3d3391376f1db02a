"""The commands of a change ticket: to do what was predicted, to watch it and to undo it.

Only what somebody does is here: nobody orders a node to fall silent. A name that is none of Kubernetes' never
becomes part of a command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from kubectl_evictplan.prediction.document import EventSummary, Prediction
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Commands

# A line of so many names is one that nobody pastes.
_NODES_MAX = 100
_WATCHED_MAX = 5
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_WORD = re.compile(r"[-\w.,/:=+!() ]+", re.ASCII)
_PARTLY = "Not everything that was predicted is done by these commands: see the events."
_UNDO = "An eviction cannot be undone; this stops those that have not happened yet."


def commands(prediction: Prediction) -> Iterator[Commands]:
    """Yield what to run, each block for one purpose; nothing for what nobody runs."""
    events = prediction.inputs.events
    done = [line for event in events if (line := _line(event.command, event))]
    if done:
        yield Commands("Do it", tuple(done), "" if len(done) == len(events) else _PARTLY)
        undone = [line for event in reversed(events) if (line := _line(event.undo, event))]
        if undone:
            yield Commands("Undo it", tuple(dict.fromkeys(undone)), _UNDO)
    nodes = [n for n in dict.fromkeys(n for event in events for n in event.nodes) if _is_name(n)]
    watched = [
        f"kubectl get pods --all-namespaces --watch --field-selector spec.nodeName={node}"
        for node in nodes[:_WATCHED_MAX]
    ]
    if watched:
        more = len(nodes) - len(watched)
        note = f"and the same for {words.count(more, 'more node')}" if more > 0 else ""
        yield Commands("Watch it", tuple(watched), note)


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
