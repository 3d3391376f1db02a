"""What tired people mean by words that mean nothing here: every answer says what to type instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from kubectl_evictplan.commands import kubectl_habits as habits
from kubectl_evictplan.commands.node_arguments import FILE_ENDINGS, missing_option_f
from kubectl_evictplan.errors import Correction, InputError, Problem
from kubectl_evictplan.sources.kubectl import GET_COMMAND

# Where programs for writing leave something else than what was typed.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_QUOTES = "\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb"
_BLANKS = "\u00a0\u200b\u202f\ufeff"
_SHOWN_MAX = 60
_DRAIN_TAINT = "drain=true:NoExecute"
EXAMPLES = {
    "--filename": "cluster.json",
    "--selector": "kubernetes.io/hostname",
    "--horizon": "30m",
    "--start": "2030-01-01T02:00:00Z",
    "--kubernetes-version": "1.29",
    "--controller-flag": "node-monitor-period=2s",
    "--monitor-phase": "2s",
    "--explain": "default/web-0",
    "--save-scenario": "scenario.yaml",
    "--color": "never",
}


class Typed(NamedTuple):
    """One option with its value, or one name (``option`` ""): the words as they stand there."""

    words: tuple[str, ...]
    option: str
    value: str | None


def read_words(words: Sequence[str], command: click.Command) -> Iterator[Typed]:
    """Yield what the words are, as click reads them; long and short names come as typed."""
    valued = {
        name
        for option in command.params
        if isinstance(option, click.Option) and not option.is_flag
        for name in option.opts
    }
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
        elif equals:
            yield Typed((word,), option, value)
        elif option in valued and rest:
            value = rest.pop(0)
            yield Typed((word, value), option, value)
        else:
            yield Typed((word,), option, None)


def as_kubectl_reads(words: Sequence[str], command: click.Command) -> list[str]:
    """Return the words with kubectl's spellings undone: ``-o=json``, ``--all=true``."""
    end = words.index("--") if "--" in words else len(words)
    flags = {
        name
        for option in command.params
        if isinstance(option, click.Option) and option.is_flag
        for name in option.opts
    }
    result: list[str] = []
    for typed in read_words(words[:end], command):
        if typed.option in flags and typed.value in ("true", "false"):
            result += [typed.option] if typed.value == "true" else []
        elif typed.words[0].startswith(f"{typed.option}=") and typed.option[1:2] not in ("", "-"):
            result += [typed.option, typed.value or ""]
        else:
            result += typed.words
    return [*result, *words[end:]]


def refuse_odd_words(words: Sequence[str], command: click.Command) -> None:
    """Raise for words that click would take for something else than what is meant."""
    _refuse_typography(words, command)
    _refuse_hidden_options(words, command)
    known = {name for param in command.params for name in param.opts}
    once: dict[str, str] = {}
    for typed in read_words(words, command):
        name = typed.words[0].partition("=")[0]
        if name[:1] == "-" and name[1:2] != "-" and f"-{name}" in known:
            long = (f"-{typed.words[0]}", *typed.words[1:])
            raise _error("long options have two dashes", typed.words, long, got=name)
        value = typed.value
        if not typed.option and command.name != "taint" and f"--{name}" in known and name != value:
            dashed = (f"--{typed.words[0]}",)
            raise _error("options have two dashes", typed.words, dashed, got=typed.words[0])
        if typed.option not in known:
            continue
        if value == "" and typed.words[0].endswith("="):
            _refuse_blank_behind_equals(typed, words)
        if value is not None and len(typed.words) == 2 and value.partition("=")[0] in known:
            raise InputError(_needs_value(typed.option, command, typed.words[:1]))
        option = next(param for param in command.params if typed.option in param.opts)
        if value and not getattr(option, "multiple", True):
            first = once.setdefault(option.opts[-1], value)
            if first != value:
                message = (
                    f"{option.opts[-1]} is given twice, as {_shown(first)} and {_shown(value)}"
                )
                raise _error(message, typed.words, (), example=True)
        if option.opts[-1] == "--controller-flag" and value and "=" not in value:
            _refuse_split_flag(typed, words)


