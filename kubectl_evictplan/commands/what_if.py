"""``what-if``: the group of everything that can happen to a cluster."""

from __future__ import annotations

from kubectl_evictplan.commands.command import group

COMMANDS = {
    "taint": ("taint", "Taints of nodes are added or removed (kubectl taint)"),
    "cordon": ("cordon", "Nodes become unschedulable (kubectl cordon)"),
    "uncordon": ("cordon", "Nodes become schedulable (kubectl uncordon)"),
    "delete": ("delete", "Node objects are deleted (kubectl delete node)"),
    "drain": ("drain", "Nodes are drained (kubectl drain)"),
    "fail": ("fail", "Nodes, zones or the control plane fail"),
    "scenario": ("scenario", "A timed script of many events, from a file"),
}


@group(
    COMMANDS,
    "# A node is tainted",
    "kubectl evictplan what-if taint node n1 maint=yes:NoExecute -f cluster.json",
    "# A node is drained",
    "kubectl evictplan what-if drain n1 --ignore-daemonsets -f cluster.json",
    "# Two kubelets fall silent",
    "kubectl evictplan what-if fail node n1 n2 -f cluster.json",
    "# Anything else, at any time",
    "kubectl evictplan what-if scenario outage.yaml -f cluster.json",
)
def what_if() -> None:
    """Predict which pods a change or a failure evicts, when and why.

    Put it in front of the command you are about to run. Nothing is ever changed.
    """
