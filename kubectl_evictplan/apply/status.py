"""What a journal says, without asking the cluster."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kubectl_evictplan.apply.files import Files
from kubectl_evictplan.apply.states import RunState


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A journal's state. ``at_work``: a process of this machine holds it right now."""

    state: RunState
    at_work: bool
    resumable: bool
    can_roll_back: bool


def status(journal: Path, files: Files) -> Status:
    """Read a journal. Raises InputError for one that is missing, damaged or of another version."""
    raise NotImplementedError
