"""What people already have is a source: dumps, must-gathers, folders, archives; and what refuses them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from building import captured_clusters as captured

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.sources import archives, reading
from kubectl_evictplan.sources.files import load_files

# What counts, whoever captured it; times and flags would come from objects that not all tools write.
PLAIN = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [json.loads(data) for data in captured.one_file_each().values()],
    }
).encode()

ALL_KINDS = {"Event": 2}


def written(files: captured.Files, root: Path) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def load(path: Path, **options: Any) -> ClusterSnapshot:
    return load_files([str(path)], recursive=path.is_dir(), **options)


def of_bytes(data: bytes, tmp_path: Path, name: str) -> ClusterSnapshot:
    (tmp_path / name).write_bytes(data)
    return load(tmp_path / name)


def problem(data: bytes, tmp_path: Path, name: str = "c.tar") -> str:
    with pytest.raises(InputError) as caught:
        of_bytes(data, tmp_path, name)
    return str(caught.value.problems[0]).replace(f"{tmp_path}/", "")


def the_cluster(snapshot: ClusterSnapshot) -> tuple[Any, ...]:
    return snapshot.nodes, snapshot.pods, snapshot.workloads, snapshot.infrastructure


def skipped(snapshot: ClusterSnapshot) -> str:
    return next((w.message for w in snapshot.warnings if w.code == "files-skipped"), "")


@pytest.fixture
def plain(tmp_path: Path) -> tuple[Any, ...]:
    return the_cluster(of_bytes(PLAIN, tmp_path, "plain.json"))


FOLDERS = {
    "cluster-info dump": captured.dump_folder(),
    "cluster-info dump as YAML": captured.dump_folder(as_yaml=True),
    "must-gather": captured.must_gather(),
    "inspect": captured.must_gather("inspect.local.5"),
    "one file for each object": captured.one_file_each(),
    "one compressed file for each object": captured.one_file_each(compressed=True),
}


@pytest.mark.parametrize("form", ["folder", "tar", "tar.gz", "tgz", "zip"])
@pytest.mark.parametrize("files", FOLDERS.values(), ids=FOLDERS)
def test_whoever_captured_the_cluster_it_is_the_same(
    tmp_path: Path, plain: tuple[Any, ...], files: captured.Files, form: str
) -> None:
    if form == "folder":
        snapshot = load(written(files, tmp_path / "capture"))
    else:
        packed = {"tar": captured.tar(files), "zip": captured.zipped(files)}
        data = packed.get(form) or captured.tar(files, "w:gz")
        snapshot = of_bytes(data, tmp_path, f"capture.{form}")
    assert the_cluster(snapshot) == plain
    assert {kind: snapshot.ignored_kinds[kind] for kind in ALL_KINDS} == ALL_KINDS
    assert "hunter2" not in repr(snapshot)


@pytest.mark.parametrize("as_yaml", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_printed_dump_is_read_around_its_logs(
    tmp_path: Path, plain: tuple[Any, ...], as_yaml: bool, compressed: bool
) -> None:
    data = captured.printed_dump(as_yaml=as_yaml)
    snapshot = of_bytes(gzip.compress(data) if compressed else data, tmp_path, "dump")
    assert the_cluster(snapshot) == plain
    assert snapshot.ignored_kinds == ALL_KINDS
    assert skipped(snapshot) == "not read: 3 logs"


def test_archives_come_from_standard_input_too(plain: tuple[Any, ...]) -> None:
    for data in (captured.zipped(captured.must_gather()), captured.printed_dump()):
        assert the_cluster(load_files(["-"], stdin=io.BytesIO(data))) == plain


def test_what_is_no_manifest_is_counted_by_what_it_is(tmp_path: Path) -> None:
    snapshot = of_bytes(captured.tar(captured.must_gather()), tmp_path, "c.tar")
    assert skipped(snapshot) == "not read: 5 logs, 3 not Kubernetes objects, 2 other files"
    assert snapshot.ignored_kinds["ConfigMap"] == 1


def test_archives_in_archives_are_opened(tmp_path: Path, plain: tuple[Any, ...]) -> None:
    inner = captured.tar(captured.one_file_each(compressed=True), "w:gz")
    outer = captured.zipped({"case/readme.txt": b"", "case/dump.tgz": inner})
    assert the_cluster(of_bytes(outer, tmp_path, "case.zip")) == plain


def test_archives_are_not_opened_for_ever(tmp_path: Path) -> None:
    data = captured.tar(captured.one_file_each())
    for _ in range(archives.DEPTH_MAX):
        data = captured.tar({"again.tar": data})
    assert problem(data, tmp_path) == "c.tar: archives nested deeper than 5"


def test_of_two_states_of_a_pod_the_newer_counts(tmp_path: Path) -> None:
    files = captured.must_gather()
    (name,) = [name for name in files if name.endswith("web-1/web-1.yaml")]
    later = captured.pod("web-1", "default", "n2", version="12")
    files[name] = captured.yaml_text(captured.whole("Pod", later))
    snapshot = of_bytes(captured.tar(files), tmp_path, "c.tar")
    assert [pod.node_name for pod in snapshot.pods if pod.name == "web-1"] == ["n2"]
    (warning,) = [w for w in snapshot.warnings if w.code == "captured-twice"]
    assert warning.objects == ("Pod default/web-1",)


def test_outside_of_captures_two_states_are_a_mistake(tmp_path: Path) -> None:
    files = captured.one_file_each()
    later = captured.whole("Pod", captured.pod("web-1", "default", "n2", version="12"))
    files["objects/again.json"] = json.dumps(later).encode()
    with pytest.raises(InputError, match="given twice with different content"):
        load(written(files, tmp_path / "folder"))


@pytest.mark.parametrize("files", list(FOLDERS.values())[:4], ids=list(FOLDERS)[:4])
def test_captures_say_which_namespaces_they_hold(tmp_path: Path, files: captured.Files) -> None:
    for snapshot in (
        load(written(files, tmp_path / "capture")),
        of_bytes(captured.zipped(files), tmp_path, "c.zip"),
        of_bytes(captured.printed_dump(), tmp_path, "dump"),
    ):
        assert not snapshot.pods_of_all_namespaces
        (warning,) = [w for w in snapshot.warnings if w.code == "captured-namespaces"]
        assert "these namespaces only: default, kube-system;" in warning.message


def test_lists_of_everything_need_not(tmp_path: Path) -> None:
    snapshot = of_bytes(captured.tar({"all.json": PLAIN}), tmp_path, "c.tar")
    assert snapshot.pods_of_all_namespaces
    assert "captured-namespaces" not in {warning.code for warning in snapshot.warnings}


# -- names and kinds of members that must not do harm ------------------------------------------------


def test_no_name_leads_anywhere(tmp_path: Path) -> None:
    cluster = captured.one_file_each()
    evil = {"../../escaped.json": b"{}", "/etc/passwd.json": b"{}"}
    data = captured.tar({**cluster, "../../escaped.json": b"{}", "/etc/absolute.json": b"{}"})
    before = sorted(path.name for path in tmp_path.parent.rglob("*"))
    for archive in (data, captured.zipped({**cluster, **evil})):
        assert len(of_bytes(archive, tmp_path, "c.tar").nodes) == 2
        (tmp_path / "c.tar").unlink()
    assert sorted(path.name for path in tmp_path.parent.rglob("*")) == before


def test_links_and_devices_are_counted_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(
        json.dumps(captured.as_list("Node", [captured.node("x")]))
    )
    stream = io.BytesIO(captured.tar(captured.one_file_each()))
    with tarfile.open(fileobj=stream, mode="a") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo(f"link-{kind!r}.json")
            info.type, info.linkname = kind, str(tmp_path / "secret.json")
            archive.addfile(info)
    snapshot = of_bytes(stream.getvalue(), tmp_path, "c.tar")
    assert [node.name for node in snapshot.nodes] == ["n1", "n2"]
    assert skipped(snapshot) == "not read: 4 links and special files"


def test_encrypted_and_odd_compressions_are_refused(tmp_path: Path) -> None:
    data = bytearray(captured.zipped({"nodes.json": b"{}"}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert problem(bytes(data), tmp_path) == "c.tar: encrypted: unpack it first"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("nodes.json", b"{}")
    assert "compressed in a way" in problem(stream.getvalue(), tmp_path)


# -- damage and limits: a part of a cluster is never taken for the whole -------------------------------


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_wherever_a_tar_is_cut_it_is_refused(tmp_path: Path, mode: str) -> None:
    data = captured.tar(captured.one_file_each(), mode)
    for length in range(600, len(data) - 1100, len(data) // 40):
        assert "damaged or cut archive" in problem(data[:length], tmp_path), length


def test_wherever_a_zip_is_cut_it_is_refused(tmp_path: Path) -> None:
    data = captured.zipped(captured.one_file_each())
    for length in range(600, len(data), len(data) // 20):
        assert "damaged or cut archive" in problem(data[:length], tmp_path), length


def test_a_damaged_header_is_not_the_end(tmp_path: Path) -> None:
    data = bytearray(captured.tar(captured.one_file_each()))
    data[2048 + 10] ^= 255
    assert "does not end as a tar does" in problem(bytes(data), tmp_path)


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        archive.writestr("nodes.json", captured.indented(captured.as_list("Node", captured.NODES)))
    data = bytearray(stored.getvalue())
    data[100] ^= 1
    assert "Bad CRC-32" in problem(bytes(data), tmp_path)


def test_what_is_no_text_refuses_only_what_may_decide(tmp_path: Path) -> None:
    files = {**captured.dump_folder(), "default/blob.json": b"\x89PNG\r\n", "x.yaml": b"a: \xff"}
    snapshot = of_bytes(captured.tar(files), tmp_path, "c.tar")
    assert "2 not Kubernetes objects" in skipped(snapshot)
    (tmp_path / "c.tar").unlink()
    files["n3.yaml"] = b"apiVersion: v1\nkind: Node\nmetadata: {name: \xff}\n"
    message = problem(captured.tar(files), tmp_path)
    assert message.startswith("c.tar/n3.yaml: not UTF-8")


def test_a_cut_manifest_in_a_capture_is_refused_with_its_place(tmp_path: Path) -> None:
    files = captured.dump_folder()
    files["default/pods.json"] = files["default/pods.json"][:400]
    message = problem(captured.tar(files), tmp_path)
    assert message.startswith("c.tar/default/pods.json:")
    assert "unexpected end of the file" in message


@pytest.mark.parametrize("name", ["bomb.json", "bomb.txt"])
def test_a_bomb_is_refused_wherever_it_lies(tmp_path: Path, name: str) -> None:
    bomb = captured.tar({**captured.one_file_each(), name: b" " * (80 << 20)}, "w:gz")
    assert problem(bomb, tmp_path) == "c.tar: unpacks to an absurd size"
    packed = captured.zipped({**captured.one_file_each(), name: b" " * (80 << 20)})
    if name != "bomb.txt":  # in a zip what is not read is not unpacked either
        assert problem(packed, tmp_path) == "c.tar: unpacks to an absurd size"


def test_a_bomb_takes_less_memory_than_its_size(tmp_path: Path) -> None:
    packed = captured.tar({**captured.one_file_each(), "bomb.json": b"[" * (150 << 20)}, "w:gz")
    (tmp_path / "c.tar.gz").write_bytes(packed)
    tracemalloc.start()
    with pytest.raises(InputError, match="absurd size"):
        load(tmp_path / "c.tar.gz")
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()


def test_a_header_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 1 << 30
    data = header.tobuf(tarfile.USTAR_FORMAT) + bytes(4096)
    assert problem(data, tmp_path) == "c.tar: damaged archive (a header of absurd size)"


def test_there_is_a_most_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MEMBERS_MAX", 3)
    assert (
        problem(captured.tar(captured.one_file_each()), tmp_path)
        == "c.tar: holds more than 3 files"
    )


def test_a_manifest_has_the_same_limit_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "YAML_BYTES_MAX", 1 << 20)
    data = captured.tar({"nodes.yaml": b"a: " + bytes(100_000).hex().encode() * 11})
    assert problem(data, tmp_path) == "c.tar: nodes.yaml: larger than 1 MiB"


# -- logs among objects -------------------------------------------------------------------------------


@pytest.mark.parametrize("as_yaml", [False, True])
def test_a_log_cannot_add_objects(tmp_path: Path, as_yaml: bool) -> None:
    fake = captured.as_list("Node", [captured.node("fake")])
    end = captured.log("default", "web-1", b"").splitlines(keepends=True)[1]
    forged = end + (b"---\n" + captured.yaml_text(fake) if as_yaml else captured.indented(fake))
    data = captured.printed_dump(as_yaml=as_yaml, logs={**captured.LOGS, "default/web-1": forged})
    assert "cannot be told apart" in problem(data, tmp_path, "dump")


def test_a_dump_cut_in_a_log_is_refused(tmp_path: Path) -> None:
    data = captured.printed_dump()
    cut = data[: data.rindex(b"==== END")]
    assert "cut inside a log" in problem(cut, tmp_path, "dump")


def test_a_dump_cut_in_a_list_is_refused_with_its_line(tmp_path: Path) -> None:
    data = captured.printed_dump()
    start = data.rindex(b'"kind": "PodList"')
    message = problem(data[: start + 60], tmp_path, "dump")
    line = data.count(b"\n", 0, start + 60) + 1
    assert message.startswith(f"dump:{line}:") and "unexpected end of the file" in message
