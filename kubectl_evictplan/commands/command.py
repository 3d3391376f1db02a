"""How our commands are built on click: groups that import late, and leaves that know tired fingers.

A group knows its commands by a table and imports one only when it is run, so that ``--help``
costs nothing but click itself. Everything wrong with the words becomes an ``InputError`` that says
what to type instead; click's own messages are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from kubectl_evictplan.commands import typed_words
from kubectl_evictplan.commands.connection_options import ConnectionOption
from kubectl_evictplan.errors import Correction, InputError, mistake
from kubectl_evictplan.scenarios.names import either, similar

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _Choice = click.Choice[str]
else:
    # Before click 8.2 it was not generic.
    _Choice = click.Choice


_Callback = Callable[..., None]
# Of every command in a group: its module in commands/ and its line in the help.
Commands = Mapping[str, tuple[str, str]]

HELP_NAMES = ("-h", "--help")
debug_option = click.option(
    "--debug", is_flag=True, expose_value=False, help="On an internal error, keep the details."
)


def telling_option(*names: str, text_of: Callable[[click.Context], str], told: str) -> click.Option:
    """Return an option that tells something and ends the program; ``told``: its help.

    click's own for versions and help look for translations of what they say, and that for the locale: two milliseconds of
    every command.
    """

    def tell(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
        if is_asked and not context.resilient_parsing:
            click.echo(text_of(context), color=context.color)
            context.exit()

    return click.Option(
        names, is_flag=True, is_eager=True, expose_value=False, callback=tell, help=told
    )


_HELP_OPTION = telling_option(
    *HELP_NAMES, text_of=click.Context.get_help, told="Show this message and exit."
)


class _HelpsAtOnce(click.Command):
    def get_help_option(self, ctx: click.Context) -> click.Option:
        """Return the option of all commands."""
        return _HELP_OPTION


class Command(_HelpsAtOnce):
    """A command whose words are read as kubectl reads them, with an option ``--debug``."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        # Words too many are reported here, not by click.
        settings["context_settings"] = {"allow_extra_args": True}
        super().__init__(*args, **settings)
        debug_option(self)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; those of the connection come last, under a heading of their own."""
        for heading, is_connection in (("Options", False), ("Connection, as in kubectl", True)):
            records = [
                record
                for param in self.get_params(ctx)
                if isinstance(param, ConnectionOption) is is_connection
                and (record := param.get_help_record(ctx)) is not None
            ]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; InputError says what is wrong and what to type instead."""
        if ctx.resilient_parsing:  # by completion: the words are not finished yet
            return super().parse_args(ctx, args)
        words = typed_words.as_kubectl_reads(args, self)
        if set(ctx.help_option_names) & set(words):
            # Somebody who needs help may well have typed something wrong before.
            words = ["--help"]
        else:
            typed_words.refuse_slips(args, self)
        try:
            surplus = super().parse_args(ctx, typed_words.with_long_names(words, self))
        except click.UsageError as error:
            raise _usage_error(error, ctx, args) from None
        if surplus:
            from kubectl_evictplan.commands.unknown_words import surplus_words

            raise InputError(surplus_words(surplus))
        if ctx.params.get("filenames") == ():
            typed_words.refuse_bare_files(words, self)
        elif ctx.params.get("filenames"):
            typed_words.refuse_connection(words, self)
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
        names = tuple(param.opts) if isinstance(param, click.Option) else ()
        known = list(self.choices)
        words = re.findall("[a-z]+", str(value).lower())
        close = [self._meant.get(word, word if word in known else "") for word in words]
        likely = next(filter(None, (*close, *similar(str(value), known))), "")
        raise mistake(
            "unknown value",
            Correction((str(value),), (likely or known[0],), not likely, names),
            location="".join(names[:1]),
            got=repr(value),
            expected=either(known),
        )


class CommandGroup(_HelpsAtOnce, click.Group):
    """A group whose commands are the entries of ``table``, in the table's order."""

    def __init__(self, *args: Any, table: Commands, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the table's order."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None when there is none of that name."""
        if cmd_name not in self._table:
            return None
        module = import_module(f"kubectl_evictplan.commands.{self._table[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands, without importing any, and the group's own options."""
        from click.shell_completion import CompletionItem

        names = [name for name in self._table if name.startswith(incomplete)]
        offered = [CompletionItem(name, help=self._table[name][1]) for name in names]
        return [*offered, *click.Command.shell_complete(self, ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words in front of the command; without any, as in kubectl, help is printed."""
        try:
            return super().parse_args(ctx, list(args) or ["--help"])
        except click.UsageError as error:
            raise _usage_error(error, ctx, args) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; InputError says what it may mean."""
        if args[0] in self._table:
            return super().resolve_command(ctx, args)
        from kubectl_evictplan.commands.unknown_words import unknown_command

        raise InputError(unknown_command(args, list(self._table), ctx))


def _usage_error(error: click.UsageError, ctx: click.Context, args: list[str]) -> InputError:
    """What to raise instead of click's own error."""
    from kubectl_evictplan.commands.unknown_words import usage_problem  # only mistakes pay for it

    return InputError(usage_problem(error, ctx, args))


def command(
    *examples: str, cls: type[Command] = Command, params: Sequence[click.Parameter] = ()
) -> Callable[[_Callback], click.Command]:
    """Return what makes a command of a function; ``examples`` end its help."""
    return click.command(cls=cls, params=list(params), epilog=_epilog(examples))


def group(
    table: Commands, *examples: str, cls: type[CommandGroup] = CommandGroup
) -> Callable[[_Callback], click.Group]:
    """Return what makes the group of these commands of a function."""
    helps = {"help_option_names": list(HELP_NAMES)}
    return click.group(cls=cls, table=table, context_settings=helps, epilog=_epilog(examples))


def _epilog(examples: Sequence[str]) -> str:
    # click leaves text after a backspace character alone.
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in examples)])
