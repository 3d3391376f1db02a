"""What a journal says, without asking the cluster."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kubectl_evictplan.apply import journal as journals
from kubectl_evictplan.apply.files import Files
from kubectl_evictplan.apply.run import can_roll_back, resumable
from kubectl_evictplan.apply.states import RunState


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A journal's state. ``at_work``: a process of this machine holds it right now.

    ``torn``: its last line has no end, so a crash cut it off; it counts for nothing.
    """

    state: RunState
    at_work: bool
    torn: bool
    resumable: bool
    can_roll_back: bool


def status(journal: Path, files: Files) -> Status:
    """Read a journal. Raises InputError for one that is missing, damaged or of another version."""
    contents = journals.read(journal, files)
    state = journals.added_up(journal, contents)
    try:
        at_work = files.locked(journal)
    except OSError:
        at_work = False
    return Status(
        state=state,
        at_work=at_work,
        torn=contents.torn,
        resumable=resumable(state) and not at_work,
        can_roll_back=can_roll_back(state) and not at_work,
    )
