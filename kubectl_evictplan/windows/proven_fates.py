"""What is proven of a node whose runs are samples: its taint, and the pods that go by that taint.

For nodes that ``SimpleFates`` does not take although they only fall silent, or wait at the start: with pods on their way out, or with
several waits. A pod's delete follows the taint by what its tolerations say in every run where nothing else happens to the node or the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.controllers.taint_eviction import Decision
from kubectl_evictplan.kube.objects import NO_EXECUTE, Node, Pod, Taint
from kubectl_evictplan.kube.taints import (
    LIFECYCLE_NO_EXECUTE_KEYS,
    OUT_OF_SERVICE,
    UNREACHABLE,
    no_execute_taints,
)
from kubectl_evictplan.windows.outcome import (
    TAINT_ADDED,
    EvictionKey,
    Exploration,
    NodeChangeKey,
    PossibleEviction,
)
from kubectl_evictplan.windows.outer_bounds import NodeBounds


def put_proven(
    result: Exploration,
    node: Node,
    pods: Iterable[Pod],
    bounds: NodeBounds,
    configuration: ControllerConfiguration,
    horizon_ns: int,
) -> None:
    """Put what is proven of the node in the place of what was only explored of it.

    Nothing but silence may happen to the node and its ``pods``, and they are there from the start.
    """
    out_of_service = any(taint.key == OUT_OF_SERVICE for taint in node.taints)
    if no_execute_taints(node.taints) or out_of_service or bounds.served[0] > bounds.served[1]:
        return
    _put_taint(result, node, bounds)
    # A node that is not Ready at the start may get either of the taints.
    keys = (UNREACHABLE,) if node.ready_status == TRUE else LIFECYCLE_NO_EXECUTE_KEYS
    taints = [Taint(key, NO_EXECUTE) for key in keys]
    for pod in pods:
        key = EvictionKey(pod.key, pod.uid, TAINT_EVICTION, 0)
        found = result.evictions.get(key)
        if found is not None and found.missed:
            # A pod that ends by itself may be gone before.
            stays = pod.deletion_timestamp_ns is None
            comparison = configuration.comparison_operators
            delays_ns = [Decision((each,), pod.tolerations, comparison).delay_ns for each in taints]
            certain = stays and bounds.certain
            proven = _proven(found, bounds, delays_ns, horizon_ns, certain=certain)
            if proven is not None:
                result.evictions[key] = proven


def _put_taint(result: Exploration, node: Node, bounds: NodeBounds) -> None:
    for taint in LIFECYCLE_NO_EXECUTE_KEYS:
        key = NodeChangeKey(node.name, TAINT_ADDED, f"{taint}:{NO_EXECUTE}")
        window = result.nodes.windows.get((key, 0))
        if window is not None and window.explored:
            window.earliest_ns, window.latest_ns = bounds.served
            window.explored = False
            # A node that is not Ready at the start may get either of the taints.
            window.unsure = not (bounds.certain and node.ready_status == TRUE)


def _proven(
    found: PossibleEviction,
    bounds: NodeBounds,
    delays_ns: Sequence[int | None],
    horizon_ns: int,
    *,
    certain: bool,
) -> PossibleEviction | None:
    """The eviction within its bounds, ``delays_ns`` after any of the taints; None where it comes after the horizon."""
    known_ns = [delay_ns for delay_ns in delays_ns if delay_ns is not None]
    if not known_ns or bounds.served[0] + min(known_ns) > horizon_ns:
        return None
    low_ns, high_ns = bounds.served[0] + min(known_ns), bounds.served[1] + max(known_ns)
    gone_ns = found.gone_earliest_ns
    return found._replace(
        spans=((low_ns, min(high_ns, horizon_ns)),),
        certain=certain and len(known_ns) == len(delays_ns) and high_ns <= horizon_ns,
        gone_earliest_ns=None
        if gone_ns is None
        else max(low_ns, gone_ns - (found.earliest_ns - low_ns)),
        gone_latest_ns=None,
        circumstances=(),
        proven=True,
    )
