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

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "kubectl_evictplan"

# What the offline commands must not pay for: 15 ms to half a second each.
HEAVY = frozenset({"kubernetes", "lark", "msgspec", "ruamel", "tabulate", "urllib3", "yaml"})

# Everything else is core and has to stand in setup.cfg's contract.
EDGES = frozenset(
    {
        "__main__",
        "apply",
        "cgroups",
        "cli",
        "commands",
        "completion",
        "garbage",
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


def loaded_by(*arguments: str, code: str = "", whole: bool = False) -> set[str]:
    """Names of everything in sys.modules after running the command or the code: roots, or ``whole``."""
    command = code or (
        "import os, runpy, sys\n"
        # Some commands end without the interpreter's own end.
        "os._exit = sys.exit\n"
        f"sys.argv = ['kubectl-evictplan', *{arguments!r}]\n"
        "try:\n"
        "    runpy.run_module('kubectl_evictplan', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
    )
    report = "\nimport sys; print('\\n' + ' '.join(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", command + report],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    names = done.stdout.rsplit("\n", 2)[-2].split()
    assert "sys" in names
    return set(names) if whole else {name.partition(".")[0] for name in names}


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


# What a small what-if has no use for: archives, other processes, written files, and what only help or mistakes need.
UNUSED = HEAVY - {"msgspec"} | {
    *("concurrent", "ftplib", "html", "http", "importlib_metadata", "logging", "multiprocessing", "pickle"),
    *("random", "rich", "subprocess", "tarfile", "tempfile", "urllib3", "wcwidth", "zipfile"),
}  # fmt: skip
# Each costs a third of a millisecond. More of them is a decision; the next best place to begin is drains.
MODULES_OF_WHAT_IF_MAX = 271
MODULES_OF_HELP_MAX = 34
# Each takes a fifth of a millisecond to make, a struct a fifth of that: they are for what is unpacked.
NAMED_TUPLES_OF_WHAT_IF_MAX = 35


def test_a_small_what_if_loads_only_what_it_uses() -> None:
    cluster = "fixtures/clusters/kubeadm-15-nodes-1.29.json"
    loaded = loaded_by("what-if", "fail", "zone", "eu-1b", "-f", cluster, whole=True)

    assert set() == {name.partition(".")[0] for name in loaded} & UNUSED
    ours = {name for name in loaded if name.startswith("kubectl_evictplan")}
    assert len(ours) <= MODULES_OF_WHAT_IF_MAX
    assert "kubectl_evictplan.sources.piece_reader" not in ours
    texts = [MODULES[name].read_text(encoding="utf-8") for name in ours if name in MODULES]
    assert sum(text.count("(NamedTuple):") for text in texts) <= NAMED_TUPLES_OF_WHAT_IF_MAX


def test_help_loads_only_the_words_of_commands() -> None:
    loaded = loaded_by("what-if", "fail", "zone", "--help", whole=True)

    assert set() == {name.partition(".")[0] for name in loaded} & (UNUSED | {"json", "msgspec"})
    ours = {name for name in loaded if name.startswith("kubectl_evictplan")}
    assert len(ours) <= MODULES_OF_HELP_MAX
    assert not [name for name in ours if name.startswith("kubectl_evictplan.sources.")]


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
