"""Large dumps are read in pieces, on several processors, compressed or not: nothing but time may tell it."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sources.builders import items, lease, node, owner, pod

from kubectl_evictplan import processes
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.sources import archives, documents, dumps, pieces
from kubectl_evictplan.sources.files import load_files
from kubectl_evictplan.sources.piece_reader import PieceReader, Unpacker

Read = Callable[..., Any]
CREATED = {"creationTimestamp": "2026-11-20T21:00:00Z"}


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are large here."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 300)
    monkeypatch.setattr(pieces, "STREAM_PIECE_BYTES", 300)
    monkeypatch.setattr(dumps, "_BEGUN_MIN", 2)
    monkeypatch.setattr(pieces, "_BEHIND_BYTES_MAX", 200)
    monkeypatch.setattr(dumps, "BYTES_MIN", 600)
    monkeypatch.setattr(documents, "CHECKED_BYTES_MAX", -1)
    monkeypatch.setattr(documents, "LINE_NUMBERS_BYTES_MAX", -1)


def outcome(path: Path, jobs: int) -> ClusterSnapshot | list[str]:
    try:
        return load_files([str(path)], jobs=jobs)
    except InputError as error:
        return [str(problem) for problem in error.problems]


def in_one_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterSnapshot | list[str]:
    with monkeypatch.context() as patched:
        patched.setattr(dumps, "of_file", lambda *_: None)
        patched.setattr(dumps, "of_stream", lambda *_: None)
        return outcome(path, 1)


def was_cut(path: Path) -> bool:
    return dumps.of_file(str(path), 1) is not None


def cluster(pods: int = 20) -> list[Any]:
    seconds = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    many = [
        pod(
            f"p{number}",
            meta={
                **CREATED,
                "labels": {"app": f"é{number % 3}"},
                "ownerReferences": [owner("ReplicaSet", "r")],
            },
            spec={
                "nodeName": f"n{number % 2}",
                "tolerations": [seconds] * (number % 3),
                "volumes": claim * (number % 7 == 0),
            },
            status={"phase": "Running"},
        )
        for number in range(pods)
    ]
    system = pod(
        "kube-controller-manager-n0",
        meta={"namespace": "kube-system", "labels": {"component": "kube-controller-manager"}},
        spec={"containers": [{"name": "c", "command": ["x", "--pod-eviction-timeout=7m"]}]},
    )
    return [node("n0"), lease("n0"), *many, system, node("n1"), pod("hand", stored=False)]


def written(path: Path, objects: list[Any], indent: int | None = 4, **fields: Any) -> Path:
    path.write_text(
        json.dumps(items(*objects, metadata={}, **fields), indent=indent, sort_keys=indent == 4)
    )
    return path


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("indent", [None, 4])
def test_a_recorded_cluster_is_the_same_in_pieces(
    fixtures_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jobs: int,
    indent: int | None,
) -> None:
    recorded = fixtures_path / "clusters" / "kubeadm-15-nodes-1.29.json"
    path = tmp_path / "c.json"
    path.write_text(json.dumps(json.loads(recorded.read_text()), indent=indent))
    monkeypatch.setattr(documents, "CHECKED_BYTES_MAX", -1)
    expected = in_one_go(path, monkeypatch)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 100_000)
    monkeypatch.setattr(dumps, "BYTES_MIN", 400_000)
    assert was_cut(path)
    assert outcome(path, jobs) == expected


ODD: dict[str, list[Any]] = {
    "nothing odd": [],
    "a pod given twice": [pod("p3")],
    "a grace period below zero": [pod("x", spec={"terminationGracePeriodSeconds": -1})],
    "wrong types": [pod("x", spec={"nodeName": 7}), pod("y", meta={"labels": []})],
    "a time that is none": [pod("x", meta={"creationTimestamp": "yesterday"})],
    "a leap second": [pod("x", meta={"creationTimestamp": "2016-12-31T23:59:60Z"})],
    "no name": [pod("x", meta={"name": ""}), pod("y", meta={"namespace": ""})],
    "a wrong manifest": [pod("x", stored=False, spec={"tolerations": [{"operator": "Eq"}]})],
    "no objects": [7, None, "x"],
    "unknown kinds": [{"apiVersion": "v1", "kind": "Secret"}, {"kind": "Pood"}, {"x": 1}],
    "lists in lists": [items(pod("x"), 3), items(kind="PodList")],
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.usefixtures("in_pieces")
def test_what_is_odd_is_told_alike_and_in_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    objects = cluster()
    path = written(tmp_path / "c.json", [*objects[:9], *ODD[odd], *objects[9:], *ODD[odd]])
    assert was_cut(path)
    assert outcome(path, 1) == in_one_go(path, monkeypatch)


@pytest.mark.usefixtures("in_pieces")
def test_processes_side_by_side_tell_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = [one for found in list(ODD.values())[1:] for one in found]
    path = written(tmp_path / "c.json", [*cluster()[:9], *odd, *cluster()[9:]])
    told = in_one_go(path, monkeypatch)
    assert isinstance(told, list)
    assert len(told) > 10
    assert outcome(path, 2) == told


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:-200],
    "a brace missing": lambda data: data.replace(b'"p7"', b'"p7', 1),
    "more behind it": lambda data: data + b"{}",
    "two lists": lambda data: data.replace(b'"items"', b'"items":[],"items"', 1),
    "an item closed twice": lambda data: data.replace(b'"p7"', b'"p7"}}', 1),
    "a page of several": lambda data: data.replace(b'"metadata": {}', b'"metadata":{"continue":"x"}'),
    "an invalid byte": lambda data: data.replace(b"p7", b"p\xff", 1),
    "a lone surrogate": lambda data: data.replace(b'"p7"', b'"\\ud800"', 1),
    "not a list": lambda data: data.replace(b'"kind": "List"', b'"kind": "Pod"'),
    "a snapshot's head": lambda data: data.replace(b'"kind": "List"', b'"kind": "Snapshot"'),
    "logs between": lambda data: data.replace(b'"p7"', b'"==== START logs for container x"', 1),
    "a mark in front": lambda data: b"\xef\xbb\xbf" + data,
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.usefixtures("in_pieces")
def test_what_is_no_list_is_read_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    path = written(tmp_path / "c.json", cluster())
    data = path.read_bytes()
    path.write_bytes(BROKEN[broken](data))
    assert path.read_bytes() != data
    assert not was_cut(path)
    assert outcome(path, 1) == in_one_go(path, monkeypatch)


@pytest.mark.usefixtures("in_pieces")
def test_objects_inside_objects_that_look_like_items_are_no_cuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = [{**one, "x": [{"apiVersion": "1"}, {"apiVersion": "2"}] * 9} for one in cluster()]
    path = written(tmp_path / "c.json", objects, indent=None)
    assert outcome(path, 1) == in_one_go(path, monkeypatch)


@pytest.mark.usefixtures("in_pieces")
def test_items_of_a_typed_list_need_not_say_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = [{"metadata": one["metadata"], "spec": one["spec"]} for one in cluster()[2:20]]
    listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": bare}
    (tmp_path / "pods.json").write_text(json.dumps(listed))
    written(tmp_path / "nodes.json", cluster()[:2])
    assert was_cut(tmp_path / "pods.json")
    names = [str(tmp_path / "nodes.json"), str(tmp_path / "pods.json")]
    snapshot = load_files(names)
    assert len(snapshot.pods) == len(bare)
    monkeypatch.setattr(dumps, "BYTES_MIN", 1 << 30)
    assert load_files(names) == snapshot


# -- compressed ---------------------------------------------------------------------------------------


def zstd(data: bytes) -> bytes:
    module = pytest.importorskip("backports.zstd")
    compressed: bytes = module.compress(data)
    return compressed


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gz": partial(gzip.compress, compresslevel=1),
    "zst": zstd,
}


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.usefixtures("in_pieces")
def test_a_compressed_dump_is_read_as_it_unpacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, jobs: int
) -> None:
    plain = written(tmp_path / "c.json", cluster(60))
    packed = tmp_path / f"c.json.{ending}"
    packed.write_bytes(COMPRESSIONS[ending](plain.read_bytes()))
    expected = in_one_go(packed, monkeypatch)
    assert isinstance(expected, ClusterSnapshot)
    assert expected.pods == load_files([str(plain)]).pods

    def unread(*_: object) -> None:
        raise AssertionError("read in one go")

    monkeypatch.setattr(archives, "members", unread)
    assert outcome(packed, jobs) == expected


@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.usefixtures("in_pieces")
def test_a_damaged_compression_is_told_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    data = COMPRESSIONS[ending](written(tmp_path / "c.json", cluster(60)).read_bytes())
    middle = len(data) // 2
    for damaged in (data[:-9], data[:middle] + b"~~~~" + data[middle + 4 :]):
        path = tmp_path / f"d.json.{ending}"
        path.write_bytes(damaged)
        told = outcome(path, 1)
        assert "damaged or cut archive" in told[0]  # type: ignore[index]
        assert told == in_one_go(path, monkeypatch)


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_a_bomb_of_a_list_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"c.json.{ending}"
    path.write_bytes(COMPRESSIONS[ending](b'{"kind":"List","items":[{"kind":"x' + bytes(65 << 20)))
    assert "unpacks to an absurd size" in outcome(path, 1)[0]  # type: ignore[index]


@pytest.mark.usefixtures("in_pieces")
def test_zstd_with_a_skippable_frame_before_it_is_read(tmp_path: Path) -> None:
    plain = written(tmp_path / "c.json", cluster(6))
    packed = tmp_path / "c.json.zst"
    skippable = b"\x5e\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"seek"
    packed.write_bytes(skippable + zstd(plain.read_bytes()))
    assert load_files([str(packed)]).pods == load_files([str(plain)]).pods


def test_without_its_library_zstd_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    path = tmp_path / "c.json.zst"
    path.write_bytes(zstd(b"{}"))
    monkeypatch.setattr(archives, "import_module", missing)
    (told,) = outcome(path, 1)  # type: ignore[misc]
    assert "pip install 'kubectl-evictplan[zstd]'" in str(told)


# -- processes ----------------------------------------------------------------------------------------


@pytest.fixture
def dump(tmp_path: Path, in_pieces: None) -> Path:
    return written(tmp_path / "c.json", cluster())


def test_a_small_file_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "c.json", cluster())
    packed = tmp_path / "c.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))

    def none(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(processes, "processes", none)
    assert outcome(path, 8) == outcome(path, 1)
    assert isinstance(outcome(packed, 8), ClusterSnapshot)


def test_a_worker_that_is_killed_is_one_clear_line(
    dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PieceReader, "read_packed", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    (told,) = outcome(dump, 2)  # type: ignore[misc]
    assert f"{dump}: a process that helped to read it ended before its time" in str(told)
    assert not multiprocessing.active_children()


def test_an_interrupt_leaves_no_process_behind(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Unpacker, "unpacked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_files([str(dump)], jobs=2)
    assert not multiprocessing.active_children()


def test_a_file_that_changes_meanwhile_is_read_again(
    dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = outcome(dump, 1)
    read = PieceReader.read

    def changed(self: PieceReader, piece: pieces.Piece) -> Any:
        found = read(self, piece)
        written(dump, cluster(21))
        return found

    monkeypatch.setattr(PieceReader, "read", changed)
    after = outcome(dump, 1)
    assert isinstance(before, ClusterSnapshot)
    assert isinstance(after, ClusterSnapshot)
    assert len(after.pods) == len(before.pods) + 1


def test_where_threads_run_no_process_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = []
    get_context = multiprocessing.get_context
    monkeypatch.setattr(
        multiprocessing,
        "get_context",
        lambda method: methods.append(method) or get_context(method),
    )
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    processes.processes(1, len).shutdown()
    done.set()
    thread.join()
    assert methods == ["spawn"]


def test_what_is_sent_to_a_new_process_can_be_sent() -> None:
    reader = PieceReader("Pod", path="x", state=(1, 2, 3))
    assert pickle.loads(pickle.dumps(reader.read_packed)).__self__.state == (1, 2, 3)


@pytest.mark.slow
def test_processes_that_begin_anew_tell_the_same(
    dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = outcome(dump, 1)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert outcome(dump, 2) == expected
