"""How our commands are built on click: groups that import late, and leaves that know tired fingers.

A group knows its commands by a table and imports one only when it is run, so that ``--help``
costs nothing but click itself. Everything wrong with the words becomes an ``InputError`` that says
what to type instead; click's own messages are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kubectl_evictplan.errors import Correction, InputError, Problem

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    # Before click 8.2 it was not generic.
    _Choice = click.Choice


class Subcommand(NamedTuple):
    """Where a command lives ("module:attribute") and its line in the help."""

    target: str
    short_help: str


def examples(*lines: str) -> str:
    """Return an epilog of these lines; click leaves text after a backspace character alone."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in lines)])


class Command(click.Command):
    """A command whose words are read as kubectl reads them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Words too many are reported here, not by click.
        kwargs["context_settings"] = {"allow_extra_args": True}
        super().__init__(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; InputError says what is wrong and what to type instead."""
        from kubectl_evictplan.commands import typed_words

        words = typed_words.as_kubectl_reads(args, self)
        if set(ctx.help_option_names) & set(words):
            # Somebody who needs help may well have typed something wrong before.
            words = ["--help"]
        else:
            typed_words.refuse_slips(args, self)
        try:
            surplus = super().parse_args(ctx, list(words))
        except click.UsageError as error:
            from kubectl_evictplan.commands.unknown_words import usage_problem

            raise InputError(usage_problem(error, ctx, args)) from None
        if surplus:
            from kubectl_evictplan.commands.unknown_words import surplus_words

            raise InputError(surplus_words(surplus))
        if ctx.params.get("filenames") == ():
            typed_words.refuse_bare_files(words, self)
        return surplus


class Choice(_Choice):
    """One of a few words; ``meant`` maps other words for them to the right one."""

    def __init__(self, *choices: str, meant: Mapping[str, str] | None = None) -> None:
        super().__init__(choices)
        self._meant = meant or {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word; InputError lists the possible ones."""
        if value in self.choices:
            return str(value)
        from kubectl_evictplan.scenarios.targets import similar

        names = tuple(param.opts) if isinstance(param, click.Option) else ()
        known = list(self.choices)
        words = re.findall("[a-z]+", str(value).lower())
        close = [self._meant.get(word, word if word in known else "") for word in words]
        close += similar(str(value), known)
        likely = next(filter(None, close), "")
        raise InputError(
            Problem(
                "unknown value",
                location=names[0] if names else "",
                got=repr(value),
                expected=f"{', '.join(known[:-1])} or {known[-1]}" if known[1:] else known[0],
                correction=Correction((str(value),), (likely or known[0],), not likely, names),
            )
        )


class CommandGroup(click.Group):
    """A group whose commands are the entries of ``table``, in the table's order."""

    def __init__(self, *args: Any, table: Mapping[str, Subcommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the table's order."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None when there is none of that name."""
        entry = self._table.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in self._table.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words in front of the command; without any, as in kubectl, help is printed."""
        try:
            return super().parse_args(ctx, list(args) or ["--help"])
        except click.UsageError as error:
            from kubectl_evictplan.commands.unknown_words import usage_problem

            raise InputError(usage_problem(error, ctx, args)) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; InputError says what it may mean."""
        if args[0] in self._table:
            return super().resolve_command(ctx, args)
        from kubectl_evictplan.commands.unknown_words import unknown_command

        raise InputError(unknown_command(args, list(self._table), ctx))
