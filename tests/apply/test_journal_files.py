"""A journal takes no file that is somebody's, and a run is held where its user is."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from apply.clusters import taint_bench
from apply.crashing_files import Stored
from apply.runs import JOURNAL, options

from kubectl_evictplan.apply.adopt import adopt
from kubectl_evictplan.apply.files import RUNS, LocalFiles
from kubectl_evictplan.apply.journal import read
from kubectl_evictplan.errors import InputError


@pytest.mark.parametrize("begun", [b"", b'{"rec', b'{"record":"begin","prev":"","at":"2027'])
def test_a_file_in_which_no_run_ever_began_is_used(begun: bytes) -> None:
    bench = taint_bench()
    bench.files.stored[JOURNAL] = Stored(begun)

    assert bench.apply().exit_code == 0


@pytest.mark.parametrize("owned", [b"precious, without a newline", b"precious\n", b'{"kind":'])
def test_a_file_of_the_user_is_never_written_over(owned: bytes) -> None:
    bench = taint_bench()
    bench.files.stored[JOURNAL] = Stored(owned)

    with pytest.raises(InputError, match="no journal"):
        bench.apply()
    with pytest.raises(InputError, match="no journal"):
        adopt(bench.plan, bench.cluster, JOURNAL, bench.files, options())

    assert bench.files.stored[JOURNAL].written == owned
    assert not bench.files.stored[JOURNAL].locked


def test_a_file_that_was_there_is_not_removed_when_nothing_can_be_begun() -> None:
    bench = taint_bench()
    bench.files.stored[JOURNAL] = Stored()
    bench.files.room = 0

    with pytest.raises(InputError, match="cannot be used"):
        bench.apply()

    assert JOURNAL in bench.files.stored


def test_a_run_is_held_where_its_user_is_and_not_where_a_relative_state_folder_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.chdir(tmp_path)

    LocalFiles().hold("run-1").release()

    assert (tmp_path / ".local" / "state" / RUNS).exists()
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no run was begun"),
        (b'{"record":"begin","prev":"","at":"2027', "no run was begun"),
        (b"\0" * 4096, "damaged"),
        (b"precious", "damaged"),
    ],
)
def test_that_nothing_was_sent_is_told_only_of_what_a_first_record_can_have_left(
    data: bytes, said: str
) -> None:
    bench = taint_bench()
    bench.files.stored[JOURNAL] = Stored(data)
    with pytest.raises(InputError, match=said):
        bench.resume()
    assert bench.files.stored[JOURNAL].written == data


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOENT, errno.ESTALE])
def test_where_no_journal_can_be_made_nothing_is_sent(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = taint_bench()

    def fails(_path: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(bench.files, "create", fails)
    with pytest.raises(InputError, match="nothing was sent"):
        bench.apply()
    assert bench.cluster.mutations == []


@pytest.mark.parametrize("text", ['{\n  "kind": "List"\n}\n', "kind: List\n"])
def test_a_file_that_begins_as_no_journal_may_be_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"^.*:1: this is no journal, or the journal is damaged: "):
        read(path, LocalFiles())
