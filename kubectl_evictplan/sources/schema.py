"""The types of the fields that are read, for the careful path, and the walk that checks them.

The decoder stops at its first problem; a user wants them all. So input that a person wrote, and
any object the decoder refuses, is parsed into plain values and walked here. ``null`` is always
accepted and means absent, as in Go.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from kubectl_evictplan.sources.marked_tree import Path, written

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_PLAIN_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)


class Scalar(NamedTuple):
    """A leaf type: its name in messages."""

    name: str


class MapOf(NamedTuple):
    """An object whose values all have one type, such as labels."""

    value: Scalar


STRING = Scalar("a string")
INTEGER = Scalar("an integer")
BOOLEAN = Scalar("a boolean")
INT_OR_STRING = Scalar("an integer or a string")
# A JSON object is a dict of its fields that are read; a list has one item type.
Fields = dict[str, Any]

_META: Fields = {
    "name": STRING,
    "generateName": STRING,
    "namespace": STRING,
    "uid": STRING,
    "resourceVersion": STRING,
    "generation": INTEGER,
    "labels": MapOf(STRING),
    "annotations": MapOf(STRING),
    "creationTimestamp": STRING,
    "deletionTimestamp": STRING,
    "deletionGracePeriodSeconds": INTEGER,
    "finalizers": [STRING],
    "ownerReferences": [
        {
            "kind": STRING,
            "name": STRING,
            "uid": STRING,
            "apiVersion": STRING,
            "controller": BOOLEAN,
        }
    ],
    "managedFields": [{"time": STRING, "fieldsV1": {"f:spec": {"f:taints": {}}}}],
}
_CONTAINERS = [
    {"env": [{"name": STRING}], "ports": [{"containerPort": INTEGER, "protocol": STRING}]}
]
_WORKLOAD: Fields = {"metadata": _META, "spec": {"replicas": INTEGER, "parallelism": INTEGER}}

KINDS: dict[str, Fields] = {
    "Pod": {
        "metadata": _META,
        "spec": {
            "nodeName": STRING,
            "tolerations": [
                {
                    "key": STRING,
                    "operator": STRING,
                    "value": STRING,
                    "effect": STRING,
                    "tolerationSeconds": INTEGER,
                }
            ],
            "terminationGracePeriodSeconds": INTEGER,
            "hostNetwork": BOOLEAN,
            "volumes": [{"emptyDir": {}}],
            "containers": _CONTAINERS,
            "initContainers": _CONTAINERS,
        },
        "status": {
            "phase": STRING,
            "reason": STRING,
            "conditions": [{"type": STRING, "status": STRING}],
        },
    },
    "Node": {
        "metadata": _META,
        "spec": {
            "unschedulable": BOOLEAN,
            "taints": [{"key": STRING, "value": STRING, "effect": STRING, "timeAdded": STRING}],
        },
        "status": {
            "conditions": [
                {
                    "type": STRING,
                    "status": STRING,
                    "reason": STRING,
                    "lastHeartbeatTime": STRING,
                    "lastTransitionTime": STRING,
                }
            ],
            "nodeInfo": {"kubeletVersion": STRING},
        },
    },
    "Lease": {
        "metadata": _META,
        "spec": {
            "holderIdentity": STRING,
            "leaseDurationSeconds": INTEGER,
            "acquireTime": STRING,
            "renewTime": STRING,
        },
    },
    "PodDisruptionBudget": {
        "metadata": _META,
        "spec": {
            "selector": {
                "matchLabels": MapOf(STRING),
                "matchExpressions": [{"key": STRING, "operator": STRING, "values": [STRING]}],
            },
            "minAvailable": INT_OR_STRING,
            "maxUnavailable": INT_OR_STRING,
        },
        "status": {
            "disruptionsAllowed": INTEGER,
            "currentHealthy": INTEGER,
            "desiredHealthy": INTEGER,
            "expectedPods": INTEGER,
            "observedGeneration": INTEGER,
        },
    },
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"),
        _WORKLOAD,
    ),
}

TIMESTAMP_FIELDS = frozenset(
    {
        "creationTimestamp",
        "deletionTimestamp",
        "timeAdded",
        "lastHeartbeatTime",
        "lastTransitionTime",
        "acquireTime",
        "renewTime",
        "time",
    }
)


class TypeProblem(NamedTuple):
    """One field of the wrong type."""

    path: Path
    message: str
    got: str
    expected: str


def check_types(kind: str, tree: dict[str, Any]) -> Iterator[TypeProblem]:
    """Yield every field of the wrong type; ``metadata`` must be there."""
    schema = KINDS[kind]
    if not isinstance(tree.get("metadata"), dict):
        yield TypeProblem(("metadata",), "must be an object", describe(tree.get("metadata")), "")
    for name, expected in schema.items():
        value = tree.get(name)
        if value is not None and not (name == "metadata" and not isinstance(value, dict)):
            yield from _check(value, expected, (name,), "")


def _check(value: Any, expected: Any, path: Path, text: str) -> Iterator[TypeProblem]:
    if isinstance(expected, Scalar):
        problem = _check_scalar(value, expected, path, text)
        if problem:
            yield problem
    elif isinstance(expected, list):
        if not isinstance(value, list):
            yield TypeProblem(path, "must be a list", describe(value), "a list")
            return
        for index, item in enumerate(value):
            yield from _check(item, expected[0], (*path, index), written(value, index))
    elif not isinstance(value, dict):
        yield TypeProblem(path, "must be an object", describe(value), "an object")
    elif isinstance(expected, MapOf):
        for name, item in value.items():
            yield from _check(item, expected.value, (*path, name), written(value, name))
    else:
        for name, wanted in expected.items():
            if value.get(name) is not None:
                yield from _check(value[name], wanted, (*path, name), written(value, name))


def _check_scalar(value: Any, expected: Scalar, path: Path, text: str) -> TypeProblem | None:
    if expected is STRING:
        if isinstance(value, str):
            return None
        if isinstance(value, (bool, int, float)):
            message = f"must be a string, but it is read as {describe_type(value)}: quote it"
            return TypeProblem(path, message, text or describe(value), "a quoted string")
    elif expected is BOOLEAN:
        if isinstance(value, bool):
            return None
    else:
        return _check_integer(value, expected, path, text)
    return TypeProblem(path, f"must be {expected.name}", describe(value), expected.name)


def _check_integer(value: Any, expected: Scalar, path: Path, text: str) -> TypeProblem | None:
    if isinstance(value, str) and expected is INT_OR_STRING:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        message = "must be an integer: write a plain decimal"
        return TypeProblem(path, message, text or describe(value), "a plain decimal integer")
    if text and not _PLAIN_DECIMAL.fullmatch(text):
        message = "write a plain decimal integer: YAML readers disagree on this one"
        return TypeProblem(path, message, text, "a plain decimal integer")
    if not INT64_MIN <= value <= INT64_MAX:
        return TypeProblem(path, "does not fit in 64 bits", describe(value), "an int64")
    return None


def describe_type(value: Any) -> str:
    """Return the JSON type of a parsed value, with its article."""
    if value is None:
        return "null"
    for types, name in (
        (bool, "a boolean"),
        (int, "a number"),
        (float, "a number"),
        (str, "a string"),
        (list, "a list"),
        (dict, "an object"),
    ):
        if isinstance(value, types):
            return name
    return "an unknown type"


def describe(value: Any) -> str:
    """Return a value for a message, short; objects and lists by their type only."""
    if isinstance(value, (dict, list)) or value is None:
        return describe_type(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) > 10**60:
        return "a number of more than 60 digits"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def misspelled_fields(kind: str, tree: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield unknown fields that look like one that is read, each with the likely name."""
    yield from _misspelled(tree, KINDS[kind], ())


def _misspelled(value: Any, expected: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(expected, list) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _misspelled(item, expected[0], (*path, index))
    elif isinstance(expected, dict) and isinstance(value, dict):
        for name, item in value.items():
            if name in expected:
                yield from _misspelled(item, expected[name], (*path, name))
            elif expected and (likely := _likely_name(name, expected)):
                yield (*path, name), likely


def _likely_name(name: str, fields: Fields) -> str | None:
    lower = {field.lower(): field for field in fields}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.85)
    return lower[close[0]] if close else None
