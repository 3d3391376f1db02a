"""Turn a ``Prediction`` into text: one file per output format, one door for all of them.

Formats read the prediction and nothing else; they never decide anything. Data formats (``json``,
``yaml``) carry strings as they are; the formats for people show every string through
``kubectl_evictplan.display``. Everything is deterministic and streams as lines or chunks that end
in newlines, so that a caller may write them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubectl_evictplan.errors import InputError, Problem

if TYPE_CHECKING:
    from kubectl_evictplan.prediction.document import Prediction

OUTPUTS = ("table", "wide", "json", "yaml", "name")


def render(
    prediction: Prediction,
    output: str,
    *,
    color: bool = False,
    headers: bool = True,
    explain: str | None = None,
    width: int | None = None,
    ascii_only: bool = False,
) -> Iterator[str]:
    """Return the chunks of ``prediction`` in the format ``output``; each ends in a newline.

    ``color`` adds ANSI colours to the table formats. ``headers`` False leaves the table formats
    with the eviction rows alone, always with the same columns. ``explain`` ("NAMESPACE/POD", or
    "POD" when only one namespace has it) limits every format to that pod; the table formats then
    tell its story instead of printing tables. ``width`` is the number of columns that ``table``
    may use (default 100, at least 80). ``ascii_only`` escapes everything outside ASCII: for JSON on a terminal
    and for streams that cannot encode more; ``yaml`` and ``name`` are always ASCII.

    Raises InputError, before anything is rendered, for an unknown format or pod.
    """
    if output not in OUTPUTS:
        raise InputError(_unknown_output(output))
    if explain:
        from kubectl_evictplan.report.selection import only_pod

        prediction = only_pod(prediction, explain)
    if output in ("table", "wide"):
        from kubectl_evictplan.report.layout import Layout

        layout = Layout.of(output, color=color, columns=width, ascii_only=ascii_only)
        if explain:
            from kubectl_evictplan.report.explanation import render_explanation

            return render_explanation(prediction, layout)
        from kubectl_evictplan.report.table_format import render_table

        return render_table(prediction, layout, headers=headers)
    return _render_data(prediction, output, ascii_only)


def _render_data(prediction: Prediction, output: str, ascii_only: bool) -> Iterator[str]:
    if output == "json":
        from kubectl_evictplan.report.json_format import render_json

        return render_json(prediction, ascii_only=ascii_only)
    if output == "yaml":
        from kubectl_evictplan.report.yaml_format import render_yaml

        return render_yaml(prediction)
    from kubectl_evictplan.report.name_format import render_names

    return render_names(prediction)


def _unknown_output(output: str) -> Problem:
    return Problem(
        "unable to match a printer suitable for the output format",
        location="--output",
        got=output,
        expected="one of " + ", ".join(OUTPUTS),
    )
