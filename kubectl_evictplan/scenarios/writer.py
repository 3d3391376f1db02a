"""A resolved scenario as a scenario file, so that any what-if can be repeated, edited and shared.

Rules: what is written loads back to the same scenario and settings (only the events' origins name
the new file); one event per line, as the contract's example; every word that some YAML reader
could take for something else is quoted. Times and durations are exact to the nanosecond.
"""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Any

import yaml

from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.kube.objects import Node, Pod, Taint, Toleration
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.sources.yaml_reader import plain_scalar

_PLAIN_CHARACTERS = frozenset(ascii_letters + digits + "._/-")
_TAG = "tag:yaml.org,2002:"


def write_scenario(scenario: Scenario, settings: ControllerSettings) -> str:
    """Return the YAML text of the scenario and of what is said about the controller."""
    spec: dict[str, Any] = {"start": format_rfc3339(scenario.start_ns)}
    if scenario.horizon_ns is not None:
        spec["horizon"] = format_duration(scenario.horizon_ns)
    if controller := _controller(settings):
        spec["controller"] = controller
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Scenario"}
    if scenario.name:
        document["metadata"] = {"name": scenario.name}
    spec["events"] = [_event(event) for event in scenario.events]
    document["spec"] = spec
    node = _yaml_node(document, one_per_line=spec["events"])
    text: str = yaml.serialize(node, Dumper=yaml.SafeDumper, width=2**30, allow_unicode=True)
    return text


def _yaml_node(value: Any, *, one_per_line: list[Any], in_line: bool = False) -> yaml.Node:
    """Return the value as YAML in which every reader finds the same words.

    The items of ``one_per_line`` take a line each: wrapped lines would hide them from grep.
    """
    if isinstance(value, dict):
        pairs = [
            tuple(_yaml_node(part, one_per_line=one_per_line, in_line=in_line) for part in pair)
            for pair in value.items()
        ]
        return yaml.MappingNode(f"{_TAG}map", pairs, flow_style=in_line)
    if isinstance(value, list):
        inner = in_line or value is one_per_line
        items = [_yaml_node(item, one_per_line=one_per_line, in_line=inner) for item in value]
        return yaml.SequenceNode(f"{_TAG}seq", items, flow_style=in_line)
    if isinstance(value, str):
        plain = value[:1].isalnum() and set(value) <= _PLAIN_CHARACTERS
        plain = plain and isinstance(plain_scalar(value), str)
        return yaml.ScalarNode(f"{_TAG}str", value, style=None if plain else '"')
    kind = "bool" if isinstance(value, bool) else "int"
    return yaml.ScalarNode(_TAG + kind, str(value).lower())


def _controller(settings: ControllerSettings) -> dict[str, Any]:
    controller: dict[str, Any] = {}
    if settings.kubernetes_version:
        controller["kubernetesVersion"] = settings.kubernetes_version
    if settings.monitor_phase_ns is not None:
        controller["monitorPhase"] = format_duration(settings.monitor_phase_ns)
    if settings.flags:
        controller["flags"] = dict(settings.flags)
    return controller


def _event(event: ScenarioEvent) -> dict[str, Any]:
    """Return one event with the fields of its action."""
    written: dict[str, Any] = {"at": format_duration(event.at_ns), "action": event.action}
    if event.nodes:
        written["nodes"] = list(event.nodes)
    if event.pods:
        written["pods"] = list(event.pods)
    if event.taint is not None:
        written["taint"] = f"{event.taint.key}={event.taint.value}:{event.taint.effect}"
    if event.taint_key:
        effect = f":{event.taint_effect}" if event.taint_effect else ""
        written["taint"] = event.taint_key + effect
    if event.last_heartbeat_ns is not None:
        written["lastHeartbeat"] = format_duration(event.last_heartbeat_ns)
    if event.status:
        written["status"] = event.status
    if event.action == "pod-tolerations":
        written["tolerations"] = [_toleration(toleration) for toleration in event.tolerations]
    if event.node is not None:
        written["manifest"] = encode_node(event.node)
    if event.pod is not None:
        written["manifest"] = encode_pod(event.pod)
    return written


