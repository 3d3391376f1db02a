"""Everything unknown, assumed, not evaluated or surprising about one prediction: the table of warnings.

Every code has one author: the function of that name (``bare_pod_lost`` says ``bare-pod-lost``). Codes
are explained in docs/warnings.md and keep their meaning. What a loader finds odd about its input and
what a command had to assume have codes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.warnings import (
    controllers,
    evicted_pods,
    nodes,
    scenario_events,
    timers,
    tolerations,
)
from kubectl_evictplan.prediction.warnings.context import WarningContext, WarningFunction

# In the order in which a reader wants to know: what the events do, what the pods lose, then the rest.
_MODULES = (scenario_events, timers, tolerations, evicted_pods, controllers, nodes)
CODES: dict[str, WarningFunction] = {
    function.__name__.replace("_", "-"): function
    for module in _MODULES
    for function in module.WARNINGS
}


def find_warnings(context: WarningContext) -> Iterator[Warning]:
    """Yield every warning of one prediction, deterministic, in the order of ``CODES``.

    One per code and message, with every object it is about ("namespace/name" for pods, the plain name
    for nodes), sorted; only objects that matter to this prediction.
    """
    for code, function in CODES.items():
        for message, objects in function(context):
            # Most lists come sorted: sorting first costs nothing then, while a set would shuffle them.
            names = None if objects is None else tuple(dict.fromkeys(sorted(objects)))
            if names is None or names:
                yield Warning(code, message, names or ())
