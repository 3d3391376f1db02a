"""Where a pod's volumes can be reached from, as far as its claims are bound.

Upstream: VolumeBinding (``checkBoundClaims``). A claim that is not bound yet is left to provisioners, of which
nothing is known here.
"""

from __future__ import annotations

from typing import NamedTuple

from kubectl_evictplan.kube.infrastructure import Infrastructure
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.node_filters import VolumeTerms


class Reach(NamedTuple):
    """The terms of each volume that is bound to some nodes; ``unknown``: there may be more."""

    volumes: tuple[VolumeTerms, ...] = ()
    unknown: bool = False


class Volumes:
    """Looks up what the claims of pods lead to."""

    def __init__(self, infrastructure: Infrastructure) -> None:
        self._claims_of = {(one.namespace, one.name): one for one in infrastructure.pod_claims}
        self._volume_of = {
            (one.namespace, one.name): one.volume_name
            for one in infrastructure.persistent_volume_claims
        }
        self._volumes = {one.name: one for one in infrastructure.persistent_volumes}

    def reach(self, pod: Pod) -> Reach:
        """Return from where a successor of the pod reaches its volumes.

        Claims that go away with the pod are made anew for the successor.
        """
        claims = self._claims_of.get((pod.namespace, pod.name))
        terms: list[VolumeTerms] = []
        unknown = False
        for name in claims.claims if claims else ():
            if claims and name in claims.ephemeral:
                unknown = True
                continue
            volume = self._volumes.get(self._volume_of.get((pod.namespace, name), ""))
            if volume is None or any(not wishes for wishes in volume.node_affinity):
                # Not bound, not read, or with a term of which we read nothing (matchFields).
                unknown = True
            elif volume.node_affinity:
                terms.append(volume.node_affinity)
        return Reach(tuple(terms), unknown)
