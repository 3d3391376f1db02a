"""How much memory the control group of this process allows: a container that takes more is killed, without a word to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Where Linux tells of them; a container sees its own group at the top.
_OF_THIS_PROCESS = Path("/proc/self/cgroup")
_MOUNTED = Path("/sys/fs/cgroup")


def memory_max_bytes(
    of_this_process: Path = _OF_THIS_PROCESS, mounted: Path = _MOUNTED
) -> int | None:
    """The smallest limit of the groups of this process; None where there is none, or nobody tells."""
    limits = []
    for file in _files(of_this_process, mounted):
        with contextlib.suppress(OSError, ValueError):  # not there; "max" is none
            limits.append(int(file.read_text()))
    return min(limits, default=None)


def _files(of_this_process: Path, mounted: Path) -> Iterator[Path]:
    """What may hold a limit: a group's own file, and those of all groups around it, in both versions of cgroups."""
    try:
        lines = of_this_process.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers in ("", "memory"):
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            path = PurePosixPath(group).relative_to("/")
            for around in (path, *path.parents):
                yield mounted / controllers / around / name
