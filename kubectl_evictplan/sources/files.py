"""Cluster state from files: our snapshots, `kubectl get` output, manifests, directories of them.

``load_files`` is the one entry. Which files the objects came from, in which format and order,
never changes the result. Everything wrong with all files is raised at once.

What is checked at which price: types of the fields that are read, UTF-8 and JSON syntax always;
duplicate keys, NaN, absurd numbers and nesting for every object that a person wrote and for every
JSON file up to ``CHECKED_BYTES_MAX``. Larger dumps come from an API server, which cannot produce
those; checking a gigabyte for them would take longer than loading it.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.sources import json_reader, reading, wire
from kubectl_evictplan.sources.assembly import Assembly
from kubectl_evictplan.sources.checks import check_cluster
from kubectl_evictplan.sources.diagnostics import Diagnostics, Document
from kubectl_evictplan.sources.items import ItemReader
from kubectl_evictplan.sources.kinds import Verdict, classify, item_kind
from kubectl_evictplan.sources.kubectl import GET_COMMAND
from kubectl_evictplan.sources.reading import Content, ReadProblem
from kubectl_evictplan.sources.snapshot import SnapshotError, decode_document, snapshot_digest

CHECKED_BYTES_MAX = 4 << 20
LINE_NUMBERS_BYTES_MAX = 2 << 20
YAML_OBJECTS_COMFORTABLE = 2000
_BARE_WORD_BYTES_MAX = 1024
_NO_NODES = "no nodes: nothing to simulate"
_COMPARISON_OPERATORS_SINCE = (1, 35)

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

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
    items = ItemReader(assembly, comparison_operators=knows_comparison_operators(manifest_version))
    loader = _Loader(items, stdin)
    with _collector_paused():
        names = loader.expand(filenames, recursive=recursive)
        for number, name in enumerate(names):
            if progress:
                progress(name, number, len(names))
            loader.load(name, beside_allowed=name not in filenames)
        if progress:
            progress("", len(names), len(names))
        if loader.only_snapshot is not None:
            return _stored(loader.only_snapshot, diagnostics)
        return _finish(assembly, items, filenames)


def _stored(snapshot: ClusterSnapshot, diagnostics: Diagnostics) -> ClusterSnapshot:
    """Return a snapshot that is the whole input as it was stored: it was checked when written."""
    if not snapshot.nodes:
        diagnostics.add(Problem(_NO_NODES))
    mine = diagnostics.warnings()
    _add_warnings(snapshot, diagnostics)
    diagnostics.raise_problems()
    if not mine:
        return snapshot
    return msgspec.structs.replace(snapshot, warnings=(*snapshot.warnings, *mine))


def _add_warnings(snapshot: ClusterSnapshot, diagnostics: Diagnostics) -> None:
    for warning in snapshot.warnings:
        for subject in warning.objects or ("",):
            diagnostics.warning(warning.code, warning.message, subject)


def _finish(assembly: Assembly, items: ItemReader, filenames: Sequence[str]) -> ClusterSnapshot:
    diagnostics = assembly.diagnostics
    if not assembly.nodes and not diagnostics.problems:
        nothing = not (assembly.objects_seen or assembly.pods)
        message = "contains no Kubernetes objects" if nothing else _NO_NODES
        location = ", ".join(filenames[:5]) + (", ..." if filenames[5:] else "")
        expected = f"the output of `{GET_COMMAND}`"
        diagnostics.add(Problem(message, location=location, expected=expected))
    if items.build.leap_seconds:
        message = "a timestamp names a leap second: read as the last nanosecond before it"
        diagnostics.warning("leap-second", message)
    snapshot = assembly.snapshot()
    if not snapshot.taken_at_ns:
        message = "no lease renewal and no timestamp: when this was is unknown, 1970 is assumed"
        diagnostics.warning("unknown-time", message)
    check_cluster(snapshot, diagnostics, manifests=assembly.manifests)
    diagnostics.raise_problems()
    snapshot = msgspec.structs.replace(snapshot, warnings=diagnostics.warnings())
    return msgspec.structs.replace(snapshot, digest=snapshot_digest(snapshot))


def knows_comparison_operators(version: str) -> bool:
    """Tell whether the API server of that version may know Lt and Gt (gate, off by default)."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return match is None or (int(match[1]), int(match[2])) >= _COMPARISON_OPERATORS_SINCE


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking millions of live objects again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Loader:
    """Reads files one after the other into the assembly."""

    def __init__(self, items: ItemReader, stdin: BinaryIO | None) -> None:
        self._items = items
        self._assembly = items.assembly
        self._diagnostics = items.diagnostics
        self._stdin = stdin
        # A snapshot that is the only input need not be taken apart and put together again.
        self.only_snapshot: ClusterSnapshot | None = None
        self._alone = False

    def expand(self, filenames: Sequence[str], *, recursive: bool) -> list[str]:
        """Return the files to read, each once; directories are opened when ``recursive``."""
        names: list[str] = []
        seen: set[tuple[int, int] | str] = set()
        for name in filenames:
            if name == reading.STDIN:
                if reading.STDIN in seen:
                    self._problem(name, "standard input is given twice")
                    continue
                seen.add(reading.STDIN)
                names.append(name)
                continue
            for path in self._below(name) if recursive and Path(name).is_dir() else [name]:
                identity = _identity(path)
                if identity in seen:
                    self._diagnostics.warning("loaded-once", "the same file is given twice", path)
                    continue
                seen.add(identity)
                names.append(path)
        self._alone = len(names) == 1
        return names

    def _below(self, directory: str) -> list[str]:
        repeated: list[str] = []
        try:
            found = list(reading.files_below(directory, repeated))
        except ReadProblem as error:
            self._problem(directory, str(error))
            return []
        for path in repeated:
            self._diagnostics.warning("directory-loop", "a directory is reached twice", path)
        if not found:
            message = "no *.yaml, *.yml or *.json file below"
            self._diagnostics.warning("empty-file", message, directory)
        return found

    def load(self, name: str, *, beside_allowed: bool) -> None:
        """Read one file; what is wrong with it is recorded, never raised."""
        try:
            content = (
                reading.read_stdin(self._stdin)
                if name == reading.STDIN
                else reading.read_file(name)
            )
        except ReadProblem as error:
            self._problem(name, str(error))
            return
        if content.changed:
            self._diagnostics.warning("file-changed", "changed while it was read: read again", name)
        before = self._assembly.objects_seen
        # strip() copies: ask it only of what is small enough to be a bare word.
        if len(content.data) < _BARE_WORD_BYTES_MAX and content.data.strip() == b"null":
            # Valid JSON, and no document of YAML that somebody left empty.
            self._problem(name, "expected an object (got null)")
        elif content.is_json():
            self._json(content, beside_allowed=beside_allowed)
        else:
            self._yaml(content, beside_allowed=beside_allowed)
        if (
            self._assembly.objects_seen == before
            and self.only_snapshot is None
            and not self._diagnostics.problems
        ):
            self._diagnostics.warning("empty-file", "contains no Kubernetes objects", name)

    def _problem(self, name: str, message: str) -> None:
        self._diagnostics.add(Problem(message, location=name))

    # JSON

    def _json(self, content: Content, *, beside_allowed: bool) -> None:
        name, data = content.name, content.data
        if name.endswith((".ndjson", ".jsonl")):
            for number, line in enumerate(data.splitlines(), 1):
                if line.strip():
                    self._json_value(name, line, f"line {number}", beside_allowed=beside_allowed)
            return
        if len(data) <= CHECKED_BYTES_MAX:
            try:
                json_reader.read_json(data)
            except json_reader.JsonSyntaxError as error:
                if name.endswith((".yaml", ".yml")) and error.problems[0].offset >= 0:
                    # YAML may begin with a brace too.
                    self._yaml(content, beside_allowed=beside_allowed)
                    return
                self._syntax_problems(name, data, error)
                return
        self._json_value(name, data, "", beside_allowed=beside_allowed)

    def _syntax_problems(self, name: str, data: bytes, error: json_reader.JsonSyntaxError) -> None:
        text = data.decode()
        for problem in error.problems:
            location = name
            if problem.offset >= 0:
                line, column = json_reader.line_and_column(text, problem.offset)
                location = f"{name}:{line}:{column}"
            self._diagnostics.problems.append(
                Problem(problem.message, location=location, got=problem.got or None)
            )

    def _json_value(self, name: str, data: bytes, place: str, *, beside_allowed: bool) -> None:
        # Reading again for the sake of line numbers takes a second for each MiB.
        is_small = len(data) <= LINE_NUMBERS_BYTES_MAX and not place
        document = Document(name, place, json_text=data if is_small else b"")
        try:
            envelope = wire.ENVELOPE.decode(data)
        except RecursionError:
            message = f"nested deeper than {json_reader.DEPTH_MAX}"
            self._diagnostics.problem(document.origin(), message)
            return
        except msgspec.ValidationError:
            self._checked_value(document, data, beside_allowed=beside_allowed)
            return
        except msgspec.DecodeError as error:
            self._decode_problem(name, data, str(error))
            return
        kind, items = envelope.kind or "", envelope.items
        verdict = classify(envelope.kind, envelope.api_version).verdict
        if verdict is Verdict.SNAPSHOT:
            self._snapshot(document, data)
        elif verdict is Verdict.LIST and isinstance(items, list):
            if envelope.metadata and envelope.metadata.continue_:
                self._items.check_complete(envelope.metadata.continue_, document.origin())
                return
            self._items.read_list(items, document, item_kind(kind))
        else:
            self._checked_value(document, data, beside_allowed=beside_allowed)

    def _checked_value(self, document: Document, data: bytes, *, beside_allowed: bool) -> None:
        self._assembly.objects_seen += 1
        try:
            tree = json_reader.read_json(data)
        except json_reader.JsonSyntaxError as error:
            self._syntax_problems(document.file, data, error)
            return
        self._items.read_tree(tree, document, -1, beside_allowed=beside_allowed)

    def _decode_problem(self, name: str, data: bytes, message: str) -> None:
        """Explain a syntax error of a large file without parsing it a second time."""
        offset = json_reader.decoder_offset(message, data)
        if offset is None or (offset == len(data) and _SURROGATE.search(data)):
            # The decoder calls a lone surrogate a truncation; the slow parser knows better.
            try:
                json_reader.read_json(data)
                self._problem(name, "not valid JSON")
            except json_reader.JsonSyntaxError as error:
                self._syntax_problems(name, data, error)
            return
        line = data.count(b"\n", 0, offset) + 1
        start = data.rfind(b"\n", 0, offset) + 1
        column = len(data[start:offset].decode("utf-8", "replace")) + 1
        around = data[max(0, offset - 200) : offset + 200].decode("utf-8", "replace")
        before = len(data[max(0, offset - 200) : offset].decode("utf-8", "replace"))
        reason = (
            "unexpected end of the file"
            if offset >= len(data.rstrip())
            else "more than one JSON value in the file"
            if "trailing characters" in message
            else json_reader.syntax_reason(around, before)
        )
        self._diagnostics.problems.append(Problem(reason, location=f"{name}:{line}:{column}"))

    def _snapshot(self, document: Document, data: bytes) -> None:
        try:
            snapshot = decode_document(data)
        except SnapshotError as error:
            self._diagnostics.problem(document.origin(), str(error))
            return
        if self._alone and not document.place:
            self.only_snapshot = snapshot
            return
        self._assembly.add_snapshot(snapshot, document)
        _add_warnings(snapshot, self._diagnostics)

    # YAML

    def _yaml(self, content: Content, *, beside_allowed: bool) -> None:
        from kubectl_evictplan.sources import yaml_reader

        name = content.name
        if not content.data.strip():
            return
        if len(content.data) > reading.YAML_BYTES_MAX:
            # A large .yaml file that began like JSON.
            self._problem(name, "too large for YAML: convert it with `kubectl get -o json`")
            return
        if yaml_reader.IS_SLOW:
            message = "PyYAML has no libyaml here: reading YAML is ten times slower"
            self._diagnostics.warning("slow-yaml", message)
        before = self._assembly.objects_seen

        def read(found: yaml_reader.YamlDocument) -> None:
            place = "" if found.number == 1 else f"doc {found.number}"
            document = Document(name, place, tree=found.tree)
            for code, message in found.warnings:
                self._diagnostics.warning(code, message, f"{name} {place}".strip())
            for problem in found.problems:
                location = f"{name}:{problem.place}"
                self._diagnostics.problems.append(
                    Problem(
                        problem.message, location=location, subject=place, got=problem.got or None
                    )
                )
            if not found.problems and found.tree is not None:
                self._assembly.objects_seen += 1
                self._items.read_tree(found.tree, document, -1, beside_allowed=beside_allowed)

        for found in yaml_reader.read_documents(content.data.decode()):
            read(found)
        if self._assembly.objects_seen - before > YAML_OBJECTS_COMFORTABLE:
            message = "many objects in YAML: `kubectl get -o json` loads a hundred times faster"
            self._diagnostics.warning("large-yaml", message, name)


def _identity(path: str) -> tuple[int, int] | str:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return path
    return status.st_dev, status.st_ino


__all__ = ["InputError", "load_files"]
