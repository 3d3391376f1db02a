"""``apply``: a plan, or the words of ``kubectl taint``, ``cordon``, ``uncordon`` and ``drain``, carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.command import CommandGroup, Commands, group
from kubectl_evictplan.commands.file_arguments import looks_like_file
from kubectl_evictplan.errors import Correction, mistake
from kubectl_evictplan.scenarios.names import did_you_mean, shown, similar

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PLAN = "plan"
COMMANDS: Commands = {
    PLAN: ("apply_plan", "Carry out a plan file; the word itself may be left out"),
    "taint": ("apply_words", "Add or remove taints of nodes (kubectl taint)"),
    "cordon": ("apply_words", "Make nodes unschedulable (kubectl cordon)"),
    "uncordon": ("apply_words", "Make nodes schedulable (kubectl uncordon)"),
    "drain": ("apply_words", "Drain nodes (kubectl drain)"),
}


# What what-if predicts besides.
OUTAGES = ("fail", "delete", "scenario")


class ApplyGroup(CommandGroup):
    """What is no command's name is the name of a plan file, or an option of its command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command that reads plan files in front of what belongs to it."""
        if args and args[0] not in COMMANDS and args[0] not in ctx.help_option_names:
            if not ctx.resilient_parsing:
                _refuse_slips(args)
            args = [PLAN, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands; behind a dash the options of the one that may be left out."""
        if incomplete.startswith("-"):
            command = self.get_command(ctx, PLAN)
            assert command is not None, "it is in the table"
            return command.shell_complete(click.Context(command, ctx, PLAN), incomplete)
        return super().shell_complete(ctx, incomplete)


def _refuse_slips(args: list[str]) -> None:
    """Raise for a first word that is meant to be a command, and for what only what-if can do."""
    word = args[0]
    if word.startswith("-") or set(word) & set("./") or looks_like_file(word):
        return
    if word.lower() in OUTAGES:
        message = f"{word} can be predicted, not carried out: what-if asks what it would lead to"
        raise mistake(message, Correction(("apply", word), ("what-if", word.lower())))
    close = similar(word, COMMANDS)
    if close and (len(args) > 1 or word.lower() in COMMANDS):
        known = Correction((word,), (close[0],), example=len(close) > 1)
        raise mistake(f"no command {shown(word)}{did_you_mean(close)}", known)


@group(
    COMMANDS,
    "# What was reviewed, exactly",
    "kubectl evictplan what-if drain n1 --ignore-daemonsets --out plan.json",
    "kubectl evictplan apply plan.json",
    "# Plan, show, ask and carry out at once",
    "kubectl evictplan apply taint node n1 maint=yes:NoExecute",
    "# After a crash or an interrupt: how far is it, go on, or take back taints and cordons",
    "kubectl evictplan apply --status plan.journal.jsonl",
    "kubectl evictplan apply --resume plan.journal.jsonl",
    "kubectl evictplan apply --rollback plan.journal.jsonl",
    cls=ApplyGroup,
)
def apply() -> None:
    """Carry out a reviewed plan, or the words of kubectl.

    apply PLAN compares the plan with the cluster, predicts anew, and refuses when anything differs that matters;
    it shows what will be done and asks. `apply plan --help` has its options.
    """
