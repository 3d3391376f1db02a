"""What providers publish of their control plane's flags: one table, each row with its source.

Only what a public page or a public repository of the provider says is here. What is not here is not
known, and said to be so: a provider may set any flag without telling.
"""

from __future__ import annotations

import msgspec

from kubectl_evictplan.controllers.releases import NEWEST_MINOR, OLDEST_MINOR, parse_release
from kubectl_evictplan.kube.providers import AKS, EKS, GARDENER, GKE, K3S, OPENSHIFT, RKE2

# When the sources were last looked at.
_SEEN = "2026-11-22"

# Its table "Configuration settings" has four flags of the control plane. Three decide here; the fourth,
# default-unreachable-toleration-seconds, is 300, as everywhere. It was written when the upstream default of the
# grace period was 40s: of later releases it says nothing.
_EKS = "https://docs.aws.amazon.com/eks/latest/best-practices/hybrid-nodes-kubernetes-pod-failover.html"
_OPENSHIFT = (
    "https://github.com/openshift/cluster-kube-controller-manager-operator/blob/main/"
    "bindata/assets/config/defaultconfig.yaml"
)
# DefaultNodeMonitorGracePeriod, of the worker latency profile "Default"; another one is seen in the operator's object.
_OPENSHIFT_PROFILES = "https://github.com/openshift/api/blob/master/config/v1/types_node.go"
_GARDENER = "https://gardener.cloud/docs/gardener/api-reference/core/ (NodeMonitorGracePeriod)"
_K3S = "https://github.com/k3s-io/k3s/blob/main/pkg/daemons/control/server.go"


class Preset(msgspec.Struct, frozen=True):
    """A flag of kube-controller-manager as a provider sets it, in releases from minor to minor."""

    provider: str
    flag: str
    value: str
    source: str
    seen: str = _SEEN
    first_minor: int = OLDEST_MINOR
    last_minor: int = NEWEST_MINOR

    @property
    def origin(self) -> str:
        """Where it is published, and when it was looked up."""
        return f"{self.provider}: {self.source}, seen {self.seen}"


PRESETS: tuple[Preset, ...] = (
    # A zone in partial disruption is never "large" there: tainting stops instead of slowing down.
    Preset(EKS, "large-cluster-size-threshold", "100000", _EKS),
    Preset(EKS, "unhealthy-zone-threshold", "0.55", _EKS),
    Preset(EKS, "node-monitor-grace-period", "40s", _EKS, last_minor=31),
    Preset(OPENSHIFT, "node-monitor-grace-period", "40s", _OPENSHIFT_PROFILES),
    Preset(OPENSHIFT, "kube-api-qps", "150", _OPENSHIFT),
    Preset(OPENSHIFT, "kube-api-burst", "300", _OPENSHIFT),
    Preset(GARDENER, "node-monitor-grace-period", "2m0s", _GARDENER, last_minor=26),
    Preset(GARDENER, "node-monitor-grace-period", "40s", _GARDENER, first_minor=27),
)


# How much a provider publishes of the flags that are not in ``PRESETS``.
PUBLISHED: dict[str, str] = {
    EKS: "no public page of EKS tells these",
    GKE: "no public page of GKE tells them",
    AKS: "no public page of AKS tells them",
    OPENSHIFT: f"OpenShift's defaults are public ({_OPENSHIFT})",
    GARDENER: "a Gardener shoot's flags are in its Shoot, which is not in the cluster",
    K3S: f"k3s sets none of them itself ({_K3S})",
    RKE2: f"RKE2 sets none of them itself ({_K3S})",
}


def preset(provider: str, flag: str, release: str) -> Preset | None:
    """Return what a provider is known to set in that release, such as "1.29.6"; None: unknown."""
    minor = parse_release(release).minor
    for row in PRESETS:
        if (row.provider, row.flag) == (provider, flag) and (
            row.first_minor <= minor <= row.last_minor
        ):
            return row
    return None
