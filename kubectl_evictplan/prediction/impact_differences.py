"""What differs between what two predictions say that a change costs services, workloads and budgets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kubectl_evictplan.prediction.difference_document import ImpactDifference
from kubectl_evictplan.prediction.impact_document import (
    BudgetImpact,
    Count,
    Impact,
    Instant,
    ServiceImpact,
    Spell,
    WorkloadImpact,
)

# The facts that are compared; all others follow from them or name what they are about.
_SERVICE = ("fewest_ready", "fewest_answering", "nobody_ready", "nobody_answers", "whole_again")
_WORKLOAD = ("fewest_ready", "below_before", "zero", "whole_again", "never_replaced")
_BUDGET = ("fewest_healthy", "broken", "broken_by")
_Touched = ServiceImpact | WorkloadImpact | BudgetImpact


def impact_differences(a: Impact | None, b: Impact | None) -> Iterator[ImpactDifference]:
    """Yield every fact that differs, services first; none where one of them has no impact."""
    if a is None or b is None:
        return
    yield from _between("service", _services(a), _services(b), _SERVICE)
    yield from _between("workload", _workloads(a), _workloads(b), _WORKLOAD)
    yield from _between("budget", _budgets(a), _budgets(b), _BUDGET)


def _services(impact: Impact) -> dict[tuple[str, str], _Touched]:
    return {(one.namespace, one.service): one for one in impact.services}


def _workloads(impact: Impact) -> dict[tuple[str, str], _Touched]:
    return {(one.namespace, one.workload): one for one in impact.workloads}


def _budgets(impact: Impact) -> dict[tuple[str, str], _Touched]:
    return {(one.namespace, one.budget): one for one in impact.budgets}


def _between(
    of: str,
    in_a: Mapping[tuple[str, str], _Touched],
    in_b: Mapping[tuple[str, str], _Touched],
    facts: Sequence[str],
) -> Iterator[ImpactDifference]:
    for key in sorted(in_a.keys() | in_b.keys()):
        one, other = in_a.get(key), in_b.get(key)
        for fact in facts:
            sides = [None if side is None else getattr(side, fact) for side in (one, other)]
            said = [None if value is None else _told(value) for value in sides]
            if said[0] != said[1]:
                change = _change(*sides)
                yield ImpactDifference(of, *key, _camel(fact), change, said[0], said[1])


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _change(a: object, b: object) -> str:
    """Return in which way the fact moved; of several instants all move one way, or it is otherwise."""
    if a is None or b is None:
        return "new" if a is None else "gone"
    first, second = list(_instants(a)), list(_instants(b))
    if len(first) != len(second) or first == second:
        return "otherwise"
    # Milliseconds, as they are told.
    pairs = [(round(x, 3), round(y, 3)) for x, y in zip(first, second, strict=True)]
    if all(x <= y for x, y in pairs):
        return "later"
    return "earlier" if all(x >= y for x, y in pairs) else "otherwise"


def _instants(value: object) -> Iterator[float]:
    """Yield both ends of every instant; without an end within reach is later than all."""
    never = float("inf")
    if isinstance(value, Instant):
        for end in (value.earliest_seconds, value.latest_seconds):
            yield never if end is None else end
    elif isinstance(value, Spell):
        yield from _instants(value.since)
        yield from _instants(value.until)
    elif isinstance(value, tuple):
        for one in value:
            yield from _instants(one)


def _told(value: object) -> str:
    """Return the fact in a few words, instants to the millisecond."""
    if isinstance(value, Count):
        return f"{value.least}" if value.least == value.most else f"{value.least} to {value.most}"
    if isinstance(value, Instant):
        return _instant(value)
    if isinstance(value, Spell):
        possible = "" if value.certainty == "certain" else " (possible)"
        return f"{_instant(value.since)} until {_instant(value.until)}{possible}"
    if isinstance(value, tuple):
        return _all(value)
    return str(value)


def _all(values: Iterable[object]) -> str:
    return "; ".join(map(_told, values)) or "none"


def _instant(value: Instant) -> str:
    first, last = value.earliest_seconds, value.latest_seconds
    if first is None:
        return "never"
    if last is None:
        return f"+{round(first, 3):.10g}s or later, perhaps never"
    if round(first, 3) == round(last, 3):
        return f"+{round(first, 3):.10g}s"
    return f"+{round(first, 3):.10g}s .. +{round(last, 3):.10g}s"
