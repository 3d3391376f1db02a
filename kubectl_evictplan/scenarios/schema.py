"""The JSON Schema of scenario files, made from the table of actions."""

from __future__ import annotations

from functools import cache
from typing import Any

from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.field_types import (
    DURATION_SCHEMA,
    TARGET_SCHEMAS,
    TARGETS,
    TEXT_SCHEMA,
    file_fields,
)
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

KIND = "Scenario"
EVENTS_MAX = 10_000


def scenario_schema() -> dict[str, Any]:
    """Return the schema of a Scenario document."""
    controller = _closed(
        {
            "kubernetesVersion": TEXT_SCHEMA,
            "monitorPhase": DURATION_SCHEMA,
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
        "items": {"oneOf": [event_schema(action) for action in ACTIONS.values()]},
    }
    spec = _closed(
        {
            "start": {"type": "string", "format": "date-time"},
            "horizon": DURATION_SCHEMA,
            "controller": controller,
            "events": events,
        },
        required=["events"],
    )
    properties = {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": KIND},
        "metadata": metadata,
        "spec": spec,
    }
    return _closed(properties, required=["apiVersion", "kind", "spec"])


@cache
def event_schema(action: type[ScenarioEvent]) -> dict[str, Any]:
    """Return the schema of one action's events."""
    properties: dict[str, Any] = {"at": DURATION_SCHEMA, "action": {"const": action.action}}
    required = ["at", "action"]
    one_of: list[dict[str, Any]] = []
    for field in file_fields(action):
        if field.type is TARGETS:
            properties |= TARGET_SCHEMAS
            one_of = [{"required": [key]} for key in TARGET_SCHEMAS]
        else:
            properties[field.key] = field.type.schema
            required += [field.key] if field.required else []
    schema = {"title": f"action {action.action}", **_closed(properties, required)}
    return {**schema, "oneOf": one_of} if one_of else schema


def _closed(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}
