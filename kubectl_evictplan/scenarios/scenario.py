"""What happens to the cluster, and when: a frozen list of timed events.

A ``Scenario`` is fully resolved: selectors, zones and ``allNodes`` have become node names, durations
are nanoseconds, manifests are typed objects. Reading files is the business of ``scenario_files``.
"""

from __future__ import annotations

import msgspec

from kubectl_evictplan.kube.durations import HOUR_NS
from kubectl_evictplan.kube.objects import Node, Pod, Taint, Toleration

ACTIONS = (
    "taint",
    "untaint",
    "kubelet-stop",
    "kubelet-start",
    "node-ready",
    "node-delete",
    "node-create",
    "pod-create",
    "pod-delete",
    "pod-tolerations",
    "controller-stop",
    "controller-start",
    "cordon",
    "uncordon",
)

HORIZON_DEFAULT_MAX_NS = 24 * HOUR_NS


class ScenarioEvent(msgspec.Struct, frozen=True):
    """One event. Which fields are meaningful follows from ``action`` (one of ``ACTIONS``).

    ``at_ns`` and ``last_heartbeat_ns`` are offsets from the scenario's start and may be fractions
    of a second; ``last_heartbeat_ns`` may be negative (a renewal before the start). Events with
    equal ``at_ns`` happen in list order.
    """

    at_ns: int
    action: str
    # Node names, for every action on nodes; sorted, without repetition.
    nodes: tuple[str, ...] = ()
    # taint: what is added (an existing taint of same key and effect is replaced).
    taint: Taint | None = None
    # untaint: key and effect to remove; effect "" removes every effect.
    taint_key: str = ""
    taint_effect: str = ""
    # kubelet-stop: offset of the last lease renewal that was sent; None: from the node's Lease.
    last_heartbeat_ns: int | None = None
    # node-ready: "True", "False" or "Unknown".
    status: str = ""
    # node-create / pod-create
    node: Node | None = None
    pod: Pod | None = None
    # pod-delete / pod-tolerations: "namespace/name" keys
    pods: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    # Where the event was written, e.g. "s.yaml:12" or "taint node n1 a=b:NoExecute".
    origin: str = ""


class Scenario(msgspec.Struct, frozen=True):
    """A script of events with its start and inclusive horizon.

    ``start_ns`` is epoch nanoseconds. ``horizon_ns`` is an offset; None means "until nothing more
    can happen, at most 24 h".
    """

    start_ns: int
    events: tuple[ScenarioEvent, ...] = ()
    horizon_ns: int | None = None
    name: str = ""


class ControllerSettings(msgspec.Struct, frozen=True):
    """What the user said about kube-controller-manager; empty parts are detected or defaulted.

    ``flags`` maps a flag's own name (no dashes in front) to its text.
    """

    kubernetes_version: str = ""
    monitor_phase_ns: int | None = None
    flags: dict[str, str] = {}
