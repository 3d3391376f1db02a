"""Build etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl of one release.

    python tests/controlplane/binaries.py 1.37.0

prints the folder with the five binaries and builds only what is missing there. Everything comes from
the Go module proxy: Kubernetes releases are modules, with the staging modules (``k8s.io/api`` and so on)
published beside them; a release's own ``go.mod`` replaces those by folders that its module lacks, so a
``go.mod`` of our own takes over its requirements and names the published modules instead. Needs Go and
nothing else. Standard library only, so that it runs before any environment is made.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# Binaries are kept between runs, outside any clone.
CACHE = Path(
    os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kubectl-evictplan", "controlplane"
)
HERE = Path(__file__).resolve().parent
# A module whose own host is gone, which releases up to 1.19 require; the same commits are published there.
MOVED = {"vbom.ml/util": "github.com/fvbommel/util v0.0.0-20180919145318-efcd4e0f9787"}
COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


class BuildError(Exception):
    """The binaries cannot be built here; the message says why."""


def built(release: str) -> Path:
    """Return the folder with the binaries of ``release``; BuildError says how to make them."""
    folder = CACHE / release
    if not all((folder / name).exists() for name in ("etcd", *COMMANDS)):
        raise BuildError(f"{release} is not built: `make controlplane RELEASE={release}` does that")
    return folder


def build(release: str) -> Path:
    """Return the folder with etcd and the four commands of ``release`` ("1.37.0"), built if missing."""
    if not re.fullmatch(r"1\.\d+\.\d+", release):
        raise BuildError(f"{release!r} is no release such as 1.37.0")
    folder = CACHE / release
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in COMMANDS if not (folder / name).exists()]
    etcd = CACHE / "etcd"
    if missing or not etcd.exists():
        if shutil.which("go") is None:
            raise BuildError("there is no Go toolchain (https://go.dev/doc/install)")
    if not etcd.exists():
        go("build", "-trimpath", "-o", f"{etcd}.new", ".", cwd=HERE / "etcd")
        Path(f"{etcd}.new").rename(etcd)
    if missing:
        module = folder / "module"
        write_module(release, module)
        for name in missing:
            _say(f"building {name} {release}")
            built = folder / f"{name}.new"
            go(
                "build",
                *_build_flags(release),
                "-o",
                str(built),
                f"k8s.io/kubernetes/cmd/{name}",
                cwd=module,
            )
            built.rename(folder / name)
    if not (folder / "etcd").exists():
        (folder / "etcd").symlink_to(etcd)
    return folder


def _build_flags(release: str) -> list[str]:
    version = "k8s.io/component-base/version"
    major, minor, _ = release.split(".")
    stamps = {"gitVersion": f"v{release}", "gitMajor": major, "gitMinor": minor}
    ldflags = " ".join(f"-X {version}.{name}={value}" for name, value in stamps.items())
    flags = ["-mod=mod", "-trimpath", f"-ldflags=-s -w {ldflags}"]
    # The in-tree cloud providers, gone in 1.31, pull in half of the world.
    return [*flags, "-tags=providerless"] if int(minor) <= 30 else flags


def write_module(release: str, module: Path) -> None:
    """A go.mod with the requirements of the release and published staging modules."""
    module.mkdir(parents=True, exist_ok=True)
    source = json.loads(
        go("mod", "download", "-json", f"k8s.io/kubernetes@v{release}", cwd=Path.home())
    )
    theirs = json.loads(go("mod", "edit", "-json", source["GoMod"], cwd=Path.home()))
    lines = ["module kubectl-evictplan/controlplane", f"go {theirs['Go']}", "require ("]
    lines.append(f"k8s.io/kubernetes v{release}")
    lines += [f"{each['Path']} {each['Version']}" for each in theirs["Require"]]
    lines.append(")")
    required = {each["Path"] for each in theirs["Require"]}
    for each in theirs.get("Replace") or ():
        old, new = each["Old"], each["New"]
        if old["Path"] not in required:
            continue
        if new["Path"].startswith("./staging/"):
            lines.append(
                f"replace {old['Path']} => {old['Path']} {_published(release, old['Path'])}"
            )
        else:
            version = f" {old['Version']}" if old.get("Version") else ""
            lines.append(
                f"replace {old['Path']}{version} => {new['Path']} {new.get('Version', '')}"
            )
    lines += [f"replace {old} => {new}" for old, new in MOVED.items()]
    (module / "go.mod").write_text("\n".join(lines) + "\n", encoding="utf-8")
    checksums = Path(source["Dir"]) / "go.sum"
    (module / "go.sum").write_bytes(checksums.read_bytes() if checksums.exists() else b"")


def _published(release: str, path: str) -> str:
    """The published version of a staging module: ``v0.Y.Z`` of ``1.Y.Z``, else the nearest one.

    Some were published for some patches only, or are not in the checksum database.
    """
    minor, patch = map(int, release.split(".")[1:])
    known = go("list", "-m", "-versions", path, cwd=Path.home()).split()[1:]
    stable = {(minor, patch)}
    stable |= {tuple(map(int, each[1:].split(".")[1:])) for each in known if "-" not in each}
    for at in sorted(stable, key=lambda each: (abs(each[0] - minor), abs(each[1] - patch))):
        version = f"v0.{at[0]}.{at[1]}"
        try:
            go("mod", "download", f"{path}@{version}", cwd=Path.home())
        except BuildError:
            continue
        return version
    raise BuildError(f"{path} is not published")


def go(*arguments: str, cwd: Path) -> str:
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    done = subprocess.run(
        ["go", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        shown = "\n".join((done.stderr or done.stdout).splitlines()[-20:])
        raise BuildError(f"go {' '.join(arguments[:3])} failed:\n{shown}")
    return done.stdout


def build_asked(build: Callable[[str], Path]) -> None:
    """Print where each release of the command line is built, by default the newest; end with why one cannot be."""
    try:
        for wanted in sys.argv[1:] or ["1.37.0"]:
            print(build(wanted))
    except BuildError as error:
        sys.exit(f"error: {error}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    build_asked(build)
