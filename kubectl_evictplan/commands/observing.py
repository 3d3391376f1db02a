"""``--observe`` and ``--observe-from``: a second look at the leases before the prediction."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from kubectl_evictplan.commands.file_arguments import STDIN, check_files
from kubectl_evictplan.errors import Correction, mistake
from kubectl_evictplan.kube.durations import MINUTE_NS, SECOND_NS, parse_bounded_duration_ns

if TYPE_CHECKING:
    from kubectl_evictplan.commands.terminal import Progress
    from kubectl_evictplan.kube.objects import ClusterSnapshot, Lease
    from kubectl_evictplan.live.flags import ConnectionFlags
    from kubectl_evictplan.world import World

    Look = Callable[[Progress], tuple[dict[str, Lease], int]]

_OBSERVE, _FROM = "--observe", "--observe-from"
# A kubelet renews every ten seconds or so; after minutes pods and nodes are not what they were.
_WAIT_MIN_NS, _WAIT_MAX_NS = SECOND_NS, 10 * MINUTE_NS


def second_look(
    waited: str | None,
    filename: str | None,
    filenames: tuple[str, ...],
    connection: ConnectionFlags,
) -> Look | None:
    """Return what looks a second time, as --observe or --observe-from says; None for neither.

    Raises InputError, before the work, for what cannot be looked at.
    """
    if waited is not None and filename is not None:
        known = Correction((_OBSERVE, waited), ())
        raise mistake(f"{_OBSERVE} waits for what {_FROM} has: give one of them", known)
    if filename is not None:
        if filename == STDIN and STDIN in filenames:
            known = Correction((filename,), ("leases.json",), True, (_FROM,))
            raise mistake("standard input is given twice", known, location=_FROM)
        get = f"kubectl get leases -n kube-node-lease -o json > {shlex.quote(filename)}"
        check_files((filename,), recursive=False, otherwise=Correction((), (), first=get))
        return lambda _: _look_into(filename)
    if waited is None:
        return None
    wait_ns = _wait_ns(waited)
    if filenames:
        known = Correction((_OBSERVE, waited), (_FROM, "leases.json"), True)
        message = f"{_OBSERVE} looks at a live cluster, not at files: a second file is {_FROM}'s"
        raise mistake(message, known)
    return lambda progress: look_at(connection, wait_ns, progress)


def _wait_ns(text: str) -> int:
    from kubectl_evictplan.commands.likely import likely_duration

    try:
        wait_ns = parse_bounded_duration_ns(text)
    except ValueError as error:
        likely = likely_duration(text, SECOND_NS)
        known = Correction((text,), (likely or "20s",), not likely, (_OBSERVE,))
        raise mistake(str(error), known, location=_OBSERVE, got=repr(text)) from None
    if not _WAIT_MIN_NS <= wait_ns <= _WAIT_MAX_NS:
        known = Correction((text,), ("20s",), True, (_OBSERVE,))
        message, expected = "too short or too long", "1s to 10m"
        raise mistake(message, known, location=_OBSERVE, got=repr(text), expected=expected)
    return wait_ns


def _look_into(filename: str) -> tuple[dict[str, Lease], int]:
    from kubectl_evictplan.sources.files import load_leases

    return load_leases(filename, stdin=sys.stdin.buffer if sys.stdin is not None else None)


def look_at(
    connection: ConnectionFlags, wait_ns: int, progress: Progress, world: World | None = None
) -> tuple[dict[str, Lease], int]:
    """Return the leases of the live cluster after waiting; and when that was."""
    from kubectl_evictplan.live.reader import read_leases

    seconds = wait_ns / SECOND_NS
    listing = progress.listing
    return read_leases(connection, os.environ, wait_seconds=seconds, progress=listing, world=world)


def observed(first: ClusterSnapshot, leases: dict[str, Lease], at_ns: int) -> ClusterSnapshot:
    """Return the cluster at a second look, with its digest."""
    from msgspec.structs import replace

    from kubectl_evictplan.sources.snapshot import snapshot_digest
    from kubectl_evictplan.windows.second_look import SecondLook, with_second_look

    second = with_second_look(first, SecondLook(leases, at_ns))
    return replace(second, digest=snapshot_digest(second))
