"""What the simulated API server makes of the spec of a node that is to be stored."""

from __future__ import annotations

from collections.abc import Sequence

from live.requests_answered import Tree, failure


def normalize(spec: Tree) -> None:
    """Leave out what the API server leaves out."""
    if not spec.get("unschedulable"):
        spec.pop("unschedulable", None)
    taints = [{key: one[key] for key in one if one[key]} for one in spec.get("taints") or ()]
    spec.pop("taints", None)
    if taints:
        spec["taints"] = taints


def check_taints(name: str, taints: Sequence[Tree]) -> None:
    seen = set()
    for index, taint in enumerate(taints):
        key = taint.get("key"), taint.get("effect")
        where = f"metadata.taints[{index}]"
        if key in seen:
            text = f"{where}: Duplicate value: taints must be unique by key and effect pair"
            raise failure(
                422, f'Node "{name}" is invalid: {text}', causes=[("FieldValueDuplicate", text)]
            )
        seen.add(key)
