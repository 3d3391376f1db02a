"""Cluster state from files: our snapshots, `kubectl get` output, manifests, directories of them.

``load_files`` is the one entry. Which files the objects came from, in which format and order,
never changes the result. Everything wrong with all files is raised at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.garbage import collector_paused
from kubectl_evictplan.kube.objects import ClusterSnapshot, Lease
from kubectl_evictplan.processes import in_thread
from kubectl_evictplan.sources import dumps, reading
from kubectl_evictplan.sources.assembly import Assembly
from kubectl_evictplan.sources.checks import check_cluster
from kubectl_evictplan.sources.diagnostics import Diagnostics
from kubectl_evictplan.sources.documents import DocumentReader
from kubectl_evictplan.sources.items import ItemReader
from kubectl_evictplan.sources.reading import GET_COMMAND, ReadProblem
from kubectl_evictplan.sources.snapshot import snapshot_digest

if TYPE_CHECKING:
    from kubectl_evictplan.sources.witness import Witness

_NAMESPACES_NAMED_MAX = 10
_NO_NODES = "no nodes: nothing to simulate"

# (what is read, so many so far, so many in all or 0 where that is not known)
Progress = Callable[[str, int, int], None]


class _Input(msgspec.Struct, frozen=True):
    """A file to read; ``is_captured``: a tool wrote the folder in which it lies."""

    name: str
    is_named: bool = True
    is_captured: bool = False


def load_files(
    filenames: Sequence[str],
    *,
    recursive: bool = False,
    strict: bool = False,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
    manifest_version: str = "",
    witness: Witness | None = None,
    jobs: int = 1,
    meanwhile: Callable[[], None] | None = None,
) -> ClusterSnapshot:
    """Return the cluster that the files describe; ``-`` is ``stdin``.

    ``recursive`` opens directories. ``strict`` makes warnings errors. ``progress`` is told
    (file, files done, files in all) before each file. ``manifest_version`` is the Kubernetes
    version whose validation hand-written manifests must pass; "" is the newest. With a ``witness``,
    who is shown every object, files without nodes will do. ``jobs`` is how many processes may read a
    large dump side by side; they change nothing but the time. ``meanwhile`` is called while a large snapshot is
    unpacked. Raises InputError with every problem
    of every file.
    """
    diagnostics = Diagnostics(strict=strict)
    assembly = Assembly(diagnostics)
    items = ItemReader(assembly, manifest_version=manifest_version, witness=witness)
    documents = DocumentReader(items)
    with collector_paused():
        inputs = list(_expand(filenames, assembly, recursive=recursive))
        documents.keep_snapshot = len(inputs) == 1
        # Who searches every object, or is shown it, needs all of its bytes.
        may_cut = not strict and witness is None
        for number, file in enumerate(inputs):
            if progress:
                progress(file.name, number, len(inputs))
            if not (may_cut and _read_dump(file, documents, jobs)):
                _read(file, documents, assembly, stdin, meanwhile)
        if progress:
            progress("", len(inputs), len(inputs))
        if documents.kept_snapshot is not None:
            return _stored(documents.kept_snapshot, diagnostics, inputs[0].name)
        if witness is not None and assembly.objects_seen:
            return completed(assembly, items)
        return finish(items, filenames)


def load_leases(filename: str, *, stdin: BinaryIO | None = None) -> tuple[dict[str, Lease], int]:
    """Return the leases of nodes in a file of any kind that is read, and when they were listed.

    That is its snapshot's time, else the newest renewal. Raises InputError when there are none.
    """
    assembly = Assembly(Diagnostics())
    documents = DocumentReader(ItemReader(assembly))
    documents.keep_snapshot = True
    with collector_paused():
        _read(_Input(filename), documents, assembly, stdin)
    assembly.diagnostics.raise_problems()
    found = documents.kept_snapshot or assembly.snapshot()
    if not found.leases:
        message = "holds no leases of nodes"
        expected = "the output of `kubectl get leases -n kube-node-lease -o json`"
        raise InputError(Problem(message, location=filename, expected=expected))
    return found.leases, found.taken_at_ns


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
    if assembly.skipped:
        counts = ", ".join(f"{count} {what}" for what, count in sorted(assembly.skipped.items()))
        for name in sorted(assembly.captures):
            diagnostics.warning("files-skipped", f"not read: {counts}", name)
    snapshot = assembly.snapshot()
    if assembly.captures_by_namespace:
        _warn_of_namespaces(snapshot, assembly)
    if not snapshot.taken_at_ns:
        message = "no lease renewal and no timestamp: when this was is unknown, 1970 is assumed"
        diagnostics.warning("unknown-time", message)
    check_cluster(snapshot, diagnostics, manifests=assembly.manifests, whole_cluster=whole_cluster)
    diagnostics.raise_problems()
    one_namespace = len({pod.namespace for pod in snapshot.pods}) <= 1
    return msgspec.structs.replace(
        snapshot,
        warnings=diagnostics.warnings(),
        digest=snapshot_digest(snapshot),
        pods_of_all_namespaces=whole_cluster
        or not (assembly.captures_by_namespace or one_namespace),
    )


def _warn_of_namespaces(snapshot: ClusterSnapshot, assembly: Assembly) -> None:
    """Say which namespaces a capture holds: none of the tools takes all unless it is told to."""
    namespaces = sorted({pod.namespace for pod in snapshot.pods})
    named = ", ".join(namespaces[:_NAMESPACES_NAMED_MAX]) or "none"
    more = len(namespaces) - _NAMESPACES_NAMED_MAX
    named += f" and {more} more" if more > 0 else ""
    message = (
        f"has pods of these namespaces only: {named}; others are not predicted (must-gather leaves out "
        "yours, cluster-info dump needs --all-namespaces)"
    )
    for name in sorted(assembly.captures_by_namespace):
        assembly.diagnostics.warning("captured-namespaces", message, name)


def _expand(filenames: Sequence[str], assembly: Assembly, *, recursive: bool) -> Iterator[_Input]:
    """Yield the files to read, each once; directories are opened when ``recursive``."""
    diagnostics = assembly.diagnostics
    seen: set[tuple[int, int] | str] = set()
    for name in filenames:
        is_directory = recursive and name != reading.STDIN and Path(name).is_dir()
        for file in _below(name, assembly) if is_directory else [_Input(name)]:
            path = file.name
            identity = path if path == reading.STDIN else reading.identity(path)
            if identity not in seen:
                seen.add(identity)
                yield replace(file, is_named=path in filenames)
            elif path == reading.STDIN:
                diagnostics.add(Problem("standard input is given twice", location=path))
            else:
                diagnostics.warning("loaded-once", "the same file is given twice", path)


def _below(directory: str, assembly: Assembly) -> list[_Input]:
    from kubectl_evictplan.sources import captures  # not for files alone

    diagnostics = assembly.diagnostics
    try:
        found, repeated, others = reading.files_below(directory)
    except ReadProblem as error:
        diagnostics.add(Problem(str(error), location=directory))
        return []
    for path in repeated:
        diagnostics.warning("directory-loop", "a directory is reached twice", path)
    if not found:
        message = "no *.yaml, *.yml or *.json file below"
        diagnostics.warning("empty-file", message, directory)
    is_captured = captures.is_capture(str(Path(path).relative_to(directory)) for path in found)
    if is_captured:
        assembly.captures.add(directory)
        assembly.captures_by_namespace.add(directory)
        from kubectl_evictplan.sources import archives

        assembly.skipped.update(archives.what_it_is(path) for path in others)
    return [_Input(path, is_captured=is_captured) for path in found]


def _read(
    file: _Input,
    documents: DocumentReader,
    assembly: Assembly,
    stdin: BinaryIO | None,
    meanwhile: Callable[[], None] | None = None,
) -> None:
    """Read one file; what is wrong with it is recorded, never raised."""
    name = file.name
    try:
        archive: BinaryIO | None
        is_stdin = name == reading.STDIN
        data = reading.stdin_bytes(stdin) if is_stdin else b""
        if is_stdin:
            archive = BytesIO(data) if reading.is_archive(data[:4096]) else None
        else:
            archive = reading.open_archive(name)
        if archive is not None:
            with archive:
                _read_archive(file, archive, documents, assembly)
        else:
            content = reading.content(name, data) if is_stdin else _content(name, meanwhile)
            _read_content(content, file, documents)
    except ReadProblem as error:
        assembly.diagnostics.add(Problem(str(error), location=name))


def _content(name: str, meanwhile: Callable[[], None] | None) -> reading.Content:
    """Return the bytes of a file; those of a large snapshot are unpacked beside what else there is to do."""
    if meanwhile is None or not reading.takes_a_while(name):
        return reading.read(name, None)
    unpacked = in_thread(partial(reading.read, name, None))
    meanwhile()
    return unpacked()


def _read_dump(file: _Input, documents: DocumentReader, jobs: int) -> bool:
    """Read a large list in pieces, compressed or not; False: nothing was read."""
    is_one_list = not reading.plain_name(file.name).endswith(reading.LINES_ENDINGS)
    if file.is_captured or file.name == reading.STDIN or not is_one_list:
        return False
    try:
        dump = _dump(file.name, jobs)
    except dumps.LostWorker as error:
        raise InputError(Problem(str(error), location=file.name)) from None
    if dump is not None:
        documents.read_dump(dump, file.name, is_named=file.is_named)
    return dump is not None


def _dump(name: str, jobs: int) -> dumps.Dump | None:
    """Return the large list in a file; what unpacks it, with megabytes of what it has seen, is gone by then."""
    with reading.open_archive(name) or nullcontext() as archive:
        if archive is None:
            return dumps.of_file(name, jobs)
        from kubectl_evictplan.sources import archives

        read = archives.unpacked(archive)
        return dumps.of_stream(read, jobs) if read else None


def _read_content(content: reading.Content, file: _Input, documents: DocumentReader) -> None:
    if file.is_captured:
        documents.read_captured(content)
    else:
        documents.read(content, is_named=file.is_named)


def _read_archive(
    file: _Input, archive: BinaryIO, documents: DocumentReader, assembly: Assembly
) -> None:
    """Read the manifests in an archive; a single compressed file is read as what it holds."""
    from kubectl_evictplan.sources import archives, captures

    names = []
    size = archive.seek(0, os.SEEK_END)
    archive.seek(0)
    for member in archives.members(archive, size, assembly.skipped):
        if member.name:
            documents.keep_snapshot = False
            assembly.captures.add(file.name)
            file = replace(file, is_captured=True)
            names.append(member.name)
        name = str(Path(file.name, member.name))
        try:
            content = reading.content(name, member.data)
        except ReadProblem as error:
            # A member that is no text may still be none of ours.
            if file.is_captured and captures.ignored_objects(member.data) is not None:
                assembly.skipped[captures.NOT_AN_OBJECT] += 1
            else:
                assembly.diagnostics.add(Problem(str(error), location=name))
            continue
        _read_content(content, file, documents)
    if captures.is_capture(names):
        assembly.captures_by_namespace.add(file.name)
