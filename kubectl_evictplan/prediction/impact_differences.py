"""What differs between what two predictions say that a change costs: services, workloads, budgets, volumes, quorums. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from kubectl_evictplan.prediction.difference_document import ImpactDifference, ImpactSide
from kubectl_evictplan.prediction.impact_document import (
    BudgetImpact,
    Count,
    Impact,
    Instant,
    QuorumImpact,
    ServiceImpact,
    Spell,
    VolumeImpact,
    WorkloadImpact,
)

# The facts that are compared; all others follow from them or name what they are about.
_SERVICE = ("fewest_ready", "fewest_answering", "nobody_ready", "nobody_answers", "whole_again")
_WORKLOAD = ("fewest_ready", "below_before", "zero", "whole_again", "never_replaced")
_BUDGET = ("fewest_healthy", "broken", "broken_by")
_VOLUME = ("free",)
_QUORUM = ("fewest_voting", "majority_lost")
# Facts that are names.
_OF_NAMES = frozenset({"never_replaced"})
_Touched = ServiceImpact | WorkloadImpact | BudgetImpact | VolumeImpact | QuorumImpact


def impact_differences(a: Impact | None, b: Impact | None) -> Iterator[ImpactDifference]:
    """Yield every fact that differs, services first; none where one of them has no impact."""
    if a is None or b is None:
        return
    yield from _between("service", _services(a), _services(b), _SERVICE)
    yield from _between("workload", _workloads(a), _workloads(b), _WORKLOAD)
    yield from _between("budget", _budgets(a), _budgets(b), _BUDGET)
    yield from _between("volume", _claims(a), _claims(b), _VOLUME)
    yield from _between("quorum", _quorums(a), _quorums(b), _QUORUM)


def _services(impact: Impact) -> dict[tuple[str, str], _Touched]:
    return {(one.namespace, one.service): one for one in impact.services}


def _workloads(impact: Impact) -> dict[tuple[str, str], _Touched]:
    return {(one.namespace, one.workload): one for one in impact.workloads}


def _budgets(impact: Impact) -> dict[tuple[str, str], _Touched]:
    return {(one.namespace, one.budget): one for one in impact.budgets}


def _claims(impact: Impact) -> dict[tuple[str, str], _Touched]:
    """Of each claim the pod that keeps it longest."""
    by_end = sorted(impact.volumes, key=lambda one: list(_instants(one.free)))
    return {(one.namespace, one.claim): one for one in by_end}


def _quorums(impact: Impact) -> dict[tuple[str, str], _Touched]:
    return {("", one.name): one for one in impact.quorums}


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
            a, b = (None if value is None else _side(fact, value) for value in sides)
            if a != b:
                yield ImpactDifference(of, *key, _camel(fact), _change(*sides), a, b)


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


def _side(fact: str, value: object) -> ImpactSide:
    """Return the fact in the field of its type, instants to the millisecond."""
    match value:
        case Count():
            return ImpactSide(count=value)
        case Instant():
            return ImpactSide(instant=_rounded(value))
        case tuple() if fact in _OF_NAMES:
            return ImpactSide(names=value)
        case tuple():
            return ImpactSide(spells=tuple(map(_spell, value)))
    raise TypeError(f"no fact of an impact: {value!r}")


def _spell(spell: Spell) -> Spell:
    return replace(
        spell,
        since=_rounded(spell.since),
        until=_rounded(spell.until),
        least_seconds=milliseconds(spell.least_seconds),
        most_seconds=milliseconds(spell.most_seconds),
    )


def _rounded(instant: Instant) -> Instant:
    return Instant(milliseconds(instant.earliest_seconds), milliseconds(instant.latest_seconds))


def milliseconds(seconds: float | None) -> float | None:
    """Return the seconds as they are compared: windows that agree to the millisecond are the same."""
    return None if seconds is None else round(seconds, 3)
