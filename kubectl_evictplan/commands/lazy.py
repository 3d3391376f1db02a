"""A click group that knows its commands by a table and imports one only when it is run.

``--help`` prints the table, so that it costs nothing but click itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class Entry(NamedTuple):
    """Where a command lives ("module:attribute") and its line in the help."""

    target: str
    short_help: str


class LazyGroup(click.Group):
    """A group whose commands are the entries of ``table``, in the table's order."""

    def __init__(self, *args: Any, table: Mapping[str, Entry], **kwargs: Any) -> None:
        # Without words, kubectl prints a command's help and succeeds; so does this.
        kwargs["invoke_without_command"] = True
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; UsageError names the nearest one."""
        name = args[0]
        if name.startswith("-") or name in self._table:
            return super().resolve_command(ctx, args)
        close = difflib.get_close_matches(name[:40], self._table, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise click.UsageError(f"unknown command {name!r}{hint}", ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the named command, or print the help when none is named."""
        if not ctx._protected_args and not ctx.args:
            click.echo(ctx.get_help())
            return None
        return super().invoke(ctx)
