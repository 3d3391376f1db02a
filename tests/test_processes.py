"""What works beside this process: a thread, and a copy of it. They change nothing but the time."""

from __future__ import annotations

import _thread
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kubectl_evictplan import processes
from kubectl_evictplan.commands.executors import Workers
from kubectl_evictplan.processes import in_thread

# Only a process without other threads may be copied: each of these is one of its own.
_BEFORE = """
import os, signal
from kubectl_evictplan import processes
from kubectl_evictplan.commands.executors import Workers
processes.default_jobs = lambda: 2
here = os.getpid()
"""
ONLY_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are copied on Linux only"
)


def told_by(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _BEFORE + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@ONLY_LINUX
def test_a_copy_does_it_while_this_process_goes_on() -> None:
    code = """
come, go = os.pipe()
def work(_):
    os.write(go, b"%d" % os.getpid())
with processes.in_copy(work) as copy:
    print(int(os.read(come, 100)) != here)
    copy.wait()
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("nobody is left")
"""

    assert told_by(code) == ["True", "nobody is left"]


@ONLY_LINUX
@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "MemoryError()"),
        ("[].remove(0)", "RuntimeError('a copy of this process failed')"),
        ("os._exit(255)", "RuntimeError('a copy of this process failed')"),
        ("exec('raise MemoryError')", "MemoryError()"),
        ("os.close(1000)", "OSError(9, 'Bad file descriptor')"),
        ("exec('raise BrokenPipeError(32, 0)')", "BrokenPipeError(32, 'Broken pipe')"),
    ],
)
def test_what_ends_a_copy_is_raised_where_it_is_waited_for(end: str, error: str) -> None:
    code = f"""
with processes.in_copy(lambda _: {end}) as copy:
    print("begun")
    try:
        copy.wait()
    except (OSError, RuntimeError, MemoryError) as error:
        print(repr(error))
"""

    assert told_by(code) == ["begun", error]


@ONLY_LINUX
def test_a_copy_that_nobody_waits_for_is_ended() -> None:
    code = """
try:
    with processes.in_copy(lambda _: signal.pause()):
        raise KeyError
except KeyError:
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        print("nobody is left")
"""

    assert told_by(code) == ["nobody is left"]


@ONLY_LINUX
def test_a_copy_ends_with_the_process_that_began_it() -> None:
    code = """
come, go = os.pipe()
if os.fork() == 0:
    os.close(come)
    with processes.in_copy(lambda _: signal.pause()):
        os._exit(0)
os.close(go)
print(os.read(come, 1))
"""

    assert told_by(code) == ["b''"]


@ONLY_LINUX
def test_a_copy_writes_nothing_that_was_begun_here() -> None:
    code = """
print("once", end="", flush=False)
with processes.in_copy(id) as copy:
    copy.wait()
"""

    assert told_by(code) == ["once"]


def no_more(*_: object) -> int:
    raise OSError("no more of them")


@pytest.mark.parametrize(
    ("where", "name", "instead"),
    [
        (processes, "default_jobs", lambda: 1),
        (processes, "_may_be_copied", lambda: False),
        (processes, "is_memory_bounded", lambda: True),
        (os, "pipe", no_more),
        (os, "fork", no_more),
    ],
)
def test_where_no_copy_can_be_made_nothing_is_begun(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, instead: Callable[..., object]
) -> None:
    monkeypatch.setattr(processes, "default_jobs", lambda: 2)
    monkeypatch.setattr(processes, "_may_be_copied", lambda: True)
    monkeypatch.setattr(processes, "is_memory_bounded", lambda: False)
    monkeypatch.setattr(where, name, instead)

    with processes.in_copy(pytest.fail) as copy:
        assert copy is None


@ONLY_LINUX
def test_a_copy_gets_what_is_sent_to_it_at_once_if_it_must() -> None:
    code = """
come, go = os.pipe()
def work(stream):
    os.write(go, stream.read(5))
    os.write(go, stream.read(6))
with processes.in_copy(work) as copy:
    copy.send(b"fir", b"st", at_once=True)
    print(os.read(come, 100))
    copy.send(b"second", at_once=True)
    copy.wait()
    print(os.read(come, 100))
"""

    assert told_by(code) == ["b'first'", "b'second'"]


@ONLY_LINUX
@pytest.mark.parametrize("at_once", [True, False])
def test_what_ended_a_copy_is_raised_by_who_sends_it_more(at_once: bool) -> None:
    code = f"""
with processes.in_copy(lambda _: exec("raise MemoryError")) as copy:
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    try:
        copy.send(bytes(1 << 20), at_once={at_once})
    except MemoryError:
        print("told to who sends")
"""

    assert told_by(code) == ["told to who sends"]


@ONLY_LINUX
def test_what_a_copy_did_not_read_is_no_error() -> None:
    code = """
with processes.in_copy(id) as copy:
    copy.send(b"nobody reads it")
    copy.wait()
print("goes on")
"""

    assert told_by(code) == ["goes on"]