def _refuse_typography(words: Sequence[str], command: click.Command) -> None:
    """Raise for dashes, quotes and blanks that a chat or a word processor put in."""
    meant: list[str] = []
    odd = ""
    for typed in read_words(words, command):
        plain = [word.strip(_QUOTES + _BLANKS) for word in typed.words]
        if not typed.option and plain[0].strip("-")[:1] in tuple(_DASHES):
            bare = plain[0].lstrip(_DASHES + "-")
            plain = ["-" * min(2, len(bare.partition("=")[0])) + bare]
        if not typed.option:
            plain = re.split(f"[{_BLANKS}]+", plain[0])
        if plain != list(typed.words) and not Path(typed.words[-1]).exists():
            odd = odd or next(word for word in typed.words if word not in plain)
        meant += plain
    if odd:
        message = f"{_shown(odd)} has no plain hyphens, quotes or blanks (copied from a document?)"
        raise _error(message, words, [word for word in meant if word])


def _refuse_hidden_options(words: Sequence[str], command: click.Command) -> None:
    """Raise for options behind "--", where every word is a name."""
    known = {name for param in command.params for name in param.opts if name[:1] == "-"}
    end = words.index("--") if "--" in words else len(words)
    hidden = [word for word in words[end + 1 :] if word.partition("=")[0] in known]
    if hidden:
        message = f"behind -- every word is a name, {hidden[0]} too"
        raise _error(message, ["--"], [])


def _refuse_blank_behind_equals(typed: Typed, words: Sequence[str]) -> None:
    """Raise for ``--option= VALUE``."""
    word = typed.words[0]
    behind = words[words.index(word) + 1 :][:1]
    if behind and behind[0][:1] != "-":
        message = f"no blank behind {word}"
        raise _error(message, [word, *behind], [f"{word}{behind[0]}"])


def _refuse_split_flag(typed: Typed, words: Sequence[str]) -> None:
    """Raise for ``--controller-flag NAME VALUE``."""
    index = next(
        i for i in range(len(words)) if tuple(words[i : i + len(typed.words)]) == typed.words
    )
    behind = words[index + len(typed.words) :][:1]
    name = typed.value or ""
    for mark in (":", " "):
        if mark in name:
            right = [name.replace(mark, "=", 1)]
            raise _error("--controller-flag: expected NAME=VALUE", [name], right, got=name)
    if behind and not behind[0].startswith("-"):
        typed_words, joined = (name, *behind), (f"{name}={behind[0]}",)
        message = "--controller-flag: NAME and VALUE are joined by '='"
        raise _error(message, typed_words, joined, got=" ".join(typed_words))


def usage_problem(error: click.UsageError, ctx: click.Context, words: Sequence[str]) -> Problem:
    """Return what is wrong in the words of a command, from the error that click found."""
    if isinstance(error, click.NoSuchOption):
        return _unknown_option(error.option_name, ctx, words)
    if isinstance(error, click.BadOptionUsage):
        return _needs_value(error.option_name, ctx.command, words[-1:])
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return _missing(error.param, ctx, words)
    message = error.format_message().splitlines()[0]
    return Problem(message[:1].lower() + message[1:].rstrip("."), correction=help_of(ctx))


def help_of(ctx: click.Context) -> Correction:
    """Return the command line that prints the command's help."""
    path: list[str] = []
    at: click.Context | None = ctx
    while at is not None and at.parent is not None:
        path.insert(0, at.info_name or "")
        at = at.parent
    return Correction((), (*path, "--help"), whole=True)


def surplus_words(surplus: Sequence[str]) -> Problem:
    """Say that words stand where none belongs."""
    if _is_file(surplus[0]):
        return missing_option_f(surplus[0])
    known = Correction((surplus[0],), ())
    return Problem(f"one word too many: {_shown(surplus[0])}", correction=known)


