"""The events of a scenario file: which fields each action has, and what they resolve to.

``ACTION_FIELDS`` is the table of the format: reading, the unknown-key check and the JSON Schema all
follow it. ``World`` holds which nodes and pods exist as the events unfold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.durations import parse_bounded_duration_ns, parse_duration_ns
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod, Toleration
from kubectl_evictplan.kube.objects import Warning as FileWarning
from kubectl_evictplan.kube.validation import validate_toleration
from kubectl_evictplan.scenarios.fields import FieldReader, ProblemList
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.scenarios.taint_arguments import (
    controller_owned_taint_warning,
    parse_taint,
    parse_taint_removal,
)
from kubectl_evictplan.scenarios.targets import (
    nodes_by_name,
    nodes_by_selector,
    nodes_by_zone,
    unknown_name,
)
from kubectl_evictplan.sources.marked_tree import MarkedList, MarkedMap

EVENTS_MAX = 10_000
STATUSES = ("True", "False", "Unknown")
TARGET_FIELDS = ("nodes", "selector", "zone", "allNodes")


@dataclass(frozen=True)
class ActionFields:
    """What one action needs and allows, besides ``at`` and ``action``."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    # Exactly one of TARGET_FIELDS.
    targets_nodes: bool = False

    def names(self) -> tuple[str, ...]:
        """Return every key an event of this action may have."""
        targets = TARGET_FIELDS if self.targets_nodes else ()
        return ("at", "action", *targets, *self.required, *self.optional)


ACTION_FIELDS = {
    "taint": ActionFields(required=("taint",), targets_nodes=True),
    "untaint": ActionFields(required=("taint",), targets_nodes=True),
    "kubelet-stop": ActionFields(optional=("lastHeartbeat",), targets_nodes=True),
    "kubelet-start": ActionFields(targets_nodes=True),
    "node-ready": ActionFields(required=("status",), targets_nodes=True),
    "node-delete": ActionFields(targets_nodes=True),
    "node-create": ActionFields(required=("manifest",)),
    "pod-create": ActionFields(required=("manifest",)),
    "pod-delete": ActionFields(required=("pods",)),
    "pod-tolerations": ActionFields(required=("pods", "tolerations")),
    "controller-stop": ActionFields(),
    "controller-start": ActionFields(),
    "cordon": ActionFields(targets_nodes=True),
    "uncordon": ActionFields(targets_nodes=True),
}


@dataclass(frozen=True)
class Draft:
    """One event before its targets are known."""

    at_ns: int
    action: str
    fields: FieldReader


