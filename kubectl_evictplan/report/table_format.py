"""``-o table`` and ``-o wide``: the answer first, then its evidence, then what to know about it."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.prediction.document import POSSIBLE, Prediction
from kubectl_evictplan.report.evictions import render_evictions
from kubectl_evictplan.report.headline import render_headline
from kubectl_evictplan.report.layout import Layout
from kubectl_evictplan.report.sections import (
    render_cancelled,
    render_kept,
    render_nodes,
    render_stuck,
    render_zones,
)
from kubectl_evictplan.report.warnings_section import render_warnings

_LEGEND = "? = possible: in some admissible timings, not in all.\n"


def render_table(prediction: Prediction, layout: Layout, *, headers: bool) -> Iterator[str]:
    """Yield the report's lines; without ``headers`` the eviction rows alone."""
    if not headers:
        yield from render_evictions(prediction.evictions, layout, headers=False)
        return
    yield from render_headline(prediction, layout)
    if prediction.evictions:
        yield "\n"
        yield from render_evictions(prediction.evictions, layout, headers=True)
        yield from render_stuck(prediction.evictions, layout)
    yield from render_kept(prediction.kept, layout)
    yield from render_cancelled(prediction.cancelled, layout)
    yield from render_nodes(prediction.nodes, layout)
    yield from render_zones(prediction.zones, layout)
    if _has_mark(prediction, layout):
        yield "\n" + _LEGEND
    yield from render_warnings(prediction.warnings, layout)


def _has_mark(prediction: Prediction, layout: Layout) -> bool:
    """Whether some row shows the mark of a possibility; wide spells it for evictions."""
    marked = [entry.certainty for entry in prediction.cancelled]
    marked += [change.certainty for node in prediction.nodes for change in node.changes]
    marked += [state.certainty for zone in prediction.zones for state in zone.states]
    if not layout.wide:
        marked += [entry.certainty for entry in prediction.evictions]
    return POSSIBLE in marked
