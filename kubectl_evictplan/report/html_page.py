"""Blocks as one HTML page that needs nothing else; knows nothing of predictions.

The page reads from top to bottom without any script; scripts add charts, sorting, filtering and the story of a row.
Long tables show their first rows and carry the rest as packed data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kubectl_evictplan.report import vega_lite
from kubectl_evictplan.report.blocks import (
    Bands,
    Block,
    Cell,
    Commands,
    Counts,
    Figures,
    Findings,
    Gantt,
    Phrase,
    Timeline,
    Title,
    Verdict,
)
from kubectl_evictplan.report.blocks import Table as TableBlock
from kubectl_evictplan.report.html_tables import table
from kubectl_evictplan.report.page_parts import escaped, json_element, policy, scripts, style
from kubectl_evictplan.report.vega_lite import Spec


def render(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the page in chunks of whole lines."""
    every = list(blocks)
    title = next((block.text for block in every if isinstance(block, Title)), "Prediction")
    yield _head(title)
    yield _navigation(every)
    yield '<main id="main">\n'
    for at, block in enumerate(every):
        yield from _section(block, at)
    yield '</main>\n<div id="hint" role="status" hidden></div>\n'
    # What the script draws the rows of a table with.
    yield json_element("bars", vega_lite.gantt(Gantt("", (), None)))
    for script in scripts():
        yield f"<script>{script}</script>\n"
    yield "</body>\n</html>\n"


def _head(title: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>{style()}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">Skip to the answer</a>\n'
    )


def _navigation(blocks: Sequence[Block]) -> str:
    titles = [(at, getattr(block, "title", "")) for at, block in enumerate(blocks)]
    links = [f'<li><a href="#s{at}">{escaped(title)}</a></li>' for at, title in titles if title]
    return f'<nav aria-label="Sections"><ul>\n{"".join(links)}\n</ul></nav>\n'


def _section(block: Block, at: int) -> Iterator[str]:
    if isinstance(block, Title):
        yield f"<h1>{escaped(block.text)}</h1>\n"
        return
    title = "The answer" if isinstance(block, Verdict) else block.title
    kind = type(block).__name__.lower()
    yield f'<section id="s{at}" class="{kind}" aria-labelledby="h{at}">\n'
    hidden = ' class="unseen"' if isinstance(block, Verdict) else ""
    yield f'<h2 id="h{at}"{hidden}>{escaped(title or "Facts")}</h2>\n'
    yield from _body(block, at)
    yield "</section>\n"


def _body(block: Block, at: int) -> Iterator[str]:
    match block:
        case Verdict(sentences):
            yield "<ul>\n"
            for text, tone in sentences:
                yield f'<li class="{tone}">{escaped(text)}</li>\n'
            yield "</ul>\n"
        case TableBlock():
            yield from table(block, at)
        case Timeline(_, moments, note):
            yield "<ol>\n"
            for time, offset, text, grounds in moments:
                why = f" <small>({escaped(grounds)})</small>" if grounds else ""
                when = f"<b>{escaped(time)}</b> <i>{escaped(offset)}</i>"
                yield f"<li>{when} <span>{escaped(text)}{why}</span></li>\n"
            yield f"</ol>\n{_note(note)}"
        case Findings():
            yield from _findings(block)
        case Figures(_, facts):
            rows = (f"<dt>{escaped(label)}</dt><dd>{escaped(text)}</dd>\n" for label, text in facts)
            yield f"<dl>\n{''.join(rows)}</dl>\n"
        case Commands(_, lines, note):
            text = "\n".join(escaped(line, None) for line in lines)
            yield f'<pre tabindex="0"><code>{text}</code></pre>\n{_note(note)}'
        case Gantt() | Bands() | Counts():
            yield from _charts(block, at)


def _findings(block: Findings) -> Iterator[str]:
    yield f'<ul class="{block.tone}">\n'
    for code, message, objects in block.findings:
        about = f"<details><summary>Objects</summary>{escaped(objects, None)}</details>"
        yield f"<li><code>{escaped(code)}</code> {escaped(message)}{about if objects else ''}</li>\n"
    yield "</ul>\n"


def _note(note: str) -> str:
    return f'<p class="note">{escaped(note)}</p>\n' if note else ""


# -- charts -----------------------------------------------------------------------------------------


def _charts(block: Gantt | Bands | Counts, at: int) -> Iterator[str]:
    match block:
        case Gantt():
            yield from _figure(f"c{at}", block.title, vega_lite.gantt(block), _bars(block))
        case Bands(_, unit, bands):
            for number, one in enumerate(bands):
                rows = [
                    (f"{point.at_seconds:g}", f"{point.least:g}", f"{point.most:g}")
                    for point in one.points
                ]
                heads = ("seconds", f"{unit}, at least", "at most")
                data = _plain_table(heads, rows)
                yield from _figure(
                    f"c{at}n{number}", one.name, vega_lite.band(block, one), data, several=True
                )
        case Counts(title, unit, numbers):
            spec = vega_lite.counts(block)
            data = _plain_table(("", unit), [(label, str(number)) for label, number, _ in numbers])
            yield from _figure(f"c{at}", title, spec, data)
    yield _note(getattr(block, "note", ""))


def _figure(
    name: str, caption: str, spec: Spec, data: str, *, several: bool = False
) -> Iterator[str]:
    """Yield a chart, its data for the script, and as a table for everybody else."""
    told = "" if several else ' class="unseen"'
    yield f"<figure>\n<figcaption{told}>{escaped(caption)}</figcaption>\n"
    yield f'<div class="chart" role="img" aria-label="{escaped(caption)}" data-spec="{name}"></div>\n'
    yield f"<details><summary>The same as a table</summary>\n{data}</details>\n</figure>\n"
    yield json_element(name, spec)


def _bars(chart: Gantt) -> str:
    rows = [
        (group.name, bar.label, bar.told, bar.tone) for group in chart.groups for bar in group.bars
    ]
    return _plain_table(("of", "what", "when", "how sure"), rows)


def _plain_table(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    head = "".join(f'<th scope="col">{escaped(text)}</th>' for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n'


def _cell(cell: Cell) -> str:
    return f"<td>{escaped(cell.text if isinstance(cell, Phrase) else cell)}</td>"
