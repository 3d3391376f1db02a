"""Turn a ``Prediction`` into text: one door for all output formats.

For people, ``content`` says it in blocks (``blocks``) and a renderer (``terminal``) lays them out.
Data formats (``json``, ``yaml``, ``name``) render the document itself and carry strings as they are.
Everything is deterministic and streams as chunks of whole lines, so that a caller may write them one
by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from kubectl_evictplan.errors import InputError, Problem

if TYPE_CHECKING:
    from kubectl_evictplan.prediction.document import Prediction

OUTPUTS = ("table", "wide", "json", "yaml", "name")
GROUPINGS = ("pod", "node", "workload", "namespace", "zone")


def render(
    prediction: Prediction,
    output: str,
    *,
    by: str | None = None,
    zone: tzinfo | None = UTC,
    explain: str | None = None,
    headers: bool = True,
    columns: int | None = None,
    color: bool = False,
    ascii_only: bool = False,
) -> Iterator[str]:
    """Return the chunks of ``prediction`` in the format ``output``; each ends in a newline.

    ``explain`` ("NAMESPACE/POD") limits every format to that pod; the formats for people then tell its
    story. Only they know the other options: ``by`` groups the evictions (None: as suits their number),
    ``zone`` is the zone of clock times (None: the system's), ``headers`` False leaves rows of evictions
    alone, always with the same columns, ``columns`` is the width of a terminal (None: no limit),
    ``color`` adds ANSI colours. ``ascii_only`` escapes everything outside ASCII: for JSON on a terminal
    and for streams that cannot encode more; ``yaml`` and ``name`` are always ASCII.

    Raises InputError, before anything is rendered, for an unknown format.
    """
    if output in ("table", "wide"):
        from kubectl_evictplan.report.content import contents
        from kubectl_evictplan.report.terminal import Terminal

        blocks = contents(
            prediction,
            wide=output == "wide",
            by=by,
            zone=zone,
            explain=explain,
            rows_only=not headers,
        )
        return Terminal(columns, color, ascii_only, headers).render(blocks)
    if explain is not None:
        from kubectl_evictplan.report.document import only_pod

        prediction = only_pod(prediction, explain)
    return _render_data(prediction, output, ascii_only)


def _render_data(prediction: Prediction, output: str, ascii_only: bool) -> Iterator[str]:
    if output == "json":
        from kubectl_evictplan.report.json_format import render_json

        return render_json(prediction, ascii_only=ascii_only)
    if output == "yaml":
        from kubectl_evictplan.report.yaml_format import render_yaml

        return render_yaml(prediction)
    if output == "name":
        from kubectl_evictplan.report.name_format import render_names

        return render_names(prediction)
    raise InputError(
        Problem(
            "unable to match a printer suitable for the output format",
            location="--output",
            got=output,
            expected="one of " + ", ".join(OUTPUTS),
        )
    )