def refuse_bare_files(words: Sequence[str], command: click.Command) -> None:
    """Raise for a file among the names of a command that was given no -f."""
    for typed in read_words(words, command):
        word = typed.words[0]
        if not typed.option and command.name != "scenario" and _is_file(word):
            raise InputError(missing_option_f(word))


def _is_file(word: str) -> bool:
    return word.endswith(FILE_ENDINGS) or Path(word).is_file()


def no_cluster() -> Problem:
    """Say that no file is named, and how to make one."""
    message = "no cluster is given: reading a live cluster is not available in this version"
    known = Correction((), ("-f", "cluster.json"), first=f"{GET_COMMAND} > cluster.json")
    return Problem(f"{message}; files are named with -f", correction=known)


def unknown_command(words: Sequence[str], known: Sequence[str], ctx: click.Context) -> Problem:
    """Return what is wrong with a first word that is no command, and the words to type instead."""
    from kubectl_evictplan.commands.what_if import COMMANDS as WHAT_IF

    root = ctx.parent is None
    name, rest = words[0].lower(), tuple(words[1:])
    head = ("what-if",) if root else ()
    if name == "what" and rest[:1] == ("if",):
        name, rest = "what-if", rest[1:]
    if habit := _habit(name, rest, head, ctx):
        message, correction = habit
        return Problem(message, correction=correction._replace(typed=tuple(words)))
    target = habits.SAME_COMMAND.get(name, name)
    here = (*head, target) if target in WHAT_IF else (target,)
    if target in WHAT_IF or target in known:
        said = f"no command {_shown(words[0])}: {' '.join(here)!r} is the one"
        return Problem(said, correction=Correction(tuple(words), (*here, *rest)))
    if not root and target in ("snapshot", "schema", "version"):
        whole = Correction(("what-if", *words), (target, *rest))
        return Problem(f"{target!r} stands alone, without what-if", correction=whole)
    return _similar_command(words, known, tuple(WHAT_IF) if root else (), ctx)


def _habit(
    name: str, rest: tuple[str, ...], head: tuple[str, ...], ctx: click.Context
) -> tuple[str, Correction] | None:
    """Return what to say about a word out of habit, and the words in place of all."""
    from kubectl_evictplan.scenarios.targets import NODE_WORDS

    if name == "help":
        path = (*help_of(ctx).instead[:-1], *(word for word in rest if word[:1] != "-"))
        return "help is an option: --help", Correction((), (*path, "--help"), whole=True)
    if name in habits.EMPTY_WORDS and name not in head:
        return f"leave out {name!r}", Correction((), rest or ("--help",))
    if name in habits.NO_COMMAND:
        if rest[:1] and rest[0] in ("taint", "cordon", "uncordon", "delete"):
            return habits.NO_COMMAND[name], Correction((), (*head, *rest))
        path = ("what-if", *(("scenario",) if name == "evict" else ()))
        return habits.NO_COMMAND[name], Correction((), (*path, "--help"), whole=True)
    if name == "drain":
        return habits.DRAIN, Correction((), (*head, "taint", "node", *_drained(rest)))
    if name == "untaint":
        message = "a taint is removed with `taint` and a '-' behind it, as in kubectl"
        return message, Correction((), (*head, "taint", "node", *_untainted(rest)))
    if name in (*NODE_WORDS, "zone", "zones"):
        message = f"what happens to the {name}? taint, cordon, uncordon, delete or fail"
        return message, Correction((), (*head, "fail", name, *rest), example=True)
    return None


def _untainted(words: tuple[str, ...]) -> list[str]:
    """Return the words of an imagined ``untaint`` as those of ``taint``."""
    from kubectl_evictplan.scenarios.targets import NODE_WORDS

    plain = words[1:] if words[:1] and words[0].lower() in NODE_WORDS else words
    end = next((i for i, word in enumerate(plain) if word[:1] == "-"), len(plain))
    taints = [word for word in plain[:end] if "=" in word or ":" in word] or plain[:end][-1:]
    named = [word for word in plain[:end] if word not in taints]
    removed = [word if word.endswith("-") else f"{word}-" for word in taints]
    return [*named, *removed, *plain[end:]]