class World:
    """The nodes that exist, and the pods and nodes that ever existed, as events unfold."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.node_names_ever = set(self.nodes)
        self.pods = {pod.key: pod for pod in snapshot.pods}

    def apply(self, event: ScenarioEvent) -> None:
        """Take in what an event creates and deletes."""
        if event.node is not None:
            self.nodes[event.node.name] = event.node
            self.node_names_ever.add(event.node.name)
        if event.pod is not None:
            self.pods[event.pod.key] = event.pod
        if event.action == "node-delete":
            for name in event.nodes:
                del self.nodes[name]


def read_drafts(listed: MarkedList, problems: ProblemList) -> list[Draft]:
    """Return the events whose instant and action are right, in the order they happen."""
    if len(listed) > EVENTS_MAX:
        message = f"{len(listed)} events: the limit is {EVENTS_MAX}"
        problems.add(listed.place, message, path="spec.events")
        return []
    drafts = []
    for index, item in enumerate(listed):
        path = f"spec.events[{index}]"
        if not isinstance(item, MarkedMap):
            problems.add(
                listed.marks[index].place, "expected a map with 'at' and 'action'", path=path
            )
            continue
        fields = FieldReader(item, problems, path)
        at_ns = fields.duration_ns("at", parse_bounded_duration_ns, required=True)
        action = fields.text("action", required=True)
        if action is not None and action not in ACTION_FIELDS:
            message = unknown_name("action", action, ACTION_FIELDS)
            fields.problem("action", message, expected=f"one of {', '.join(ACTION_FIELDS)}")
        elif action is not None:
            fields.only(ACTION_FIELDS[action].names())
            if at_ns is not None:
                drafts.append(Draft(at_ns, action, fields))
    return sorted(drafts, key=lambda draft: draft.at_ns)


class EventReader:
    """Resolves drafts one after the other against the world they meet."""

    def __init__(
        self,
        world: World,
        location: str,
        decode_manifest: Callable[[dict[str, Any], str], Node | Pod],
    ) -> None:
        self.warnings: list[FileWarning] = []
        self._world = world
        self._location = location
        self._decode_manifest = decode_manifest

    def resolve(self, draft: Draft) -> ScenarioEvent | None:
        """Return the event and let it happen in the world; None after noting problems."""
        values = self._values(draft)
        if values is None:
            return None
        origin = f"{self._location}:{draft.fields.place.line}"
        event = ScenarioEvent(at_ns=draft.at_ns, action=draft.action, origin=origin, **values)
        self._world.apply(event)
        return event

    def _values(self, draft: Draft) -> dict[str, Any] | None:
        """Return the event's own fields, or None when one of them is wrong."""
        fields, described = draft.fields, ACTION_FIELDS[draft.action]
        values: dict[str, Any] = {}
        complete = True
        if described.targets_nodes:
            nodes = self._nodes(fields)
            complete = nodes is not None
            values["nodes"] = tuple(node.name for node in nodes or ())
        for name in (*described.required, *described.optional):
            if not fields.has(name):
                if name in described.required:
                    message = f"required key {name!r} is missing for action {draft.action}"
                    fields.problem("", message)
                    complete = False
                continue
            read = self._read_field(name, draft, values.get("nodes", ()))
            complete = complete and read is not None
            values.update(read or {})
        return values if complete else None

    def _read_field(self, name: str, draft: Draft, nodes: tuple[str, ...]) -> dict[str, Any] | None:
        if name == "taint":
            return self._taint(draft, nodes)
        if name == "lastHeartbeat":
            return _last_heartbeat(draft)
        if name == "status":
            return _status(draft.fields)
        if name == "manifest":
            return self._manifest(draft)
        if name == "pods":
            return self._pods(draft.fields)
        assert name == "tolerations"
        return _tolerations(draft.fields)

    def _nodes(self, fields: FieldReader) -> list[Node] | None:
        """Return the nodes of the one target given."""
        given = [name for name in TARGET_FIELDS if fields.has(name)]
        if len(given) != 1:
            which = f"both {given[0]!r} and {given[1]!r}" if given else "none"
            fields.problem("", f"one target is needed, given: {which}", expected=_TARGETS)
            return None
        key, world = given[0], self._world.nodes
        try:
            if key == "nodes":
                return self._named_nodes(fields)
            if key == "selector":
                selector = fields.text(key)
                return None if selector is None else nodes_by_selector(world, selector)
            if key == "zone":
                zone = fields.text(key)
                return None if zone is None else nodes_by_zone(world, zone)
        except ValueError as error:
            fields.problem(key, str(error))
            return None
        return self._all_nodes(fields)

    def _all_nodes(self, fields: FieldReader) -> list[Node] | None:
        everything = fields.boolean("allNodes")
        if everything is False:
            fields.problem("allNodes", "only 'allNodes: true' selects nodes", expected=_TARGETS)
        elif everything and not self._world.nodes:
            fields.problem("allNodes", "there is no node")
        elif everything:
            return [self._world.nodes[name] for name in sorted(self._world.nodes)]
        return None

    def _named_nodes(self, fields: FieldReader) -> list[Node] | None:
        names = fields.strings("nodes")
        if names is None:
            return None
        missing = False
        for name, place in names:
            if name not in self._world.nodes:
                missing = True
                message = unknown_name("node", name, self._world.nodes)
                if name in self._world.node_names_ever:
                    message = f"node {name!r} is deleted at this instant"
                fields.problems.add(place, message, path=f"{fields.path}.nodes")
        return None if missing else nodes_by_name(self._world.nodes, [name for name, _ in names])

    def _taint(self, draft: Draft, nodes: tuple[str, ...]) -> dict[str, Any] | None:
        text = draft.fields.text("taint")
        if text is None:
            return None
        try:
            if text.endswith("-"):
                raise ValueError(_TRAILING_DASH[draft.action])
            if draft.action == "taint":
                taint = parse_taint(text)
                self._warn_about_taint(taint.key, nodes)
                return {"taint": taint}
            removal = parse_taint_removal(text)
        except ValueError as error:
            draft.fields.problem("taint", str(error), expected=_TAINT_FORMS[draft.action])
            return None
        self._warn_about_taint(removal.key, nodes)
        return {"taint_key": removal.key, "taint_effect": removal.effect}

    def _warn_about_taint(self, key: str, nodes: tuple[str, ...]) -> None:
        objects = tuple(f"node/{name}" for name in nodes)
        warning = controller_owned_taint_warning(key, objects)
        if warning is not None:
            self.warnings.append(warning)

    def _manifest(self, draft: Draft) -> dict[str, Any] | None:
        """Return the decoded node or pod, whose kind must fit the action."""
        fields = draft.fields
        manifest = fields.mapping("manifest")
        if manifest is None:
            return None
        wanted = "Node" if draft.action == "node-create" else "Pod"
        if (kind := manifest.text("kind", required=True)) != wanted:
            if kind is not None:
                manifest.problem("kind", f"{draft.action} needs a {wanted}")
            return None
        try:
            decoded = self._decode_manifest(manifest.mapping_value, self._location)
        except InputError as error:
            fields.problems.extend(manifest.place, error.problems)
            return None
        if isinstance(decoded, Node):
            return self._created_node(decoded, fields)
        return self._created_pod(decoded, fields)

    def _created_node(self, node: Node, fields: FieldReader) -> dict[str, Any] | None:
        if node.name in self._world.nodes:
            fields.problem("", f"node {node.name!r} exists already at this instant")
            return None
        return {"node": node}

    def _created_pod(self, pod: Pod, fields: FieldReader) -> dict[str, Any] | None:
        if pod.node_name and pod.node_name not in self._world.node_names_ever:
            message = unknown_name("node", pod.node_name, self._world.node_names_ever)
            fields.problem("", f"manifest.spec.nodeName: {message}")
            return None
        return {"pod": pod}

    def _pods(self, fields: FieldReader) -> dict[str, Any] | None:
        names = fields.strings("pods")
        if names is None:
            return None
        missing = [(name, place) for name, place in names if name not in self._world.pods]
        for name, place in missing:
            message = unknown_name("pod", name, self._world.pods)
            expected = "" if name.count("/") == 1 else "NAMESPACE/NAME"
            fields.problems.add(place, message, path=f"{fields.path}.pods", expected=expected)
        return None if missing else {"pods": tuple(sorted({name for name, _ in names}))}


