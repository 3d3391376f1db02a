"""Which commands make sense after a run, from its journal's state: only those that lead somewhere."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from kubectl_evictplan.apply.endings import EndCode, Ending
from kubectl_evictplan.apply.files import JOURNAL_ENDING
from kubectl_evictplan.apply.run import can_roll_back, resumable
from kubectl_evictplan.apply.states import RunState
from kubectl_evictplan.plans.document import AddTaint, Cordon, RemoveTaint, Uncordon, taint_words
from kubectl_evictplan.report.blocks import Block, Commands

_ROOM = "first make room for the journal, or bring its disk back"
_OWN = "taints and cordons of this run, never what others did"
_PUT_BACK = "the first puts back what somebody took back, the second goes on; without it, going on ends the same way"
_WITHOUT = "what is left of nodes that are gone is left out"
_WITHOUT_AGAIN = "everything else is done, so that changes something only when a node is back"


class Typed(NamedTuple):
    """The words that run this program, and the options that lead it, and kubectl, to the same cluster."""

    program: str
    connection: str = ""
    kubectl: str = ""


def next_commands(
    state: RunState,
    path: str,
    typed: Typed,
    *,
    resumable: bool,
    can_roll_back: bool,
    is_full: bool = False,
) -> Iterator[Block]:
    """Yield how to go on and how to take back what the journal ``path`` tells of.

    ``is_full``: the journal could not be written.
    """
    room = _ROOM if is_full else ""
    program, where = typed.program, _led(typed.connection)
    journal = shlex.quote(path)
    ending = state.rollback_ending if state.rolling_back else state.ending
    if ending is not None and ending.code is EndCode.JOURNAL_BEHIND:
        # Going on with an old copy, or taking it back, ends the same way every time.
        plan, new = shlex.quote(state.begin.plan or "plan.json"), shlex.quote(_adopted(path))
        words = f"{program} apply --adopt {plan} --journal {new}{where}"
        yield Commands("Without the original journal", (words,), "reads the cluster, sends nothing")
        return
    if resumable:
        unsent = "nothing was sent yet" if state.sent_nothing else ""
        resume = f"{program} apply --resume {journal}"
        yield _go_on(state, ending, resume, typed, (room, unsent))
    if can_roll_back:
        note = _joined(room, _OWN)
        yield Commands("Take back", (f"{program} apply --rollback {journal}{where}",), note)


def command_lines(state: RunState, journal: str, typed: Typed) -> tuple[str, ...]:
    """Return the same as lines alone, for the journal ``journal``."""
    found = next_commands(
        state,
        journal,
        typed,
        resumable=resumable(state),
        can_roll_back=can_roll_back(state),
    )
    return tuple(line for block in found if isinstance(block, Commands) for line in block.lines)


def _go_on(
    state: RunState, ending: Ending | None, resume: str, typed: Typed, notes: tuple[str, ...]
) -> Commands:
    where = _led(typed.connection)
    if ending is not None and (ending.code is EndCode.ABSENT or ending.is_absent):
        note = _joined(*notes, _WITHOUT if ending.is_absent else _WITHOUT_AGAIN)
        return Commands("Go on", (f"{resume} --continue-on-absent{where}",), note)
    if ending is not None and ending.code is EndCode.REVERTED:
        again = f"{_by_hand(state, ending.number)}{_led(typed.kubectl)}"
        return Commands("Go on", (again, f"{resume}{where}"), _joined(*notes, _PUT_BACK))
    return Commands("Go on", (f"{resume}{where}",), _joined(*notes))


def _by_hand(state: RunState, number: int) -> str:
    """Return kubectl's words for what an operation does to its node."""
    operation = state.operations[number].operation
    node = shlex.quote(operation.node)
    match operation:
        case Cordon():
            return f"kubectl cordon {node}"
        case Uncordon():
            return f"kubectl uncordon {node}"
        case AddTaint():
            return f"kubectl taint node {node} {shlex.quote(taint_words(operation.taint))}"
        case RemoveTaint():
            taint = f"{operation.taint.key}:{operation.taint.effect}-"
            return f"kubectl taint node {node} {shlex.quote(taint)}"
        case _:
            raise AssertionError("nobody takes an eviction back")


def _led(connection: str) -> str:
    return f" {connection}" if connection else ""


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _adopted(path: str) -> str:
    """Return a name for the journal that replaces this one."""
    return f"{path.removesuffix(JOURNAL_ENDING)}-adopted{JOURNAL_ENDING}"
