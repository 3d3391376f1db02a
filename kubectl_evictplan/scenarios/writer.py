"""A resolved scenario as a scenario file, so that any what-if can be repeated, edited and shared.

Rules: what is written loads back to the same scenario and settings (only the events' origins name
the new file); one event per line; every word that some YAML reader could take for something
else is quoted. Times and durations are exact to the nanosecond.
"""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Any

import yaml
from yaml.representer import SafeRepresenter

from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.scenarios.field_types import file_fields
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.sources.yaml_reader import plain_scalar

_PLAIN_CHARACTERS = frozenset(ascii_letters + digits + "._/-")
_TAG = "tag:yaml.org,2002:"


def write_scenario(scenario: Scenario, settings: ControllerSettings) -> str:
    """Return the YAML text of the scenario and of what is said about the controller."""
    node = _yaml_node(scenario_document(scenario, settings))
    text: str = yaml.serialize(node, Dumper=yaml.SafeDumper, width=2**30, allow_unicode=True)
    return text


def scenario_document(scenario: Scenario, settings: ControllerSettings) -> dict[str, Any]:
    """Return the scenario and what is said about the controller as a scenario file holds them."""
    spec: dict[str, Any] = {"start": format_rfc3339(scenario.start_ns)}
    if scenario.horizon_ns is not None:
        spec["horizon"] = format_duration(scenario.horizon_ns)
    if controller := _controller(settings):
        spec["controller"] = controller
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Scenario"}
    if scenario.name:
        document["metadata"] = {"name": scenario.name}
    spec["events"] = [_event(event) for event in scenario.events]
    return {**document, "spec": spec}


class _OneLine(dict[str, Any]):
    """A map with all in it on one line: wrapped lines would hide events from grep."""


def _yaml_node(value: Any) -> yaml.Node:
    """Return the value as YAML in which every reader finds the same words."""
    if isinstance(value, dict):
        pairs = [tuple(map(_yaml_node, pair)) for pair in value.items()]
        return yaml.MappingNode(f"{_TAG}map", pairs, flow_style=isinstance(value, _OneLine))
    if isinstance(value, list):
        return yaml.SequenceNode(f"{_TAG}seq", [_yaml_node(item) for item in value])
    if isinstance(value, str):
        plain = value[:1].isalnum() and set(value) <= _PLAIN_CHARACTERS
        plain = plain and isinstance(plain_scalar(value), str)
        return yaml.ScalarNode(f"{_TAG}str", value, style=None if plain else '"')
    return SafeRepresenter().represent_data(value)


def _controller(settings: ControllerSettings) -> dict[str, Any]:
    controller: dict[str, Any] = {}
    if settings.kubernetes_version:
        controller["kubernetesVersion"] = settings.kubernetes_version
    if settings.monitor_phase_ns is not None:
        controller["monitorPhase"] = format_duration(settings.monitor_phase_ns)
    if settings.flags:
        controller["flags"] = dict(settings.flags)
    return controller


def _event(event: ScenarioEvent) -> _OneLine:
    """Return one event with the fields of its action."""
    written = _OneLine(at=format_duration(event.at_ns), action=event.action)
    for field in file_fields(type(event)):
        value = getattr(event, field.attribute)
        if value is not None and value != field.default:
            written[field.key] = field.type.write(value)
    return written
