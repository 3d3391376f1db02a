"""The command group and the edge where errors become messages and exit codes; nothing else.

Exit codes are the public contract's (section 4): 0 done, 2 usage or bad input, 8 our bug, 130
interrupted. No traceback reaches a terminal: ``--debug`` writes it to a file only its owner reads.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import PurePath

import click

from kubectl_evictplan import __version__
from kubectl_evictplan.commands.help_text import examples
from kubectl_evictplan.commands.lazy import Entry, LazyGroup
from kubectl_evictplan.display import escape
from kubectl_evictplan.errors import (
    EXIT_BAD_INPUT,
    EXIT_DONE,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    PROBLEMS_SHOWN_MAX,
    EvictplanError,
    InputError,
    Problem,
)

# What a shell reports for a program that SIGPIPE ended, as `... | head` does.
EXIT_PIPE_CLOSED = 141
PLUGIN_NAME = "kubectl evictplan"

_SHOWN_COLUMNS_MAX = 80
# Only absurd names and texts reach it: no line of ours is that long.
_LINE_COLUMNS_MAX = 2000
_CONNECTION_OPTIONS = frozenset(
    (
        *("--context", "--kubeconfig", "--cluster", "--user", "--server", "-s", "--token"),
        *("--as", "--as-group", "--request-timeout", "--namespace", "-n", "--all-namespaces", "-A"),
    )
)

COMMANDS = {
    "what-if": Entry(
        "kubectl_evictplan.commands.what_if:what_if",
        "Predict which pods a change or a failure evicts, when and why",
    ),
    "snapshot": Entry(
        "kubectl_evictplan.commands.snapshot:snapshot",
        "Turn dumps and manifests into one small file to predict from",
    ),
    "schema": Entry(
        "kubectl_evictplan.commands.schema:schema",
        "Print the JSON Schema of a file this program reads or writes",
    ),
    "version": Entry(
        "kubectl_evictplan.commands.version:version", "Print the version of this program"
    ),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "# Which pods go when a node is tainted",
        "kubectl evictplan what-if taint node n1 maint=yes:NoExecute -f cluster.json",
        "# Which pods go when a zone falls silent",
        "kubectl evictplan what-if fail zone eu-1a -f cluster.json",
    ),
)
@click.version_option(__version__, message="%(prog)s %(version)s", prog_name=PLUGIN_NAME)
@click.option("--debug", is_flag=True, expose_value=False, help="On an internal error, keep it.")
def cli() -> None:
    """Predict which pods Kubernetes will evict, when, by whom and why.

    Nothing is ever changed: predictions are computed here, from files.
    """


def run(arguments: Sequence[str], program: str = "") -> int:
    """Run one command line and return its exit code; every error ends here as one line."""
    _prepare_streams()
    try:
        return _invoke(list(arguments), program)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        return _report_usage(error)
    except click.ClickException as error:
        _say(f"error: {escape(error.format_message())}")
        return EXIT_BAD_INPUT
    except InputError as error:
        _report_problems(error.problems)
        return error.exit_code
    except EvictplanError as error:
        _say(f"error: {escape(str(error))}")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence_output()
        return EXIT_PIPE_CLOSED
    except OSError as error:
        # A full disk behind standard output, for one: the world's fault, not a bug.
        _silence_output()
        _say(f"error: {escape(error.strerror or str(error)).lower()}")
        return EXIT_BAD_INPUT
    except Exception as error:  # noqa: BLE001 - the outermost edge: nothing may pass it
        return _report_bug(error, arguments)


def _invoke(arguments: list[str], program: str) -> int:
    """Parse and run; click's own edge is bypassed because its exit codes are not the contract's."""
    _refuse_broken_text(arguments)
    with cli.make_context(_program_name(program), arguments) as context:
        cli.invoke(context)
    if sys.stdout is not None:  # closed by the caller, as by `>&-`
        sys.stdout.flush()
    return EXIT_DONE


def _program_name(program: str) -> str:
    """Return the words to show in usage: those a user of kubectl types."""
    name = PurePath(program).name
    if name.startswith("kubectl-") or not name:
        return PLUGIN_NAME
    return "python -m kubectl_evictplan" if name == "__main__.py" else name


def _refuse_broken_text(arguments: Sequence[str]) -> None:
    """Raise for words that were not valid text in the caller's encoding."""
    broken = [word for word in arguments if any("\ud800" <= char <= "\udfff" for char in word)]
    if broken:
        raise InputError([Problem("argument is not valid UTF-8", got=word) for word in broken])


def _prepare_streams() -> None:
    """Make sure that no character can stop the output: what cannot be encoded is escaped."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _report_usage(error: click.UsageError) -> int:
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.option_name in _CONNECTION_OPTIONS:
        from kubectl_evictplan.commands.messages import NO_LIVE_CLUSTER

        message = f"{error.option_name}: {NO_LIVE_CLUSTER}"
    # A message of click ends in a stop only where it is a sentence with a hint.
    _say(f"error: {escape(message[:1].lower() + message[1:].rstrip('.'))}")
    path = error.ctx.command_path if error.ctx is not None else PLUGIN_NAME
    _say(f"See '{path} --help' for usage and examples")
    return EXIT_BAD_INPUT


def _report_problems(problems: Sequence[Problem]) -> None:
    """Print one line per problem, the first 50, and how many more there are."""
    for problem in problems[:PROBLEMS_SHOWN_MAX]:
        got = problem.got
        shown = Problem(
            problem.message,
            location=problem.location,
            subject=problem.subject,
            field=problem.field,
            got=None if got is None else escape(str(got), max_columns=_SHOWN_COLUMNS_MAX),
            expected=problem.expected,
        )
        _say(f"error: {escape(str(shown), max_columns=_LINE_COLUMNS_MAX)}")
    if len(problems) > PROBLEMS_SHOWN_MAX:
        _say(f"error: and {len(problems) - PROBLEMS_SHOWN_MAX} more")


def _report_bug(error: Exception, arguments: Sequence[str]) -> int:
    """Print one line; with --debug also where the details are, never the details themselves."""
    summary = escape(f"{type(error).__name__}: {error}", max_columns=_SHOWN_COLUMNS_MAX)
    if "--debug" not in arguments:
        _say(
            f"error: internal error ({summary}); this is a bug, please report it: "
            "run again with --debug to keep the details in a file"
        )
        return EXIT_INTERNAL
    import tempfile
    import traceback

    # mkstemp creates the file with mode 0600: a traceback can quote cluster data.
    with tempfile.NamedTemporaryFile(
        "w", prefix="kubectl-evictplan-", suffix=".txt", delete=False, encoding="utf-8"
    ) as stream:
        stream.write(f"kubectl-evictplan {__version__}, Python {sys.version}\n")
        stream.writelines(traceback.format_exception(error))
    _say(f"error: internal error ({summary}); this is a bug, please report it with {stream.name}")
    return EXIT_INTERNAL


def _say(line: str) -> None:
    """Write a line to standard error; a closed standard error is no reason to fail."""
    # Not click.echo: it would answer a stream that cannot encode a character with raw UTF-8.
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.write(f"{line}\n")


def _silence_output() -> None:
    """Point standard output away from the closed pipe, so that exiting does not complain."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
    except (OSError, ValueError):
        return
