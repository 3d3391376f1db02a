"""Turn a ``Prediction`` into text: one door for all output formats.

For people, ``content`` (a terminal's answer) or ``ticket`` (a change ticket) says it in blocks (``blocks``) and a
renderer lays them out. Data formats (``data_formats``) render the document itself and carry strings as they are.
Everything is deterministic and comes in chunks, so that a caller may write them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from kubectl_evictplan.errors import InputError, Problem

if TYPE_CHECKING:
    import msgspec

    from kubectl_evictplan.gates.document import GateResult
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.report.blocks import Block
    from kubectl_evictplan.report.commands_to_run import PlanFile
    from kubectl_evictplan.report.findings_document import FindingsDocument
    from kubectl_evictplan.report.json_text import Part

GROUPINGS = ("pod", "node", "workload", "namespace", "zone")


class Look(NamedTuple):
    """How an answer is to look, besides its format.

    ``explain`` ("NAMESPACE/POD") limits every format to that pod; those for people then tell its story. ``by``
    groups the evictions (None: as suits their number) for people. Only a terminal's formats know the rest: ``headers``
    False leaves rows of evictions alone, always with the same columns, ``columns`` is the width of a terminal
    (None: no limit), ``color`` adds ANSI colours. ``zone`` is the zone of clock times (None: the system's).
    ``ascii_only`` escapes everything outside ASCII: for JSON on a terminal and for streams that cannot encode
    more; ``yaml`` and ``name`` are always ASCII. ``gates`` are shown by the formats for tickets and pipelines;
    ``plan`` is the plan that was written beside a ticket. ``part``: of ``json``, how much of it (None: all).
    """

    by: str | None = None
    zone: tzinfo | None = UTC
    explain: str | None = None
    headers: bool = True
    columns: int | None = None
    color: bool = False
    ascii_only: bool = False
    gates: Sequence[GateResult] = ()
    plan: PlanFile | None = None
    part: Part | None = None


# A piece of an answer as text, or as UTF-8 where it may be large: text would be encoded once more.
Chunk = str | bytes


def render(prediction: Prediction, output: str, **look: Any) -> Iterator[str]:
    """Return ``chunks`` as text."""
    return map(_text, chunks(prediction, output, **look))


def _text(chunk: Chunk) -> str:
    return chunk if isinstance(chunk, str) else chunk.decode()


def chunks(prediction: Prediction, output: str, **look: Any) -> Iterator[Chunk]:
    """Return ``prediction`` in the format ``output``, in pieces; the last one ends in a newline.

    ``look`` are the fields of ``Look``. Raises InputError, before anything is rendered, for an unknown format.
    """
    if output not in _FORMATS:
        raise InputError(
            Problem(
                "unable to match a printer suitable for the output format",
                location="--output",
                got=output,
                expected="one of " + ", ".join(OUTPUTS),
            )
        )
    if output in _NAMED:
        from kubectl_evictplan.prediction.fingerprint import sealed

        prediction = sealed(prediction)
    return _FORMATS[output](prediction, Look(**look))


def _terminal(prediction: Prediction, look: Look, *, wide: bool = False) -> Iterator[str]:
    from kubectl_evictplan.report.terminal import Terminal

    blocks = _blocks(prediction, look, wide=wide)
    return Terminal(look.columns, look.color, look.ascii_only, look.headers).render(blocks)


def _blocks(prediction: Prediction, look: Look, *, wide: bool) -> Iterator[Block]:
    from kubectl_evictplan.report.content import contents

    return contents(
        prediction,
        wide=wide,
        by=look.by,
        zone=look.zone,
        explain=look.explain,
        rows_only=not look.headers,
    )


def _wide(prediction: Prediction, look: Look) -> Iterator[str]:
    return _terminal(prediction, look, wide=True)


def _data(prediction: Prediction, look: Look) -> Prediction:
    from kubectl_evictplan.report.data_formats import only_pod

    return prediction if look.explain is None else only_pod(prediction, look.explain)


def _json(prediction: Prediction, look: Look) -> Iterator[bytes]:
    from kubectl_evictplan.prediction.fingerprint import sealed
    from kubectl_evictplan.report.json_text import Part, render_json

    part = look.part or Part.WHOLE
    if part in (Part.WHOLE, Part.BEFORE_IMPACT):
        prediction = sealed(prediction)
    return render_json(_data(prediction, look), ascii_only=look.ascii_only, part=part)


def _yaml(prediction: Prediction, look: Look) -> Iterator[str]:
    from kubectl_evictplan.report.data_formats import render_yaml

    return render_yaml(_data(prediction, look))


def _name(prediction: Prediction, look: Look) -> Iterator[str]:
    from kubectl_evictplan.report.data_formats import render_names

    return render_names(_data(prediction, look))


def _csv(prediction: Prediction, look: Look) -> Iterator[str]:
    from kubectl_evictplan.report.csv_rows import render_evictions

    return render_evictions(_data(prediction, look), headers=look.headers)


def _ticket(prediction: Prediction, look: Look, *, whole: bool) -> Iterator[Block]:
    if look.explain is not None:
        from kubectl_evictplan.report.blocks import Title

        return chain([Title(f"Pod {look.explain}")], _blocks(prediction, look, wide=whole))
    from kubectl_evictplan.report.ticket import ticket

    by = look.by or "workload"
    return ticket(prediction, look.zone, look.gates, look.plan, by=by, whole=whole)


def _markdown(prediction: Prediction, look: Look) -> Iterator[str]:
    from kubectl_evictplan.report import markdown

    return markdown.render(_ticket(prediction, look, whole=False))


def _html(prediction: Prediction, look: Look) -> Iterator[str]:
    from kubectl_evictplan.report import html_page

    return html_page.render(_ticket(prediction, look, whole=True))


def _findings(prediction: Prediction, look: Look) -> FindingsDocument:
    from kubectl_evictplan.report.content import plain_verdict
    from kubectl_evictplan.report.findings_document import findings_document

    shown = _data(prediction, look)
    return findings_document(shown, look.gates, plain_verdict(shown, look.zone))


def _findings_json(prediction: Prediction, look: Look) -> Iterator[bytes]:
    from kubectl_evictplan.report.json_text import render_json

    return render_json(_findings(prediction, look), ascii_only=look.ascii_only)


def _junit(prediction: Prediction, look: Look) -> Iterator[str]:
    from kubectl_evictplan.report import junit

    return junit.render(_findings(prediction, look))


def _github(prediction: Prediction, look: Look) -> Iterator[str]:
    from kubectl_evictplan.report import workflow_commands

    return workflow_commands.render(_findings(prediction, look))


_FORMATS: dict[str, Callable[[Prediction, Look], Iterator[Chunk]]] = {
    "table": _terminal,
    "wide": _wide,
    "json": _json,
    "yaml": _yaml,
    "name": _name,
    "csv": _csv,
    "markdown": _markdown,
    "html": _html,
    "findings": _findings_json,
    "junit": _junit,
    "github": _github,
}
OUTPUTS = tuple(_FORMATS)
# Formats that carry the prediction's fingerprint; JSON where that part of it is asked for.
_NAMED = frozenset(("yaml", "markdown", "html", "findings"))
# Formats that tell what a prediction costs.
WITH_IMPACT = frozenset(OUTPUTS) - {"name", "csv"}


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

    ``markdown`` shows what wide shows. ``csv`` holds the rows of a sweep.

    The rest is as for ``render``.
    """
    if output == "json":
        from kubectl_evictplan.report.json_text import render_json

        return map(_text, render_json(document, ascii_only=ascii_only))
    if output == "yaml":
        from kubectl_evictplan.report.data_formats import render_yaml

        return render_yaml(document)
    if output == "markdown":
        from kubectl_evictplan.report import markdown

        return markdown.render(blocks(True))
    if output == "csv":
        from kubectl_evictplan.report.csv_rows import render_sweep
        from kubectl_evictplan.sweeps.document import Sweep

        assert isinstance(document, Sweep), "nothing else is written as rows"
        return render_sweep(document)
    from kubectl_evictplan.report.terminal import Terminal

    return Terminal(columns, color, ascii_only).render(blocks(output == "wide"))
