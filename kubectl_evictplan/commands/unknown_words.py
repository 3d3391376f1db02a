"""What is meant by a command or option that does not exist, or by a word that is missing."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kubectl_evictplan.commands import kubectl_habits as habits
from kubectl_evictplan.commands.file_arguments import (
    FILENAME,
    exists,
    looks_like_file,
    missing_option_f,
)
from kubectl_evictplan.commands.typed_words import needs_value, read_words
from kubectl_evictplan.errors import Correction, Problem, help_on
from kubectl_evictplan.scenarios.names import NODE_WORDS, did_you_mean, either, shown, similar


def usage_problem(error: click.UsageError, ctx: click.Context, words: Sequence[str]) -> Problem:
    """Return what is wrong in the words of a command, from the error that click found."""
    if isinstance(error, click.NoSuchOption):
        return _unknown_option(error.option_name, ctx, words)
    if isinstance(error, click.BadOptionUsage):
        stands = (word for word in words if word.startswith(f"{error.option_name}="))
        return needs_value(error.option_name, ctx.command, [*stands, *words[-1:]][:1])
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return _missing(error.param, ctx, words)
    message = error.format_message().splitlines()[0]
    return Problem(message[:1].lower() + message[1:].rstrip("."), _help(ctx))


def surplus_words(surplus: Sequence[str]) -> Problem:
    """Say that words stand where none belongs."""
    if looks_like_file(surplus[0]):
        return missing_option_f(surplus[0])
    return Problem(f"one word too many: {shown(surplus[0])}", Correction((surplus[0],), ()))


def unknown_command(words: Sequence[str], known: Sequence[str], ctx: click.Context) -> Problem:
    """Return what is wrong with a first word that is no command, and the words to type instead."""
    from kubectl_evictplan.commands.what_if import COMMANDS as WHAT_IF

    root = ctx.parent is None
    inner = tuple(WHAT_IF) if root else ()
    left = list(words)
    while left[1:] and left[0].lower() in habits.EMPTY_WORDS and left[0] not in known:
        left.pop(0)
    if left[:2] == ["what", "if"]:
        left[:2] = ["what-if"]
    name, rest = left[0].lower(), tuple(left[1:])
    if name in ("snapshot", "explain", "schema", "version") and not root:
        right = Correction(("what-if", *words), (name, *rest))
        return Problem(f"{name!r} stands alone, without what-if", right)
    habit = _habit(name, rest, ctx)
    if habit is not None:
        habit.correction = habit.correction and habit.correction._replace(typed=tuple(words))
        return habit
    target = habits.SAME_COMMAND.get(name, name)
    close = [target] if target in (*known, *inner) else similar(target[:100], [*known, *inner])
    lines = [("what-if", other) if other in inner else (other,) for other in close]
    text = f"no command {shown(words[0])}{did_you_mean([' '.join(line) for line in lines])}"
    if not close:
        return Problem(f"{text}; commands are {', '.join(known)}", _help(ctx))
    if target != name:
        text += habits.NOTES.get(target, "")
    elif len(left) < len(words):
        text = f"leave out {shown(words[0])}"
    return Problem(text, Correction(tuple(words), (*lines[0], *rest), example=len(lines) > 1))


def _habit(name: str, rest: tuple[str, ...], ctx: click.Context) -> Problem | None:
    """Return what to say about a word out of habit; the words replace all that was typed."""
    head = ("what-if",) if ctx.parent is None else ()
    if name == "help":
        path = (*_help(ctx).instead[:-1], *(word for word in rest if word[:1] != "-"))
        return Problem("help is an option: --help", help_on(*path))
    if name in habits.NO_COMMAND:
        known = help_on("what-if", *(("scenario",) if name == "evict" else ()))
        if rest[:1] and rest[0] in ("taint", "cordon", "uncordon", "delete", "drain"):
            known = Correction((), (*head, *rest))
        return Problem(habits.NO_COMMAND[name], known)
    plain = rest[1:] if rest[:1] and rest[0].lower() in NODE_WORDS else rest
    if name == "untaint":
        message = "a taint is removed with `taint` and a '-' behind it, as in kubectl"
        return Problem(message, Correction((), (*head, "taint", "node", *_untainted(plain))))
    if name in (*NODE_WORDS, "zone", "zones"):
        message = f"what happens to the {name}? taint, cordon, uncordon, delete, drain or fail"
        return Problem(message, Correction((), (*head, "fail", name, *rest), example=True))
    return None


def _untainted(words: tuple[str, ...]) -> list[str]:
    """Return the words of an imagined ``untaint`` as those of ``taint``."""
    first = _before_options(words)
    taints = [word for word in first if "=" in word or ":" in word] or first[-1:]
    named = [word for word in first if word not in taints]
    removed = [word if word.endswith("-") else f"{word}-" for word in taints]
    return [*named, *removed, *words[len(first) :]]


def _before_options(words: Sequence[str]) -> list[str]:
    end = next((i for i, word in enumerate(words) if word[:1] == "-"), len(words))
    return list(words[:end])


def _unknown_option(name: str, ctx: click.Context, words: Sequence[str]) -> Problem:
    from kubectl_evictplan.controllers.flags import FLAG_DEFAULTS

    known = {option for param in ctx.command.params for option in param.opts if option[:1] == "-"}
    typed, value = _typed_option(name, words)
    flag = name.lstrip("-").replace("_", "-").lower()
    if flag in FLAG_DEFAULTS and "--controller-flag" in known:
        right = Correction(typed, ("--controller-flag", f"{flag}={value}"))
        message = f"{name} is a flag of kube-controller-manager"
        return Problem(message, _help(ctx) if value is None else right)
    if name == "--for":
        return Problem(habits.OUTAGE, help_on("what-if", "fail"))
    habit = habits.OPTION_HABITS.get(name)
    habit = habits.COMMAND_HABITS.get((ctx.command.name or "", name), habit)
    if habit is not None and habit.instead == ("--all",) and "--all" not in known:
        habit = habits.OPTION_HABITS["--all"]
    if habit is not None and (not habit.instead or habit.instead[0] in known):
        has_value = habit.has_value or habit.keep_value
        kept = (value,) if habit.keep_value and value else ()
        instead = (*habit.instead, *kept)
        if kept and habit.instead[-1].endswith("="):
            instead = (*habit.instead[:-1], habit.instead[-1] + kept[0])
        right = Correction(typed if has_value else typed[:1], instead)
        return Problem(f"no option {name}: {habit.message}", right)
    begun = sorted(option for option in known if option.startswith(name))
    close = (begun or similar(name, known)) if name.startswith("--") else []
    text = f"no option {shown(name)}{did_you_mean(close)}"
    if name in ("-v", "-V") and "--version" in known:
        return Problem(text, Correction(typed[:1], ("--version",)))
    if close:
        glued = "".join(typed[0].partition("=")[1:])
        return Problem(text, Correction(typed[:1], (close[0] + glued,), example=len(close) > 1))
    if isinstance(ctx.command, click.Group) and words[-1:] != typed[-1:]:
        others = [word for word in words if word not in typed]
        right = Correction(tuple(words), (*others, *typed)) if others else _help(ctx)
        return Problem(f"{name}: options come behind the command", right)
    return Problem(text, _help(ctx))


def _typed_option(name: str, words: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """Return the words of an unknown option, and what may be its value."""
    for index, word in enumerate(words):
        if word == name:
            behind = [other for other in words[index + 1 : index + 2] if other[:1] != "-"]
            return (word, *behind), behind[0] if behind else None
        if word.startswith(f"{name}=") or (len(name) == 2 and word.startswith(name)):
            return (word,), word.removeprefix(name).removeprefix("=")
    return (name,), None


def _missing(param: click.Parameter, ctx: click.Context, words: Sequence[str]) -> Problem:
    """Say which word is missing; a file among the words may be it."""
    read = list(read_words(words, ctx.command))
    if isinstance(param, click.Option):
        new = [typed.words[0] for typed in read if not typed.option and not exists(typed.words[0])]
        known = Correction(tuple(new[:1]), ("-o", *(new or ["cluster.json.gz"])[:1]), not new)
        return Problem(f"where to? {param.opts[-1]} names the file to write", known)
    if isinstance(param.type, click.Choice):
        choices = tuple(param.type.choices)
        known = Correction((), choices[:1], example=True)
        return Problem(f"which one? {either(choices)}", known)
    files = [typed for typed in read if typed.option in FILENAME]
    known = _help(ctx)
    if len(files) > 1:
        known = Correction(files[0].words, (files[0].value or "",), example=True)
    return Problem("which scenario? its file stands without -f, the cluster's files with it", known)


def _help(ctx: click.Context) -> Correction:
    """Return the command line that prints the command's help."""
    path: list[str] = []
    while ctx.parent is not None:
        path.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return help_on(*path)
