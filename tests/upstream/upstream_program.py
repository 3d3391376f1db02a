"""Build the program that plays worlds through upstream's own controllers of one release.

    python tests/upstream/upstream_program.py 1.37.0

prints where it is, and builds it only if it is missing or older than its sources. Needs Go and nothing else. Standard
library only, so that it runs before any environment is made.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "controlplane"))

from binaries import CACHE, BuildError, build_asked, go, write_module  # noqa: E402 - found by the line above

# Constructors of controllers differ between releases: the newest file that is not newer than the release has its own.
RELEASES = {
    int(file.stem.rpartition("_")[2]): file for file in (HERE / "releases").glob("since_1_*.go")
}
# What the program itself is written in; older releases state an older one.
LANGUAGE = (1, 21)
# What drains/ is written for.
FIRST_MINOR_WITH_DRAINS = 32


def constructors(release: str) -> Path:
    """The file that makes the controllers of ``release``."""
    minor = int(release.split(".")[1])
    if minor < min(RELEASES):
        raise BuildError(f"{release} is older than 1.{min(RELEASES)}")
    return RELEASES[max(first for first in RELEASES if first <= minor)]


def build(release: str, *, drains: bool = False) -> Path:
    """Return the program for ``release`` ("1.37.0"), on demand with ``drains``; BuildError says why it cannot be built here."""
    made_as = constructors(release)
    if drains and int(release.split(".")[1]) < FIRST_MINOR_WITH_DRAINS:
        raise BuildError(f"{release} is older than 1.{FIRST_MINOR_WITH_DRAINS}: no drains")
    if shutil.which("go") is None:
        raise BuildError("there is no Go toolchain (https://go.dev/doc/install)")
    module = CACHE.parent / "upstream" / release
    # A package of its own in the same module.
    package = module / "drains" if drains else module
    program = package / "upstream"
    sources = [*sorted(HERE.glob("*.go")), made_as]
    sources += sorted(HERE.glob("drains/*.go")) if drains else []
    made = program.stat().st_mtime if program.exists() else 0.0
    if all(source.stat().st_mtime < made for source in sources):
        return program
    if not (module / "go.mod").exists():
        write_module(release, module)
        _state_language(module)
    package.mkdir(exist_ok=True)
    for left in package.glob("*.go"):
        left.unlink()
    for source in sources:
        shutil.copy(source, package)
    # The clock of faketime stands still until every goroutine waits.
    go(
        "build",
        "-mod=mod",
        "-trimpath",
        "-tags=faketime,providerless",
        "-o",
        "upstream",
        ".",
        cwd=package,
    )
    return program


def _state_language(module: Path) -> None:
    stated = json.loads(go("mod", "edit", "-json", cwd=module))["Go"]
    if tuple(map(int, stated.split(".")[:2])) < LANGUAGE:
        go("mod", "edit", "-go=" + ".".join(map(str, LANGUAGE)), cwd=module)


if __name__ == "__main__":
    build_asked(build)
