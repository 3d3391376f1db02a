"""The bounds of what has no narrower proof: nothing in it can come earlier, or later, than these say.

Where exploration was not complete and ``outer_bounds`` proves nothing, say because kubelets come back, nodes come and go,
or kube-controller-manager starts anew. They are wide; certain is only what ``sure_evictions`` proves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.change_bounds import ChangeBounds
from kubectl_evictplan.windows.latest_services import LatestServices
from kubectl_evictplan.windows.noticing import ON_TIME, Lateness
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.pod_worlds import Version
from kubectl_evictplan.windows.spans import NEVER_NS, merge_spans
from kubectl_evictplan.windows.sure_evictions import SureEvictions
from kubectl_evictplan.windows.unknowns.services import Services
from kubectl_evictplan.windows.wide_fates import Possible, WideFates
from kubectl_evictplan.windows.zone_rates import ZoneRates

# More windows than this help nobody.
_WINDOWS_MAX = 4


class WideBounds(NamedTuple):
    """The states of zones in one scenario, what bounds changes and pods there, and what is sure of pods."""

    rates: ZoneRates
    changes: ChangeBounds
    fates: WideFates
    sure: SureEvictions

    @classmethod
    def of(
        cls,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        late: Lateness = ON_TIME,
    ) -> WideBounds:
        """Those of the scenario; nothing is explored for them. ``late``: how much later than by themselves ticks and passes may come."""
        services = LatestServices(snapshot, scenario, configuration, late)
        fates = WideFates(snapshot, scenario, configuration, services)
        sure = SureEvictions(scenario, configuration, services, fates)
        return cls(services.rates, ChangeBounds(snapshot, scenario, services), fates, sure)


def bound_samples(
    result: Exploration, snapshot: ClusterSnapshot, bounds: WideBounds, horizon_ns: int
) -> None:
    """Bound what was only explored of the nodes that are ``sampled``; add what may happen there and no run showed."""
    unseen = bool(result.missed)
    names = sorted(result.sampled)
    bounds.changes.put_nodes(result.nodes, names, result.cut_short, unseen=unseen)
    bounds.changes.put_zones(result.zones, result.zone_samples, unseen=unseen)
    missed = frozenset().union(*result.sampled.values())
    bounding = _Bounding(result, bounds.fates, bounds.sure, missed, horizon_ns)
    bounding.bound(snapshot.pods, result.sampled)


def bound_unexplored(result: Exploration, names: Collection[str], given: Given) -> None:
    """Bound what may happen to pods of these nodes that no run of the exploration has shown."""
    snapshot, scenario, _ = given
    bounds = WideBounds.of(*given)
    missed = frozenset({Services.name})
    bounding = _Bounding(result, bounds.fates, bounds.sure, missed, scenario.end_ns)
    bounding.bound(snapshot.pods, names)


def bound_successors(
    result: Exploration,
    pods: Collection[Pod],
    given: Given,
    missed: frozenset[str],
    horizon_ns: int,
) -> None:
    """Bound what may happen to pods that are made under the names of these ``pods``: what runs show of them, and more; none of it is certain."""
    fates = WideBounds.of(*given).fates
    for name, (first, *later) in fates.versions(pods, ()).items():
        by_key: dict[EvictionKey, list[Possible]] = {}
        for each in fates.possible([first, *later]):
            if each.pod.uid != first.pod.uid and each.span[0] <= horizon_ns:
                key = EvictionKey(name, each.pod.uid, each.controller, 0)
                by_key.setdefault(key, []).append(each)
        for key, possible in sorted(by_key.items()):
            found = result.evictions.get(key) or _not_seen(possible[0], missed)
            spans = (each.span for each in possible)
            told = [(low_ns, min(high_ns, horizon_ns)) for low_ns, high_ns in spans]
            found = found.also_within(told, missed)
            result.evictions[key] = found.ending_from(min(low_ns for low_ns, _ in told))


def bound_anew(
    result: Exploration, pods: Collection[Pod], given: Given, missed: frozenset[str], late_ns: int
) -> None:
    """Let whatever may happen to these ``pods`` by itself happen so much later as well; none of it is certain."""
    fates, horizon_ns = WideBounds.of(*given).fates, given.scenario.end_ns
    for name, versions in fates.versions(pods, ()).items():
        for each in fates.possible(versions):
            low_ns, high_ns = each.span
            if low_ns <= horizon_ns:
                key = EvictionKey(name, each.pod.uid, each.controller, 0)
                found = result.evictions.get(key) or _not_seen(each, missed)
                own = low_ns, min(high_ns + late_ns, horizon_ns)
                result.evictions[key] = found.also_within([own], missed).ending_from(low_ns)


class _Bounding(msgspec.Struct):
    """Puts the bounds of pods where only samples were; ``missed`` are the unknowns that were not wholly explored."""

    _result: Exploration
    _fates: WideFates
    _sure: SureEvictions
    _missed: frozenset[str]
    _horizon_ns: int

    def bound(self, every: Iterable[Pod], names: Collection[str]) -> None:
        """Bound all that may happen to pods of the nodes ``names``, and to those that are created there."""
        pods = (pod for pod in every if pod.node_name in names)
        shown: dict[str, list[EvictionKey]] = {}
        for key in self._result.evictions:
            shown.setdefault(key.pod, []).append(key)
        for name, versions in self._fates.versions(pods, names).items():
            possible = self._fates.possible(versions)
            keys = {EvictionKey(name, each.pod.uid, each.controller, 0) for each in possible}
            for key in sorted(keys.union(shown.get(name, ()))):
                same = [
                    p for p in possible if (p.pod.uid, p.controller) == (key.uid, key.controller)
                ]
                if same:
                    self._put(key, same, self._certain_by(key, versions, possible))

    def _certain_by(
        self, key: EvictionKey, versions: list[Version], possible: list[Possible]
    ) -> tuple[int, bool]:
        """Until when it has happened, and whether it must; ``NEVER_NS`` where nobody knows."""
        by_ns = None
        if key.controller == TAINT_EVICTION:
            by_ns = self._sure.first_deleted_by_ns(versions, key.uid)
        if by_ns is None:
            return NEVER_NS, False
        others = (each.span[0] for each in possible if each.controller != key.controller)
        return by_ns, by_ns < min(others, default=NEVER_NS)

    def _put(self, key: EvictionKey, possible: list[Possible], by: tuple[int, bool]) -> None:
        found, (by_ns, certain) = self._result.evictions.get(key), by
        if found is not None and (found.proven or not found.missed):
            return
        end_ns = min(self._horizon_ns, by_ns)
        spans = [(each.span[0], min(each.span[1], end_ns)) for each in possible]
        merged = list(merge_spans(sorted(span for span in spans if span[0] <= span[1]), 0))
        if not merged:
            return
        if len(merged) > _WINDOWS_MAX:
            merged = [(merged[0][0], merged[-1][1])]
        if found is None:
            found = _not_seen(min(possible, key=lambda each: each.span[0]), self._missed)
        self._result.evictions[key] = found._replace(
            spans=tuple(merged),
            certain=certain and by_ns <= self._horizon_ns,
            gone_earliest_ns=merged[0][0],
            gone_latest_ns=None,
            circumstances=(),
            proven=True,
        )


def _not_seen(possible: Possible, missed: frozenset[str]) -> PossibleEviction:
    """An eviction that no run has shown."""
    node = possible.pod.node_name
    return PossibleEviction.unseen(node, possible.decision, (possible.span,), missed)