_TARGETS = "one of nodes, selector, zone, allNodes: true"
_TAINT_FORMS = {
    "taint": "key=value:Effect or key:Effect",
    "untaint": "key:Effect or key (every effect)",
}
_TRAILING_DASH = {
    "taint": "to remove a taint write action: untaint, without the trailing '-'",
    "untaint": "leave out the trailing '-': the action already says it",
}
_TOLERATION_FIELDS = ("key", "operator", "value", "effect", "tolerationSeconds")


def _last_heartbeat(draft: Draft) -> dict[str, Any] | None:
    """Return the offset of the last renewal; it may be negative but not after the stop."""
    offset_ns = draft.fields.duration_ns("lastHeartbeat", parse_duration_ns)
    if offset_ns is None:
        return None
    if offset_ns > draft.at_ns:
        draft.fields.problem("lastHeartbeat", "the last heartbeat lies after the stop itself")
        return None
    return {"last_heartbeat_ns": offset_ns}


def _status(fields: FieldReader) -> dict[str, Any] | None:
    status = fields.text("status")
    if status is not None and status not in STATUSES:
        fields.problem("status", "not a status of Ready", expected='"True", "False" or "Unknown"')
        return None
    return None if status is None else {"status": status}


def _tolerations(fields: FieldReader) -> dict[str, Any] | None:
    """Return the pod's whole new list, checked as the API server would; it may be empty."""
    listed = fields.sequence("tolerations")
    if listed is None:
        return None
    read = [_toleration(listed, index, fields) for index in range(len(listed))]
    complete = tuple(toleration for toleration in read if toleration is not None)
    return {"tolerations": complete} if len(complete) == len(read) else None


def _toleration(listed: MarkedList, index: int, parent: FieldReader) -> Toleration | None:
    path, item = f"{parent.path}.tolerations[{index}]", listed[index]
    if not isinstance(item, MarkedMap):
        parent.problems.add(listed.marks[index].place, "expected a map", path=path)
        return None
    fields = FieldReader(item, parent.problems, path)
    fields.only(_TOLERATION_FIELDS)
    texts = {name: fields.text(name) for name in ("key", "operator", "value", "effect")}
    seconds = fields.integer("tolerationSeconds")
    if any(fields.has(name) and texts[name] is None for name in texts):
        return None
    if fields.has("tolerationSeconds") and seconds is None:
        return None
    words = {name: text or "" for name, text in texts.items()}
    toleration = Toleration(**words, toleration_seconds=seconds)
    # Lt and Gt are judged with the release that is simulated, not here.
    found = validate_toleration(toleration, comparison_operators=True)
    for name, message, _ in found:
        fields.problem(name if fields.has(name) else "", message)
    return None if found else toleration
