"""Turn a ``Prediction`` into text: one door for all output formats.

For people, ``content`` says it in blocks (``blocks``) and a renderer (``terminal``) lays them out.
Data formats (``data_formats``) render the document itself and carry strings as they are.
Everything is deterministic and streams as chunks of whole lines, so that a caller may write them one
by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from kubectl_evictplan.errors import InputError, Problem

if TYPE_CHECKING:
    import msgspec

    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.report.blocks import Block

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
    if output not in OUTPUTS:
        raise InputError(
            Problem(
                "unable to match a printer suitable for the output format",
                location="--output",
                got=output,
                expected="one of " + ", ".join(OUTPUTS),
            )
        )
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
    from kubectl_evictplan.report.data_formats import (
        only_pod,
        render_json,
        render_names,
        render_yaml,
    )

    if explain is not None:
        prediction = only_pod(prediction, explain)
    if output == "json":
        return render_json(prediction, ascii_only=ascii_only)
    return render_yaml(prediction) if output == "yaml" else render_names(prediction)


def render_document(
    document: msgspec.Struct,
    blocks: Callable[[bool], Iterator[Block]],
    output: str,
    *,
    columns: int | None = None,
    color: bool = False,
    ascii_only: bool = False,
) -> Iterator[str]:
    """Return the chunks of any other document: ``json`` and ``yaml`` whole, else ``blocks(wide)``.

    The rest is as for ``render``.
    """
    if output in ("json", "yaml"):
        from kubectl_evictplan.report.data_formats import render_json, render_yaml

        if output == "json":
            return render_json(document, ascii_only=ascii_only)
        return render_yaml(document)
    from kubectl_evictplan.report.terminal import Terminal

    return Terminal(columns, color, ascii_only).render(blocks(output == "wide"))
