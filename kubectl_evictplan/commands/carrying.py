"""What ``apply`` does around a run: who we are, signals, and the end in words."""

from __future__ import annotations

import contextlib
import getpass
import importlib.metadata
import os
import platform
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubectl_evictplan import __version__
from kubectl_evictplan.commands.clock_check import answered_offset_ns
from kubectl_evictplan.commands.connection_options import connection_words
from kubectl_evictplan.commands.terminal import columns_of_terminal, say, use_color, wants_ascii
from kubectl_evictplan.errors import EXIT_DONE, EXIT_INTERRUPTED
from kubectl_evictplan.world import machine

if TYPE_CHECKING:
    from kubectl_evictplan.apply.cluster import ClusterApi
    from kubectl_evictplan.apply.progress import Tell
    from kubectl_evictplan.apply.records import Author, Check
    from kubectl_evictplan.apply.run import RunOptions, RunResult
    from kubectl_evictplan.apply.states import RunState
    from kubectl_evictplan.apply.working import Outside
    from kubectl_evictplan.commands.apply_options import ApplyOptions
    from kubectl_evictplan.live.flags import ConnectionFlags
    from kubectl_evictplan.plans.document import Plan
    from kubectl_evictplan.plans.ledger_document import Ledger
    from kubectl_evictplan.report.blocks import Block
    from kubectl_evictplan.report.next_commands import Typed


def options(
    api: ClusterApi,
    flags: ConnectionFlags,
    *,
    plan_path: str = "",
    checks: Sequence[Check] = (),
    lock_namespace: str | None = None,
    steal_lock: bool = False,
    continue_on_absent: bool = False,
    rollback_on_failure: bool = False,
) -> RunOptions:
    """Return what a run is told of this process; ``lock_namespace`` "" does without the lock.

    Raises AccessError and UnreachableError where the server does not say who asks.
    """
    from kubectl_evictplan.apply.run import LOCK_NAMESPACE, RunOptions
    from kubectl_evictplan.kube.durations import SECOND_NS

    identity = api.identity()
    defaults = RunOptions(author=author())
    deadline = flags.request_timeout_ns / SECOND_NS
    return RunOptions(
        author=author(),
        plan_path=plan_path,
        checks=tuple(checks),
        lock_namespace=LOCK_NAMESPACE if lock_namespace is None else lock_namespace,
        steal_lock=steal_lock,
        continue_on_absent=continue_on_absent,
        rollback_on_failure=rollback_on_failure,
        request_deadline_seconds=deadline or defaults.request_deadline_seconds,
        clock_offset_seconds=answered_offset_ns(api) / SECOND_NS,
        context=identity.context,
        commands=_commands(flags),
    )


def _commands(flags: ConnectionFlags) -> Callable[[RunState, Path], tuple[str, ...]]:
    """Return what the journal says of its end: the commands that a terminal shows as well."""
    typed = _typed(flags)

    def lines(state: RunState, journal: Path) -> tuple[str, ...]:
        from kubectl_evictplan.report.next_commands import command_lines

        # The journal may be read anywhere.
        return command_lines(state, str(journal.absolute()), typed)

    return lines


def author() -> Author:
    """Return who runs this program, for journals and locks: whom to ask when it is stuck."""
    from kubectl_evictplan.apply.records import Author

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return Author(
        user=user,
        host=socket.gethostname(),
        pid=os.getpid(),
        tool_version=__version__,
        python_version=platform.python_version(),
        client_version=importlib.metadata.version("kubernetes"),
        machine=machine(),
    )


def carry_out(plan: Plan, journal: Path, api: ClusterApi, told: Tell, how: RunOptions) -> RunResult:
    """Carry a plan out, heeding signals."""
    from kubectl_evictplan.apply.run import apply_plan

    with _outside(api, told) as outside:
        return apply_plan(plan, journal, outside, how)


def go_on(plan: Plan, journal: Path, api: ClusterApi, told: Tell, how: RunOptions) -> RunResult:
    """Go on with a journal's run, heeding signals."""
    from kubectl_evictplan.apply.resume import resume

    with _outside(api, told) as outside:
        return resume(plan, journal, outside, how)


def take_back(journal: Path, api: ClusterApi, told: Tell, how: RunOptions) -> RunResult:
    """Take a journal's run back, heeding signals."""
    from kubectl_evictplan.apply.rollback import rollback

    with _outside(api, told) as outside:
        return rollback(journal, outside, how)


@contextmanager
def _outside(api: ClusterApi, told: Tell) -> Iterator[Outside]:
    """Give a run this machine's files, clock and signals."""
    from kubectl_evictplan.apply.files import LocalFiles
    from kubectl_evictplan.apply.stop import Stop, signals_caught
    from kubectl_evictplan.apply.working import Outside
    from kubectl_evictplan.world import World

    stop = Stop()
    with signals_caught(stop):
        yield Outside(api, LocalFiles(), World(), stop, told)


def finish(
    result: RunResult, how: ApplyOptions, keep: Callable[[bool], Ledger | None] = lambda _: None
) -> None:
    """Print how a run ended; exit with its code unless everything is done.

    ``keep`` makes its ledger, of the journal alone where it is told that the server is away; whoever interrupts a run does
    not wait for that.
    """
    from kubectl_evictplan.commands.ledgers import exit_code_after
    from kubectl_evictplan.report.run_end import result_blocks

    _keep_unwritten(result.unwritten)
    try:
        blocks = result_blocks(result, _typed(how.connection))
        _show(blocks, how.color)
    except OSError as error:
        # Nobody listens any more, or the disk behind it is full; how the run ended is still told by the ledger and the exit code.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            say(f"warning: how it ended could not be shown: {error.strerror}; {_status(result)}")
    ledger = None if result.exit_code == EXIT_INTERRUPTED else keep(result.is_away)
    exit_code = exit_code_after(result.exit_code, ledger)
    if exit_code != EXIT_DONE:
        raise click.exceptions.Exit(exit_code)


def _status(result: RunResult) -> str:
    return f"apply --status {result.journal} tells it"


def _keep_unwritten(line: bytes) -> None:
    """Write the record that the journal could not take, whole and as one line, for a machine to read."""
    if line and sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(line.decode("ascii", "backslashreplace").rstrip() + "\n")
            sys.stderr.flush()


def print_status(journal: Path, how: ApplyOptions) -> None:
    """Print what a journal says, without asking the cluster."""
    from kubectl_evictplan.apply.files import LocalFiles
    from kubectl_evictplan.apply.status import status
    from kubectl_evictplan.report.run_end import status_blocks

    found = status(journal, LocalFiles())
    _show(status_blocks(found, str(journal), _typed(how.connection)), how.color)


def _show(blocks: Iterable[Block], color: str) -> None:
    from kubectl_evictplan.report.terminal import Terminal

    stream = sys.stdout
    if stream is None:  # closed by the caller, as by `>&-`
        return
    columns = columns_of_terminal(100) if stream.isatty() else None
    terminal = Terminal(columns, use_color(color, stream), wants_ascii("table", stream))
    for chunk in terminal.render(blocks):
        stream.write(chunk)
    stream.flush()


def _typed(connection: ConnectionFlags) -> Typed:
    """Return what the next commands begin and end with, as it was typed."""
    from kubectl_evictplan.report.next_commands import Typed

    context = click.get_current_context(silent=True)
    program = (context.find_root().info_name if context else None) or "kubectl evictplan"
    return Typed(program, connection_words(connection), connection_words(connection, kubectl=True))
