"""Entry point of the ``kubectl-evictplan`` program and of ``python -m kubectl_evictplan``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the program with the words of the command line and exit with its code.

    Importing takes a while: an interrupt meanwhile ends the program as any later one does. At the
    end it is ignored, so that no half of the interpreter is left to complain.
    """
    try:
        from kubectl_evictplan.cli import run

        code = run(sys.argv[1:], program=sys.argv[0])
    except KeyboardInterrupt:
        code = 130
    finally:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    main()
