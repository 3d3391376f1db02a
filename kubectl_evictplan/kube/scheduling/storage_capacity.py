"""Where storage has room for a volume that is still to be made, as its driver publishes it.

Upstream: ``hasEnoughCapacity`` and ``nodeHasAccess`` of VolumeBinding, 1.29 to 1.37. Asked by default from 1.21 on. Published
numbers are taken as they are; storage of evicted pods' volumes that go away with them may be free again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubectl_evictplan.kube.infrastructure import (
    DRIVER_OF_PLUGIN,
    Infrastructure,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    Wishes,
)
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.scheduling.label_index import meets_all
from kubectl_evictplan.kube.scheduling.node_filters import VolumeTerms

KIND = "CSIStorageCapacity"
# Classes of plugins that drivers took over name the plugin, which publishes nothing; the input does not tell them apart.
_TAKEN_OVER = frozenset(DRIVER_OF_PLUGIN.values())


def published(snapshot: ClusterSnapshot, *, asked: bool) -> tuple[StorageCapacity, ...] | None:
    """Return what drivers publish; None where it was not read, or the release does not ask (not ``asked``)."""
    seen = {KIND, "CSIDriver"}.issubset(snapshot.kinds_seen) and snapshot.pods_of_all_namespaces
    return snapshot.infrastructure.storage_capacities if asked and seen else None


class StorageRoom:
    """From which nodes a new volume can be reached that its storage has room for."""

    def __init__(
        self,
        infrastructure: Infrastructure,
        capacities: Sequence[StorageCapacity] | None,
        freed: Mapping[str, Iterable[Mapping[str, str]]],
    ) -> None:
        """``freed``: by storage class the labels of nodes on which volumes go away."""
        self._publishing = {
            one.name for one in infrastructure.storage_drivers if one.storage_capacity
        } - _TAKEN_OVER
        self._known = capacities is not None
        self._of_class: dict[str, list[StorageCapacity]] = {}
        for one in capacities or ():
            if one.nodes is not None:
                self._of_class.setdefault(one.storage_class, []).append(one)
        self._freed = freed
        self._terms: dict[tuple[str, int], VolumeTerms] = {}

    def terms(self, claim: PersistentVolumeClaim, kind: StorageClass) -> VolumeTerms | None:
        """Return terms of which nodes must meet one; None where nobody asks, or it is not known."""
        size = claim.storage_bytes
        if size is None or not self._known or kind.provisioner not in self._publishing:
            return None
        found = self._terms.get((kind.name, size))
        if found is None:
            freed = list(self._freed.get(kind.name, ()))
            found = self._terms[kind.name, size] = _joined(
                one.nodes
                for one in self._of_class.get(kind.name, ())
                if one.nodes is not None
                and (
                    (one.volume_bytes_max is not None and one.volume_bytes_max >= size)
                    or any(meets_all(labels, one.nodes) for labels in freed)
                )
            )
        return found


def volumes_going(
    pods: Iterable[Pod], infrastructure: Infrastructure, labels_of: Mapping[str, Mapping[str, str]]
) -> dict[str, list[Mapping[str, str]]]:
    """By storage class the labels of the nodes of these pods whose claims go away with them, each node once."""
    ephemeral = {
        (one.namespace, one.name): one.ephemeral
        for one in infrastructure.pod_claims
        if one.ephemeral
    }
    if not ephemeral:
        return {}
    class_of = {
        (one.namespace, one.name): one.storage_class
        for one in infrastructure.persistent_volume_claims
    }
    found: dict[str, dict[str, Mapping[str, str]]] = {}
    for pod in pods:
        for name in ephemeral.get((pod.namespace, pod.name), ()):
            kind = class_of.get((pod.namespace, name), "")
            if pod.node_name in labels_of:
                found.setdefault(kind, {})[pod.node_name] = labels_of[pod.node_name]
    return {kind: list(nodes.values()) for kind, nodes in found.items()}


def _joined(all_terms: Iterable[Wishes]) -> VolumeTerms:
    """The same terms; those that ask one label for one of some values as one (storage on nodes: one for each of thousands)."""
    values_of: dict[str, set[str]] = {}
    others: dict[Wishes, None] = {}
    for wishes in all_terms:
        if len(wishes) == 1 and wishes[0][1] == "In":
            values_of.setdefault(wishes[0][0], set()).update(wishes[0][2])
        else:
            others[wishes] = None
    joined = (((key, "In", tuple(sorted(some))),) for key, some in sorted(values_of.items()))
    return (*joined, *others)
