"""How examples look in help: one per line, unwrapped, each with its comment above."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """Return an epilog of these lines; click leaves text after a backspace character alone."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in lines)])
