"""A journal is durable before what it announces, and a damaged one is refused whole."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from apply.clusters import drain_bench, taint_bench
from apply.crashes import KEEPS, killing
from apply.crashing_files import Killed
from apply.runs import JOURNAL, Bench
from msgspec import structs

from kubectl_evictplan.apply import journal as journals
from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.files import LocalFiles
from kubectl_evictplan.apply.journal import digest, encoded, read
from kubectl_evictplan.apply.records import Begin
from kubectl_evictplan.apply.states import Phase
from kubectl_evictplan.apply.status import status
from kubectl_evictplan.errors import InputError


def rewritten(bench: Bench, change: Any) -> InputError:
    """Return what a journal is refused with, after a change of its lines."""
    lines = bench.lines
    change(lines)
    bench.files.stored[JOURNAL].written = b"\n".join(lines) + b"\n"
    sent = len(bench.cluster.mutations)
    with pytest.raises(InputError) as caught:
        bench.resume()
    with pytest.raises(InputError):
        bench.rollback()
    with pytest.raises(InputError):
        status(JOURNAL, bench.files)
    assert len(bench.cluster.mutations) == sent
    assert not bench.files.stored[JOURNAL].locked
    return caught.value


def test_every_line_names_the_digest_of_the_line_before() -> None:
    bench = taint_bench()
    bench.apply()

    lines = bench.lines
    assert json.loads(lines[0])["prev"] == ""
    for line, following in pairwise(lines):
        assert json.loads(following)["prev"] == journals.digest(line)


def test_a_run_has_these_records_in_this_order() -> None:
    bench = taint_bench()
    bench.apply()

    kinds = [json.loads(line)["record"] for line in bench.lines]
    assert kinds == [
        "begin",
        "server",
        "preflight",
        *("intent", "result", "node"),
        *("intent", "result", "node"),
        "end",
    ]


def test_an_intent_holds_what_was_there_what_is_wanted_and_what_is_sent() -> None:
    bench = taint_bench()
    bench.apply()

    intent = next(found for found in map(json.loads, bench.lines) if found["record"] == "intent")
    assert intent["target"] == {"kind": "Node", "namespace": "", "name": "n1", "uid": "uid-1"}
    assert [t["key"] for t in intent["before"]["taints"]] == ["gpu"]
    assert [t["key"] for t in intent["wanted"]["taints"]] == ["gpu", "maintenance"]
    assert json.loads(intent["request"]["body"])["metadata"]["resourceVersion"]
    assert intent["request"]["path"].startswith("/api/v1/nodes/n1?fieldManager=")


def test_strings_of_a_cluster_cannot_steer_a_terminal() -> None:
    bench = taint_bench()
    bench.cluster.nodes["n1"].taints[0]["value"] = "\x1b[2J\u202e"

    bench.apply()

    assert all(32 <= byte < 127 for line in bench.lines for byte in line)


def _forged(line: bytes, old: bytes, new: bytes) -> bytes:
    """Change a line as somebody does who knows how it is made."""
    plain = json.loads(line.replace(old, new))
    del plain["sum"]
    return journals.summed(json.dumps(plain, separators=(",", ":")).encode()).rstrip()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: lines.__setitem__(4, _forged(lines[4], b"applied", b"refused")), 6),
        (lambda lines: lines.pop(2), 3),
        (lambda lines: lines.insert(2, lines[2]), 4),
        (lambda lines: lines.__setitem__(4, lines[4].replace(b"applied", b"refused")), 5),
        (lambda lines: lines.__setitem__(-1, lines[-1].replace(b"finished", b"not-empty")), 10),
        (lambda lines: lines.__setitem__(4, lines[4][:-9]), 5),
        (lambda lines: lines.__setitem__(4, b"[]"), 5),
        (lambda lines: lines.__setitem__(4, b"\xff"), 5),
        (lambda lines: lines.__setitem__(4, b""), 5),
        (lambda lines: lines.pop(0), 1),
        (lambda lines: lines.reverse(), 1),
    ],
)
def test_damage_anywhere_is_refused_with_its_line(change: Any, line: int) -> None:
    bench = taint_bench()
    bench.apply()

    refused = rewritten(bench, change)

    assert refused.exit_code == 2
    assert refused.problems[0].location == f"{JOURNAL}:{line}"


@pytest.mark.parametrize("rest", [slice(3, 4), slice(5, None)])
def test_lines_of_another_run_are_refused_where_they_begin(rest: slice) -> None:
    bench, other = taint_bench(), drain_bench()
    bench.apply()
    other.apply()

    refused = rewritten(bench, lambda lines: lines.__setitem__(rest, other.lines[rest]))

    assert refused.exit_code == 2
    assert refused.problems[0].location == f"{JOURNAL}:{rest.start + 1}"


def test_a_journal_of_another_version_is_refused() -> None:
    bench = taint_bench()
    bench.apply()

    def change(lines: list[bytes]) -> None:
        lines[0] = lines[0].replace(b"evictplan.dev/v1alpha1", b"evictplan.dev/v9")

    assert "another version" in str(rewritten(bench, change))


def test_the_rest_of_a_line_without_its_end_is_dropped() -> None:
    bench = taint_bench()
    bench.apply()
    whole = bench.lines
    bench.files.stored[JOURNAL].written = b"\n".join(whole[:-1]) + b"\n" + whole[-1]
    # It never became durable, so nobody was told of it either.
    bench.cluster.leases.clear()

    assert status(JOURNAL, bench.files).torn
    assert bench.resume().exit_code == 0
    assert json.loads(bench.lines[-1])["record"] == "end"
    assert not status(JOURNAL, bench.files).torn


def test_another_plan_is_not_gone_on_with() -> None:
    bench = taint_bench()
    bench.apply()
    other = drain_bench()
    other.files = bench.files
    object.__setattr__(other, "plan", _fingerprinted(other, "sha256:other"))

    with pytest.raises(InputError, match="another plan"):
        other.resume()


@pytest.mark.parametrize("field", ["operations", "nodes", "execution", "cluster"])
def test_a_journal_that_holds_something_else_than_its_plan_is_not_gone_on_with(field: str) -> None:
    bench = taint_bench()
    bench.cluster.denied.add(("patch", "nodes"))
    bench.apply()
    other = {
        "operations": bench.plan.operations[1:],
        "nodes": bench.plan.nodes[1:],
        "execution": structs.replace(bench.plan.execution, parallel=9),
        "cluster": structs.replace(bench.plan.cluster, user="eve"),
    }[field]
    begin, *rest = read(JOURNAL, bench.files).records
    lines: list[bytes] = []
    for record in (structs.replace(begin, **{field: other}), *rest):
        prev = digest(lines[-1]) if lines else ""
        lines.append(encoded(structs.replace(record, prev=prev)))
    bench.files.stored[JOURNAL].written = b"".join(lines)
    bench.cluster.denied.clear()

    with pytest.raises(InputError, match="not as the plan says"):
        bench.resume()

    assert bench.cluster.mutations == []


def _fingerprinted(bench: Bench, fingerprint: str) -> Any:
    import msgspec

    return msgspec.structs.replace(bench.plan, fingerprint=fingerprint)


def test_an_existing_journal_is_not_written_over() -> None:
    bench = taint_bench()
    bench.apply()

    with pytest.raises(InputError, match="a journal already"):
        bench.apply()


def test_a_finished_run_stays_as_it_is() -> None:
    bench = taint_bench()
    bench.apply()
    before = bench.lines

    assert bench.resume().exit_code == 0
    assert bench.lines == before


def test_a_run_that_is_taken_back_is_not_gone_on_with() -> None:
    bench = taint_bench()
    bench.cluster.faults.line.extend([None, _forbidden()])
    bench.apply()
    bench.cluster.faults.line.append(_forbidden())
    assert bench.rollback().exit_code == 3
    with pytest.raises(InputError, match="is being taken back: only apply --rollback"):
        bench.resume()

    assert bench.rollback().exit_code == 0
    with pytest.raises(InputError, match="was taken back: make a new plan"):
        bench.resume()


def _forbidden() -> Any:
    from apply.faults import Fault

    return Fault.FORBIDDEN


def test_a_journal_that_a_process_holds_is_not_touched() -> None:
    bench = taint_bench()
    bench.apply()
    bench.files.stored[JOURNAL].locked = True

    with pytest.raises(InputError, match="right now"):
        bench.rollback()
    assert status(JOURNAL, bench.files).at_work


def test_no_mutation_is_sent_whose_intent_is_not_durable() -> None:
    bench = drain_bench()
    whole = drain_bench()
    whole.apply()
    for full_at in range(2, whole.files.appends + 1):
        bench = drain_bench()
        bench.files.full_at = full_at

        result = bench.apply()

        intents = sum(json.loads(line)["record"] == "intent" for line in _complete(bench))
        assert len(bench.cluster.mutations) == intents
        unknown = any(one.phase is Phase.UNKNOWN for one in result.state.operations.values())
        assert result.exit_code == (7 if unknown else result.exit_code)
        assert result.exit_code in (2, 3, 7)
        assert json.loads(result.unwritten)["record"]


def _complete(bench: Bench) -> list[bytes]:
    return bench.files.read(JOURNAL).split(b"\n")[:-1]


def test_a_result_that_cannot_be_written_is_handed_over_to_be_shown() -> None:
    bench = taint_bench()
    bench.files.full_at = 5

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (7, EndCode.JOURNAL_LOST)
    assert json.loads(result.unwritten)["outcome"] == "applied"
    assert len(bench.cluster.mutations) == 1


def test_after_a_full_disk_the_run_is_gone_on_with() -> None:
    bench = taint_bench()
    bench.files.full_at = 5
    bench.apply()
    bench.files.full_at = None

    assert bench.resume().exit_code == 0
    assert len(bench.cluster.mutations) == 2


@pytest.mark.parametrize("kept", [-1, 4])
def test_lines_that_are_missing_at_the_end_are_missed_by_the_lock(kept: int) -> None:
    bench = taint_bench()
    bench.cluster.faults.line.extend([None, _forbidden()])
    assert bench.apply().exit_code == 3
    bench.files.stored[JOURNAL].written = b"".join(one + b"\n" for one in bench.lines[:kept])
    sent = len(bench.cluster.mutations)

    for result in (bench.resume(), bench.rollback()):
        # An intent that is the last line: unknown, by this journal.
        assert result.exit_code == (7 if kept == 4 else 4)
        assert result.ending.code is EndCode.JOURNAL_BEHIND
        assert result.ending.objects[0].endswith("lines known")
    assert len(bench.cluster.mutations) == sent


def test_a_last_line_that_was_forged_is_missed_by_the_lock() -> None:
    bench = taint_bench()
    bench.cluster.faults.line.extend([None, _forbidden()])
    bench.apply()
    *lines, last = bench.lines
    forged = _forged(last, b'"exitCode":3', b'"exitCode":0')
    bench.files.stored[JOURNAL].written = b"".join(one + b"\n" for one in (*lines, forged))

    assert bench.resume().ending.code is EndCode.JOURNAL_BEHIND


@pytest.mark.parametrize("room", [0, journals.ENDING_BYTES])
def test_without_room_for_a_whole_run_nothing_is_begun(room: int) -> None:
    bench = drain_bench()
    bench.files.room = room

    with pytest.raises(InputError, match="No space left on device; nothing was sent"):
        bench.apply()
    assert (bench.cluster.mutations, bench.files.stored) == ([], {})

    bench.files.room = 1 << 20
    assert bench.apply().exit_code == 0


def test_a_disk_that_others_fill_up_ends_the_run_between_two_mutations_and_says_so() -> None:
    bench = drain_bench()
    bench.files.room = 1 << 30
    reserved = iter(range(9))
    make_room = journals.Journal.make_room

    def filled(journal: journals.Journal, size: int) -> None:
        if next(reserved) == 3:
            bench.files.room, bench.files.stored[JOURNAL].reserved = 0, journals.ENDING_BYTES
            journal._room = journals.ENDING_BYTES
        make_room(journal, size)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(journals.Journal, "make_room", filled)
        result = bench.apply()

    assert (result.exit_code, result.ending.code) == (3, EndCode.JOURNAL)
    assert not result.unwritten
    assert json.loads(bench.lines[-1])["record"] == "end"
    assert all(one.phase is not Phase.UNKNOWN for one in result.state.operations.values())
    bench.files.room = 1 << 30
    assert bench.resume().exit_code == 0


@pytest.mark.parametrize("syncs_fail_at", [1])
def test_a_disk_that_cannot_sync_is_refused_before_anything_is_sent(syncs_fail_at: int) -> None:
    bench = taint_bench()
    bench.files.syncs_fail_at = syncs_fail_at

    with pytest.raises(InputError, match="nothing was sent"):
        bench.apply()
    assert bench.cluster.mutations == []
    assert JOURNAL not in bench.files.stored


# -- real files ----------------------------------------------------------------------------------------


def test_a_real_journal_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        LocalFiles().create(tmp_path / "journal").close()
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "journal").stat().st_mode) == 0o600


def test_a_real_journal_is_locked_while_it_is_open(tmp_path: Path) -> None:
    files, path = LocalFiles(), tmp_path / "journal"
    opened = files.create(path)
    opened.append(b"one\n")
    opened.sync()
    files.sync_directory(path)

    assert files.locked(path)
    with pytest.raises(BlockingIOError):
        files.open(path)
    opened.close()
    assert not files.locked(path)
    again = files.open(path)
    again.append(b"two\n")
    again.truncate(4)
    again.close()
    assert files.read(path) == b"one\n"
    files.remove(path)
    assert not path.exists()


def test_a_real_journal_that_is_removed_takes_no_more_records(tmp_path: Path) -> None:
    opened = LocalFiles().create(tmp_path / "journal")
    opened.append(b"one\n")
    opened.sync()
    (tmp_path / "journal").rename(tmp_path / "moved")
    opened.append(b"two\n")
    opened.sync()
    assert (tmp_path / "moved").read_bytes() == b"one\ntwo\n"

    (tmp_path / "moved").unlink()
    with pytest.raises(FileNotFoundError, match="the file was removed"):
        opened.sync()
    opened.close()


def test_room_is_reserved_behind_the_end_of_a_real_journal(tmp_path: Path) -> None:
    opened = LocalFiles().create(tmp_path / "journal")
    opened.append(b"one\n")

    opened.reserve(1 << 20)

    assert (tmp_path / "journal").read_bytes() == b"one\n"
    reserved = (tmp_path / "journal").stat().st_blocks * 512
    opened.close()
    # What was not used is given back; file systems that reserve nothing took nothing.
    assert (tmp_path / "journal").stat().st_blocks * 512 < max(reserved, 1 << 16)


def test_more_room_than_there_is_cannot_be_reserved(tmp_path: Path) -> None:
    opened = LocalFiles().create(tmp_path / "journal")
    with pytest.raises(OSError, match=r"No space left|File too large|quota"):
        opened.reserve(1 << 56)
    opened.close()


@pytest.mark.slow
def test_on_a_full_disk_nothing_is_sent_and_nothing_is_left_behind(tmp_path: Path) -> None:
    size = ["-o", "size=256k"]
    if subprocess.run(["mount", "-t", "tmpfs", *size, "tmpfs", tmp_path], check=False).returncode:
        pytest.skip("only who may mount has a disk that is full")
    try:
        begin = json.loads(_begin_line())
        del begin["sum"]
        with pytest.raises(InputError, match="No space left on device; nothing was sent"):
            journals.create(tmp_path / "journal", LocalFiles(), msgspec.convert(begin, Begin))
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def _begin_line() -> bytes:
    bench = taint_bench()
    bench.apply()
    return bench.lines[0]


def test_a_run_is_held_by_one_process_alone_whatever_its_journal(tmp_path: Path) -> None:
    one = LocalFiles().hold("run-1")
    script = (
        "from kubectl_evictplan.apply.files import LocalFiles as F; import sys\n"
        "for run in sys.argv[1:]:\n"
        "    try: F().hold(run); print('free')\n"
        "    except BlockingIOError: print('held')"
    )
    other = [sys.executable, "-c", script, "run-1", "run-2"]

    assert subprocess.check_output(other, text=True).split() == ["held", "free"]
    one.release()
    assert subprocess.check_output(other, text=True).split() == ["free", "free"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "target")

    with pytest.raises(OSError) as caught:
        LocalFiles().open(tmp_path / "link")
    assert caught.value.errno == errno.ELOOP


def test_who_goes_on_makes_sure_of_the_files_name_too() -> None:
    bench = taint_bench()
    killing(bench, 6)
    with pytest.raises(Killed):
        bench.apply()
    bench.files.crash(KEEPS["all"])
    assert not bench.files.stored[JOURNAL].named
    killing(bench, None)

    bench.resume()
    bench.files.crash(KEEPS["none"])

    assert JOURNAL in bench.files.stored
