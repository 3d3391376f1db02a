"""Charts as Vega-Lite specifications: plain JSON that says what is drawn, and that tests can read.

Widths, colours of axes and everything else that depends on the reader's screen are left to the page.
"""

from __future__ import annotations

import math
from typing import Any

from kubectl_evictplan.display import escape
from kubectl_evictplan.report.blocks import Band, Bands, Counts, Gantt, Tone

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_LABEL_COLUMNS_MAX = 80
_ROW_PIXELS = 18
# Told apart by lightness as well; the words stand in the legend and in what hovering shows.
_TONES: dict[Tone, tuple[str, str]] = {
    "plain": ("happens", "#5b7fb5"),
    "certain": ("certain", "#c8473c"),
    "possible": ("possible", "#d9a13b"),
    "stuck": ("stuck or refused", "#8e5aa8"),
    "good": ("stays", "#4f9d69"),
    "loud": ("outage", "#9c1c1c"),
    "faint": ("before", "#8a8f98"),
}
# Seconds as Go writes durations, with a sign: +5m30s.
_OFFSET = (
    "(datum.value < 0 ? '-' : '+') + "
    "(abs(datum.value) >= 3600 ? floor(abs(datum.value) / 3600) + 'h' : '') + "
    "(abs(datum.value) >= 60 ? floor(abs(datum.value) % 3600 / 60) + 'm' : '') + "
    "(abs(datum.value) % 60 || !datum.value || abs(datum.value) < 60 ? format(abs(datum.value) % 60, '~g') + 's' : '')"
)
_STEPS = (
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    14400,
    21600,
    43200,
    86400,
)
_TICKS_MAX = 9
# Of the whole chart: narrower bars are hard to see.
_SHORT = 0.004


def gantt(chart: Gantt) -> Spec:
    """Return bars over time, one row each, under the names of their groups."""
    rows: list[Spec] = []
    ends = [bar.to_seconds for group in chart.groups for bar in group.bars]
    end = max(ends, default=0.0) or 1.0
    for group in chart.groups:
        for bar in group.bars:
            rows.append(
                {
                    "row": f"{len(rows):04d} {_label(bar.label)}",
                    "what": _label(bar.label),
                    "of": _label(group.name),
                    "from": bar.from_seconds,
                    "to": bar.to_seconds,
                    "short": bar.to_seconds - bar.from_seconds < _SHORT * end,
                    "kind": _TONES[bar.tone][0],
                    "when": escape(bar.told),
                }
            )
    x = _time("from", end)
    told = ("what", "of", "when", *(("kind",) if chart.legend else ()))
    tooltip = [{"field": key, "title": key} for key in told]
    encoding = {
        "y": {
            "field": "row",
            "type": "nominal",
            "sort": None,
            "axis": {"title": None, "labelExpr": "slice(datum.label, 5)"},
        },
        "x": x,
        "color": _color(rows) if chart.legend else {**_color(rows), "legend": None},
        "tooltip": tooltip,
    }
    band = {"mark": {"type": "bar", "height": 11, "cornerRadius": 2}}
    # What has no width to speak of is shown by a tick.
    instant = {"mark": {"type": "tick", "thickness": 3, "size": 13}}
    layers = [{**band, "encoding": {"x2": {"field": "to"}}}]
    if any(row["short"] for row in rows):
        layers.append({**instant, "transform": [{"filter": "datum.short"}]})
    return {
        **_base(rows, _ROW_PIXELS * max(len(rows), 1)),
        "encoding": encoding,
        "layer": layers,
    }


def band(chart: Bands, one: Band) -> Spec:
    """Return one number over time as the area between its bounds."""
    rows = [
        {"at": point.at_seconds, "least": point.least, "most": point.most} for point in one.points
    ]
    if rows:
        rows.append({**rows[-1], "at": max(one.end_seconds, rows[-1]["at"])})
    unit = _label(chart.unit)
    x = _time("at", one.end_seconds)
    tooltip = [
        {"field": "at", "title": "from (seconds)"},
        {"field": "least", "title": "at least"},
        {"field": "most", "title": "at most"},
    ]
    y = {
        "type": "quantitative",
        "axis": {"title": unit, "tickMinStep": 1, "tickCount": 4, "format": "d"},
    }
    step = {"interpolate": "step-after"}
    color = _TONES["plain"][1]
    return {
        **_base(rows, 110),
        "encoding": {"x": x, "tooltip": tooltip},
        "layer": [
            {
                "mark": {"type": "area", **step, "opacity": 0.35, "color": color},
                "encoding": {"y": {**y, "field": "most"}, "y2": {"field": "least"}},
            },
            {
                "mark": {"type": "line", **step, "color": color, "strokeWidth": 2},
                "encoding": {"y": {**y, "field": "least"}},
            },
            {
                "mark": {"type": "line", **step, "color": color, "strokeDash": [3, 3]},
                "encoding": {"y": {**y, "field": "most"}},
            },
            {
                "mark": {"type": "point", "opacity": 0, "size": 200},
                "encoding": {"y": {**y, "field": "most"}},
            },
        ],
    }


def counts(chart: Counts) -> Spec:
    """Return a few numbers as bars beside each other."""
    rows = [
        {"what": _label(label), "number": number, "kind": _TONES[tone][0]}
        for label, number, tone in chart.counts
    ]
    y = {"field": "what", "type": "nominal", "sort": None, "axis": {"title": None}}
    x = {
        "field": "number",
        "type": "quantitative",
        "axis": {"title": _label(chart.unit), "tickMinStep": 1, "tickCount": 6, "format": "d"},
    }
    return {
        **_base(rows, 26 * max(len(rows), 1)),
        "encoding": {"y": y, "x": x},
        "layer": [
            {
                "mark": {"type": "bar", "cornerRadius": 2},
                "encoding": {
                    "color": {**_color(rows), "legend": None},
                    "tooltip": [{"field": "what"}, {"field": "number"}],
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 4},
                "encoding": {"text": {"field": "number"}},
            },
        ],
    }


def _time(field: str, end_seconds: float) -> Spec:
    """Return the axis of time from the start on, with ticks where clocks have them."""
    end = end_seconds or 1.0
    days = 86400 * math.ceil(end / _TICKS_MAX / 86400)
    step = next((one for one in _STEPS if end / one <= _TICKS_MAX), days)
    axis = {
        "title": "since the start",
        "labelExpr": _OFFSET,
        "values": [round(step * at, 1) for at in range(int(end / step + 1e-9) + 1)],
        "labelOverlap": "greedy",
        "labelSeparation": 6,
    }
    # Where everything happens at the start there is an axis all the same.
    scale = {"zero": True, "nice": False, "domainMax": end}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": scale}


def _base(rows: list[Spec], height: int) -> Spec:
    return {"$schema": SCHEMA, "width": "container", "height": height, "data": {"values": rows}}


def _color(rows: list[Spec]) -> Spec:
    used = {row["kind"] for row in rows}
    pairs = [pair for pair in _TONES.values() if pair[0] in used]
    scale = {"domain": [word for word, _ in pairs], "range": [color for _, color in pairs]}
    legend = {"title": None, "orient": "top"}
    return {"field": "kind", "type": "nominal", "scale": scale, "legend": legend}


def _label(text: str) -> str:
    return escape(text, max_columns=_LABEL_COLUMNS_MAX)
