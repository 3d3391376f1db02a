"""``--observe`` and ``--observe-from``: a second look at the leases before the prediction."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubectl_evictplan.commands.file_arguments import STDIN, check_files
from kubectl_evictplan.errors import Correction, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.windows.second_look import SecondLook

_FROM = "--observe-from"


def check_second_look(filename: str | None, filenames: Sequence[str]) -> None:
    """Raise before the work for a file of --observe-from that cannot be read."""
    if filename is None:
        return
    if filename == STDIN and STDIN in filenames:
        known = Correction((filename,), ("leases.json",), True, (_FROM,))
        raise mistake("standard input is given twice", known, location=_FROM)
    check_files((filename,), recursive=False)


def observed_from(first: ClusterSnapshot, filename: str) -> ClusterSnapshot:
    """Return the cluster at a second look, which a file holds; InputError says what is wrong with it."""
    from kubectl_evictplan.sources.files import load_leases
    from kubectl_evictplan.windows.second_look import SecondLook

    stdin = sys.stdin.buffer if sys.stdin is not None else None
    return observed(first, SecondLook(*load_leases(filename, stdin=stdin)))


def observed(first: ClusterSnapshot, look: SecondLook) -> ClusterSnapshot:
    """Return the cluster at a second look, with its digest."""
    from msgspec.structs import replace

    from kubectl_evictplan.sources.snapshot import snapshot_digest
    from kubectl_evictplan.windows.second_look import with_second_look

    second = with_second_look(first, look)
    return replace(second, digest=snapshot_digest(second))
