"""Fail when a function or a file has grown past what a reader takes in at once.

Limits: 60 lines per function, 500 per file. Whoever cannot keep to one adds an entry to ``ALLOWED``
with the size it has; an entry that is no longer needed, or larger than needed, fails too, so the
list can only shrink.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 500
ROOTS = ("kubectl_evictplan", "tests", "benchmarks", ".ci")

# "path" or "path::function" -> the number of lines it may have.
ALLOWED: dict[str, int] = {}


def main() -> int:
    """Print every violation; return the process's exit status."""
    repository = Path(__file__).resolve().parent.parent
    sizes = dict(measure(repository))
    problems = [
        f"{name}: {lines} lines, at most {ALLOWED.get(name, limit)}"
        for name, (lines, limit) in sizes.items()
        if lines > ALLOWED.get(name, limit)
    ]
    for name, allowed in ALLOWED.items():
        lines, limit = sizes.get(name, (0, 0))
        if lines < allowed or lines <= limit:
            problems.append(f"{name}: allowed {allowed} lines but has {lines}; tighten ALLOWED")
    for problem in sorted(problems):
        print(problem)
    return 1 if problems else 0


def measure(repository: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield name, (lines, limit) of every file and function, in a stable order."""
    for root in ROOTS:
        for path in sorted((repository / root).rglob("*.py")):
            name = path.relative_to(repository).as_posix()
            source = path.read_text(encoding="utf-8")
            yield name, (source.count("\n"), FILE_LINES_MAX)
            for function_name, function in functions(ast.parse(source), ()):
                start = min([function.lineno, *(d.lineno for d in function.decorator_list)])
                lines = (function.end_lineno or start) - start + 1
                yield f"{name}::{function_name}", (lines, FUNCTION_LINES_MAX)


def functions(
    node: ast.AST, outer: tuple[str, ...]
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the qualified name and tree of every function and method, nested ones included."""
    for child in ast.iter_child_nodes(node):
        inner = outer
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (*outer, child.name)
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield ".".join(inner), child
        yield from functions(child, inner)


if __name__ == "__main__":
    sys.exit(main())
