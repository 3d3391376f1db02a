"""Build ``dist/kubectl-evictplan``, one file that needs nothing but Python, and a krew manifest for it.

    python .ci/single_file.py [--releases https://...]

The file is a zip of the program and everything that it imports, unpacked to the user's cache on first use
(shiv). Two of its libraries have compiled parts, one for each minor release of Python: all that are
supported go in, for the platform of this machine.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
DIST, STAGE = REPOSITORY / "dist", REPOSITORY / "build" / "single-file"
NAME = "kubectl-evictplan"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
COMPILED = ("msgspec", "PyYAML")
# From 36 on the client brings compiled libraries and three times the size, for nothing that is used here.
CLIENT = "kubernetes>=35,<36"
MANYLINUX = {"x86_64": "manylinux_2_28_x86_64", "aarch64": "manylinux_2_28_aarch64"}
KREW_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def main() -> int:
    """Build everything; return the process's exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--releases", default="https://evictplan.dev/releases", help="where it is served"
    )
    releases = parser.parse_args().releases
    wheel = next(DIST.glob("*.whl"))
    version = wheel.name.split("-")[1]
    site = STAGE / "site"
    _pip("install", "--target", str(site), "--upgrade", str(wheel), CLIENT)
    # Both name folders of this machine.
    shutil.rmtree(site / "bin")
    for trace in site.glob("*.dist-info/direct_url.json"):
        trace.unlink()
    for python in PYTHONS:
        _add_compiled_parts(site, python)
    binary = DIST / NAME
    entry = ["--entry-point", "kubectl_evictplan.__main__:main", "--python", "/usr/bin/env python3"]
    sources = ["--site-packages", str(site), "--output-file", str(binary), "--reproducible"]
    _run("shiv", "--compressed", *entry, *sources)
    archive = _archive(binary, version)
    manifest = _manifest(archive, version, releases)
    (DIST / "evictplan.yaml").write_text(manifest, encoding="utf-8")
    print(f"{binary.relative_to(REPOSITORY)}: {binary.stat().st_size / 1e6:.1f} MB")
    return 0


def _add_compiled_parts(site: Path, python: str) -> None:
    """Put the extension modules for another release of Python beside those of this one."""
    folder = STAGE / python
    system = MANYLINUX.get(platform.machine()) if sys.platform == "linux" else None
    if system is None and python != f"{sys.version_info.major}.{sys.version_info.minor}":
        return
    wanted = ["--python-version", python, "--only-binary=:all:", "--no-deps"]
    if system is not None:
        # PyYAML's wheels carry an older tag.
        wanted += ["--platform", system, "--platform", system.replace("_2_28_", "2014_")]
    _pip("download", "--dest", str(folder), *wanted, *COMPILED)
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".so"):
                    archive.extract(name, site)


def _archive(binary: Path, version: str) -> Path:
    """The archive that krew unpacks: the program and its licence, the same bytes on every build."""
    path = DIST / f"{NAME}-{version}-{sys.platform}-{platform.machine()}.tar.gz"

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    with (
        gzip.GzipFile(path, "wb", compresslevel=1, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        archive.add(binary, NAME, filter=plain)
        archive.add(REPOSITORY / "LICENSE", "LICENSE", filter=plain)
    return path


def _manifest(archive: Path, version: str, releases: str) -> str:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    architecture = KREW_ARCHITECTURES.get(platform.machine(), platform.machine())
    return f"""apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: evictplan
spec:
  version: v{version}
  homepage: https://evictplan.dev
  shortDescription: Predict which pods are evicted
  description: |
    Predicts which pods Kubernetes will evict, when, by which controller and why, for a taint, a drain,
    the failure of a node, of a zone or of the control plane, before it happens. Predictions change
    nothing; taints, cordons and drains that were reviewed as a plan are carried out by apply.
  caveats: |
    Needs Python 3.11 or newer. For completion, link the installed program a second time as
    kubectl_complete-evictplan.
  platforms:
  - selector:
      matchLabels:
        os: {sys.platform}
        arch: {architecture}
    uri: {releases}/v{version}/{archive.name}
    sha256: {digest}
    bin: {NAME}
"""


def _pip(*arguments: str) -> None:
    _run("pip", arguments[0], "--quiet", "--disable-pip-version-check", *arguments[1:])


def _run(module: str, *arguments: str) -> None:
    command = [sys.executable, "-m", module, *arguments]
    subprocess.run(command, check=True, cwd=REPOSITORY)  # noqa: S603 - words of our own


if __name__ == "__main__":
    sys.exit(main())
