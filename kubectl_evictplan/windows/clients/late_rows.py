"""Rows of pods that may be deleted sooner, or at all, because ticks wait for their client: bounds beside what runs show."""

from __future__ import annotations

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.taint_eviction import Decision, delete_is_refused
from kubectl_evictplan.kube.objects import Pod, Taint
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.unknowns.client_limits import ClientLimits

_MISSED = frozenset({ClientLimits.name})


class LateRows:
    """The rows of one exploration, up to its horizon."""

    def __init__(
        self, result: Exploration, configuration: ControllerConfiguration, horizon_ns: int
    ) -> None:
        self._evictions, self._horizon_ns = result.evictions, horizon_ns
        self._configuration = configuration
        self._decisions: dict[tuple[int, str], tuple[Decision, object]] = {}
        self._sooner: dict[tuple[int, int], PossibleEviction] = {}
        self._kept: list[tuple[Span, ...]] = []

    def delay_ns(self, pod: Pod, taint: Taint) -> int | None:
        """How long after such a taint the pod is deleted; None: never."""
        if delete_is_refused(pod, self._configuration) is not None:
            return None
        return self._decision(pod, taint).delay_ns

    def _decision(self, pod: Pod, taint: Taint) -> Decision:
        """What the pod's tolerations say of one taint of node lifecycle."""
        # Pods of one template share their list of tolerations; it is kept, so that its id stays its own.
        shared = id(pod.tolerations), taint.key
        if shared not in self._decisions:
            comparison = self._configuration.comparison_operators
            decision = Decision((taint,), pod.tolerations, comparison)
            self._decisions[shared] = decision, pod.tolerations
        return self._decisions[shared][0]

    def put(self, pod: Pod, taint: Taint, span: Span) -> None:
        """Let the pod be deleted within the span as well, for the taint; who is surely deleted may only be so sooner."""
        low_ns, high_ns = span[0], min(span[1], self._horizon_ns)
        if low_ns > high_ns:
            return
        key = _key(pod)
        row = self._evictions.get(key)
        if row is None:
            self._evictions[key] = _new_row(pod, self._decision(pod, taint), (low_ns, high_ns))
        elif not any(low <= low_ns and high_ns <= high for low, high in row.spans):
            self._evictions[key] = _also_within(row, low_ns, high_ns)

    def put_sooner(self, pod: Pod, low_ns: int) -> None:
        """Let the pod, if it may be deleted at all, be so from then on."""
        key = _key(pod)
        row = self._evictions.get(key)
        if row is None or low_ns >= row.earliest_ns or low_ns > self._horizon_ns:
            return
        shared = id(row.spans), low_ns
        found = self._sooner.get(shared)
        if found is not None and row.until_queued is not None:
            # Nodes that only fall silent share all else.
            self._evictions[key] = found.on_node(row.node, row.until_queued)
            return
        gone_ns = row.gone_earliest_ns
        sooner = row._replace(
            spans=((low_ns, row.spans[0][1]), *row.spans[1:]) if found is None else found.spans,
            gone_earliest_ns=None if gone_ns is None else min(gone_ns, low_ns),
            missed=row.missed | _MISSED,
            proven=row.proven or not row.missed,
        )
        # With the spans that it had, so that their id stays theirs.
        self._kept.append(row.spans)
        self._evictions[key] = self._sooner[shared] = sooner


def _key(pod: Pod) -> EvictionKey:
    return EvictionKey(pod.key, pod.uid, TAINT_EVICTION, 0)


def _new_row(pod: Pod, decision: Decision, span: Span) -> PossibleEviction:
    return PossibleEviction(
        spans=(span,),
        certain=False,
        node=pod.node_name,
        taint=decision.taint,
        toleration_index=decision.toleration_index,
        toleration_seconds=decision.toleration_seconds,
        missed=_MISSED,
        gone_earliest_ns=span[0],
        proven=True,
    )


def _also_within(row: PossibleEviction, low_ns: int, high_ns: int) -> PossibleEviction:
    """The same where that may come as well."""
    if row.certain:
        high_ns = min(high_ns, row.latest_ns)
        if low_ns > high_ns:
            return row
    gone_ns = row.gone_earliest_ns
    return row.also_within([(low_ns, high_ns)], _MISSED)._replace(
        certain=row.certain,
        gone_earliest_ns=None if gone_ns is None else min(gone_ns, low_ns),
        gone_latest_ns=row.gone_latest_ns if row.certain else None,
    )
