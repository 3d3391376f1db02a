"""How a command writes a document: as blocks for people, or as the data itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kubectl_evictplan.commands.command import Choice
from kubectl_evictplan.commands.terminal import (
    columns_of_terminal,
    encodes_all,
    use_color,
    wants_ascii,
)
from kubectl_evictplan.errors import mistake

if TYPE_CHECKING:
    import msgspec

    from kubectl_evictplan.report.blocks import Block


# In which a document is told: as blocks, or as itself.
OUTPUTS = ("table", "wide", "json", "yaml", "markdown")


def output_settings(*more: str) -> dict[str, Any]:
    """Return what ``-o`` of a command that writes a document is: ``OUTPUTS``, and formats of its own."""
    meant = {"yml": "yaml", "md": "markdown", "text": "table"}
    return {
        "type": Choice(*OUTPUTS, *more, meant=meant),
        "default": "table",
        "show_default": True,
        "help": "Output format.",
    }


def write_document(
    document: msgspec.Struct, blocks: Callable[[bool], Iterator[Block]], output: str, color: str
) -> None:
    """Write ``document`` as ``output``: json and yaml hold all of it, others show its ``blocks(wide)``."""
    if sys.stdout is None:  # closed by the caller, as by `>&-`
        raise mistake("standard output is closed")
    from kubectl_evictplan.report import render_document

    chunks = render_document(
        document,
        blocks,
        output,
        columns=columns_of_terminal(100) if sys.stdout.isatty() else None,
        color=use_color(color, sys.stdout),
        ascii_only=wants_ascii(output, sys.stdout),
    )
    write_chunks(chunks)


def write_chunks(chunks: Iterable[str | bytes]) -> None:
    """Write to standard output, which is open. Bytes are UTF-8: where that is the stream's encoding they stay as they are."""
    stream = sys.stdout
    binary = getattr(stream, "buffer", None) if encodes_all(stream) else None
    stream.flush()
    for chunk in chunks:
        if isinstance(chunk, str):
            stream.write(chunk)
        elif binary is None:
            stream.write(chunk.decode())
        else:
            binary.write(chunk)
    stream.flush()
