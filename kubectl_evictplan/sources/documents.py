"""One file's text into the item reader: JSON, lines of JSON, YAML, our own snapshot.

What is checked at which price: types of the fields that are read, UTF-8 and JSON syntax always;
duplicate keys, NaN, absurd numbers and nesting for every object that a person wrote and for JSON
up to ``CHECKED_BYTES_MAX``. A larger dump comes from an API server, which writes no such thing, and
searching a gigabyte takes longer than loading it: there only ``strict`` looks into stored objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.errors import Problem
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.sources import reading, wire
from kubectl_evictplan.sources.diagnostics import Document, Origin
from kubectl_evictplan.sources.items import ItemReader
from kubectl_evictplan.sources.json_syntax import (
    DEPTH_MAX,
    JsonSyntaxError,
    SyntaxProblem,
    check_json,
)
from kubectl_evictplan.sources.kinds import Verdict, classify, item_kind
from kubectl_evictplan.sources.reading import Content, ReadProblem
from kubectl_evictplan.sources.snapshot import SnapshotError, decode_document

if TYPE_CHECKING:
    from kubectl_evictplan.sources.dumps import Dump
    from kubectl_evictplan.sources.yaml_reader import YamlProblem

CHECKED_BYTES_MAX = 4 << 20
# Reading again for the sake of line numbers takes a second for each MiB.
LINE_NUMBERS_BYTES_MAX = 2 << 20
# YAML of objects that decide nothing; a MiB of it takes about a second.
EVIDENCE_YAML_BYTES_MAX = 16 << 20
YAML_OBJECTS_COMFORTABLE = 2000
_BARE_WORD_BYTES_MAX = 1024
# Compiled where a list is large.
_BETWEEN_ITEMS = rb"[ \t\r\n]*,[ \t\r\n]*"
_AFTER_ITEMS = rb"[ \t\r\n]*\]"


class DocumentReader:
    """Reads the text of files; what is wrong is recorded, never raised."""

    def __init__(self, items: ItemReader) -> None:
        self._items = items
        self._assembly = items.assembly
        self._diagnostics = items.diagnostics
        # A snapshot that is the only input need not be taken apart and put together again.
        self.keep_snapshot = False
        self.kept_snapshot: ClusterSnapshot | None = None

    def read(self, content: Content, *, is_named: bool) -> None:
        """Read one file. ``is_named``: the user named it, and not only a directory above it."""
        before = self._assembly.objects_seen
        self._read_any(content, is_named)
        is_empty = self._assembly.objects_seen == before and self.kept_snapshot is None
        if is_empty and not self._diagnostics.problems:
            self._diagnostics.warning("empty-file", "contains no Kubernetes objects", content.name)

    def read_dump(self, dump: Dump, name: str, *, is_named: bool) -> None:
        """Read a large list that was taken to pieces."""
        self._warn_of_large(name)
        origin, first = Origin(Document(name, is_named=is_named)), 0
        if dump.kind:
            self._assembly.kinds_seen.add(dump.kind)
        for found in dump.found:
            self._items.read_found(found, origin, dump.kind, first)
            first += found.items

    def read_captured(self, content: Content) -> None:
        """Read one file of a capture: what decides nothing is counted, and so is what is no object."""
        from kubectl_evictplan.sources import captures

        ignored = captures.ignored_objects(content.data)
        if ignored is None or self._is_wanted(ignored, content):
            self._read_any(content, is_named=False)
            return
        for kind, count in ignored.items():
            if kind == captures.NOT_AN_OBJECT:
                self._assembly.skipped[kind] += count
            else:
                self._assembly.objects_seen += count
                self._assembly.ignore(kind, count)

    def _is_wanted(self, kinds: Mapping[str, int], content: Content) -> bool:
        """Tell whether a witness wants to see objects that decide nothing."""
        witness = self._items.witness
        if witness is None or not witness.wants(kinds):
            return False
        if content.is_json() or len(content.data) <= EVIDENCE_YAML_BYTES_MAX:
            return True
        # Evidence that takes minutes to read is left out, and that is said.
        witness.left_out += 1
        return False

    def _read_any(self, content: Content, is_named: bool) -> None:
        if content.has_logs:
            self._printed_dump(content)
        else:
            self._read(content, is_named)

    def _printed_dump(self, content: Content) -> None:
        """Read what `kubectl cluster-info dump` prints: objects and logs in one stream."""
        from kubectl_evictplan.sources import captures

        try:
            data, logs = captures.without_logs(content.data)
            reading.check_utf8(data)
        except ReadProblem as error:
            self._problems(content.name, [SyntaxProblem(str(error), "")])
            return
        self._assembly.skipped["logs"] += logs
        self._assembly.captures.add(content.name)
        self._assembly.captures_by_namespace.add(content.name)
        if not content.is_json():
            self._yaml(replace(content, data=data), is_named=False)
            return
        document = Document(content.name, is_named=False)
        for part in captures.top_level_objects(data):
            self._json(Origin(document, f"line {part.line}"), part.data, part.line)

    def _read(self, content: Content, is_named: bool) -> None:
        name, data = content.name, content.data
        if content.changed:
            self._diagnostics.warning("file-changed", "changed while it was read: read again", name)
        # strip() copies: ask it only of what is small enough to be a bare word.
        if len(data) < _BARE_WORD_BYTES_MAX and data.strip() == b"null":
            # Valid JSON, and no document of YAML that somebody left empty.
            self._problems(name, [SyntaxProblem("expected an object", "", "null")])
        elif not content.is_json():
            self._yaml(content, is_named)
        elif content.ends_with(*reading.LINES_ENDINGS):
            document = Document(name, is_named=is_named)
            for number, line in enumerate(data.splitlines(), 1):
                if line.strip():
                    self._json(Origin(document, f"line {number}"), line, number)
        else:
            self._json_file(content, is_named)

    def _json_file(self, content: Content, is_named: bool) -> None:
        name, data = content.name, content.data
        if content.compressed:
            # Only our snapshots may be; their digest is checked.
            self._snapshot(Origin(Document(name)), data)
            return
        compact = data
        if len(data) <= CHECKED_BYTES_MAX:
            try:
                compact = check_json(data)
            except JsonSyntaxError as error:
                if not error.is_json and content.ends_with(".yaml", ".yml"):
                    self._yaml(content, is_named)
                else:
                    self._problems(name, error.problems)
                return
        text = data if len(data) <= LINE_NUMBERS_BYTES_MAX else b""
        self._json(Origin(Document(name, json_text=text, is_named=is_named)), data, compact=compact)

    def _json(
        self, origin: Origin, data: bytes, first_line: int = 1, *, compact: bytes = b""
    ) -> None:
        """Read one JSON value; ``compact`` has the same without blanks, where somebody made that."""
        try:
            envelope = wire.ENVELOPE.decode(compact or data)
        except RecursionError:
            message = f"nested deeper than {DEPTH_MAX}"
            self._diagnostics.problem(origin, message)
            return
        except msgspec.ValidationError:
            envelope = wire.Envelope()
        except msgspec.DecodeError as error:
            from kubectl_evictplan.sources import json_reader

            found = json_reader.explain(data, str(error))
            below = [problem.below(first_line - 1) for problem in found]
            self._problems(origin.document.file, below)
            return
        verdict = classify(envelope.kind, envelope.api_version).verdict
        if verdict is Verdict.SNAPSHOT:
            self._snapshot(origin, data)
        elif verdict is Verdict.LIST and isinstance(envelope.items, list):
            self._list(origin, data, envelope, envelope.items)
        elif verdict is Verdict.IGNORED and isinstance(envelope.items, list):
            # What is in a list that is not read cannot hurt; its items need not say their kind.
            self._assembly.objects_seen += len(envelope.items)
            kind = (envelope.kind or "").removesuffix("List")
            self._assembly.ignore(kind, len(envelope.items))
            if (witness := self._items.witness) is not None:
                for raw in envelope.items:
                    witness.see(raw, kind)
        else:
            self._assembly.objects_seen += 1
            from kubectl_evictplan.sources import json_reader

            try:
                tree = json_reader.read_json(data)
            except JsonSyntaxError as error:
                self._problems(origin.document.file, error.problems)
            else:
                self._items.read_tree(tree, origin)

    def _list(
        self, origin: Origin, data: bytes, envelope: wire.Envelope, items: list[msgspec.Raw]
    ) -> None:
        if envelope.metadata and envelope.metadata.continue_:
            self._items.check_complete(envelope.metadata.continue_, origin)
            return
        name = origin.document.file
        is_checked = len(data) <= CHECKED_BYTES_MAX
        if not is_checked:
            if problems := _around_items(data, items):
                self._problems(name, problems)
                return
            if not self._diagnostics.strict:
                self._warn_of_large(name)
        search = self._diagnostics.strict and not is_checked
        self._items.read_list(items, origin, item_kind(envelope.kind or ""), search=search)

    def _warn_of_large(self, name: str) -> None:
        message = "stored objects of a dump this large are not searched for duplicate keys"
        self._diagnostics.warning("large-dump", message, name)

    def _problems(
        self, name: str, problems: Sequence[SyntaxProblem | YamlProblem], subject: str = ""
    ) -> None:
        for message, place, got in problems:
            location = f"{name}:{place}" if place else name
            problem = Problem(message, location=location, subject=subject, got=got or None)
            self._diagnostics.add(problem)

    def _snapshot(self, origin: Origin, data: bytes) -> None:
        try:
            snapshot = decode_document(data)
        except SnapshotError as error:
            self._diagnostics.problem(origin, str(error))
            return
        if self.keep_snapshot and not origin.place:
            self.kept_snapshot = snapshot
            return
        self._assembly.add_snapshot(snapshot, origin)
        self._diagnostics.adopt(snapshot.warnings)

    def _yaml(self, content: Content, is_named: bool) -> None:
        from kubectl_evictplan.sources import yaml_reader

        name = content.name
        if not content.data.strip():
            return
        told = reading.what_kubectl_printed(content.data[:4096].lstrip())
        if not told and len(content.data) > reading.YAML_BYTES_MAX:
            # A large .yaml file that began like JSON.
            told = "too large for YAML: convert it with `kubectl get -o json`"
        if told:
            self._problems(name, [SyntaxProblem(told, "")])
            return
        if yaml_reader.IS_SLOW:
            message = "PyYAML has no libyaml here: reading YAML is ten times slower"
            self._diagnostics.warning("slow-yaml", message)
        before = self._assembly.objects_seen
        for found in yaml_reader.read_documents(content.data.decode()):
            place = "" if found.number == 1 else f"doc {found.number}"
            for code, message in found.warnings:
                self._diagnostics.warning(code, message, f"{name} {place}".strip())
            self._problems(name, found.problems, place)
            if not found.problems and found.tree is not None:
                self._assembly.objects_seen += 1
                document = Document(name, tree=found.tree, is_named=is_named)
                self._items.read_tree(found.tree, Origin(document, place))
        if self._assembly.objects_seen - before > YAML_OBJECTS_COMFORTABLE:
            message = "many objects in YAML: `kubectl get -o json` loads a hundred times faster"
            self._diagnostics.warning("large-yaml", message, name)


def _around_items(data: bytes, items: list[msgspec.Raw]) -> list[SyntaxProblem]:
    """Return what is wrong with a big list apart from its items, such as two lists of them."""
    from kubectl_evictplan.sources import json_reader

    start, end = _stretch_of(data, items)
    try:
        json_reader.read_json(data[:start] + data[end:])
    except JsonSyntaxError as error:
        return [problem._replace(place="") for problem in error.problems]
    return []


def _stretch_of(data: bytes, items: Sequence[msgspec.Raw]) -> tuple[int, int]:
    """Return where the items of a list begin and end in its text: what is equal to one may stand elsewhere too."""
    first = bytes(items[0]) if items else b""
    start = data.find(first) if items else -1
    while start >= 0:
        if (end := _end_of(data, items, start)) is not None:
            return start, end
        start = data.find(first, start + 1)
    return 0, 0


def _end_of(data: bytes, items: Sequence[msgspec.Raw], start: int) -> int | None:
    """Return where the items end if the first is at ``start``; None if they are elsewhere."""
    at = start
    between_items, after_items = re.compile(_BETWEEN_ITEMS), re.compile(_AFTER_ITEMS)
    for number, item in enumerate(items, 1):
        at += len(item)
        between = (between_items if number < len(items) else after_items).match(data, at)
        if between is None:
            return None
        if number < len(items):
            at = between.end()
    return at
