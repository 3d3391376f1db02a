"""Entry point of the ``kubectl-evictplan`` program and of ``python -m kubectl_evictplan``."""

from __future__ import annotations

import sys

from kubectl_evictplan.cli import run


def main() -> None:
    """Run the program with the words of the command line and exit with its code."""
    sys.exit(run(sys.argv[1:], program=sys.argv[0]))


if __name__ == "__main__":
    main()
