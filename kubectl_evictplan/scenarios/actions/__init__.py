"""The table of actions: what a scenario can do to a cluster.

Each row is a class that says all there is to say about its action: its fields in a file, what it
contradicts, its effect on the simulated cluster, what it touches, when it matters, how it is told.
A new action is a class in a module of this package, and its row here.
"""

from __future__ import annotations

from kubectl_evictplan.scenarios.actions.controller_manager import StartManager, StopManager
from kubectl_evictplan.scenarios.actions.kubelets import (
    PostReady,
    StartKubelet,
    StopKubelet,
    TouchLease,
)
from kubectl_evictplan.scenarios.actions.nodes import Cordon, CreateNode, DeleteNode, Uncordon
from kubectl_evictplan.scenarios.actions.pods import CreatePod, DeletePods, SetTolerations
from kubectl_evictplan.scenarios.actions.taints import AddTaint, RemoveTaint
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

_ROWS: tuple[type[ScenarioEvent], ...] = (
    AddTaint,
    RemoveTaint,
    StopKubelet,
    StartKubelet,
    PostReady,
    TouchLease,
    DeleteNode,
    CreateNode,
    CreatePod,
    DeletePods,
    SetTolerations,
    StopManager,
    StartManager,
    Cordon,
    Uncordon,
)
# By the word in files, in the order in which they are told.
ACTIONS: dict[str, type[ScenarioEvent]] = {row.action: row for row in _ROWS}
