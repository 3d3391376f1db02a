"""The wire types of scenario files, made from the table of actions, and their JSON Schema."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.field_types import (
    TARGET_KEYS,
    TARGET_TYPES,
    Text,
    WireDuration,
    file_fields,
)
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

KIND = "Scenario"
EVENTS_MAX = 10_000

_Flag = Annotated[Any, Meta(extra_json_schema={"type": ["string", "number", "boolean"]})]


class Metadata(Struct, forbid_unknown_fields=True):
    """Only the name is used."""

    name: str | None = None
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class Controller(Struct, rename="camel", forbid_unknown_fields=True):
    """What is said about kube-controller-manager; the command line wins."""

    kubernetes_version: Text | None = None
    monitor_phase: WireDuration | None = None
    flags: dict[str, _Flag] | None = None


class Spec(Struct, forbid_unknown_fields=True):
    """What happens, and when."""

    # Each event is read as its own action.
    events: Annotated[list[Any], Meta(max_length=EVENTS_MAX)]
    start: Annotated[str, Meta(extra_json_schema={"format": "date-time"})] | None = None
    horizon: WireDuration | None = None
    controller: Controller | None = None


class ScenarioFile(Struct, rename="camel", forbid_unknown_fields=True):
    """A timed script of what people, kubelets and machines do to a cluster."""

    api_version: Annotated[str, Meta(extra_json_schema={"const": API_VERSION})]
    kind: Annotated[str, Meta(extra_json_schema={"const": KIND})]
    spec: Spec
    metadata: Metadata | None = None


class AnyEvent(Struct):
    """What every event has."""

    at: WireDuration
    action: str


@cache
def event_type(action: type[ScenarioEvent]) -> type[Struct]:
    """Return the wire type of one action's events."""
    fields: list[Any] = [("at", WireDuration), ("action", str)]
    for field in file_fields(action):
        if field.type in TARGET_TYPES:
            fields += [(key, kind | None, None) for key, kind in TARGET_KEYS.items()]
        else:
            kind = field.type.wire
            fields.append((field.key, kind) if field.required else (field.key, kind | None, None))
    required_first = sorted(fields, key=len)
    return msgspec.defstruct(action.action, required_first, forbid_unknown_fields=True)


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of a Scenario document."""
    types = [ScenarioFile, *(event_type(action) for action in ACTIONS.values())]
    (document, *events), components = msgspec.json.schema_components(types)
    components["Spec"]["properties"]["events"]["items"] = {"oneOf": events}
    for name, action in ACTIONS.items():
        components[name]["description"] = action.__doc__
        components[name]["properties"]["action"] = {"const": name}
        if any(field.type in TARGET_TYPES for field in file_fields(action)):
            components[name]["oneOf"] = [{"required": [key]} for key in TARGET_KEYS]
    return {**document, "$defs": components}