@ONLY_LINUX
def test_a_copy_of_a_copy_goes_on_with_what_is_sent() -> None:
    code = """
come, go = os.pipe()
def first(stream):
    os.write(go, processes.read_all_of(stream, 5))
def both(stream):
    with processes.in_copy(lambda _: first(stream)) as copy:
        copy.wait()
    os.write(go, processes.read_all_of(stream, 6))
with processes.in_copy(both) as copy:
    copy.send(b"first")
    copy.send(b"second", at_once=True)
    copy.wait()
print(os.read(come, 100))
"""

    assert told_by(code) == ["b'firstsecond'"]


@pytest.mark.parametrize("sent", [b"", b"four"])
def test_what_ends_too_early_is_no_message(sent: bytes, tmp_path: Path) -> None:
    (tmp_path / "sent").write_bytes(sent)
    with (tmp_path / "sent").open("rb", buffering=0) as stream, pytest.raises(EOFError):
        processes.read_all_of(stream, 5)


@ONLY_LINUX
def test_an_answer_of_a_copy_is_that_of_another_process() -> None:
    code = """
with processes.answer_of_copy(lambda: b"%d" % os.getpid() + bytes(1 << 20)) as answer:
    found = answer()
print(found.rstrip(bytes(1)) != b"%d" % here, len(found) > 1 << 20)
"""

    assert told_by(code) == ["True True"]


@ONLY_LINUX
def test_half_an_answer_of_a_copy_is_none() -> None:
    code = """
import select
with processes.answer_of_copy(lambda: bytes(3 << 20)) as answer:
    copy, stream = answer.args
    # It has begun to send more than a pipe holds.
    select.select([stream], [], [])
    os.kill(copy._number, signal.SIGKILL)
    print(answer())
"""

    assert told_by(code) == ["None"]


@ONLY_LINUX
@pytest.mark.parametrize(
    "end",
    ["[].remove(0)", "exec('raise MemoryError')", "os.kill(os.getpid(), signal.SIGKILL)"],
)
def test_a_copy_that_failed_has_no_answer(end: str) -> None:
    code = f"""
with processes.answer_of_copy(lambda: {end}) as answer:
    print(answer())
"""

    assert told_by(code) == ["None"]


@ONLY_LINUX
@pytest.mark.parametrize("name", ["pipe", "fork"])
def test_without_a_copy_there_is_no_answer(name: str) -> None:
    code = f"""
def no_more():
    raise OSError
os.{name} = no_more
with processes.answer_of_copy(lambda: b"answer") as answer:
    print(answer())
"""

    assert told_by(code) == ["None"]


@ONLY_LINUX
def test_a_bound_on_memory_is_seen() -> None:
    code = """
import resource
print(processes.is_memory_bounded())
resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
print(processes.is_memory_bounded())
"""

    assert told_by(code) == ["False", "True"]


@ONLY_LINUX
def test_a_copy_that_fails_before_it_began_goes_on_nowhere() -> None:
    code = """
def fail(*_):
    raise MemoryError
processes._end_with_writer = fail
try:
    with processes.in_copy(id) as copy:
        copy.wait()
except MemoryError:
    print(os.getpid() == here, flush=True)
"""

    assert told_by(code) == ["True"]


def test_a_thread_gives_its_answer() -> None:
    assert in_thread(threading.get_ident)() != threading.get_ident()


@pytest.mark.parametrize(
    "error", [RuntimeError("can't start new thread"), OSError(), MemoryError()]
)
def test_where_no_thread_can_be_started_it_is_done_here(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> int:
        raise error

    monkeypatch.setattr(_thread, "start_new_thread", refuse)

    assert in_thread(threading.get_ident)() == threading.get_ident()


def test_where_memory_is_bounded_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "is_memory_bounded", lambda: True)

    assert in_thread(threading.get_ident)() == threading.get_ident()


def test_a_thread_that_ended_before_it_began_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", lambda *_: 0)
    monkeypatch.setattr(_thread, "_count", lambda: 0)
    monkeypatch.setattr(processes, "_LOST_THREAD_SECONDS", 0.0)

    assert in_thread(threading.get_ident)() == threading.get_ident()


def test_what_has_no_memory_in_a_thread_is_done_here() -> None:
    here = threading.get_ident()

    def make() -> int:
        if threading.get_ident() != here:
            raise MemoryError
        return 42

    assert in_thread(make)() == 42


def test_what_a_thread_raises_is_raised_where_the_answer_is_asked_for() -> None:
    answer = in_thread(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        answer()


def test_without_threads_everything_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes.may_have_workers()
    monkeypatch.setattr(threading, "_start_new_thread", no_more)

    assert not processes.may_have_workers()
    done = Workers(2).answers(lambda _: os.getpid(), range(3), lambda _: None)
    assert set(done) == {os.getpid()}


@ONLY_LINUX
def test_large_pieces_are_sent_before_they_are_read() -> None:
    code = """
come, go = os.pipe()
def work(stream):
    os.read(come, 1)
    print(len(processes.read_all_of(stream, 500_000)), flush=True)
with processes.in_copy(work) as copy:
    copy.send(bytes(500_000), at_once=True)
    os.write(go, b".")
    copy.wait()
"""

    assert told_by(code) == ["500000"]
