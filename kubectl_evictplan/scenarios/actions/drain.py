"""``kubectl drain`` is run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import msgspec
import msgspec.structs

from kubectl_evictplan.kube.drain_filters import GRACE_PERIOD_OF_POD, DrainOptions
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.scenarios.field_types import (
    COUNT,
    DURATION_FROM_0,
    FLAG,
    LABEL_SELECTOR,
    TARGETS_IN_ORDER,
    WHOLE_SECONDS,
    file_fields,
)
from kubectl_evictplan.scenarios.scenario import NodesEvent, ScenarioEvent

if TYPE_CHECKING:
    from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster


class Drain(NodesEvent, frozen=True, kw_only=True):
    """``kubectl drain``: the nodes are cordoned, then drained one after the other, in the order given.

    The instant is that of the start of the process. The fields are kubectl's flags in camelCase;
    ``parallel`` and ``settle``, which kubectl does not know, are how ``apply`` drains.
    """

    action = "drain"
    told = "kubectl drain {detail}"
    done_by = "kubectl drain {nodes} {flags}"
    undone_by = "kubectl uncordon {nodes}"
    unschedulable = True
    idle_because = (
        "kubectl ends before it cordons any node, because one of them does not exist then"
    )

    # In the order in which they are drained, not sorted.
    nodes: Annotated[tuple[str, ...], TARGETS_IN_ORDER]
    # Left out: each pod's own terminationGracePeriodSeconds.
    grace_period_seconds: Annotated[int, WHOLE_SECONDS] = msgspec.field(
        default=GRACE_PERIOD_OF_POD, name="gracePeriod"
    )
    # 0: none.
    timeout_ns: Annotated[int, DURATION_FROM_0] = msgspec.field(default=0, name="timeout")
    force: Annotated[bool, FLAG] = False
    ignore_daemonsets: Annotated[bool, FLAG] = msgspec.field(default=False, name="ignoreDaemonsets")
    delete_emptydir_data: Annotated[bool, FLAG] = msgspec.field(
        default=False, name="deleteEmptydirData"
    )
    # 0: pods are waited for however long ago they were deleted.
    skip_wait_for_delete_timeout_seconds: Annotated[int, WHOLE_SECONDS] = msgspec.field(
        default=0, name="skipWaitForDeleteTimeout"
    )
    disable_eviction: Annotated[bool, FLAG] = msgspec.field(default=False, name="disableEviction")
    # "": every pod.
    pod_selector: Annotated[str, LABEL_SELECTOR] = msgspec.field(default="", name="podSelector")

    # Pods of a node whose eviction is under way at once; 0: all of them, as kubectl.
    parallel: Annotated[int, COUNT] = 0
    # The pause after each node before the next.
    settle_ns: Annotated[int, DURATION_FROM_0] = msgspec.field(default=0, name="settle")

    def __post_init__(self) -> None:
        """A node that is named again is drained when it comes first: nothing is left for a second turn."""
        once = tuple(dict.fromkeys(self.nodes))
        if len(once) < len(self.nodes):
            msgspec.structs.force_setattr(self, "nodes", once)

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of ``kubectl drain`` that differ from its defaults."""
        found = []
        for field in file_fields(type(self)):
            value = getattr(self, field.attribute)
            if field.type.detail and value != field.default:
                name = "--" + re.sub("[A-Z]", lambda capital: f"-{capital[0].lower()}", field.key)
                # kubectl takes grace periods and the like as whole seconds, where the file has durations.
                seconds = type(value) is int and field.attribute.endswith("_seconds")
                written = value if seconds else field.type.write(value)
                found.append(name if value is True else f"{name}={written}")
        return tuple(found)

    @property
    def options(self) -> DrainOptions:
        """The flags of the command."""
        return DrainOptions(
            force=self.force,
            ignore_daemonsets=self.ignore_daemonsets,
            delete_emptydir_data=self.delete_emptydir_data,
            grace_period_seconds=self.grace_period_seconds,
            timeout_ns=self.timeout_ns,
            skip_wait_for_delete_timeout_ns=self.skip_wait_for_delete_timeout_seconds * SECOND_NS,
            disable_eviction=self.disable_eviction,
            pod_selector=self.pod_selector,
            parallel=self.parallel,
            settle_ns=self.settle_ns,
        )

    def happen(self, cluster: SimulatedCluster) -> None:
        if len(cluster.existing(self)) == len(self.nodes):
            causes = {name: cluster.note(self, node=name) for name in self.nodes}
            cluster.drains.start(self.options, causes)


def drains_among(events: Iterable[ScenarioEvent]) -> tuple[Drain, ...]:
    """Return the drains among events, in their order: the n-th is the n-th process of kubectl."""
    return tuple(event for event in events if isinstance(event, Drain))
