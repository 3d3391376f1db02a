"""Entry point of the ``kubectl-evictplan`` program and of ``python -m kubectl_evictplan``."""

from __future__ import annotations

import os
import signal
import sys

from kubectl_evictplan.garbage import (
    NO_MEMORY,
    all_stays,
    collect_rarely,
    is_anything_kept,
    keep_to_the_end,
)

# As ``errors`` has them, which takes too long to load before anything can be interrupted.
_EXIT_BAD_INPUT = 2
_EXIT_INTERRUPTED = 130
# Where memory has ended there is none to make a line with.
_NO_MEMORY_LINE = f"{NO_MEMORY}\n".encode()


def main() -> None:
    """Run the program with the words of the command line and exit with its code.

    What is left of memory may not do to tell that it has ended, nor to take everything to pieces: then it ends at once.
    """
    try:
        _main()
    except MemoryError:
        try:
            os.write(2, _NO_MEMORY_LINE)
        finally:
            os._exit(_EXIT_BAD_INPUT)


def _main() -> None:
    """Run it, as interrupts let it.

    Imports take a while and may swallow or report a KeyboardInterrupt: an interrupt meanwhile ends the
    program at once. At the end it is ignored, so that no half of the interpreter is left to complain.
    """
    collect_rarely()
    keep_to_the_end()
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, lambda *_: os._exit(_EXIT_INTERRUPTED))
    if sys.argv[0].rpartition(os.sep)[2].startswith("kubectl_complete"):
        # One file serves as both programs: a link says which is meant.
        from kubectl_evictplan import completion

        completion.main()
        return
    from kubectl_evictplan.cli import run

    try:
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(sys.argv[1:], program=sys.argv[0])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        code = _EXIT_INTERRUPTED
    # The system takes back all memory at once: nobody need look for garbage before.
    all_stays()
    if is_anything_kept():
        _end_at_once(code)
    sys.exit(code)


def _end_at_once(code: int) -> None:
    """End without the interpreter's own end, which takes every object to pieces; what was written is written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            return  # the usual end tells of it, or not, as it always did
    os._exit(code)


if __name__ == "__main__":
    main()
