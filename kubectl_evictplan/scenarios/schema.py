"""The JSON Schema of scenario files, made from the table that the reader itself follows."""

from __future__ import annotations

from typing import Any

from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.objects import EFFECTS
from kubectl_evictplan.scenarios.events import ACTION_FIELDS, EVENTS_MAX, STATUSES, TARGET_FIELDS

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT, "minItems": 1}
_DURATION = {
    "description": "a Go duration such as 1h30m or 2.5s, or 0",
    "anyOf": [
        {"type": "string", "pattern": r"^[-+]?(0|([0-9]*(\.[0-9]*)?[a-zµμ]+)+)$"},
        {"const": 0},
    ],
}
_TAINT = {"type": "string", "description": "kubectl's form: key=value:Effect, key:Effect or key"}
_TOLERATION = {
    "type": "object",
    "properties": {
        "key": {"type": "string"},
        "operator": {"enum": ["Exists", "Equal", "Lt", "Gt", ""]},
        "value": {"type": "string"},
        "effect": {"enum": [*EFFECTS, ""]},
        "tolerationSeconds": {"type": "integer"},
    },
    "additionalProperties": False,
}
_FIELDS: dict[str, dict[str, Any]] = {
    "at": _DURATION,
    "nodes": _TEXTS,
    "selector": {"type": "string", "description": "a label selector as kubectl's -l"},
    "zone": {"type": "string", "description": "a zone's label, or region/zone"},
    "allNodes": {"const": True},
    "taint": _TAINT,
    "lastHeartbeat": _DURATION,
    "status": {"enum": list(STATUSES)},
    "manifest": {"type": "object", "description": "a v1 Node or Pod"},
    "pods": {**_TEXTS, "description": "NAMESPACE/NAME"},
    "tolerations": {"type": "array", "items": _TOLERATION},
}


def scenario_schema() -> dict[str, Any]:
    """Return the schema of a Scenario document."""
    controller = _closed(
        {
            "kubernetesVersion": _TEXT,
            "monitorPhase": _DURATION,
            "flags": {
                "type": "object",
                "additionalProperties": {"type": ["string", "number", "boolean"]},
            },
        }
    )
    metadata = _closed(
        {
            "name": {"type": "string"},
            "labels": {"type": "object"},
            "annotations": {"type": "object"},
        }
    )
    events = {
        "type": "array",
        "maxItems": EVENTS_MAX,
        "items": {"oneOf": [_event(action) for action in ACTION_FIELDS]},
    }
    spec = _closed(
        {
            "start": {"type": "string", "format": "date-time"},
            "horizon": _DURATION,
            "controller": controller,
            "events": events,
        },
        required=["events"],
    )
    properties = {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": "Scenario"},
        "metadata": metadata,
        "spec": spec,
    }
    return _closed(properties, required=["apiVersion", "kind", "spec"])


def _event(action: str) -> dict[str, Any]:
    """Return the schema of one action's events."""
    described = ACTION_FIELDS[action]
    properties = {
        name: {"const": action} if name == "action" else _FIELDS[name] for name in described.names()
    }
    schema = _closed(properties, required=["at", "action", *described.required])
    if described.targets_nodes:
        schema["oneOf"] = [{"required": [name]} for name in TARGET_FIELDS]
    return schema


def _closed(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}
