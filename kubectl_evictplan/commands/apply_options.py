"""The options of every ``apply``, and commands that share the words of ``what-if``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kubectl_evictplan.commands.command import Choice, Command
from kubectl_evictplan.commands.connection_options import (
    CONNECTION_OPTIONS,
    ConnectionOption,
    take_connection,
)
from kubectl_evictplan.commands.file_arguments import FILENAME
from kubectl_evictplan.commands.options import COMMON_OPTIONS, WhatIfOptions, option, options_of
from kubectl_evictplan.errors import Correction, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.live.flags import ConnectionFlags

# What of what-if's options makes sense where something is carried out on a live cluster.
_ASKED_TOO = (
    *("horizon", "kubernetes_version", "controller_flags", "assume_ready"),
    *("out", "until_ready", "abort_if", "color"),
)
DRY_RUNS = ("client", "server", "none")


@dataclass(frozen=True)
class ApplyOptions:
    """How a plan may be carried out, as typed; what it does is said by the plan alone."""

    connection: ConnectionFlags
    color: str
    dry_run: str = option(
        "--dry-run",
        type=Choice(*DRY_RUNS, meant={"true": "client", "false": "none"}),
        default="none",
        show_default=True,
        help="client: show what would be done; server: also let the server check each change.",
    )
    yes: bool = option("-y", "--yes", is_flag=True, help="Do not ask; losses must be named.")
    accept_losses: str | None = option(
        "--accept-losses",
        metavar="N",
        help="So many pods, or their emptyDir data, may be lost for good: exactly as many as shown.",
    )
    accept_drift: tuple[str, ...] = option(
        "--accept-drift",
        multiple=True,
        metavar="KIND",
        help="Carry the plan out although this differs, where it is harmless; repeatable.",
    )
    accept_skew: bool = option(
        "--accept-skew",
        is_flag=True,
        help="Go on although this machine's clock and the server's are more than 60s apart.",
    )
    plan_digest: str | None = option(
        "--plan-digest",
        metavar="HEX",
        help="The fingerprint of the reviewed plan, or its first 8 digits; answers the question.",
    )
    continue_on_absent: bool = option(
        "--continue-on-absent",
        is_flag=True,
        help="Leave out what is left of a node that is gone, and go on with the others (exit code 3).",
    )
    rollback_on_failure: bool | None = option(
        "--rollback-on-failure/--no-rollback-on-failure",
        default=None,
        help="Take own taints and cordons back when the run fails; its exit code stays. --resume: as the run was begun.",
    )
    journal: str | None = option(
        "--journal", metavar="FILE", help="The journal; default: beside the plan."
    )
    lock_namespace: str | None = option(
        "--lock-namespace", metavar="NAME", help="Where the lock's Lease is kept."
    )
    no_cluster_lock: bool = option(
        "--no-cluster-lock", is_flag=True, help="Do without the lock in the cluster."
    )
    steal_lock: bool = option(
        "--steal-lock", is_flag=True, help="Take over a lock that has expired."
    )


APPLY_OPTIONS = options_of(ApplyOptions)


def taken_options(values: dict[str, Any], connection: ConnectionFlags, color: str) -> ApplyOptions:
    """Remove the options of apply from a command's values and return what they say."""
    mine = {name: values.pop(name) for name in APPLY_OPTIONS}
    return ApplyOptions(connection, color, **mine)


class PlanCommand(Command):
    """The command that reads a plan file, whose name stands alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; ``-f`` is kubectl's way to name a file."""
        for place, word in enumerate(args):
            if word in FILENAME and not ctx.resilient_parsing:
                if place and not args[0].startswith("-"):
                    message = "a plan is carried out on the live cluster, never on a file"
                    raise mistake(message, Correction(tuple(args[place : place + 2]), ()))
                message = "the plan is named without -f; manifests are kubectl's to apply"
                raise mistake(message, Correction((word,), ()))
        return super().parse_args(ctx, args)


class MutationCommand(Command):
    """A command of ``apply`` that has the words and own options of one of ``what-if``."""

    def __init__(
        self,
        what_if: click.Command,
        act: Callable[..., None],
        examples: Sequence[str],
    ) -> None:
        own = [
            param
            for param in what_if.params
            if param.name not in COMMON_OPTIONS
            and not isinstance(param, ConnectionOption)
            and param.expose_value
        ]
        self._act = act
        self._asked_too = {name: COMMON_OPTIONS[name] for name in _ASKED_TOO}
        super().__init__(
            what_if.name,
            callback=what_if.callback,
            params=[
                *own,
                *APPLY_OPTIONS.values(),
                *self._asked_too.values(),
                *CONNECTION_OPTIONS,
            ],
            help=what_if.help,
            epilog="\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples),
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; files belong to ``what-if``."""
        named = next((word for word in args if word.partition("=")[0] in FILENAME), "")
        if named and not ctx.resilient_parsing:
            known = Correction(("apply",), ("what-if",))
            raise mistake("apply changes the live cluster, never files: what-if asks files", known)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Ask the question that ``what-if`` asks, and carry it out."""
        title = shlex.join([self.name or "", *ctx.params.get("words", ())])
        common = _defaults()
        common |= {name: ctx.params.pop(name) for name in self._asked_too}
        connection = take_connection(ctx.params)
        how = taken_options(ctx.params, connection, common["color"])
        instead = partial(self._act, how)
        ctx.params["options"] = WhatIfOptions(title, connection, **common, instead=instead)
        return super().invoke(ctx)


def _defaults() -> dict[str, Any]:
    """Return the values that the common options have when none is given."""
    found: dict[str, Any] = {}
    for known in fields(WhatIfOptions):
        if not known.metadata:
            continue
        settings = known.metadata["settings"]
        default = settings.get("default", known.default)
        if settings.get("multiple"):
            default = ()
        elif settings.get("is_flag"):
            default = False
        found[known.name] = None if default is MISSING else default
    return found
