"""Other pods that use a claim: a volume that is attached to one node at a time stays where one of them is.

Upstream: the attach-detach controller detaches what no pod of a node uses any more (``reconcile``), and attaches
to no second node what is ReadWriteOnce (``IsMultiAttachAllowed``); kube-scheduler heeds that for ReadWriteOncePod only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.node_lives import NodeLife
from kubectl_evictplan.kube.infrastructure import PodClaims
from kubectl_evictplan.kube.objects import Pod


class Rival(Enum):
    """Whether another pod keeps the volume from a successor."""

    NONE = "none"
    PERHAPS = "perhaps"
    SURELY = "surely"


class Rivals:
    """Who else uses the claims of pods. ``pods`` may be a part of the cluster."""

    def __init__(self, pod_claims: Iterable[PodClaims], pods: Iterable[Pod]) -> None:
        users: dict[tuple[str, str], list[str]] = {}
        for one in pod_claims:
            for claim in set(one.claims):
                users.setdefault((one.namespace, claim), []).append(f"{one.namespace}/{one.name}")
        self._users = {claim: keys for claim, keys in users.items() if len(keys) > 1}
        shared = {key for keys in self._users.values() for key in keys}
        self._pods = {pod.key: pod for pod in pods if pod.key in shared} if shared else {}

    def users_of(self, namespace: str, claim: str) -> Sequence[str]:
        """Keys of the pods that use a claim, where it is more than one."""
        return self._users.get((namespace, claim), ())

    def of(self, pod: Pod, claim: str, life: NodeLife, deletions: Mapping[str, Deletion]) -> Rival:
        """Whether somebody else keeps that claim's volume from the successor of a deleted pod."""
        keys = self._users.get((pod.namespace, claim), ())
        found = [self._one(pod, key, deletions) for key in keys if key != pod.key]
        if Rival.SURELY in found and not _may_return(deletions[pod.key], life):
            return Rival.SURELY
        # Of several successors the scheduler puts each where it likes.
        return Rival.PERHAPS if set(found) - {Rival.NONE} else Rival.NONE

    def _one(self, pod: Pod, key: str, deletions: Mapping[str, Deletion]) -> Rival:
        other = self._pods.get(key)
        if other is None:
            return Rival.PERHAPS
        if other.finished:
            return Rival.NONE
        here = other.node_name == pod.node_name
        stays = here and key not in deletions and other.deletion_timestamp_ns is None
        return Rival.SURELY if stays else Rival.PERHAPS


def _may_return(deletion: Deletion, life: NodeLife) -> bool:
    """Whether the successor may run on the same node, where the volume is: a taint that stays keeps it off."""
    tainted = bool(deletion.taint) and deletion.tolerated_seconds is None
    return not (deletion.certain and tainted and deletion.taint not in life.untainted)
