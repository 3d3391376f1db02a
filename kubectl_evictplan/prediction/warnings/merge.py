"""Everything unknown, assumed, not evaluated or surprising about one prediction.

``find_warnings`` asks the rules in ``cautions/`` and ``merge_warnings`` puts their answers together with
those of loaders and commands. Codes are documented in docs/warnings.md and keep their meaning.

Rules of this file: one ``Warning`` per code and message, with every object it is about ("namespace/name"
for pods, the plain name for nodes), sorted; only objects that matter to this prediction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Warning
from kubectl_evictplan.prediction.warnings import (
    controllers,
    evicted_pods,
    nodes,
    scenario_events,
    tolerations,
)
from kubectl_evictplan.prediction.warnings.situation import Rule, Situation
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.outcome import EvictionKey, Occurrence

# In the order in which a reader wants to know: what the events do, what the pods lose, then the rest.
RULES: tuple[Rule, ...] = (
    *scenario_events.RULES,
    *tolerations.RULES,
    *evicted_pods.RULES,
    *controllers.RULES,
    *nodes.RULES,
)

# What a loader or a command says about everything it saw, and a rule here says better about what
# matters: code -> codes of the rules, each of which is enough.
_SAID_BETTER = {
    "comparison-operator": {"lt-gt-operator-gate-off"},
    "missing-lease": {"missing-lease"},
    "ready-condition": {"node-without-ready", "odd-ready-condition"},
    "toleration-overflow": {"toleration-seconds-overflow"},
    "unknown-node": {"pod-on-unknown-node"},
    "zone-labels": {"conflicting-zone-labels"},
}


def find_warnings(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    nominal: Timeline,
    affected_nodes: Collection[str],
    evictions: Mapping[EvictionKey, Occurrence],
) -> list[Warning]:
    """Every warning of one prediction, deterministic, in the order of ``RULES``. Pure.

    ``nominal`` is the run that is reported as the timeline, ``evictions`` what was found over all
    admissible runs. Neither the loader's nor the configuration's own warnings are repeated.
    """
    situation = Situation(snapshot, scenario, configuration, nominal, affected_nodes, evictions)
    return [warning for rule in RULES for warning in rule(situation)]


def merge_warnings(found: Iterable[Warning], others: Iterable[Warning]) -> list[Warning]:
    """``found`` and then ``others``, without what ``found`` says already and says better."""
    said = list(found)
    codes = {warning.code for warning in said}
    return [
        *said,
        *(warning for warning in others if codes.isdisjoint(_SAID_BETTER.get(warning.code, ()))),
    ]
