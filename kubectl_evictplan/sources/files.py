"""Cluster state from files: our snapshots, `kubectl get` output, manifests, directories of them.

``load_files`` is the one entry. Which files the objects came from, in which format and order,
never changes the result. Everything wrong with all files is raised at once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from kubectl_evictplan.errors import Problem
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.sources import reading
from kubectl_evictplan.sources.assembly import Assembly
from kubectl_evictplan.sources.checks import check_cluster
from kubectl_evictplan.sources.diagnostics import Diagnostics
from kubectl_evictplan.sources.documents import DocumentReader
from kubectl_evictplan.sources.items import ItemReader
from kubectl_evictplan.sources.reading import GET_COMMAND, ReadProblem
from kubectl_evictplan.sources.snapshot import snapshot_digest

_NO_NODES = "no nodes: nothing to simulate"

Progress = Callable[[str, int, int], None]


def load_files(
    filenames: Sequence[str],
    *,
    recursive: bool = False,
    strict: bool = False,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
    manifest_version: str = "",
) -> ClusterSnapshot:
    """Return the cluster that the files describe; ``-`` is ``stdin``.

    ``recursive`` opens directories. ``strict`` makes warnings errors. ``progress`` is told
    (file, files done, files in all) before each file. ``manifest_version`` is the Kubernetes
    version whose validation hand-written manifests must pass; "" is the newest. Raises
    InputError with every problem of every file.
    """
    diagnostics = Diagnostics(strict=strict)
    assembly = Assembly(diagnostics)
    items = ItemReader(assembly, manifest_version=manifest_version)
    documents = DocumentReader(items)
    with collector_paused():
        names = list(_expand(filenames, diagnostics, recursive=recursive))
        documents.keep_snapshot = len(names) == 1
        for number, name in enumerate(names):
            if progress:
                progress(name, number, len(names))
            try:
                content = reading.read(name, stdin)
            except ReadProblem as error:
                diagnostics.add(Problem(str(error), location=name))
            else:
                documents.read(content, is_named=name in filenames)
        if progress:
            progress("", len(names), len(names))
        if documents.kept_snapshot is not None:
            return _stored(documents.kept_snapshot, diagnostics, names[0])
        return finish(items, filenames)


def _stored(snapshot: ClusterSnapshot, diagnostics: Diagnostics, filename: str) -> ClusterSnapshot:
    """Return a snapshot that is the whole input as it was stored: it was checked when written."""
    if not snapshot.nodes:
        diagnostics.add(Problem(_NO_NODES, location=filename))
    mine = diagnostics.warnings()
    diagnostics.adopt(snapshot.warnings)
    diagnostics.raise_problems()
    if not mine:
        return snapshot
    return msgspec.structs.replace(snapshot, warnings=(*snapshot.warnings, *mine))


def finish(items: ItemReader, filenames: Sequence[str]) -> ClusterSnapshot:
    """Return the cluster that was read from these inputs; raises InputError with all problems."""
    assembly, diagnostics = items.assembly, items.diagnostics
    if not assembly.stored["Node"] and not diagnostics.problems:
        nothing = not assembly.objects_seen
        message = "contains no Kubernetes objects" if nothing else _NO_NODES
        location = ", ".join(filenames[:5]) + (", ..." if filenames[5:] else "")
        expected = f"the output of `{GET_COMMAND}`"
        diagnostics.add(Problem(message, location=location, expected=expected))
    return completed(assembly, items)


def completed(
    assembly: Assembly, items: ItemReader, *, whole_cluster: bool = False
) -> ClusterSnapshot:
    """Return the cluster that was put together, checked, with its warnings and its digest.

    ``whole_cluster``: it is known that nothing is missing.
    """
    diagnostics = assembly.diagnostics
    if items.build.leap_seconds:
        message = "a timestamp names a leap second: read as the last nanosecond before it"
        diagnostics.warning("leap-second", message)
    snapshot = assembly.snapshot()
    if not snapshot.taken_at_ns:
        message = "no lease renewal and no timestamp: when this was is unknown, 1970 is assumed"
        diagnostics.warning("unknown-time", message)
    check_cluster(snapshot, diagnostics, manifests=assembly.manifests, whole_cluster=whole_cluster)
    diagnostics.raise_problems()
    digest = snapshot_digest(snapshot)
    return msgspec.structs.replace(snapshot, warnings=diagnostics.warnings(), digest=digest)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking millions of live objects again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _expand(
    filenames: Sequence[str], diagnostics: Diagnostics, *, recursive: bool
) -> Iterator[str]:
    """Yield the files to read, each once; directories are opened when ``recursive``."""
    seen: set[tuple[int, int] | str] = set()
    for name in filenames:
        is_directory = recursive and name != reading.STDIN and Path(name).is_dir()
        for path in _below(name, diagnostics) if is_directory else [name]:
            identity = path if path == reading.STDIN else reading.identity(path)
            if identity not in seen:
                seen.add(identity)
                yield path
            elif path == reading.STDIN:
                diagnostics.add(Problem("standard input is given twice", location=path))
            else:
                diagnostics.warning("loaded-once", "the same file is given twice", path)


def _below(directory: str, diagnostics: Diagnostics) -> list[str]:
    try:
        found, repeated = reading.files_below(directory)
    except ReadProblem as error:
        diagnostics.add(Problem(str(error), location=directory))
        return []
    for path in repeated:
        diagnostics.warning("directory-loop", "a directory is reached twice", path)
    if not found:
        message = "no *.yaml, *.yml or *.json file below"
        diagnostics.warning("empty-file", message, directory)
    return found
