"""``kubectl_complete-evictplan``: what the Tab key offers behind ``kubectl evictplan``.

kubectl runs it with the words typed so far, the last of them unfinished, and reads one candidate a line
(``value<TAB>description``), then ``:DIRECTIVE`` (cobra's ShellCompDirective). Commands, options and their
words come from click. Names come from the cluster, by kubectl itself, which knows every way to log in and
starts ten times faster than a client library. The whole answer, from the start of this process on, comes within
``ASK_WITHIN_SECONDS``, or names are left out. Whatever goes wrong, nothing is offered and nothing is said: a prompt is no place for an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

ASK_WITHIN_SECONDS = 0.3
# Of that, what printing and the end of the process need.
_TO_ANSWER_SECONDS = 0.02
# The start of the process, as near as the work tells that Python did before this.
_BEGAN_SECONDS = time.monotonic() - time.process_time()
# cobra's ShellCompDirective: let the shell offer files, or not.
_FILES, _NO_FILES = 0, 4
# Names and label values; anything else from a cluster is no word to put on a command line.
_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")
# The words that may come first behind a what-if, and whether names may as well.
_FIRST_WORDS = {
    "taint": ("node",),
    "delete": ("node",),
    "fail": ("node", "zone", "control-plane", "controller-manager", "apiserver"),
    "cordon": (),
    "uncordon": (),
    "drain": (),
}
# Connection options that kubectl lacks, or that are not for a question at a prompt.
_NOT_ASKED_WITH = ("--chunk-size", "--request-timeout")
_OUTPUT = ("-o", "--output")
_SHORT = {"-n": "--namespace", "-f": "--filename"}
_FILE_OPTIONS = (
    "--filename",
    "--save-scenario",
    "--kubeconfig",
    "--out",
    "--observe-from",
    "--journal",
    "--resume",
    "--rollback",
    "--status",
    "--adopt",
    "--policy",
)
# Commands whose words are files; behind those of ``apply`` other words may stand as well.
_TAKE_FILES = (["what-if", "scenario"], ["sweep", "fleet"], ["verify"], ["diff"])
_TAKE_PLANS = (["apply"], ["apply", "plan"])
_ZONES = r"jsonpath={.items[*].metadata.labels.topology\.kubernetes\.io/zone}"


class Question(NamedTuple):
    """What to ask kubectl for: the words behind ``kubectl``, which prints names with spaces between."""

    words: tuple[str, ...]


NODES = Question(("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))
ZONES = Question(("get", "nodes", "-o", _ZONES))
NAMESPACES = Question(("get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}"))
PODS = Question(
    (
        "get",
        "pods",
        "-A",
        "-o",
        "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {end}",
    )
)
CONTEXTS = Question(("config", "get-contexts", "-o", "name"))
_NAMED_BY_OPTION = {"--context": CONTEXTS, "--namespace": NAMESPACES, "--explain": PODS}


def main() -> None:
    """Print candidates for the words of the command line."""
    try:
        lines, directive = complete(sys.argv[1:] or [""])
    except Exception:  # noqa: BLE001 - see above: nothing is said
        lines, directive = [], _NO_FILES
    sys.stdout.write("".join(f"{line}\n" for line in (*lines, f":{directive}")))


def complete(words: Sequence[str]) -> tuple[list[str], int]:
    """Candidates for the last of ``words`` and what the shell may add to them."""
    *before, unfinished = words
    option = _option_before(before)
    if option in _FILE_OPTIONS or (option in _OUTPUT and before[:1] == ["snapshot"]):
        return [], _FILES
    question = _question(before, option)
    names = [] if option else list(_first_words(before))
    names += _ask(question, before) if question is not None else []
    offered = [name for name in names if name.startswith(unfinished)]
    if before == ["explain"]:
        from kubectl_evictplan.report.codes import explanations

        offered += [code for code in explanations() if code.startswith(unfinished)]
    # Shells offer files where nothing else begins so.
    takes_file = before in _TAKE_PLANS or any(before[: len(one)] == one for one in _TAKE_FILES)
    directive = _FILES if takes_file and not option else _NO_FILES
    return [*offered, *_from_click(before, unfinished)], directive


def _option_before(before: Sequence[str]) -> str:
    """The option that the word to complete may be the value of; "" when the word before is none."""
    last = before[-1] if before else ""
    return _SHORT.get(last, last) if last.startswith("-") else ""


def _question(before: Sequence[str], option: str) -> Question | None:
    """What names may stand here, or None where no name may, and where they are those of a file."""
    if any(word.startswith(("-f", "--filename")) for word in before):
        return None
    if option in _NAMED_BY_OPTION:
        return _NAMED_BY_OPTION[option]
    kind = _kind(before)
    if option or kind is None or _first_words(before):
        return None
    return ZONES if kind in ("zone", "zones") else NODES


def _first_words(before: Sequence[str]) -> tuple[str, ...]:
    """The words for what is meant, where one of them has to come before any name."""
    return _FIRST_WORDS[before[1]] if _kind(before) == "" else ()


def _kind(before: Sequence[str]) -> str | None:
    """The word for what is meant: "" while it is missing, None where names have no place."""
    if len(before) < 2 or before[0] not in ("what-if", "apply") or before[1] not in _FIRST_WORDS:
        return None
    expected = _FIRST_WORDS[before[1]]
    plural = (*expected, *(f"{word}s" for word in expected))
    return next((word for word in before[2:] if word in plural), "" if expected else "node")


def _ask(question: Question, before: Sequence[str]) -> list[str]:
    """Names from the cluster that these words mean; none when it takes too long or is refused."""
    kubectl = os.environ.get("KUBECTL_PATH") or shutil.which("kubectl")
    if kubectl is None:
        return []
    command = [kubectl, *question.words, *_connection(before)]
    left_seconds = ASK_WITHIN_SECONDS - _TO_ANSWER_SECONDS - (time.monotonic() - _BEGAN_SECONDS)
    if left_seconds <= 0:
        return []
    try:
        done = subprocess.run(  # noqa: S603 - no shell; kubectl reads its own words
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=left_seconds,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    answers = dict.fromkeys(done.stdout.decode("utf-8", "replace").split())
    return [answer for answer in answers if _WORD.fullmatch(answer)]


def _connection(before: Sequence[str]) -> list[str]:
    """The options among the words that say which cluster, and as whom."""
    from kubectl_evictplan.commands.connection_options import CONNECTION_OPTIONS

    long_names = {
        name: option.opts[-1]
        for option in CONNECTION_OPTIONS
        if not option.is_flag and option.opts[-1] not in _NOT_ASKED_WITH
        for name in option.opts
    }
    found = []
    for place, word in enumerate(before):
        name, equals, value = word.partition("=")
        if name in long_names and (equals or place + 1 < len(before)):
            found.append(f"{long_names[name]}={value if equals else before[place + 1]}")
    return found


def _from_click(before: Sequence[str], unfinished: str) -> list[str]:
    from click.shell_completion import ShellComplete

    from kubectl_evictplan.cli import PLUGIN_NAME, cli

    items = ShellComplete(cli, {}, PLUGIN_NAME, "").get_completions(list(before), unfinished)
    return [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in items]
