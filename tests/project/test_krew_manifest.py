"""The krew manifest that ``make dist`` writes is one that krew takes, and names the archive beside it."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from kubectl_evictplan import __version__

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "single_file.py"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Any]:
    """The archive of a program and the manifest for it."""
    spec = importlib.util.spec_from_file_location("single_file", SCRIPT)
    assert spec is not None and spec.loader is not None
    script: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "DIST", tmp_path)
    program = tmp_path / "program"
    program.write_bytes(b"#!/usr/bin/env python3\n")
    program.chmod(0o755)
    archive = script._archive(program, __version__)
    return archive, yaml.safe_load(script._manifest(archive, __version__, "https://x.test/r"))


def test_krew_takes_the_manifest(built: tuple[Path, Any]) -> None:
    """What krew's ``ValidatePlugin`` asks for (internal/index/validation)."""
    _, manifest = built
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert manifest["kind"] == "Plugin"
    assert re.fullmatch(r"[\w-]+", manifest["metadata"]["name"])
    spec = manifest["spec"]
    assert spec["shortDescription"] and "\n" not in spec["shortDescription"]
    # A pre-release of Python's kind, as 1.0.dev0, is no semantic version.
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    (platform,) = spec["platforms"]
    assert platform.keys() == {"selector", "uri", "sha256", "bin"}
    assert platform["selector"]["matchLabels"].keys() == {"os", "arch"}


def test_the_manifest_names_the_archive_by_its_digest_and_the_program_in_it(
    built: tuple[Path, Any],
) -> None:
    archive, manifest = built
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert platform["uri"] == f"https://x.test/r/v{__version__}/{archive.name}"
    # kubectl finds a plugin by its name.
    assert platform["bin"] == f"kubectl-{manifest['metadata']['name']}"
    with tarfile.open(archive) as packed:
        assert packed.getmember(platform["bin"]).mode & 0o111
        assert "LICENSE" in packed.getnames()
