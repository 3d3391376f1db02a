"""The words of a command as typed: kubectl's spellings undone, slips refused that click would not see."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from kubectl_evictplan.commands.connection_options import ConnectionOption
from kubectl_evictplan.commands.file_arguments import exists, looks_like_file, missing_option_f
from kubectl_evictplan.errors import Correction, InputError, Problem, mistyped
from kubectl_evictplan.kube.topology import HOSTNAME
from kubectl_evictplan.scenarios.names import shown

# Commands whose words are files, beside those of -f.
TAKE_FILES = ("scenario", "verify")
EXAMPLES = {
    "--filename": "cluster.json",
    "--fail-on": "evictions > 20",
    "--policy": "policy.yaml",
    "--observe": "20s",
    "--observe-from": "leases.json",
    "--selector": HOSTNAME,
    "--horizon": "30m",
    "--started-at": "2026-11-20T22:00:00Z",
    "--journal": "plan.journal.jsonl",
    "--start": "2030-01-01T02:00:00Z",
    "--kubernetes-version": "1.29",
    "--controller-flag": "node-monitor-period=2s",
    "--monitor-phase": "2s",
    "--explain": "default/web-0",
    "--save-scenario": "scenario.yaml",
    "--out": "plan.json",
    "--abort-if": "evicted > 20",
    "--parallel": "10",
    "--settle": "2m",
    "--accept-drift": "pod-gone",
    "--accept-losses": "1",
    "--plan-digest": "0123abcd",
    "--lock-namespace": "default",
    "--resume": "plan.journal.jsonl",
    "--rollback": "plan.journal.jsonl",
    "--status": "plan.journal.jsonl",
    "--dry-run": "client",
    "--time-zone": "local",
    "--assume-ready": "30s",
    "--for": "10m",
    "--jobs": "2",
    "--executor": "dask://scheduler:8786",
    "--tolerations": "30,60,300",
    "--fail": "node",
    "--grace-period": "30",
    "--timeout": "5m",
    "--skip-wait-for-delete-timeout": "60",
    "--pod-selector": "app=web",
    "--request-timeout": "30s",
    "--chunk-size": "500",
    "--kubeconfig": "~/.kube/config",
    "--server": "https://10.0.0.1:6443",
    **dict.fromkeys(
        ("--context", "--cluster", "--user", "--namespace", "--tls-server-name"), "NAME"
    ),
    **dict.fromkeys(("--as", "--as-group", "--as-uid"), "NAME"),
    "--as-user-extra": "KEY=VALUE",
    "--token": '"$TOKEN"',
}
# Where programs for writing leave something else than what was typed.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_QUOTES = "\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb"
_BLANKS = "\u00a0\u200b\u202f\ufeff"


class Typed(NamedTuple):
    """One option with its value, or one name (``option`` ""): the words as they stand there."""

    words: tuple[str, ...]
    option: str
    value: str | None
    # The next word, unless an option begins there.
    behind: tuple[str, ...] = ()


def read_words(words: Sequence[str], command: click.Command) -> Iterator[Typed]:
    """Yield what the words are, as click reads them; options have the name that was typed."""
    valued = _names(command, flags=False)
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from (Typed((name,), "", name) for name in rest)
            return
        option, equals, value = word.partition("=")
        if word[:1] == "-" and word[:2] in valued:
            option, equals, value = word[:2], word[2:3], word[2:].removeprefix("=")
        if word[:1] != "-" or word == "-":
            yield Typed((word,), "", word)
            continue
        typed: tuple[str, ...] = (word,)
        if not equals and option in valued and rest:
            value = rest.pop(0)
            typed = (word, value)
        behind = tuple(other for other in rest[:1] if other[:1] != "-")
        yield Typed(typed, option, value if equals or typed[1:] else None, behind)


def as_kubectl_reads(words: Sequence[str], command: click.Command) -> list[str]:
    """Return the words with kubectl's spellings undone: ``-o=json``, ``--all=true``."""
    end = words.index("--") if "--" in words else len(words)
    flags = _names(command, flags=True)
    result: list[str] = []
    for typed in read_words(words[:end], command):
        if typed.option in flags and typed.value in ("true", "false"):
            result += [typed.option] if typed.value == "true" else []
        elif typed.words[0].startswith(f"{typed.option}=") and typed.option[1:2] not in ("", "-"):
            result += [typed.option, typed.value or ""]
        else:
            result += typed.words
    return [*result, *words[end:]]


def with_long_names(words: Sequence[str], command: click.Command) -> list[str]:
    """Return the words with the long name of each short option: of a short one click first looks for a slip of the pen.

    That takes 2 ms, more than all the rest of reading the words.
    """
    options = (option for option in command.params if isinstance(option, click.Option))
    long = {name: option.opts[-1] for option in options for name in option.opts}
    valued = _names(command, flags=False)
    end = words.index("--") if "--" in words else len(words)
    result: list[str] = []
    for typed in read_words(words[:end], command):
        first, *value = typed.words
        # Without its value it is told by the name that was typed.
        is_whole = first == typed.option and (value or first not in valued)
        result += [long.get(first, first), *value] if is_whole else typed.words
    return [*result, *words[end:]]


