"""Small inputs for the loader's tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.sources.files import load_files

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "u-n1", "resourceVersion": "1"},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T21:59:00Z"}
        ]
    },
}

# The clusters of these tests are small on purpose.
NOT_THE_WHOLE_CLUSTER = {
    "pods-not-listed",
    "single-namespace",
    "nodes-without-pods",
    "nodes-not-listed",
}

Load = Callable[..., ClusterSnapshot]
Problems = Callable[..., list[str]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write each argument (text, bytes or a JSON value) to a file and load them all.

    Warnings that the cluster is not whole are left out unless ``whole`` asks for them.
    """

    def run(
        *contents: Any,
        name: str = "f.yaml",
        node: bool = True,
        whole: bool = False,
        **options: Any,
    ) -> Any:
        paths = []
        if node:
            paths.append(tmp_path / "node.json")
            paths[0].write_text(json.dumps(NODE))
        for number, content in enumerate(contents):
            path = tmp_path / (f"{number}-{name}" if len(contents) > 1 else name)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                text = content if isinstance(content, str) else json.dumps(content)
                path.write_bytes(text.encode())
            paths.append(path)
        snapshot = load_files([str(path) for path in paths], **options)
        warnings = [w for w in snapshot.warnings if whole or w.code not in NOT_THE_WHOLE_CLUSTER]
        return msgspec.structs.replace(snapshot, warnings=tuple(warnings))

    return run


@pytest.fixture
def problems(load: Load, tmp_path: Path) -> Problems:
    """Load something wrong; return the problems as lines, without the directory."""

    def run(*contents: Any, **options: Any) -> list[str]:
        with pytest.raises(InputError) as caught:
            load(*contents, **options)
        return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]

    return run


@pytest.fixture
def codes(load: Load) -> Callable[..., set[str]]:
    """Load something odd; return the codes of its warnings."""

    def run(*contents: Any, **options: Any) -> set[str]:
        return {warning.code for warning in load(*contents, **options).warnings}

    return run