def encode_node(node: Node) -> dict[str, Any]:
    """Return a ``v1`` Node manifest that decodes to the same value."""
    metadata: dict[str, Any] = {
        "name": node.name,
        "uid": node.uid,
        "resourceVersion": node.resource_version,
        "labels": dict(node.labels),
        "creationTimestamp": _time(node.creation_timestamp_ns or None),
        "deletionTimestamp": _time(node.deletion_timestamp_ns),
    }
    if node.taints_changed_ns is not None:
        taints_set: dict[str, Any] = {"f:spec": {"f:taints": {}}}
        entry = {"time": _time(node.taints_changed_ns), "operation": "Update"}
        metadata["managedFields"] = [{**entry, "fieldsType": "FieldsV1", "fieldsV1": taints_set}]
    spec = {
        "taints": [_taint(taint) for taint in node.taints],
        "unschedulable": node.unschedulable or None,
    }
    conditions = [
        _present(
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "lastHeartbeatTime": _time(condition.last_heartbeat_time_ns),
                "lastTransitionTime": _time(condition.last_transition_time_ns),
            }
        )
        for condition in node.conditions
    ]
    status = _present({"conditions": conditions})
    parts = {"metadata": _present(metadata), "spec": _present(spec), "status": status}
    return {"apiVersion": "v1", "kind": "Node", **_present(parts)}


def encode_pod(pod: Pod) -> dict[str, Any]:
    """Return a ``v1`` Pod manifest that decodes to the same value.

    Of containers and volumes only what decides anything is known, so placeholders stand for them.
    """
    annotations = {
        "kubernetes.io/config.source": pod.config_source,
        "kubernetes.io/config.mirror": "mirror" if pod.mirror else "",
    }
    metadata = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "resourceVersion": pod.resource_version,
        "labels": dict(pod.labels),
        "annotations": _present(annotations),
        "creationTimestamp": _time(pod.creation_timestamp_ns or None),
        "deletionTimestamp": _time(pod.deletion_timestamp_ns),
        "deletionGracePeriodSeconds": pod.deletion_grace_period_seconds,
        "finalizers": list(pod.finalizers),
        "ownerReferences": [
            _present(
                {
                    "apiVersion": owner.api_version,
                    "kind": owner.kind,
                    "name": owner.name,
                    "uid": owner.uid,
                    "controller": owner.controller or None,
                }
            )
            for owner in pod.owner_references
        ],
    }
    container: dict[str, Any] = {"name": "placeholder", "image": "placeholder"}
    if pod.duplicate_env_or_port:
        container["ports"] = [{"containerPort": 1}, {"containerPort": 1}]
    spec = {
        "nodeName": pod.node_name,
        "tolerations": [_toleration(toleration) for toleration in pod.tolerations],
        "terminationGracePeriodSeconds": pod.termination_grace_period_seconds,
        "hostNetwork": pod.host_network or None,
        "volumes": [{"name": "placeholder", "emptyDir": {}}] if pod.empty_dir else [],
        "containers": [container],
    }
    ready = [] if pod.ready is None else [{"type": "Ready", "status": pod.ready}]
    status = {"phase": pod.phase, "reason": pod.status_reason, "conditions": ready}
    parts = {"metadata": _present(metadata), "spec": _present(spec), "status": _present(status)}
    return {"apiVersion": "v1", "kind": "Pod", **parts}


def _taint(taint: Taint) -> dict[str, Any]:
    return _present(
        {
            "key": taint.key,
            "value": taint.value,
            "effect": taint.effect,
            "timeAdded": _time(taint.time_added_ns),
        }
    )


def _toleration(toleration: Toleration) -> dict[str, Any]:
    return _present(
        {
            "key": toleration.key,
            "operator": toleration.operator,
            "value": toleration.value,
            "effect": toleration.effect,
            "tolerationSeconds": toleration.toleration_seconds,
        }
    )


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the API leaves out; numbers and booleans always say something."""
    return {
        name: value
        for name, value in fields.items()
        if value or (value == 0 and value is not False)
    }


def _time(instant_ns: int | None) -> str:
    return "" if instant_ns is None else format_rfc3339(instant_ns)
