"""What a ``ReplacementFit`` says, in a sentence for people."""

from __future__ import annotations

from kubectl_evictplan.kube.scheduling.answers import Unknown, Verdict
from kubectl_evictplan.prediction.impact_document import ReplacementFit

_UNKNOWN = {
    Unknown.NEEDS: "its spec is not in the input",
    Unknown.SCHEDULER: "another scheduler places it",
    Unknown.DEVICES: "it claims devices of drivers",
    Unknown.VOLUMES: "where its volumes can be reached from is not in the input",
    Unknown.OFFERS: "the nodes that are left do not say what they offer",
    Unknown.OTHER_PODS: "what other pods take is not in the input",
    Unknown.NAMESPACES: "labels of namespaces are not in the input",
}


def fit_sentence(fit: ReplacementFit) -> str:
    """Return e.g. ``fits nowhere: would stay Pending, because 8 nodes fail NodeResourcesFit``."""
    because = _because(fit)
    match Verdict(fit.verdict):
        case Verdict.FITS:
            return f"fits on {_nodes(fit.on_nodes)}"
        case Verdict.PARTLY:
            return (
                f"{fit.placed} of {fit.pods} find a place, the others would stay Pending{because}"
            )
        case Verdict.NO_ROOM_LEFT:
            return f"no room left by the replacements before it: would stay Pending{because}"
        case Verdict.ONLY_ON_LEAVING if fit.returns_to:
            return f"only fits on {_nodes(fit.returns_to)} that it is evicted from, and goes back there"
        case Verdict.ONLY_ON_LEAVING:
            return f"only fits on nodes that are going away: would stay Pending{because}"
        case Verdict.NOWHERE:
            return f"fits nowhere: would stay Pending{because}"
        case Verdict.UNKNOWN:
            reasons = " and ".join(_UNKNOWN[Unknown(one)] for one in fit.unknown)
            return f"whether it fits is unknown: {reasons}"


def _because(fit: ReplacementFit) -> str:
    refusals = sorted(fit.because, key=lambda one: -one.nodes)
    told = ", ".join(
        f"{_nodes(one.nodes)} fail{'s' * (one.nodes == 1)} {one.filter}" for one in refusals
    )
    text = f", because {told}" if told else ""
    if fit.lower_priority:
        text += f"; it may preempt pods of lower priority on {_nodes(fit.lower_priority)}"
    return text


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"
