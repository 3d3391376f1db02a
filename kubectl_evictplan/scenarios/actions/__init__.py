"""The table of actions: what a scenario can do to a cluster.

Each row is a class that says all there is to say about its action: its fields in a file, what it
contradicts, its effect on the simulated cluster, what it touches, when it matters, how it is told.
A new action is a class in a module of this package, and its row here.
"""

from __future__ import annotations

from kubectl_evictplan.scenarios.actions import nodes, pods, processes
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

_ROWS: tuple[type[ScenarioEvent], ...] = (
    nodes.AddTaint,
    nodes.RemoveTaint,
    processes.StopKubelet,
    processes.StartKubelet,
    processes.PostReady,
    processes.TouchLease,
    nodes.DeleteNode,
    nodes.CreateNode,
    pods.CreatePod,
    pods.DeletePods,
    pods.SetTolerations,
    processes.StopManager,
    processes.StartManager,
    nodes.Cordon,
    nodes.Uncordon,
    Drain,
)
# By the word in files, in the order in which they are told.
ACTIONS: dict[str, type[ScenarioEvent]] = {row.action: row for row in _ROWS}
