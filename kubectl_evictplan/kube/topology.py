"""Zones: which one a node counts in, and under which key.

Upstream: ``GetZoneKey`` (component-helpers/node/topology) and
``isNodeExcludedFromDisruptionChecks``.
"""

from __future__ import annotations

from collections.abc import Mapping

REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
EXCLUDE_DISRUPTION = "node.kubernetes.io/exclude-disruption"

# Labels of old, and what they are called today.
STABLE_LABELS = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_SEPARATOR = ":\x00:"


def get_zone_key(labels: Mapping[str, str], *, ga_labels: bool) -> str:
    """Zone key: "" without labels, else region + ":NUL:" + zone.

    The beta label wins whenever it is *present*, even empty; ``ga_labels`` is False up to 1.16.
    """
    region, zone = labels.get(BETA_REGION), labels.get(BETA_ZONE)
    if region is None:
        region = labels.get(REGION, "") if ga_labels else ""
    if zone is None:
        zone = labels.get(ZONE, "") if ga_labels else ""
    return f"{region}{_SEPARATOR}{zone}" if region or zone else ""


def zone_display_name(zone_key: str) -> str:
    """Name for people: "region/zone"; empty for the zone of unlabelled nodes."""
    return zone_key.replace(_SEPARATOR, "/")


def has_conflicting_zone_labels(labels: Mapping[str, str]) -> bool:
    """Whether beta and stable labels name different zones or regions."""
    return any(
        beta in labels and stable in labels and labels[beta] != labels[stable]
        for beta, stable in STABLE_LABELS.items()
    )


def is_master_by_name(name: str) -> bool:
    """``legacyIsMasterNode``: the node's *name* looks like a master's (up to 1.20)."""
    return name.endswith("master") or (len(name) >= 10 and name[:-3].endswith("master-"))
