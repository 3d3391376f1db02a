"""The command group and the edge where errors become messages and exit codes; nothing else.

Exit codes: 0 done, 1 a gate failed, `diff --exit-code` found a difference or `verify` that reality left the windows, 2 usage or bad input, 8 our bug,
130 interrupted. No traceback reaches a terminal:
``--debug`` writes it to a file only its owner reads.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from io import TextIOWrapper
from itertools import pairwise
from pathlib import PurePath

import click

from kubectl_evictplan import __version__
from kubectl_evictplan.commands.command import debug_option, group, telling_option
from kubectl_evictplan.commands.terminal import columns_of_terminal
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
    ProblemsError,
    help_on,
)
from kubectl_evictplan.garbage import NO_MEMORY

# What a shell reports for a program that SIGPIPE ended, as `... | head` does.
EXIT_PIPE_CLOSED = 141
PLUGIN_NAME = "kubectl evictplan"

_SHOWN_COLUMNS_MAX = 80
_HELP_COLUMNS_MIN, _HELP_COLUMNS_MAX = 50, 80
_TOKEN_LENGTH_MIN = 4
# Only absurd names and texts reach these: no line of ours, and no command line of people, is that long.
_LINE_COLUMNS_MAX = 2000
_COMMAND_COLUMNS_MAX = 1000
# A file name is longer than other words, and never cut without need.
_PATH_COLUMNS_MAX = 300
# Tokens of Kubernetes, of clouds and of git, passwords in addresses, and long words of mixed letters
# and digits; names of Kubernetes have no capitals.
# Compiled where an error is told.
_NOT_SHOWN = (
    r"eyJ[\w-]{8,}\.[\w.-]+|sha256~[\w-]{20,}|k8s-aws-v1\.[\w-]+|\bgh[a-z]_\w{20,}|\bAKIA[A-Z0-9]{16}"
    r"|-----BEGIN[\s\S]*|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|\b(?=\w*[a-z])(?=\w*[A-Z])(?=\w*[0-9])\w{40,}"
)

COMMANDS = {
    "what-if": ("what_if", "Predict which pods a change or a failure evicts, when and why"),
    "apply": ("apply", "Carry out a reviewed plan, or the words of kubectl"),
    "snapshot": ("snapshot", "Write a cluster into one small file to predict from"),
    "sweep": ("sweep", "Rank many failures by what they cost: nodes, zones, pairs, flags, fleets"),
    "verify": ("verify", "Hold what happened against what was predicted"),
    "diff": ("diff", "Compare two predictions: what is new, gone, earlier, later"),
    "explain": ("explain", "Tell what the code of a finding or of a warning means"),
    "schema": ("schema", "Print the JSON Schema of a file this program reads or writes"),
    "version": ("version", "Print the version of this program"),
}


@group(
    COMMANDS,
    "# Which pods go when a node is tainted",
    "kubectl evictplan what-if taint node n1 maint=yes:NoExecute -f cluster.json",
    "# Which pods go when a zone falls silent",
    "kubectl evictplan what-if fail zone eu-1a -f cluster.json",
)
@debug_option
def cli() -> None:
    """Predict which pods Kubernetes will evict, when, by whom and why.

    Predictions are computed here, from the live cluster or from files. Only `apply` changes anything.
    """


_VERSION_OPTION = telling_option(
    "--version",
    text_of=lambda _: f"{PLUGIN_NAME} {__version__}",
    told="Show the version and exit.",
)
cli.params.insert(0, _VERSION_OPTION)


def run(arguments: Sequence[str], program: str = "") -> int:
    """Run one command line and return its exit code; every error ends here as one line."""
    try:
        return _run(arguments, program)
    except MemoryError:
        pass  # with the error goes what its frames hold: before, there may be no memory to say anything with
    _say(NO_MEMORY)
    return EXIT_BAD_INPUT


def _run(arguments: Sequence[str], program: str) -> int:
    _prepare_streams()
    try:
        return _invoke(list(arguments), program)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        text = error.format_message().rstrip(".")
        problem = Problem(text[:1].lower() + text[1:], help_on())
        _report_problems([problem], arguments, program)
        return EXIT_BAD_INPUT
    except ProblemsError as error:
        _report_problems(error.problems, arguments, program)
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
    except MemoryError:
        raise  # to be told where this has ended
    except OSError as error:
        # A full disk behind standard output, for one: the world's fault, not a bug.
        _silence_output()
        reason = (error.strerror or str(error)).lower()
        where = error.filename if isinstance(error.filename, str) else ""
        _report_problems([Problem(reason, location=where)], arguments, program)
        return EXIT_BAD_INPUT
    except Exception as error:  # noqa: BLE001 - the outermost edge: nothing may pass it
        return _report_bug(error, arguments)


def _invoke(arguments: list[str], program: str) -> int:
    """Parse and run; click's own edge is bypassed because its exit codes are others."""
    _refuse_broken_text(arguments)
    # As click has it.
    width = max(min(columns_of_terminal(80), _HELP_COLUMNS_MAX) - 2, _HELP_COLUMNS_MIN)
    with cli.make_context(_program_name(program), arguments, terminal_width=width) as context:
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
    encoding = sys.getfilesystemencoding().upper()
    broken = [word for word in arguments if any("\ud800" <= char <= "\udfff" for char in word)]
    if broken:
        message = f"argument is not valid {encoding}"
        raise InputError([Problem(message, got=word) for word in broken])


