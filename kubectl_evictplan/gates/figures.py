"""Every figure that a rule can name: what it counts, what it takes, and its value in a prediction.

Besides these, the code of every warning and finding is a figure: of how many objects it is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from kubectl_evictplan.errors import WrongWord
from kubectl_evictplan.gates.kinds import COUNT, DURATION, SEVERITIES, SEVERITY, Kind
from kubectl_evictplan.gates.language import Comparison
from kubectl_evictplan.impact.finding_kinds import FINDING_KINDS
from kubectl_evictplan.prediction.document import Eviction, Prediction
from kubectl_evictplan.prediction.impact_document import (
    Impact,
    ServiceImpact,
    Spell,
    WorkloadImpact,
)
from kubectl_evictplan.prediction.records import CERTAIN
from kubectl_evictplan.prediction.warnings.input_codes import INCOMPLETE_CODES, INPUT_CODES
from kubectl_evictplan.prediction.warnings.registry import CODES
from kubectl_evictplan.scenarios.names import did_you_mean, similar


class Known(NamedTuple):
    """At least and at most, over every admissible run; infinity where there is no end.

    ``objects`` ("Kind/namespace/name") are those that are counted, the certain ones first; empty where nobody asks which.
    """

    least: float
    most: float
    objects: tuple[str, ...] = ()


class Unknown(NamedTuple):
    """There is no value, and why."""

    why: str


Value = Known | Unknown


class Names(NamedTuple):
    """What the input holds that a rule can name, each as "namespace/name".

    ``workloads`` are what people know them by: a Deployment, not its ReplicaSets; a pod only where nobody owns it.
    """

    workloads: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()
    budgets: frozenset[str] = frozenset()


class Facts(NamedTuple):
    """What is asked: a prediction, and what its input holds."""

    prediction: Prediction
    names: Names = Names()


class Figure(NamedTuple):
    """``argument`` says what stands in brackets: "" nothing, "[X]" X or nothing, "X" always X."""

    kind: Kind
    argument: str
    help: str
    value: Callable[[Facts, str], Value]


_NO_IMPACT = Unknown("what the change costs was not evaluated")


def _sure(number: float) -> Known:
    return Known(number, number)


# -- evictions --------------------------------------------------------------------------------------


def _chosen(facts: Facts, argument: str) -> list[Eviction] | Unknown:
    """Return the evictions of everything, a namespace, or a workload."""
    evictions = facts.prediction.evictions
    if not argument:
        return list(evictions)
    namespace, slash, name = argument.partition("/")
    if not slash:
        known = {one.partition("/")[0] for one in (*facts.names.workloads, *facts.names.services)}
        if argument not in known and all(e.namespace != argument for e in evictions):
            return Unknown(f"no namespace {argument} with a workload is in the input")
        return [entry for entry in evictions if entry.namespace == namespace]
    owners = {
        owner
        for report in facts.prediction.workloads
        if report.namespace == namespace
        for owner in report.owners
        if name in (report.workload.partition("/")[2], owner.partition("/")[2])
    }
    if not owners and argument not in facts.names.workloads:
        return Unknown(f"no workload {argument} is in the input")
    return [e for e in evictions if e.namespace == namespace and e.owner in owners]


def _pods(chosen: Iterable[Eviction], by_somebody: Collection[str] = ()) -> Known:
    """Count pods; those ``by_somebody`` go for certain, although none of their rows is."""
    found = list(chosen)
    certain = {e.key for e in found if e.certainty == CERTAIN or e.key in by_somebody}
    return Known(len(certain), len({entry.key for entry in found}))


def _evictions(facts: Facts, argument: str) -> Value:
    chosen = _chosen(facts, argument)
    if isinstance(chosen, Unknown):
        return chosen
    return _pods(chosen, facts.prediction.evicted.by_somebody)


def _stuck(facts: Facts, argument: str) -> Value:
    chosen = _chosen(facts, argument)
    if isinstance(chosen, Unknown):
        return chosen
    return _pods(entry for entry in chosen if entry.gone.stuck is not None)


def _last_eviction(facts: Facts, argument: str) -> Value:
    chosen = _chosen(facts, argument)
    if isinstance(chosen, Unknown):
        return chosen
    sure = [entry.earliest_seconds for entry in chosen if entry.certainty == CERTAIN]
    return Known(
        max(sure, default=0.0), max((entry.latest_seconds for entry in chosen), default=0.0)
    )


def _drains_unfinished(facts: Facts, _: str) -> Value:
    unfinished = [drain.unfinished for drain in facts.prediction.drains if drain.unfinished]
    return Known(unfinished.count(CERTAIN), len(unfinished))


# -- impact -----------------------------------------------------------------------------------------


def _of_impact(read: Callable[[Impact], Known]) -> Callable[[Facts, str], Value]:
    def value(facts: Facts, _: str) -> Value:
        impact = facts.prediction.impact
        return _NO_IMPACT if impact is None else read(impact)

    return value


def _lasting(spells: Iterable[Spell]) -> Known:
    """Return how long they last together."""
    found = list(spells)
    least = [math.inf if one.least_seconds is None else one.least_seconds for one in found]
    most = [math.inf if one.most_seconds is None else one.most_seconds for one in found]
    return Known(sum(least), sum(most))


def _worst(values: Iterable[Known]) -> Known:
    found = [_sure(0), *values]
    return Known(max(one.least for one in found), max(one.most for one in found))


_BARE = "Pod/"
_Touched = ServiceImpact | WorkloadImpact


def _named(impact: Impact, argument: str) -> Iterator[_Touched]:
    for service in impact.services:
        if f"{service.namespace}/{service.service}" == argument:
            yield service
    for workload in impact.workloads:
        if f"{workload.namespace}/{workload.workload.partition('/')[2]}" == argument:
            yield workload


def _about(spells: Callable[[_Touched], Iterable[Spell]]) -> Callable[[Facts, str], Value]:
    """Return the longest of what a Service and a workload of that name suffer; nothing named: the worst of all.

    Bare pods count only by name: nobody expects one to be there in spite of its node.
    """

    def value(facts: Facts, argument: str) -> Value:
        impact = facts.prediction.impact
        if impact is None:
            return _NO_IMPACT
        found: list[_Touched] = list(_named(impact, argument))
        if not argument:
            kept = (one for one in impact.workloads if not one.workload.startswith(_BARE))
            found = [*impact.services, *kept]
        elif not found and argument not in facts.names.workloads | facts.names.services:
            return Unknown(f"no Service and no workload {argument} is in the input")
        return _worst(_lasting(spells(one)) for one in found)

    return value


def _nobody_there(touched: _Touched) -> Iterable[Spell]:
    return touched.nobody_answers if isinstance(touched, ServiceImpact) else touched.zero


def _fewer(touched: _Touched) -> Iterable[Spell]:
    return touched.below_before if isinstance(touched, WorkloadImpact) else ()


def _undetected(impact: Impact) -> Known:
    found = (one.undetected for one in impact.services)
    return _worst(_lasting([spell]) for spell in found if spell is not None)


def _pdb_broken(facts: Facts, argument: str) -> Value:
    impact = facts.prediction.impact
    if impact is None:
        return _NO_IMPACT
    budgets = [one for one in impact.budgets if argument in ("", f"{one.namespace}/{one.budget}")]
    broken = [one for one in budgets if one.broken]
    sure = [one for one in broken if any(spell.certainty == CERTAIN for spell in one.broken)]
    unread = any(w.code == "budget-not-readable" for w in facts.prediction.warnings)
    if argument and not budgets and not unread and argument not in facts.names.budgets:
        return Unknown(f"no PodDisruptionBudget {argument} is in the input")
    named = dict.fromkeys((one.namespace, one.budget) for one in (*sure, *broken))
    objects = tuple(f"PodDisruptionBudget/{namespace}/{name}" for namespace, name in named)
    return Known(len(sure), math.inf if unread else len(broken), objects)


def _quorum_lost(impact: Impact) -> Known:
    lost = [one.majority_lost for one in impact.quorums if one.majority_lost]
    sure = sum(any(spell.certainty == CERTAIN for spell in spells) for spells in lost)
    return Known(sure, len(lost))


def _severity(impact: Impact) -> Known:
    found = [(one.certainty, SEVERITIES.index(one.severity)) for one in impact.findings]
    sure = [rank for certainty, rank in found if certainty == CERTAIN]
    return Known(max(sure, default=0), max((rank for _, rank in found), default=0))


def _not_evaluated(facts: Facts, _: str) -> Value:
    impact = facts.prediction.impact
    gaps = 1 if impact is None else len(impact.not_evaluated)
    return _sure(gaps + sum(w.code in INCOMPLETE_CODES for w in facts.prediction.warnings))


# -- the table --------------------------------------------------------------------------------------

_WORKLOAD = "[NAMESPACE or NAMESPACE/WORKLOAD]"
_NAMED = "[NAMESPACE/SERVICE or WORKLOAD]"

FIGURES: dict[str, Figure] = {
    "evictions": Figure(COUNT, _WORKLOAD, "pods that are evicted", _evictions),
    "stuck": Figure(COUNT, _WORKLOAD, "evicted pods that stay Terminating", _stuck),
    "last-eviction": Figure(DURATION, _WORKLOAD, "from the start to the last one", _last_eviction),
    "drains-unfinished": Figure(COUNT, "", "nodes that are not drained", _drains_unfinished),
    "unavailable": Figure(DURATION, _NAMED, "how long nobody is ready", _about(_nobody_there)),
    "degraded": Figure(DURATION, _NAMED, "how long fewer are ready than before", _about(_fewer)),
    "undetected": Figure(
        DURATION, "", "how long dead endpoints are still offered", _of_impact(_undetected)
    ),
    "pdb-broken": Figure(COUNT, "[NAMESPACE/BUDGET]", "budgets below what they want", _pdb_broken),
    "quorum-lost": Figure(COUNT, "", "groups without a majority", _of_impact(_quorum_lost)),
    "not-coming-back": Figure(
        COUNT,
        "",
        "pods that do not come back by themselves",
        _of_impact(
            lambda impact: _sure(len({(o.namespace, o.pod) for o in impact.not_coming_back}))
        ),
    ),
    "severity": Figure(SEVERITY, "", "the worst finding", _of_impact(_severity)),
    "findings": Figure(COUNT, "", "findings", _of_impact(lambda i: _sure(len(i.findings)))),
    "warnings": Figure(
        COUNT, "", "warnings", lambda facts, _: _sure(len(facts.prediction.warnings))
    ),
    "not-evaluated": Figure(COUNT, "", "gaps: what was not evaluated", _not_evaluated),
}


def told(value: Value, figure: Figure) -> str:
    """Return a value in words: one number, or from the least to the most."""
    if isinstance(value, Unknown):
        return f"not known: {value.why}"
    least, most = figure.kind.show(value.least), figure.kind.show(value.most)
    return least if least == most else f"{least} to {most}"


def code_figure(code: str) -> Figure:
    """Return the figure of a warning's or finding's code: how many objects it is about, at least 1 where it is."""

    def value(facts: Facts, _: str) -> Value:
        found = [w for w in facts.prediction.warnings if w.code == code]
        if found or code in CODES or code in INPUT_CODES:
            return _sure(sum(max(len(warning.objects), 1) for warning in found))
        impact = facts.prediction.impact
        if impact is None:
            return _NO_IMPACT
        told = [one for one in impact.findings if one.code == code]
        sure = sum(max(len(one.objects), 1) for one in told if one.certainty == CERTAIN)
        return Known(sure, sum(max(len(one.objects), 1) for one in told))

    return Figure(COUNT, "", "", value)


def known_codes() -> frozenset[str]:
    """Return the code of every warning and finding there is."""
    return frozenset((*CODES, *INPUT_CODES, *FINDING_KINDS))


# What --abort-if calls a figure, and people.
_MEANT = dict.fromkeys(("evicted", "pods", "deleted"), ("evictions",))


def check(comparison: Comparison) -> None:
    """Raise ValueError, in one line, for a figure that does not exist or is compared with something else."""
    name, argument, sign, limit = comparison
    codes = known_codes()
    if name not in FIGURES and name not in codes:
        close = _MEANT.get(name) or similar(name, (*FIGURES, *codes))
        known = f"; there are {', '.join(FIGURES)} and the codes of warnings and findings"
        message = f"there is no figure {name}{did_you_mean(close) if close else known}"
        raise WrongWord(message, name, close)
    figure = FIGURES.get(name) or code_figure(name)
    if argument and not figure.argument:
        raise ValueError(f"{name} takes nothing in brackets")
    if sign:
        figure.kind.parse(limit)
    elif figure.kind is SEVERITY:
        raise ValueError(f"{name} needs a limit, such as {name} >= {figure.kind.sample}")
