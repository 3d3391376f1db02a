"""Everything unknown, assumed, not evaluated or surprising about one prediction: the table of warnings.

Every code has one author, the public function or ``PlainWarning`` of its name in one of the modules:
``bare_pod_lost`` says ``bare-pod-lost``. Codes are explained in docs/warnings.md and keep their meaning.
What a loader finds odd about its input and what a command had to assume have codes of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import FunctionType

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.records import RowsByCode
from kubectl_evictplan.prediction.warnings import (
    controllers,
    drains,
    evicted_pods,
    nodes,
    other_ends,
    scenario_events,
    tolerations,
)
from kubectl_evictplan.prediction.warnings.context import PlainWarning, WarningContext

# In the order in which a reader wants to know: what the events do, what the pods lose, then the rest.
_MODULES = (scenario_events, drains, tolerations, evicted_pods, other_ends, controllers, nodes)


CODES: dict[str, FunctionType | PlainWarning] = {
    name.replace("_", "-"): author
    for module in _MODULES
    for name, author in vars(module).items()
    if isinstance(author, PlainWarning)
    or (
        isinstance(author, FunctionType) and author.__module__ == module.__name__ and name[0] != "_"
    )
}


def warnings_later(context: WarningContext, others: Iterable[Warning] = ()) -> RowsByCode[Warning]:
    """All warnings of one prediction, deterministic, in the order of ``CODES``; ``others`` stand behind them.

    One per code and message, sorted, with every object it is about ("namespace/name" for pods, the plain
    name for nodes), sorted; only objects that matter to this prediction.
    """
    return RowsByCode({code: partial(_said_by, code, context) for code in CODES}, others)


def _said_by(code: str, context: WarningContext) -> Iterator[Warning]:
    """Yield what the author of one code says."""
    found: dict[str, list[str]] = {}
    for message, objects in CODES[code](context):
        found.setdefault(message, []).extend(objects)
    for message, names in sorted(found.items()):
        if names:
            # Most lists come sorted: sorting first costs nothing then, while a set would shuffle them.
            unique = dict.fromkeys(sorted(names))
            yield Warning(code, message, tuple(filter(None, unique)))
