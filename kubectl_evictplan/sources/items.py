"""One object at a time, from bytes or from a parsed tree, into the assembly.

An object from an API server is decoded from its bytes straight into the few fields needed; that is
all it costs. What a person wrote (no uid, no resourceVersion), and whatever the decoder could not
take, is parsed to plain values and *checked*: every problem is named, API validation applies.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from kubectl_evictplan.sources import control_plane, schema, wire
from kubectl_evictplan.sources.assembly import Assembly, Source
from kubectl_evictplan.sources.checks import budget_oddities
from kubectl_evictplan.sources.diagnostics import Document, Origin
from kubectl_evictplan.sources.json_reader import JsonSyntaxError, read_json
from kubectl_evictplan.sources.kinds import Classified, Verdict, classify, item_kind
from kubectl_evictplan.sources.manifest_rules import violations
from kubectl_evictplan.sources.marked_tree import Path
from kubectl_evictplan.sources.model_builder import BadTimestamp, ModelBuilder

NODE_LEASE_NAMESPACE = "kube-node-lease"
LEADER_LEASE = ("kube-system", "kube-controller-manager")
# A pod of 150,000 may be odd; a list within a list within a list is a mistake.
LIST_DEPTH_MAX = 3

_UNDECODABLE = (msgspec.DecodeError, BadTimestamp, JsonSyntaxError, RecursionError)


class ItemReader:
    """Reads objects into an assembly; ``comparison_operators``: manifests may use Lt and Gt."""

    def __init__(self, assembly: Assembly, *, comparison_operators: bool = True) -> None:
        self.assembly = assembly
        self.diagnostics = assembly.diagnostics
        self.build = ModelBuilder()
        self._comparison_operators = comparison_operators

    # Objects of an API server, from bytes.

    def read_list(
        self, raws: list[msgspec.Raw], document: Document, kind: str = "", *, search: bool = False
    ) -> None:
        """Read a list's items; ``kind`` is theirs when the list's own kind says so.

        ``search`` them for what the decoder overlooks, such as duplicate keys.
        """
        decode = wire.BY_KIND[kind].decode if kind else wire.OBJECT.decode
        # Items of a typed list may leave out what the list says; others may not.
        pod_versions = ("v1", None) if kind else ("v1",)
        self.assembly.objects_seen += len(raws)
        if kind:
            self.assembly.kinds_seen.add(kind)
        store_pod, build_pod = self._store_pod, self.build.pod
        for index, raw in enumerate(raws):
            try:
                if search:
                    read_json(bytes(raw))
                decoded = decode(raw)
                if type(decoded) is wire.WirePod and decoded.api_version in pod_versions:
                    pod = build_pod(decoded)
                    if pod.uid and pod.name and pod.namespace:
                        store_pod(pod, raw, Source(document, index))
                        continue
                elif self._stored_as_decoded(decoded, kind, Source(document, index)):
                    continue
            except _UNDECODABLE:
                pass
            self.read_bytes(bytes(raw), document, index, kind)

    def _store_pod(self, pod: Any, raw: msgspec.Raw | bytes, source: Source) -> bool:
        if pod.termination_grace_period_seconds < 0:
            message = "negative terminationGracePeriodSeconds: the API server reads it as 1"
            self.diagnostics.warning("negative-grace-period", message, f"Pod {pod.key}")
            pod = msgspec.structs.replace(pod, termination_grace_period_seconds=1)
        component = pod.namespace == control_plane.NAMESPACE and control_plane.component_of(pod)
        decoded = wire.CONTROL_PLANE_POD.decode(raw) if component else None
        added = self.assembly.add("Pod", pod, source)
        if added and decoded:
            instance = control_plane.read_instance(component, decoded)
            self.assembly.instances.append(instance)
        self.assembly.kinds_seen.add("Pod")
        return added

    def _stored_as_decoded(self, decoded: Any, list_kind: str, source: Source) -> bool:
        """Store a decoded object that came from an API server; False: it must be checked."""
        meta = decoded.metadata
        kind = type(decoded).__struct_config__.tag
        if not (meta.uid or meta.resource_version) or not meta.name:
            return False
        if decoded.api_version is None:
            if not list_kind:
                return False
        elif classify(kind, decoded.api_version).verdict is not Verdict.READ:
            return False
        if (kind in wire.CLUSTER_SCOPED) == bool(meta.namespace):
            return False
        self._store(kind, decoded, source)
        return True

    def _store(self, kind: str, decoded: Any, source: Source) -> bool:
        """Build and add; may raise what ``_UNDECODABLE`` names. False: it was there already."""
        build, assembly = self.build, self.assembly
        assembly.kinds_seen.add(kind)
        if kind == "Node":
            assembly.kubelet_versions.add(decoded.status.node_info.kubelet_version)
            return assembly.add(kind, build.node(decoded), source)
        if kind == "Lease":
            return self._store_lease(decoded, source)
        if kind == "PodDisruptionBudget":
            added = assembly.add(kind, build.budget(decoded), source)
            subject = f"{kind} {decoded.metadata.namespace}/{decoded.metadata.name}"
            for message in budget_oddities(decoded) if added else ():
                self.diagnostics.warning("odd-budget", message, subject)
            return added
        if kind in wire.WEBHOOK_KINDS:
            for webhook in build.webhooks(decoded):
                assembly.add(kind, webhook, source)
            return True
        return assembly.add(kind, build.workload(kind, decoded), source)

    def _store_lease(self, decoded: wire.WireLease, source: Source) -> bool:
        meta = decoded.metadata
        lease = self.build.lease(decoded)
        acquired = self.build.times[decoded.spec.acquire_time]
        if meta.namespace == NODE_LEASE_NAMESPACE:
            return self.assembly.add("Lease", lease, source)
        if (meta.namespace, meta.name) == LEADER_LEASE and acquired is not None:
            self.assembly.leader_acquire_times.append(acquired)
        return True

    # Everything else, checked.

    def read_bytes(self, data: bytes, document: Document, index: int, kind: str = "") -> None:
        """Read one JSON object that is to be checked; its syntax is valid to the decoder."""
        head = _head(data)
        if classify(head.kind, head.api_version).verdict is Verdict.IGNORED and (
            not (head.kind or "").endswith("List")
        ):
            # What is in an object that is not read cannot hurt.
            self.assembly.ignore(str(head.kind))
            return
        try:
            tree = read_json(data)
        except JsonSyntaxError as error:
            for problem in error.problems:
                got = problem.got or None
                self.diagnostics.problem(document.origin(index), problem.message, got=got)
            return
        self.read_tree(tree, document, index, kind)

    def read_tree(
        self,
        tree: Any,
        document: Document,
        index: int,
        default_kind: str = "",
        depth: int = 1,
    ) -> None:
        """Read one parsed object; every problem it has is recorded."""
        origin = document.origin(index)
        if not isinstance(tree, dict):
            got = schema.describe(tree)
            self.diagnostics.problem(origin, "expected an object", got=got)
            return
        if default_kind:
            listed = wire.KINDS[default_kind]
            version = f"{listed.group}/v1".lstrip("/")
            tree = {
                **tree,
                "kind": tree.get("kind") or default_kind,
                "apiVersion": tree.get("apiVersion") or version,
            }
        kind = tree.get("kind") or None
        found = classify(kind, tree.get("apiVersion") or None, tree)
        if found.verdict is Verdict.READ:
            self._read_object(str(kind), tree, Source(document, index), origin)
        elif found.verdict is Verdict.LIST:
            self._read_inner_list(tree, str(kind), origin, depth)
        elif found.verdict is Verdict.NOT_KUBERNETES and not document.is_named:
            message = f"skipped: {found.reason}"
            self.diagnostics.warning("not-kubernetes", message, document.file)
        elif found.verdict in (Verdict.IGNORED, Verdict.UNKNOWN_VERSION):
            if found.reason:
                self.diagnostics.warning("unknown-version", found.reason)
            self.assembly.ignore(str(kind))
        else:
            self._refuse(found, tree, origin, index)

    def _refuse(self, found: Classified, tree: dict[str, Any], origin: Origin, index: int) -> None:
        reason = found.reason
        if found.verdict is Verdict.SNAPSHOT:
            inside = index >= 0
            reason = "a snapshot inside a list" if inside else (
                "damaged snapshot (not the JSON that was written)"
            )  # fmt: skip
        self.diagnostics.problem(origin, reason, subject=_subject(tree) or origin.place)

    def _read_inner_list(self, tree: dict[str, Any], kind: str, origin: Origin, depth: int) -> None:
        items = tree.get("items")
        listed = item_kind(kind)
        if listed:
            self.assembly.kinds_seen.add(listed)
        if depth > LIST_DEPTH_MAX:
            message = f"lists nested deeper than {LIST_DEPTH_MAX}"
            self.diagnostics.problem(origin, message)
        elif items is None:
            message = "items is null: read as an empty list"
            self.diagnostics.warning("empty-list", message, origin.document.file)
        elif not isinstance(items, list):
            got = schema.describe(items)
            self.diagnostics.problem(origin, "must be a list", path=("items",), got=got)
        else:
            meta = tree.get("metadata")
            self.check_complete(isinstance(meta, dict) and meta.get("continue"), origin)
            inner = origin.document.list_at(origin)
            self.assembly.objects_seen += len(items)
            for number, item in enumerate(items):
                self.read_tree(item, inner, number, listed, depth + 1)

    def check_complete(self, continue_token: Any, origin: Origin) -> None:
        """Refuse one page of a paged list: what is missing would be predicted away."""
        if continue_token:
            message = "incomplete list: metadata.continue is set (one page of several)"
            self.diagnostics.problem(origin, message)

    def _read_object(self, kind: str, tree: dict[str, Any], source: Source, origin: Origin) -> None:
        before = len(self.diagnostics.problems)
        subject = _subject(tree)
        read = schema.read_fields(wire.KINDS[kind].type, tree)
        for path, message, got, expected in read.wrong:
            self.diagnostics.problem(
                origin, message, subject=subject, path=path, got=got, expected=expected
            )
        meta = read.tree.get("metadata")
        if meta is None:
            return
        written = not (meta.get("uid") or meta.get("resourceVersion"))
        wrong_paths = {field.path for field in read.wrong}
        self._complete_names(kind, meta, written, wrong_paths, origin)
        full = {"kind": kind, "apiVersion": tree["apiVersion"], **read.tree}
        decoded = wire.BY_KIND[kind].decode(msgspec.json.encode(full))
        if written:
            self._check_written(kind, decoded, wrong_paths, _subject(full), origin)
            for path, likely in read.misspelled:
                field = ".".join(str(part) for part in path)
                message = f"{field} is not read: did you mean {likely}?"
                self.diagnostics.warning("misspelled-field", message, _subject(full))
        if len(self.diagnostics.problems) > before:
            return
        if kind == "Pod":
            component = schema.read_fields(wire.ControlPlanePod, tree).tree
            added = self._store_pod(self.build.pod(decoded), msgspec.json.encode(component), source)
        else:
            added = self._store(kind, decoded, source)
        if written and added:
            key = (kind, decoded.metadata.namespace, decoded.metadata.name)
            self.assembly.manifests.add(key)

    def _complete_names(
        self,
        kind: str,
        meta: dict[str, Any],
        written: bool,
        wrong_paths: set[Path],
        origin: Origin,
    ) -> None:
        """Set name and namespace as the API server would; a missing one is a problem."""

        def missing(field: str) -> None:
            path = ("metadata", field)
            if path not in wrong_paths:
                subject = _subject({"kind": kind, "metadata": meta})
                self.diagnostics.problem(origin, "is missing", subject=subject, path=path)

        if not meta.get("name"):
            if written and meta.get("generateName"):
                digest = hashlib.sha256(repr(sorted(map(str, meta.items()))).encode()).hexdigest()
                meta["name"] = meta["generateName"] + digest[:5]
                message = "has only a generateName: a made-up name is used"
                self.diagnostics.warning("synthetic-name", message, f"{kind} {meta['name']}")
            else:
                missing("name")
        namespace = meta.get("namespace")
        if kind in wire.CLUSTER_SCOPED:
            if namespace:
                message = "is cluster-scoped: its namespace is ignored"
                self.diagnostics.warning("namespace-ignored", message, f"{kind} {meta.get('name')}")
            meta["namespace"] = ""
        elif not namespace and not written:
            missing("namespace")
        elif not namespace:
            meta["namespace"] = "default"
            message = 'no namespace: "default" is used'
            subject = f"{kind} default/{meta.get('name')}"
            self.diagnostics.warning("namespace-defaulted", message, subject)

    def _check_written(
        self, kind: str, decoded: Any, wrong_paths: set[Path], subject: str, origin: Origin
    ) -> None:
        """Apply the API server's validation to what a person wrote.

        A taint or toleration of which a field was wrong is left alone: what is left of it would be
        blamed for what the person did write.
        """
        # No rule asks for timeAdded.
        damaged = {path[:3] for path in wrong_paths if path[-1] != "timeAdded"}
        for path, message, got, _ in violations(
            kind, decoded, self.build, comparison_operators=self._comparison_operators
        ):
            if path[:3] not in damaged:
                shown = f'"{got}"' if got else None
                self.diagnostics.problem(origin, message, subject=subject, path=path, got=shown)


class _Head(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None


def _head(data: bytes) -> _Head:
    try:
        return msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return _Head()


def _subject(tree: dict[str, Any]) -> str:
    """Return ``KIND NS/NAME`` as far as it is known, or ""."""
    kind, meta = tree.get("kind"), tree.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(kind, str) or not isinstance(name, str) or not name:
        return ""
    namespace = meta.get("namespace") if isinstance(meta, dict) else None
    prefix = f"{namespace}/" if isinstance(namespace, str) and namespace else ""
    return f"{kind} {prefix}{name}"
