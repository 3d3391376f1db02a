"""Who may import what, and what a command may load: the architecture, as tests.

import-linter (``make imports``) checks the same layers from setup.cfg; these tests add what it does
not see: that every module imports alone, that no module is missing from the contracts, and which
third-party packages a running command really loads.
"""

from __future__ import annotations

import ast
import configparser
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "kubectl_evictplan"

# What the offline commands must not pay for: 15 ms to half a second each.
HEAVY = frozenset({"kubernetes", "lark", "msgspec", "ruamel", "tabulate", "urllib3", "yaml"})

# Everything else is core and has to stand in setup.cfg's contract.
EDGES = frozenset(
    {
        "__main__",
        "apply",
        "cli",
        "commands",
        "completion",
        "gates",
        "live",
        "processes",
        "report",
        "scenarios",
        "sources",
        "world",
    }
)


def module_name(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def listed(section: str, key: str) -> list[str]:
    parser = configparser.ConfigParser()
    parser.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    return parser[section][key].split()


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
CORE_CONTRACT = "importlinter:contract:core-without-io"
CORE_PACKAGES = tuple(listed(CORE_CONTRACT, "source_modules"))
FORBIDDEN_IN_CORE = frozenset(listed(CORE_CONTRACT, "forbidden_modules"))


def is_core(name: str) -> bool:
    return any(name == core or name.startswith(core + ".") for core in CORE_PACKAGES)


def imported_roots(path: Path) -> set[str]:
    roots = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            roots.add(node.module.split(".")[0])
    return roots


def loaded_by(*arguments: str, code: str = "") -> set[str]:
    """Root names of everything in sys.modules after running the command or the code."""
    command = code or (
        "import runpy, sys\n"
        f"sys.argv = ['kubectl-evictplan', *{arguments!r}]\n"
        "try:\n"
        "    runpy.run_module('kubectl_evictplan', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
    )
    report = "\nimport sys; print('\\n' + ' '.join(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", command + report],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rsplit("\n", 2)[-2].split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("what-if", "--help"),
        ("what-if", "taint", "--help"),
        ("snapshot", "-h"),
    ],
)
def test_help_loads_no_heavy_package(arguments: tuple[str, ...]) -> None:
    assert set() == loaded_by(*arguments) & HEAVY


def test_the_core_loads_nothing_of_the_edges() -> None:
    code = "\n".join(f"import {name}" for name in MODULES if is_core(name))

    assert set() == loaded_by(code=code) & (HEAVY - {"msgspec"} | {"click"})


@pytest.mark.slow
def test_every_module_imports_alone() -> None:
    # One process for all: before each import everything of ours is forgotten again.
    code = (
        "import importlib, sys\n"
        f"for name in {sorted(MODULES)!r}:\n"
        "    if name.endswith('__main__'):\n"
        "        continue\n"
        "    for known in [m for m in sys.modules if m.split('.')[0] == 'kubectl_evictplan']:\n"
        "        del sys.modules[known]\n"
        "    importlib.import_module(name)\n"
    )

    loaded_by(code=code)


@pytest.mark.parametrize("name", [name for name in MODULES if is_core(name)])
def test_a_core_module_does_no_io(name: str) -> None:
    assert set() == imported_roots(MODULES[name]) & FORBIDDEN_IN_CORE


def test_every_module_is_either_core_or_a_known_edge() -> None:
    strays = {
        name
        for name in MODULES
        if "." in name and not is_core(name) and name.split(".")[1] not in EDGES
    }

    assert set() == strays
