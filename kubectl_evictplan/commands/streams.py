"""What the terminal, the environment and ``--color`` say about output."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO


def use_color(choice: str, stream: IO[str], environ: Mapping[str, str] | None = None) -> bool:
    """Tell whether to colour: --color, then NO_COLOR, then *_FORCE*, then whether it is a terminal.

    Variables count when they are set and not empty, as no-color.org asks.
    """
    environ = os.environ if environ is None else environ
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


def wants_ascii(output: str, stream: IO[str]) -> bool:
    """Tell whether to escape everything outside ASCII.

    JSON on a terminal: a right-to-left mark must not rearrange it. Otherwise only for streams that
    cannot encode more.
    """
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    return (output == "json" and stream.isatty()) or encoding not in ("utf8", "utf_8")
