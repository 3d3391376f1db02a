"""Everything unknown, assumed, not evaluated or surprising about one prediction: the table of warnings.

Every code has one author, the public function or ``PlainWarning`` of its name in one of the modules:
``bare_pod_lost`` says ``bare-pod-lost``. Codes are explained in docs/warnings.md and keep their meaning.
What a loader finds odd about its input and what a command had to assume have codes of their own.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import partial
from types import FunctionType

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.records import RowsLater
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


def find_warnings(
    context: WarningContext, codes: Container[str] = CODES.keys()
) -> Iterator[Warning]:
    """Yield every warning of one prediction that has one of these codes, deterministic, in the order of ``CODES``.

    One per code and message, sorted, with every object it is about ("namespace/name" for pods, the plain
    name for nodes), sorted; only objects that matter to this prediction.
    """
    for code, author in CODES.items():
        if code not in codes:
            continue
        found: dict[str, list[str]] = {}
        for message, objects in author(context):
            found.setdefault(message, []).extend(objects)
        for message, names in sorted(found.items()):
            if names:
                # Most lists come sorted: sorting first costs nothing then, while a set would shuffle them.
                unique = dict.fromkeys(sorted(names))
                yield Warning(code, message, tuple(filter(None, unique)))


class WarningsLater(RowsLater[Warning]):
    """All warnings of one prediction, found when they are read; those of some codes without the others."""

    def __init__(self, context: WarningContext, others: Iterable[Warning]) -> None:
        """``others`` stand behind those that are found."""
        self._others = tuple(others)
        self._find = partial(find_warnings, context)
        super().__init__(lambda: (*self._find(), *self._others))

    def of(self, codes: Container[str]) -> Iterator[Warning]:
        """Those that have one of these codes."""
        yield from self._find(codes)
        yield from (one for one in self._others if one.code in codes)


def warnings_of(warnings: Iterable[Warning], codes: Container[str]) -> Iterator[Warning]:
    """Those of a prediction's that have one of these codes."""
    if isinstance(warnings, WarningsLater):
        return warnings.of(codes)
    return (one for one in warnings if one.code in codes)
