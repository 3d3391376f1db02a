"""How a command writes a document: as blocks for people, or as the data itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kubectl_evictplan.commands.terminal import columns_of_terminal, use_color, wants_ascii
from kubectl_evictplan.errors import mistake

if TYPE_CHECKING:
    import msgspec

    from kubectl_evictplan.report.blocks import Block


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
    for chunk in chunks:
        sys.stdout.write(chunk)
    sys.stdout.flush()
