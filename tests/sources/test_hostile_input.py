"""Whatever stands in a file, the answer is a cluster or a list of problems: never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.sources.files import load_files
from kubectl_evictplan.sources.wire import KINDS

# Beyond U+FFFF JSON writes two escapes, which are JSON's alone.
CHARACTERS = st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(CHARACTERS, max_size=8)
    | st.sampled_from(["Exists", "NoExecute", "True", "2026-11-20T22:00:00Z", "v1", "Pod"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def shaped(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of roughly the right shape: anything may stand anywhere now and then."""
    if isinstance(kind, inspect.UnionType):
        return shaped(kind.types[0])
    if isinstance(kind, inspect.Metadata):
        held = (kind.extra or {}).get("holds")
        return shaped(inspect.type_info(held) if held else kind.type)
    if isinstance(kind, inspect.StructType):
        fields = {field.encode_name: shaped(field.type) for field in kind.fields}
        return st.fixed_dictionaries({}, optional=fields) | VALUES
    if isinstance(kind, inspect.ListType):
        return st.lists(shaped(kind.item_type), max_size=2) | VALUES
    return VALUES


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(sorted(KINDS)))
    group = KINDS[kind].group
    read = inspect.type_info(KINDS[kind].type)
    assert isinstance(read, inspect.StructType)
    fields = {field.encode_name: shaped(field.type) for field in read.fields}
    del fields["apiVersion"]
    tree = draw(st.fixed_dictionaries({}, optional=fields))
    if draw(st.booleans()):
        tree["metadata"] = {
            "name": draw(st.text(CHARACTERS, max_size=4)),
            "namespace": "d",
            "uid": draw(st.sampled_from(["", "u"])),
        }
    return {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, **tree}


def answer(path: Path) -> str | None:
    """Return the digest of the cluster; None after seeing that the problems can be told."""
    try:
        return load_files([str(path)]).digest
    except InputError as error:
        assert error.problems
        assert all(str(problem) for problem in error.problems)
        return None


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@given(items=st.lists(objects(), max_size=3), kind=st.sampled_from(["List", "PodList", "NodeList"]))
def test_any_objects_are_the_same_cluster_or_refused_in_json_and_yaml(
    items: list[Any], kind: str, directory: Path
) -> None:
    ready = {"type": "Ready", "status": "True"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "n"},
            "status": {"conditions": [ready]}}  # fmt: skip
    text = json.dumps({"apiVersion": "v1", "kind": kind, "items": [*items, node]})
    (directory / "f.json").write_text(text)
    (directory / "f.yaml").write_text(f"# JSON is YAML\n{text}")
    assert answer(directory / "f.json") == answer(directory / "f.yaml")


@given(value=VALUES)
def test_any_value_as_a_document(value: Any, directory: Path) -> None:
    (directory / "f.json").write_text(json.dumps(value))
    answer(directory / "f.json")


@given(data=st.binary(max_size=80))
def test_any_bytes(data: bytes, directory: Path) -> None:
    for name in ("f.json", "f.yaml", "f.gz"):
        (directory / name).write_bytes(data)
        answer(directory / name)


@given(at=st.integers(0, 2000), byte=st.integers(0, 255))
def test_any_damaged_byte_of_a_recorded_cluster(
    at: int, byte: int, directory: Path, fixtures_path: Path
) -> None:
    data = bytearray(
        (fixtures_path / "traces" / "recreated-pod-1.29.6" / "cluster.json").read_bytes()
    )
    data[at * 7 % len(data)] = byte
    (directory / "f.json").write_bytes(data)
    answer(directory / "f.json")
