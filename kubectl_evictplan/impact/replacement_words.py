"""What a ``ReplacementFit`` says, in a sentence for people, and what would help."""

from __future__ import annotations

import math

from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.kube.needs import HONOR, PodNeeds
from kubectl_evictplan.kube.scheduling.answers import Filter, Unknown, Verdict
from kubectl_evictplan.prediction.impact_document import ReplacementFit

# No node takes the replacement; some of several find no place.
PENDING = frozenset({Verdict.NOWHERE, Verdict.ONLY_ON_LEAVING})
CROWDED = frozenset({Verdict.NO_ROOM_LEFT, Verdict.PARTLY})

_UNKNOWN = {
    Unknown.NEEDS: "its spec is not in the input",
    Unknown.SCHEDULER: "another scheduler places it",
    Unknown.REVISION: "it is made from another revision of its template, which is not in the input",
    Unknown.GATES: "it waits until somebody takes its scheduling gates off",
    Unknown.DEVICES: "it claims devices of drivers",
    Unknown.VOLUMES: "where its volumes can be reached from is not in the input",
    Unknown.OFFERS: "the nodes that are left do not say what they offer",
    Unknown.OTHER_PODS: "what other pods take is not in the input",
    Unknown.NAMESPACES: "labels of namespaces are not in the input",
    Unknown.TOO_MANY: "too many different needs compete for too many nodes to count what is left",
}


def stays_pending(fit: ReplacementFit) -> bool:
    """Whether no node takes it, whatever others do, and nobody's preemption can change that."""
    refused = fit.verdict in PENDING and not fit.may_find_one
    return refused and not fit.returns_to and not fit.lower_priority


def too_many(fit: ReplacementFit, evicted: int) -> bool:
    """Whether one at least finds no node, if so many of them are evicted for certain."""
    return fit.may_find_one < evicted


def fit_sentence(fit: ReplacementFit) -> str:
    """Return e.g. ``fits nowhere: would stay Pending, because 8 nodes fail NodeResourcesFit``."""
    because = _because(fit)
    match Verdict(fit.verdict):
        case Verdict.FITS:
            return f"fits on {_nodes(fit.on_nodes)}{_unsure(fit)}"
        case Verdict.PARTLY:
            return (
                f"{_found(fit)} of {fit.pods} find a place, the others would stay Pending{because}"
                f"{_until(fit)}{_not_known(fit)}"
            )
        case Verdict.NO_ROOM_LEFT:
            return (
                f"{_perhaps(fit)}no room left by the replacements before it: would stay Pending"
                f"{because}{_until(fit)}"
            )
        case Verdict.ONLY_ON_LEAVING if fit.returns_to:
            return f"only fits on {_nodes(fit.returns_to)} that it is evicted from, and goes back there"
        case Verdict.ONLY_ON_LEAVING:
            return (
                f"only fits on nodes that are going away: would stay Pending{because}{_until(fit)}"
            )
        case Verdict.NOWHERE if fit.lower_priority:
            return (
                f"fits only where it preempts pods of lower priority, else stays Pending{because}"
            )
        case Verdict.NOWHERE:
            return f"{_perhaps(fit)}fits nowhere: would stay Pending{because}{_until(fit)}"
        case Verdict.UNKNOWN:
            return f"whether it fits is unknown: {_reasons(fit)}"


def _reasons(fit: ReplacementFit) -> str:
    return " and ".join(_UNKNOWN[Unknown(one)] for one in fit.unknown)


def _not_known(fit: ReplacementFit) -> str:
    return f"; {_reasons(fit)}" if fit.unknown else ""


def _perhaps(fit: ReplacementFit) -> str:
    """Where others that look for a place decide it."""
    return "perhaps " if fit.may_find_one else ""


