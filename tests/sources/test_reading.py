"""Files and encodings."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.sources import reading
from kubectl_evictplan.sources.files import load_files

POD = 'apiVersion: v1\nkind: Pod\nmetadata: {name: "p", namespace: d}\n'
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"


def failure(*names: Path | str, **options: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_files([str(name) for name in names], **options)
    return [str(problem) for problem in caught.value.problems]


def test_a_missing_file_is_named_as_given(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("missing.json", "link"):
        assert failure(tmp_path / name) == [f"{tmp_path}/{name}: no such file"]


def test_all_files_problems_come_together(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    assert len(failure(tmp_path / "a", tmp_path / "bad.json", tmp_path / "b")) == 3


def test_a_directory_needs_recursive(tmp_path: Path) -> None:
    assert failure(tmp_path) == [f"{tmp_path}: is a directory (use -R/--recursive)"]


def test_recursive_reads_manifests_only(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yml").write_text(NODE)
    (tmp_path / "b.yaml").write_text(POD)
    (tmp_path / "README.md").write_text("# not YAML: {")
    seen: list[str] = []
    snapshot = load_files(
        [str(tmp_path)], recursive=True, progress=lambda name, done, total: seen.append(name)
    )
    assert (len(snapshot.nodes), len(snapshot.pods)) == (1, 1)
    assert seen == [f"{tmp_path}/b.yaml", f"{tmp_path}/sub/a.yml", ""]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(tmp_path: Path) -> None:
    path = tmp_path / "secret.yaml"
    path.write_text(POD)
    path.chmod(0)
    assert failure(path) == [f"{path}: permission denied"]


@pytest.mark.parametrize("text", ["", " \n\t\n", "# nothing\n", "---\n", "---\n---\n"])
def test_a_file_without_objects(problems: Any, codes: Any, text: str) -> None:
    assert "no Kubernetes objects" in problems(text, node=False)[0]
    assert "empty-file" in codes(text)


def test_a_terminal_is_not_waited_for() -> None:
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    assert failure("-", stdin=Terminal()) == ["-: nothing on standard input"]
    assert failure("-") == ["-: nothing on standard input"]


def test_standard_input_is_read() -> None:
    assert load_files(["-"], stdin=io.BytesIO(NODE.encode())).nodes[0].name == "n1"


def test_standard_input_cannot_be_read_twice() -> None:
    assert failure("-", "-", stdin=io.BytesIO(NODE.encode())) == [
        "-: standard input is given twice"
    ]


def test_a_file_given_twice_is_loaded_once(tmp_path: Path) -> None:
    path = tmp_path / "n.yaml"
    path.write_text(NODE)
    (tmp_path / "link.yaml").symlink_to(path)
    snapshot = load_files([str(path), str(path), str(tmp_path / "link.yaml")])
    assert "loaded-once" in {warning.code for warning in snapshot.warnings}
    assert len(snapshot.nodes) == 1


def test_an_object_in_two_files_is_loaded_once(load: Any) -> None:
    snapshot = load(POD, POD)
    assert len(snapshot.pods) == 1
    assert ("loaded-once", ("Pod d/p",)) in {(w.code, w.objects) for w in snapshot.warnings}


def test_an_object_with_two_contents_names_both_places(problems: Any) -> None:
    (line,) = problems(POD, POD + "spec: {nodeName: n1}\n")
    assert line == "1-f.yaml: Pod d/p: given twice with different content, first in 0-f.yaml"


def test_a_byte_order_mark_is_dropped(load: Any) -> None:
    mark = codecs.BOM_UTF8
    as_json = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q","namespace":"d"}}'
    assert len(load(mark + POD.encode(), mark + as_json).pods) == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
@pytest.mark.parametrize("text", [POD, "{}"])
def test_utf_16_and_32_are_named(problems: Any, encoding: str, text: str) -> None:
    assert "not UTF-8" in problems(text.encode(encoding))[0]


def test_what_powershell_writes_comes_with_its_remedy(problems: Any) -> None:
    assert "Out-File -Encoding utf8" in problems("NAME".encode("utf-16"))[0]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("NAME   STATUS   ROLES    AGE\nn1     Ready    <none>   1d\n", "add `-o json`"),
        ("NAMESPACE   NAME   READY\nd   p   1/1\n", "add `-o json`"),
        ("node/n1\nnode/n2\n", "add `-o json`"),
        ("Name:               n1\nRoles:              <none>\n", "kubectl describe"),
        ('Warning: v1 is deprecated\n{"apiVersion": "v1"}', "2>&1`?): Warning: v1 is deprecated"),
        ("Error from server (Forbidden): pods is forbidden\n", "Error from server (Forbidden)"),
        ("error: You must be logged in to the server\n", "error: You must be logged in"),
        ("E1121 22:00:00.000001  123 memcache.go:265] x\n{}", "E1121 22:00:00"),
        ("Unable to connect to the server: EOF\n", "Unable to connect to the server"),
        ("No resources found in default namespace.\n", "No resources found"),
    ],
)
def test_what_kubectl_prints_instead_of_objects_is_recognised(
    problems: Any, text: str, hint: str
) -> None:
    for name in ("f.yaml", "f.json", "f.txt"):
        (line,) = problems(text, name=name)
        assert hint in line


def test_an_invalid_byte_names_its_offset(problems: Any) -> None:
    assert problems(b"a: x\xffy") == ["f.yaml: not UTF-8 (invalid byte at offset 4)"]
    assert "offset 6" in problems(b'{"a":"\xc3"}', name="f.json")[0]


def test_offsets_hold_across_pieces() -> None:
    data = b"x" * (16 * reading.MIB - 1) + "é".encode() + b"y" + b"\xc3"
    with pytest.raises(reading.ReadProblem, match=f"offset {len(data) - 1}"):
        reading.check_utf8(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"\x7fELF\x02", "ELF"),
        (b"%PDF-1.7", "PDF"),
        (b"PK\x03\x04", "damaged or cut archive"),
        (b"x" * 257 + b"ustar\x00", "damaged or cut archive"),
        (b"\x28\xb5\x2f\xfd\x00", "damaged or cut archive"),
    ],
)
def test_binary_is_named(problems: Any, data: bytes, reason: str) -> None:
    assert reason in problems(data)[0]


def test_a_bomb_is_refused_at_the_ratio(problems: Any) -> None:
    bomb = gzip.compress(b"\x00" * 99_000_000, 9)
    assert "absurd size" in problems(bomb)[0]


def test_a_bomb_that_looks_like_a_snapshot_is_refused_at_the_ratio(problems: Any) -> None:
    head = b'{"apiVersion":"evictplan.dev/v1alpha1","kind":"Snapshot","x":"'
    bomb = gzip.compress(head + b"a" * 150_000_000, 1)
    assert "absurd size" in problems(bomb)[0]


def test_a_bomb_takes_less_memory_than_its_limit(tmp_path: Path) -> None:
    head = b'{"apiVersion":"evictplan.dev/v1alpha1","kind":"Snapshot","x":"'
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(head), *(packer.compress(bytes(1 << 20)) for _ in range(400))]
    (tmp_path / "bomb.gz").write_bytes(b"".join([*parts, packer.flush()]))
    tracemalloc.start()
    assert "absurd size" in failure(tmp_path / "bomb.gz")[0]
    assert tracemalloc.get_traced_memory()[1] < 200 * reading.MIB
    tracemalloc.stop()


def test_yaml_is_capped(problems: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "YAML_BYTES_MAX", 100)
    assert "kubectl get -o json" in problems("a: " + "x" * 200)[0]
    oversized = io.BytesIO(b"a: " + b"x" * 200)
    assert "larger than" in failure("-", stdin=oversized)[0]


def test_json_is_capped(problems: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "JSON_BYTES_MAX", 100)
    assert "larger than" in problems(json.dumps({"a": "x" * 200}))[0]


def test_only_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in (tmp_path / "fifo", "/dev/zero", "/dev/null"):
        assert failure(name) == [f"{name}: not a regular file"]


def test_a_changing_file_is_read_again_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "n.yaml"
    path.write_text(NODE)
    states = iter([(1, 1, 1), (2, 1, 1), (2, 1, 1), (2, 1, 1)])
    monkeypatch.setattr(reading, "state", lambda status: next(states))
    snapshot = load_files([str(path)])
    assert "file-changed" in {warning.code for warning in snapshot.warnings}
    states = iter([(1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1)])
    assert "keeps changing" in failure(path)[0]


@pytest.mark.parametrize("name", ["a\x00b", "x" * 5000, "a\nb\x1b[31m", "\udcff"])
def test_odd_names_are_a_problem_not_a_traceback(name: str) -> None:
    assert len(failure(name)) == 1


def test_a_directory_of_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "FILES_MAX", 3)
    for number in range(5):
        (tmp_path / f"{number}.yaml").write_text(NODE)
    assert "more than 3 files" in failure(tmp_path, recursive=True)[0]


def test_a_loop_of_directories_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "n.yaml").write_text(NODE)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    snapshot = load_files([str(tmp_path)], recursive=True)
    assert "directory-loop" in {warning.code for warning in snapshot.warnings}