def _drained(words: Sequence[str]) -> list[str]:
    """Return the words of a drain as those of a taint: without drain's own options."""
    from kubectl_evictplan.scenarios.targets import NODE_WORDS

    kept: list[str] = []
    rest = list(words)
    if rest[:1] and rest[0].lower() in NODE_WORDS:
        rest.pop(0)
    while rest:
        word = rest.pop(0)
        option = word.partition("=")[0]
        if option in habits.DRAIN_OPTIONS and "=" not in word:
            del rest[:1]
        elif option not in (*habits.DRAIN_OPTIONS, *habits.DRAIN_FLAGS):
            kind, slash, name = word.partition("/")
            kept.append(name if slash and kind in NODE_WORDS else word)
    end = next((i for i, word in enumerate(kept) if word[:1] == "-"), len(kept))
    return [*kept[:end], _DRAIN_TAINT, *kept[end:]] if end else [*kept, _DRAIN_TAINT]


def _similar_command(
    words: Sequence[str], known: Sequence[str], inner: Sequence[str], ctx: click.Context
) -> Problem:
    from kubectl_evictplan.scenarios.targets import did_you_mean, similar

    name, rest = words[0], tuple(words[1:])
    close = similar(name[:_SHOWN_MAX], [*known, *inner])
    text = f"no command {_shown(name)}{did_you_mean(close)}"
    if close:
        head = ("what-if",) if close[0] in inner else ()
        right = Correction(tuple(words), (*head, close[0], *rest), example=len(close) > 1)
        return Problem(text, correction=right)
    return Problem(f"{text}; commands are {', '.join(known)}", correction=help_of(ctx))


def _unknown_option(name: str, ctx: click.Context, words: Sequence[str]) -> Problem:
    from kubectl_evictplan.scenarios.targets import did_you_mean, similar

    command = ctx.command

    known = {option for param in command.params for option in param.opts if option[:1] == "-"}
    typed, value = _typed_option(name, words)
    if name in habits.CONNECTION_OPTIONS:
        return _connection_option(name, typed, value, words)
    flag = _controller_flag(name)
    if flag and "--controller-flag" in known:
        message = f"{name} is a flag of kube-controller-manager"
        if value is None:
            return Problem(message, correction=help_of(ctx))
        instead = ("--controller-flag", f"{flag}={value}")
        return Problem(message, correction=Correction(typed, instead))
    habit = habits.OPTION_HABITS.get(name)
    if name == "--for":
        message = f"no option --for: {habits.OUTAGE}"
        return Problem(
            message, correction=Correction((), ("what-if", "scenario", "--help"), whole=True)
        )
    if habit is not None and (not habit.instead or habit.instead[0] in known):
        has_value = habit.has_value or habit.keep_value
        right = Correction(
            typed if has_value else typed[:1],
            (*habit.instead, value) if habit.keep_value and value else habit.instead,
        )
        return Problem(f"no option {name}: {habit.message}", correction=right)
    close = similar(name, known) if name.startswith("--") else []
    text = f"no option {_shown(name)}{did_you_mean(close)}"
    if name in ("-v", "-V") and "--version" in known:
        return Problem(text, correction=Correction(typed[:1], ("--version",)))
    if name in ("--all", "--all-nodes"):
        right = Correction(typed[:1], ("-l", EXAMPLES["--selector"]))
        return Problem(f"{text}: choose nodes by a label that all have", correction=right)
    if isinstance(command, click.Group) and not close and words[-1:] != typed[-1:]:
        behind = [word for word in words if word not in typed]
        right = Correction(tuple(words), (*behind, *typed))
        return Problem(f"{name}: options come behind the command", correction=right)
    if not close:
        return Problem(text, correction=help_of(ctx))
    glued = typed[0].partition("=")[1:]
    right = Correction(typed[:1], (close[0] + "".join(glued),), example=len(close) > 1)
    return Problem(text, correction=right)


