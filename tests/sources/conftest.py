"""Small inputs for the loader's tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

Load = Callable[..., ClusterSnapshot]
Problems = Callable[..., list[str]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write each argument (text, bytes or a JSON value) to a file and load them all."""

    def run(*contents: Any, name: str = "f.yaml", node: bool = True, **options: Any) -> Any:
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
        return load_files([str(path) for path in paths], **options)

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
