"""``sweep``: the group of everything that is tried many times over."""

from __future__ import annotations

from kubectl_evictplan.commands.command import group

COMMANDS = {
    "nodes": ("sweep_failures", "Every node fails, one at a time"),
    "zones": ("sweep_failures", "Every zone fails, one at a time"),
    "pairs": ("sweep_failures", "Every pair of some nodes fails together"),
    "flags": ("sweep_flags", "One failure, with other flags and tolerations"),
    "fleet": ("sweep_fleet", "Every node of every cluster of a directory fails"),
}


@group(
    COMMANDS,
    "# Which node would cost most?",
    "kubectl evictplan sweep nodes -f cluster.json",
    "# And which zone?",
    "kubectl evictplan sweep zones -f cluster.json",
)
def sweep() -> None:
    """Predict many failures and rank them by what they cost. Nothing is ever changed.

    Each of them is predicted as `what-if fail` predicts it alone, which also tells the reasons.
    """