_HELP = {
    Filter.NODE_UNSCHEDULABLE: "uncordon a node for them (kubectl uncordon), or do less at a time",
    Filter.TAINT_TOLERATION: "keep a node without the taint, or let the pod template tolerate it",
    Filter.NODE_AFFINITY: "label another node as the pod template's nodeSelector and affinity ask, or widen them",
    Filter.NODE_PORTS: "free the hostPort on another node, or give the template another one",
    Filter.NODE_RESOURCES_FIT: "add nodes before the change, or lower resources.requests",
    Filter.VOLUME_BINDING: "keep a node from which the volume can be reached, or restore the data elsewhere",
    Filter.VOLUME_RESTRICTIONS: "end the pod that holds the ReadWriteOncePod claim",
    Filter.NODE_VOLUME_LIMITS: "add nodes, or move pods with volumes of that driver away",
    Filter.VOLUME_ZONE: "keep a node in the zone of the volume, or restore the data elsewhere",
    Filter.POD_TOPOLOGY_SPREAD: "set nodeTaintsPolicy: Honor in topologySpreadConstraints, or raise maxSkew",
    Filter.INTER_POD_AFFINITY: "make the podAntiAffinity or podAffinity preferred, or add nodes to other domains",
}
# What the change itself brings refuses most nodes; the others are of interest.
_OF_THE_CHANGE = (Filter.NODE_UNSCHEDULABLE, Filter.TAINT_TOLERATION)

_NEW_VOLUME_HELP = (
    "keep a node that the StorageClass allows and whose storage has room for the new volume (kubectl get"
    " csistoragecapacities -A)"
)


def what_would_help(fit: ReplacementFit, needs: PodNeeds | None = None) -> str:
    """Return what to do about the filter that the most nodes fail, "" when none does."""
    others = [one for one in fit.because if one.filter not in _OF_THE_CHANGE] or list(fit.because)
    if not others:
        return ""
    worst = Filter(max(others, key=lambda one: one.nodes).filter)
    if worst is Filter.POD_TOPOLOGY_SPREAD and needs is not None:
        return _spread_help(needs)
    if worst is Filter.VOLUME_BINDING and Unknown.VOLUMES in fit.unknown:
        return _NEW_VOLUME_HELP
    return _HELP[worst]


def _spread_help(needs: PodNeeds) -> str:
    """Of constraints that want so many domains, or know of taints, the usual advice does not help."""
    domains = max((one.min_domains for one in needs.topology_spread), default=1)
    if domains > 1:
        return f"keep or add nodes in {domains} domains, as minDomains asks, or lower it"
    if any(one.node_taints_policy != HONOR for one in needs.topology_spread):
        return _HELP[Filter.POD_TOPOLOGY_SPREAD]
    return "add nodes to the domains with the fewest pods, or raise maxSkew"


def _unsure(fit: ReplacementFit) -> str:
    """Whether others may take the room that it would fit in."""
    if fit.assumed or fit.sure_of_a_node >= fit.pods:
        return ""
    sure = f"{fit.sure_of_a_node} of {fit.pods} for certain" if fit.pods > 1 else "not for certain"
    return f", {sure}: the scheduler's choice, or what else looks for room, may leave none"


def _found(fit: ReplacementFit) -> str:
    least, most = min(fit.sure_of_a_node, fit.placed), max(fit.may_find_one, fit.placed)
    return str(least) if least == most else f"{least} to {most}"


def _until(fit: ReplacementFit) -> str:
    """From when on there is a node again."""
    earliest, latest = fit.all_have_one.earliest_seconds, fit.all_have_one.latest_seconds
    if earliest is None:
        return ""
    if latest is None:
        return f"; perhaps on a node again from +{_duration(earliest)} on"
    return f", on a node again at +{_duration(latest)} at the latest"


def _duration(at_seconds: float) -> str:
    return format_duration(math.ceil(at_seconds) * SECOND_NS)


def _because(fit: ReplacementFit) -> str:
    refusals = sorted(fit.because, key=lambda one: -one.nodes)
    told = ", ".join(
        f"{_nodes(one.nodes)} fail{'s' * (one.nodes == 1)} {one.filter}" for one in refusals
    )
    text = f", because {told}" if told else ""
    if fit.lower_priority:
        text += f"; {_nodes(fit.lower_priority)} would have room without pods of lower priority"
    return text


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"
