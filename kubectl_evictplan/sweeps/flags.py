"""One failure under other flags of kube-controller-manager and other tolerations: what a faster detection buys.

Pods have had their tolerations written by admission (DefaultTolerationSeconds) when they were created; other seconds are
tried for exactly those entries that look like it wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import longest_renewal_ns
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.admission import (
    NOT_READY_SECONDS_FLAG,
    UNREACHABLE_SECONDS_FLAG,
    default_toleration_seconds,
)
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Pod, Toleration
from kubectl_evictplan.kube.taints import NOT_READY, UNREACHABLE
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.sweeps.document import FlagRow
from kubectl_evictplan.sweeps.failures import Failing, Failure

_FLAG_OF_KEY = {NOT_READY: NOT_READY_SECONDS_FLAG, UNREACHABLE: UNREACHABLE_SECONDS_FLAG}


class Cell(NamedTuple):
    """One choice: flags by name, and seconds in place of the default ones (None: as the pods have them)."""

    flags: tuple[tuple[str, str], ...]
    toleration_seconds: int | None


def cells(flags: Mapping[str, Sequence[str]], toleration_seconds: Sequence[int]) -> list[Cell]:
    """Return every combination, the last one varying fastest, in the order given."""
    named = [[(name, value) for value in values] for name, values in flags.items()]
    seconds: Sequence[int | None] = toleration_seconds or (None,)
    return [Cell(chosen, one) for chosen in product(*named) for one in seconds]


class FlagGrid(NamedTuple):
    """One failure of one cluster, for any number of cells. Can be sent to another process."""

    snapshot: ClusterSnapshot
    settings: ControllerSettings
    failure: Failure
    start_ns: int
    horizon_ns: int | None = None
    back_ns: int | None = None
    assume_ready: tuple[int, int | None] | None = None

    def row(self, cell: Cell) -> FlagRow:
        """Return what the failure costs under that choice."""
        flags = {**self.settings.flags, **dict(cell.flags)}
        snapshot = self.snapshot
        if cell.toleration_seconds is not None:
            snapshot = with_toleration_seconds(
                snapshot, frozenset(self.failure.nodes), cell.toleration_seconds
            )
        configuration = resolve_configuration(
            replace(self.settings, flags=flags), snapshot.control_plane
        )
        failing = Failing(
            snapshot,
            configuration,
            self.start_ns,
            self.horizon_ns,
            self.back_ns,
            self.assume_ready,
        )
        grace_ns = configuration.node_monitor_grace_period_ns
        return FlagRow(
            flags=dict(cell.flags),
            toleration_seconds=cell.toleration_seconds,
            missed_renewals=self._missed_renewals(grace_ns),
            failure=replace(failing.row(self.failure), rank=1),
        )

    def _missed_renewals(self, grace_period_ns: int) -> int:
        """So many renewals in a row may be lost: the next one still comes within the grace period."""
        leases = self.snapshot.leases
        longest_ns = max(longest_renewal_ns(leases.get(name)) for name in self.failure.nodes)
        return max(0, grace_period_ns // longest_ns - 1)


def with_toleration_seconds(
    snapshot: ClusterSnapshot, nodes: frozenset[str], seconds: int
) -> ClusterSnapshot:
    """Return the cluster with other seconds where admission's default is written, on these nodes."""
    # Pods keep what was the default when they were created: perhaps that of Kubernetes itself.
    known = (
        default_toleration_seconds({}),
        default_toleration_seconds(snapshot.control_plane.api_server),
    )
    defaults = {key: {one[flag] for one in known} for key, flag in _FLAG_OF_KEY.items()}
    pods = tuple(
        _with_seconds(pod, defaults, seconds) if pod.node_name in nodes else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=pods)


def _with_seconds(pod: Pod, defaults: Mapping[str, set[int | None]], seconds: int) -> Pod:
    tolerations = tuple(
        replace(one, toleration_seconds=seconds) if _is_default(one, defaults) else one
        for one in pod.tolerations
    )
    return pod if tolerations == pod.tolerations else replace(pod, tolerations=tolerations)


def _is_default(toleration: Toleration, defaults: Mapping[str, set[int | None]]) -> bool:
    return (
        toleration.key in defaults
        and toleration.operator == "Exists"
        and toleration.effect == NO_EXECUTE
        and toleration.toleration_seconds is not None
        and toleration.toleration_seconds in defaults[toleration.key]
    )