def _prepare_streams() -> None:
    """Make sure that no character can stop the output: what cannot be encoded is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _report_problems(problems: Sequence[Problem], arguments: Sequence[str], program: str) -> None:
    """Print one line per problem, the first 50, how many more there are, and what to type."""
    for problem in problems[:PROBLEMS_SHOWN_MAX]:
        got = None if problem.got is None else _bounded(str(problem.got), _SHOWN_COLUMNS_MAX)
        location = _bounded(problem.location, _PATH_COLUMNS_MAX)
        shown = replace(problem, location=location, got=got)
        text = _without(str(shown), _tokens(arguments))
        _say(f"error: {_bounded(text, _LINE_COLUMNS_MAX)}")
    if len(problems) > PROBLEMS_SHOWN_MAX:
        _say(f"error: and {len(problems) - PROBLEMS_SHOWN_MAX} more")
    if line := _corrected(problems, arguments, _program_name(program)):
        _say(line)


def _corrected(problems: Sequence[Problem], arguments: Sequence[str], program: str) -> str:
    """Return the command line to type instead; "" unless every problem tells how to mend it."""
    corrections = [problem.correction for problem in problems]
    words = list(arguments)
    for correction in dict.fromkeys(corrections):
        corrected = correction.applied(words) if correction else None
        if corrected is None:
            return ""
        words = corrected
    first = next((found.first for found in corrections if found and found.first), "")
    line = f"{program} {_joined(words, _tokens(arguments))}"
    line = f"{first} && {line}" if first else line
    # What cannot be shown as it is cannot be copied either.
    if line != _bounded(line, _COMMAND_COLUMNS_MAX):
        return ""
    example = any(found.example for found in corrections if found)
    return f"{'for example' if example else 'try'}: {line}"


def _tokens(arguments: Sequence[str]) -> list[str]:
    """Return what stands behind --token: it is never shown again."""
    found = [word.partition("=")[2] for word in arguments if word.startswith("--token=")]
    found += [after for word, after in pairwise(arguments) if word == "--token"]
    return [token for token in found if token]


def _without(text: str, tokens: Sequence[str]) -> str:
    """Return the text without the tokens; what is shorter is none, and stands in many a word."""
    for token in tokens:
        if len(token) >= _TOKEN_LENGTH_MIN:
            text = text.replace(token, "<not shown>")
    return text


def _joined(words: Sequence[str], tokens: Sequence[str]) -> str:
    """Return the words as a command line; a token is left to a variable of the shell."""
    quoted = []
    for word in words:
        token = next((known for known in tokens if word in (known, f"--token={known}")), None)
        quoted.append(shlex.quote(word) if token is None else f'{word.removesuffix(token)}"$TOKEN"')
    return " ".join(quoted)


def _bounded(text: str, columns_max: int) -> str:
    """Return a text to show: secrets masked, everything visible, not too long."""
    return escape(re.sub(_NOT_SHOWN, "<not shown>", text), max_columns=columns_max)


def _report_bug(error: Exception, arguments: Sequence[str]) -> int:
    """Print one line; with --debug also where the details are, never the details themselves."""
    tokens = _tokens(arguments)
    text = _without(f"{type(error).__name__}: {error}", tokens)
    summary = _bounded(text, _SHOWN_COLUMNS_MAX)
    report = f"error: internal error ({summary}); this is a bug, please report it"
    if "--debug" not in arguments:
        _say(f"{report}: run again with --debug to keep the details in a file")
        return EXIT_INTERNAL
    import tempfile
    import traceback

    # mkstemp creates the file with mode 0600: a traceback can quote cluster data.
    with tempfile.NamedTemporaryFile(
        "w", prefix="kubectl-evictplan-", suffix=".txt", delete=False, encoding="utf-8"
    ) as stream:
        stream.write(f"kubectl-evictplan {__version__}, Python {sys.version}\n")
        details = _without("".join(traceback.format_exception(error)), tokens)
        stream.write(re.sub(_NOT_SHOWN, "<not shown>", details))
    _say(f"{report} with {stream.name}")
    return EXIT_INTERNAL


def _say(line: str) -> None:
    """Write a line to standard error; a closed standard error is no reason to fail."""
    # Not click.echo: it would answer a stream that cannot encode a character with raw UTF-8.
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.write(f"{line}\n")


def _silence_output() -> None:
    """Point standard output away from the closed pipe, so that exiting does not complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