def _typed_option(name: str, words: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """Return the words of an unknown option, and what may be its value."""
    for index, word in enumerate(words):
        if word == name:
            behind = words[index + 1 : index + 2]
            if behind and behind[0][:1] != "-":
                return (word, behind[0]), behind[0]
            return (word,), None
        if word.startswith(f"{name}="):
            return (word,), word.partition("=")[2]
        if len(name) == 2 and word.startswith(name):
            return (word,), word[2:]
    return (name,), None


def _controller_flag(option: str) -> str:
    """Return the kube-controller-manager flag of that name, or ""."""
    from kubectl_evictplan.controllers.flags import FLAG_DEFAULTS

    name = option.lstrip("-").replace("_", "-").lower()
    return name if name in FLAG_DEFAULTS else ""


def _connection_option(
    name: str, typed: tuple[str, ...], value: str | None, words: Sequence[str]
) -> Problem:
    """Say that files are read, not a live cluster."""
    if not habits.CONNECTION_OPTIONS[name]:
        typed = typed[:1]
    if any(word.startswith(("-f", "--filename")) for word in words):
        message = f"{name}: the cluster is read from files: leave it out"
        if name in ("-n", "--namespace"):
            message += "; all namespaces are predicted, --explain NAMESPACE/POD shows one pod"
        return Problem(message, correction=Correction(typed, ()))
    there = f" {name} {shlex.quote(value)}" if value and name in habits.ABOUT_THE_CLUSTER else ""
    first = f"{GET_COMMAND.replace(' get ', f'{there} get ')} > cluster.json"
    message = f"{name}: {no_cluster().message}"
    return Problem(message, correction=Correction(typed, ("-f", "cluster.json"), first=first))


def _needs_value(name: str, command: click.Command, typed: Sequence[str]) -> Problem:
    option = next((param for param in command.params if name in param.opts), None)
    if option is None or getattr(option, "is_flag", False):
        known = Correction(tuple(typed), (name,))
        return Problem(f"{name} takes no value", correction=known)
    value = EXAMPLES.get(option.opts[-1], "")
    if isinstance(option.type, click.Choice):
        value = str(next(iter(option.type.choices)))
    elif option.metavar == "FILE" and not value:
        value = "cluster.json.gz"
    known = Correction(tuple(typed), (*typed, value), example=True)
    return Problem(f"{name} needs a value", correction=known)


def _missing(param: click.Parameter, ctx: click.Context, words: Sequence[str]) -> Problem:
    """Say which word is missing; a file among the words may be it."""
    command = ctx.command
    names = [typed.value or "" for typed in read_words(words, command) if not typed.option]
    if isinstance(param, click.Option):
        new = next((name for name in names if not Path(name).exists()), "")
        value = ("-o", new) if new else ("-o", "cluster.json.gz")
        known = Correction((new,) if new else (), value, example=not new)
        return Problem(f"where to? {param.opts[-1]} names the file to write", correction=known)
    if isinstance(param.type, click.Choice):
        choices = list(param.type.choices)
        known = Correction((), tuple(choices[:1]), example=True)
        return Problem(f"which one? {' or '.join(choices)}", correction=known)
    files = [typed for typed in read_words(words, command) if typed.option in ("-f", "--filename")]
    message = "which scenario? its file stands without -f, the cluster's files with it"
    if len(files) < 2:
        return Problem(message, correction=help_of(ctx))
    first = files[0]
    return Problem(message, correction=Correction(first.words, (first.value or "",), example=True))


def _error(
    message: str,
    typed: Sequence[str],
    instead: Sequence[str],
    *,
    got: str | None = None,
    example: bool = False,
) -> InputError:
    known = Correction(tuple(typed), tuple(instead), example)
    return InputError(Problem(message, got=got, correction=known))


def _shown(word: str) -> str:
    return repr(word if len(word) <= _SHOWN_MAX else word[:_SHOWN_MAX] + "...")