def refuse_slips(words: Sequence[str], command: click.Command) -> None:
    """Raise for words that click would take for something else than what is meant."""
    _refuse_typography(words, command)
    known = _names(command, flags=True) | _names(command, flags=False)
    end = words.index("--") if "--" in words else len(words)
    for word in words[end + 1 :]:
        if word.partition("=")[0] in known:
            raise mistyped(f"behind -- every word is a name, {word} too", ["--"], [])
    given: dict[str, str] = {}
    for typed in read_words(words[:end], command):
        name, equals, _ = typed.words[0].partition("=")
        if name[:1] == "-" != name[1:2] and f"-{name}" in known:
            right = (f"-{typed.words[0]}", *typed.words[1:])
            raise mistyped(f"long options have two dashes: -{name}", typed.words, right)
        if (
            not typed.option
            and (equals or "-" in name)
            and f"--{name}" in known
            and command.name != "taint"
        ):
            right = (f"--{typed.words[0]}",)
            raise mistyped(f"options have two dashes: --{name}", typed.words, right)
        if typed.option in known and typed.value is not None:
            if len(typed.words) == 2 and _is_option(typed.value, known, typed.option):
                raise InputError(needs_value(typed.option, command, typed.words[:1]))
            _check_value(typed)
            option = next(param for param in command.params if typed.option in param.opts)
            first = given.setdefault(option.opts[-1], typed.value)
            if "" != first != typed.value and not getattr(option, "multiple", False):
                # A token is told to nobody, and a short one cannot be hidden in a sentence.
                both = f", as {shown(first)} and {shown(typed.value)}"
                message = f"{option.opts[-1]} is given twice"
                message += both if option.opts[-1] != "--token" else ""
                raise mistyped(message, typed.words, (), example=True)


def refuse_bare_files(words: Sequence[str], command: click.Command) -> None:
    """Raise for a file among the names of a command that was given no -f."""
    for typed in read_words(words, command):
        if not typed.option and command.name not in TAKE_FILES and looks_like_file(typed.words[0]):
            raise InputError(missing_option_f(typed.words[0]))


def refuse_connection(words: Sequence[str], command: click.Command) -> None:
    """Raise for an option about a live cluster beside files."""
    mine = {
        name
        for param in command.params
        if isinstance(param, ConnectionOption)
        for name in param.opts
    }
    for typed in read_words(words, command):
        if typed.option in mine:
            message = f"{typed.option}: the cluster is read from files: leave it out"
            if typed.option in ("-n", "--namespace"):
                message += "; all namespaces are predicted, --explain NAMESPACE/POD shows one pod"
            raise mistyped(message, typed.words, ())


def needs_value(name: str, command: click.Command, words: Sequence[str]) -> Problem:
    """Say that an option stands without its value (``words`` are its own)."""
    option = next((param for param in command.params if name in param.opts), None)
    if option is None or getattr(option, "is_flag", False):
        return Problem(f"{name} takes no value", Correction(tuple(words), (name,)))
    value = EXAMPLES.get(option.opts[-1], "cluster.json.gz")
    if isinstance(option.type, click.Choice):
        value = str(next(iter(option.type.choices)))
    known = Correction(tuple(words), (*words, value), example=True)
    return Problem(f"{name} needs a value", known)


def _names(command: click.Command, *, flags: bool) -> set[str]:
    """Return the names of the options that take no value (``flags``), or of those that take one."""
    options = (option for option in command.params if isinstance(option, click.Option))
    return {name for option in options if option.is_flag == flags for name in option.opts}


def _is_option(value: str, known: set[str], before: str) -> bool:
    """Tell whether the value of an option is rather the next option, known or not."""
    looks_so = re.match("-[a-zA-Z]$|--[a-z]", value) and before != "--controller-flag"
    return value.partition("=")[0] in known or bool(looks_so)


def _check_value(typed: Typed) -> None:
    """Raise for a value that stands behind ``--option= ``, and for a flag that has lost its ``=``."""
    name, value, behind = typed.option, typed.value or "", typed.behind
    if not value and typed.words[0].endswith("=") and behind:
        right = (f"{typed.words[0]}{behind[0]}",)
        raise mistyped(f"no blank behind {typed.words[0]}", [*typed.words, *behind], right)
    if behind and (whole := _split_at_blank(value, behind[0])):
        raise mistyped(f"{name}: the value is one word", [value, *behind], [whole])
    if name == "--controller-flag" and value and "=" not in value:
        marked = re.sub("[: ]", "=", value, count=1)
        if marked != value:
            raise mistyped(f"{name}: expected NAME=VALUE", [value], [marked], got=value)
        if behind:
            right = (f"{value}={behind[0]}",)
            raise mistyped(f"{name}: NAME and VALUE are joined by '='", [value, *behind], right)


def _split_at_blank(value: str, behind: str) -> str:
    """Return the duration or instant that a blank has split into a value and a name, or ""."""
    from kubectl_evictplan.commands.likely import likely_duration, likely_instant

    if re.fullmatch("[0-9.,]+", value) and re.fullmatch("[a-z]+", behind):
        return likely_duration(value + behind)
    if re.fullmatch("[0-9./-]{8,10}", value) and re.match("[0-9]{1,2}:", behind):
        return likely_instant(f"{value} {behind}", 0)
    return ""


def _refuse_typography(words: Sequence[str], command: click.Command) -> None:
    """Raise for dashes, quotes and blanks that a chat or a word processor put in."""
    meant: list[str] = []
    odd = ""
    for typed in read_words(words, command):
        plain = [word.strip(_QUOTES + _BLANKS) for word in typed.words]
        if not typed.option and plain[0].strip("-")[:1] in tuple(_DASHES):
            bare = plain[0].lstrip(_DASHES + "-")
            plain = ["-" * min(2, len(bare.partition("=")[0])) + bare]
        if not typed.option and set(plain[0]) & set(_BLANKS):
            plain = re.split(f"[{_BLANKS}]+", plain[0])
        if plain != list(typed.words) and not exists(typed.words[-1]):
            odd = odd or next(word for word in typed.words if word not in plain)
        meant += plain
    if odd:
        message = f"{shown(odd)} has dashes, quotes or blanks that no keyboard types (copied?)"
        raise mistyped(message, words, [word for word in meant if word])
