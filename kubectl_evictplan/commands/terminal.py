"""What the terminal, the environment and ``--color`` say about output, and the line of progress."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import IO

from kubectl_evictplan.display import escape

# Work that ends sooner shows nothing; later updates come at this pace.
_PACE_SECONDS = 0.25
_COLUMNS_MAX = 70


def columns_of_terminal(unknown: int) -> int:
    """Return how wide the terminal is, by COLUMNS or by itself; ``unknown`` where neither tells.

    As ``shutil.get_terminal_size``, which needs three compressions to be imported.
    """
    with contextlib.suppress(KeyError, ValueError):
        if (wanted := int(os.environ["COLUMNS"])) > 0:
            return wanted
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or unknown  # type: ignore[union-attr]
    return unknown


def use_color(choice: str, stream: IO[str]) -> bool:
    """Tell whether to colour: --color, then NO_COLOR, then *_FORCE*, then whether it is a terminal.

    Variables count when they are set and not empty, as no-color.org asks.
    """
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if any(
        os.environ.get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")
    ):
        return True
    return redraws(stream)


def redraws(stream: IO[str]) -> bool:
    """Tell whether what is written there can be changed afterwards: a terminal that is not dumb."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def wants_ascii(output: str, stream: IO[str]) -> bool:
    """Tell whether to escape everything outside ASCII.

    JSON on a terminal: a right-to-left mark must not rearrange it. Otherwise only for streams that
    cannot encode more.
    """
    return (output == "json" and stream.isatty()) or not encodes_all(stream)


def encodes_all(stream: IO[str]) -> bool:
    """Tell whether the stream writes UTF-8."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    return encoding in ("utf8", "utf_8")


def say(text: str) -> None:
    """Write a line to standard error, made safe to show; that nobody listens is no reason to fail."""
    # Not click.echo: it would answer a stream that cannot encode a character with raw UTF-8.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{escape(text)}\n")


class Progress:
    """One line on standard error that says how far the work is; nothing unless it is a terminal.

    Rewrites its line while used as a context manager and removes it at the end.
    """

    def __init__(self, stream: IO[str] | None) -> None:
        shown = stream is not None and redraws(stream)
        self._stream = stream if shown else None
        # A longer line would wrap, and only its last row be removed.
        self._columns = min(_COLUMNS_MAX, columns_of_terminal(80) - 1)
        self._next_seconds = time.monotonic() + _PACE_SECONDS
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._write("")

    def reading(self, name: str, done: int, total: int) -> None:
        """Tell that a file is about to be read."""
        self._tell(f"reading {name} ({done} of {total})" if name else "reading")

    def listing(self, plural: str, done: int, total: int) -> None:
        """Tell how many objects of a live cluster's list are there; ``total`` 0 is unknown."""
        self._tell(
            f"reading {plural} ({done} of {total})" if total else f"reading {plural} ({done})"
        )

    def predicting(self, what: str, done: int, total: int) -> None:
        """Tell how far the prediction is."""
        self._tell(f"{what} ({done} of {total})")

    def _tell(self, text: str) -> None:
        if self._stream is not None and time.monotonic() >= self._next_seconds:
            self._write(escape(text, max_columns=self._columns))

    def _write(self, text: str) -> None:
        assert self._stream is not None
        self._next_seconds = time.monotonic() + _PACE_SECONDS
        self._shown = bool(text)
        try:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()
        except OSError:
            self._stream = None
