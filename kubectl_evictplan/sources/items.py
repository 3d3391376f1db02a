"""One object at a time, from bytes or from a parsed tree, into the assembly.

An object from an API server is decoded from its bytes straight into the few fields needed; that is
all it costs. What a person wrote (no uid, no resourceVersion), and whatever the decoder could not
take, is parsed to plain values and *checked*: every problem is named, API validation applies.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Node, Pod
from kubectl_evictplan.kube.quantities import BadQuantity
from kubectl_evictplan.sources import wire, wire_control_plane
from kubectl_evictplan.sources.assembly import Assembly, Source
from kubectl_evictplan.sources.checks import budget_oddities, violations
from kubectl_evictplan.sources.control_plane import component_of
from kubectl_evictplan.sources.diagnostics import Diagnostics, Document, Origin
from kubectl_evictplan.sources.infrastructure import BUILDERS, leader_lease, pod_claims
from kubectl_evictplan.sources.json_syntax import JsonSyntaxError, check_json
from kubectl_evictplan.sources.kinds import IGNORED, Classified, Verdict, classify, item_kind
from kubectl_evictplan.sources.marked_tree import Path
from kubectl_evictplan.sources.model_builder import BadTimestamp, ModelBuilder

if TYPE_CHECKING:
    from kubectl_evictplan.kube.infrastructure import PodClaims
    from kubectl_evictplan.sources.piece_reader import Found
    from kubectl_evictplan.sources.witness import Witness

NODE_LEASE_NAMESPACE = "kube-node-lease"
# A pod of 150,000 may be odd; a list within a list within a list is a mistake.
LIST_DEPTH_MAX = 3

UNDECODABLE = (msgspec.DecodeError, BadTimestamp, BadQuantity, JsonSyntaxError, RecursionError)
# Given by an API server: what was never stored has none.
_STORED_MARKS = ("uid", "resourceVersion")


class ItemReader:
    """Reads objects into an assembly.

    ``manifest_version``: the Kubernetes version whose validation manifests must pass; "" is the
    newest. ``witness`` is shown every object before it is reduced to what decides.
    """

    def __init__(
        self,
        assembly: Assembly,
        *,
        manifest_version: str = "",
        build: ModelBuilder | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.assembly = assembly
        self.witness = witness
        self.diagnostics = assembly.diagnostics
        # Readers may share one, and so what repeats among their objects.
        self.build = build or ModelBuilder()
        self._manifest_version = manifest_version

    # Objects of an API server, from bytes.

    def read_list(
        self,
        raws: list[msgspec.Raw],
        origin: Origin,
        kind: str = "",
        *,
        version: str = "",
        search: bool = False,
        first: int = 0,
    ) -> None:
        """Read the items of the list there; ``kind`` is theirs when the list's own kind says so.

        ``version`` is the list's apiVersion, for items that leave theirs out. ``search`` them for
        what the decoder overlooks, such as duplicate keys. ``first`` is the number of the first of
        them in the list.
        """
        decode = wire.DECODERS[kind].decode
        # Items of a typed list may leave out what the list says; others may not.
        pod_versions = ("v1", None) if kind else ("v1",)
        self.assembly.objects_seen += len(raws)
        if kind:
            self.assembly.kinds_seen.add(kind)
        store_pod, build_pod = self._store_pod, self.build.pod
        for index, raw in enumerate(raws, first):
            if self.witness is not None:
                self.witness.see(raw, kind)
            try:
                if search:
                    check_json(bytes(raw))
                decoded = decode(raw)
                if type(decoded) is wire.WirePod and decoded.api_version in pod_versions:
                    pod = build_pod(decoded)
                    if pod.uid and pod.name and pod.namespace:
                        if store_pod(pod, raw, Source(origin, index)):
                            self._store_claims(decoded, Source(origin, index))
                        continue
                elif self.stores_decoded(decoded, kind, Source(origin, index), version):
                    continue
            except UNDECODABLE:
                pass
            self.read_bytes(bytes(raw), origin.item(index), kind)

    def read_found(self, found: Found, origin: Origin, kind: str, first: int) -> None:
        """Read what is kept of a piece of a list, as ``read_list`` reads its items."""
        add, pods = self.assembly.add, iter(found.pods)
        self.assembly.objects_seen += len(found.pods)
        if found.pods:
            self.assembly.kinds_seen.add("Pod")
        for index in range(found.items):
            if (other := found.others.get(index)) is not None:
                self.read_list([msgspec.Raw(other)], origin, kind, first=first + index)
                continue
            source = Source(origin, first + index)
            if add("Pod", next(pods), source) and index in found.claims:
                add("PodClaims", found.claims[index], source)
        self.build.leap_seconds += found.leap_seconds

    def _store_claims(self, decoded: wire.WirePod, source: Source) -> None:
        """Store which volumes a pod needs."""
        if decoded.spec.volumes and (claims := pod_claims(decoded)):
            self.assembly.add("PodClaims", claims, source)

    def _store_pod(self, pod: Any, raw: msgspec.Raw | bytes, source: Source) -> bool:
        if pod.termination_grace_period_seconds < 0:
            message = "negative terminationGracePeriodSeconds: the API server reads it as 1"
            self.diagnostics.warning("negative-grace-period", message, f"Pod {pod.key}")
            pod = msgspec.structs.replace(pod, termination_grace_period_seconds=1)
        component = component_of(pod)
        decoded = wire_control_plane.CONTROL_PLANE_POD.decode(raw) if component else None
        added = self.assembly.add("Pod", pod, source)
        if added and decoded:
            self.assembly.control_plane.add_pod(component, pod, decoded)
        self.assembly.kinds_seen.add("Pod")
        return added

    def stores_decoded(
        self, decoded: Any, list_kind: str, source: Source, list_version: str = ""
    ) -> bool:
        """Store a decoded object that came from an API server; False: it must be checked."""
        meta = decoded.metadata
        decoded.api_version = decoded.api_version or list_version or None
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
        """Build and add; may raise what ``UNDECODABLE`` names. False: it was there already."""
        build, assembly = self.build, self.assembly
        assembly.kinds_seen.add(kind)
        if kind == "Node":
            node = build.node(decoded)
            added = assembly.add(kind, node, source)
            if added:
                assembly.control_plane.add_node(node, decoded)
            return added
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
        if kind in wire_control_plane.OPERATOR_KINDS:
            assembly.control_plane.add_operator(kind, decoded)
            return True
        if kind == "ClusterOperator":
            assembly.control_plane.add_cluster_operator(decoded)
            return True
        if builder := BUILDERS.get(kind):
            return assembly.add(kind, builder(build, decoded), source)
        return assembly.add(kind, build.workload(kind, decoded), source)

    def _store_lease(self, decoded: wire.WireLease, source: Source) -> bool:
        if decoded.metadata.namespace == NODE_LEASE_NAMESPACE:
            return self.assembly.add("Lease", self.build.lease(decoded), source)
        if leader := leader_lease(self.build, decoded):
            return self.assembly.add("LeaderLease", leader, source)
        return True

    # Everything else, checked.

    def read_bytes(self, data: bytes, origin: Origin, kind: str = "") -> None:
        """Read one JSON object that is to be checked; its syntax is valid to the decoder."""
        head = _head(data)
        is_ignored = classify(head.kind, head.api_version) == IGNORED
        if is_ignored and not (head.kind or "").endswith("List"):
            # What is in an object that is not read cannot hurt.
            self.assembly.ignore(str(head.kind))
            return
        from kubectl_evictplan.sources.json_reader import read_json  # not for most

        try:
            tree = read_json(data)
        except JsonSyntaxError as error:
            for problem in error.problems:
                self.diagnostics.problem(origin, problem.message, got=problem.got or None)
            return
        self.read_tree(tree, origin, kind)

    def read_tree(self, tree: Any, origin: Origin, kind: str = "", depth: int = 1) -> None:
        """Read one parsed object; every problem it has is recorded.

        ``kind`` is that of the list it stands in, when that says so.
        """
        if not isinstance(tree, dict):
            got = _described(tree)
            self.diagnostics.problem(origin, "expected an object", got=got)
            return
        if kind:
            version = tree.get("apiVersion") or wire.KINDS[kind].api_version
            tree = {**tree, "kind": tree.get("kind") or kind, "apiVersion": version}
        kind = tree.get("kind") or ""
        found = classify(kind, tree.get("apiVersion") or None, tree)
        if self.witness is not None:
            self.witness.see_tree(tree, kind)
        if found.verdict is Verdict.READ:
            self._read_object(kind, tree, origin)
        elif found.verdict is Verdict.LIST:
            self._read_inner_list(tree, kind, origin, depth)
        elif found.verdict is Verdict.NOT_KUBERNETES and not origin.document.is_named:
            message = f"skipped: {found.reason}"
            self.diagnostics.warning("not-kubernetes", message, origin.document.file)
        elif found.verdict is Verdict.IGNORED:
            if found.reason:
                self.diagnostics.warning("unknown-version", found.reason)
            self.assembly.ignore(kind)
        else:
            self._refuse(found, tree, origin)

    def _refuse(self, found: Classified, tree: dict[str, Any], origin: Origin) -> None:
        reason = found.reason
        if found.verdict is Verdict.SNAPSHOT:
            reason = "damaged snapshot (not the JSON that was written)"
            if origin.path:
                reason = "a snapshot inside a list"
        self.diagnostics.problem(origin, reason, subject=_subject(tree) or origin.place)

    def _read_inner_list(self, tree: dict[str, Any], kind: str, origin: Origin, depth: int) -> None:
        items = tree.get("items")
        if listed := item_kind(kind):
            self.assembly.kinds_seen.add(listed)
        if depth > LIST_DEPTH_MAX:
            self.diagnostics.problem(origin, f"lists nested deeper than {LIST_DEPTH_MAX}")
        elif items is None:
            message = "items is null: read as an empty list"
            self.diagnostics.warning("empty-list", message, origin.document.file)
        elif not isinstance(items, list):
            got = _described(items)
            self.diagnostics.problem(origin, "must be a list", path=("items",), got=got)
        else:
            meta = tree.get("metadata")
            self.check_complete(isinstance(meta, dict) and meta.get("continue"), origin)
            self.assembly.objects_seen += len(items)
            # Items of a typed list may leave out what the list says.
            unsaid = "" if listed else kind.removesuffix("List")
            for number, item in enumerate(items):
                if unsaid and isinstance(item, dict) and not item.get("kind"):
                    self.assembly.ignore(unsaid)
                    if self.witness is not None:
                        self.witness.see_tree(item, unsaid)
                else:
                    self.read_tree(item, origin.item(number), listed, depth + 1)

    def check_complete(self, continue_token: Any, origin: Origin) -> None:
        """Refuse one page of a paged list: what is missing would be predicted away."""
        if continue_token:
            message = "incomplete list: metadata.continue is set (one page of several)"
            self.diagnostics.problem(origin, message)

    def _read_object(self, kind: str, tree: dict[str, Any], origin: Origin) -> None:
        from kubectl_evictplan.sources import schema

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
        full = {"kind": kind, "apiVersion": tree["apiVersion"], **read.tree}
        written = not any(meta.get(mark) for mark in _STORED_MARKS)
        wrong_paths = {field.path for field in read.wrong}
        for field in self._complete_names(kind, meta, written):
            path = ("metadata", field)
            if path not in wrong_paths:
                self.diagnostics.problem(origin, "is missing", subject=_subject(full), path=path)
        decoded = wire.DECODERS[kind].decode(msgspec.json.encode(full))
        if written:
            self._check_written(kind, decoded, wrong_paths, _subject(full), origin)
            for path, likely in read.misspelled:
                field = ".".join(str(part) for part in path)
                message = f"{field} is not read: did you mean {likely}?"
                self.diagnostics.warning("misspelled-field", message, _subject(full))
        if len(self.diagnostics.problems) > before:
            return
        if kind == "Pod":
            component = schema.read_fields(wire_control_plane.ControlPlanePod, tree).tree
            raw = msgspec.json.encode(component)
            added = self._store_pod(self.build.pod(decoded), raw, Source(origin))
            if added:
                self._store_claims(decoded, Source(origin))
        else:
            added = self._store(kind, decoded, Source(origin))
        if written and added:
            key = (kind, decoded.metadata.namespace, decoded.metadata.name)
            self.assembly.manifests.add(key)

    def _complete_names(self, kind: str, meta: dict[str, Any], written: bool) -> list[str]:
        """Set name and namespace as the API server would; return which one is missing."""
        missing = []
        if not meta.get("name"):
            if written and meta.get("generateName"):
                digest = hashlib.sha256(repr(sorted(map(str, meta.items()))).encode()).hexdigest()
                meta["name"] = meta["generateName"] + digest[:5]
                message = "has only a generateName: a made-up name is used"
                self.diagnostics.warning("synthetic-name", message, f"{kind} {meta['name']}")
            else:
                missing.append("name")
        namespace = meta.get("namespace")
        if kind in wire.CLUSTER_SCOPED:
            if namespace:
                message = "is cluster-scoped: its namespace is ignored"
                self.diagnostics.warning("namespace-ignored", message, f"{kind} {meta.get('name')}")
            meta["namespace"] = ""
        elif not namespace and not written:
            missing.append("namespace")
        elif not namespace:
            meta["namespace"] = "default"
            subject = f"{kind} default/{meta.get('name')}"
            message = 'no namespace: "default" is used'
            self.diagnostics.warning("namespace-defaulted", message, subject)
        return missing

    def _check_written(
        self, kind: str, decoded: Any, wrong_paths: set[Path], subject: str, origin: Origin
    ) -> None:
        """Apply the API server's validation to what a person wrote.

        A taint or toleration of which a field was wrong is left alone: what is left of it would be
        blamed for what the person did write.
        """
        # No rule asks for timeAdded.
        damaged = {path[:3] for path in wrong_paths if path[-1] != "timeAdded"}
        found = violations(kind, decoded, self.build, self._manifest_version)
        for path, message, got, _ in found:
            if path[:3] not in damaged:
                shown = f'"{got}"' if got else None
                self.diagnostics.problem(origin, message, subject=subject, path=path, got=shown)


class PlainPod(msgspec.Struct, frozen=True):
    """A pod, and its claims if it has any."""

    pod: Pod
    claims: PodClaims | None


def plain_pod(build: ModelBuilder, decoded: wire.WirePod, kind: str) -> PlainPod | None:
    """Return a pod about which nothing is to be said but itself: stored, sound, and none of the control plane's.

    ``kind`` is what its list says. May raise what ``UNDECODABLE`` names.
    """
    if decoded.api_version != "v1" and (decoded.api_version is not None or not kind):
        return None
    pod = build.pod(decoded)
    is_stored = pod.uid and pod.name and pod.namespace
    if not is_stored or pod.termination_grace_period_seconds < 0 or component_of(pod):
        return None
    return PlainPod(pod, pod_claims(decoded) if decoded.spec.volumes else None)


def decode_manifest_object(
    manifest: dict[str, Any],
    location: str,
    *,
    control_plane: ControlPlaneFlags | None = None,
    manifest_version: str = "",
) -> Node | Pod:
    """Return the one Node or Pod that a scenario creates; raises InputError with all problems.

    It goes through the API server, so validation and admission always apply, even when the manifest
    was copied from a running object and still has its uid, which is kept. ``location`` names the
    file; a manifest of the YAML reader adds line and column itself. ``control_plane`` gives the API
    server's default toleration seconds (300 s otherwise).
    """
    diagnostics = Diagnostics()
    assembly = Assembly(diagnostics)
    if control_plane is not None:
        assembly.control_plane.add_known(control_plane)
    meta = manifest.get("metadata")
    created, uid = dict(manifest), None
    if isinstance(meta, dict):
        uid = meta.get("uid")
        created["metadata"] = {name: meta[name] for name in meta if name not in _STORED_MARKS}
    origin = Origin(Document(location, tree=manifest))
    ItemReader(assembly, manifest_version=manifest_version).read_tree(created, origin)
    diagnostics.raise_problems()
    snapshot = assembly.snapshot()
    found: tuple[Node | Pod, ...] = (*snapshot.nodes, *snapshot.pods)
    if len(found) != 1:
        raise InputError(Problem("expected one Node or Pod", location=origin.location()))
    return msgspec.structs.replace(found[0], uid=uid if isinstance(uid, str) else "")


def _head(data: bytes) -> wire.Envelope:
    try:
        return wire.ENVELOPE.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return wire.Envelope()


def _described(value: Any) -> str:
    from kubectl_evictplan.sources.schema import describe

    return describe(value)


def _subject(tree: dict[str, Any]) -> str:
    """Return ``KIND NS/NAME`` as far as it is known, or ""."""
    kind, meta = tree.get("kind"), tree.get("metadata")
    name, namespace = "", ""
    if isinstance(meta, dict):
        name, namespace = meta.get("name") or "", meta.get("namespace") or ""
    if not (isinstance(kind, str) and name and isinstance(name, str)):
        return ""
    prefix = f"{namespace}/" if namespace and isinstance(namespace, str) else ""
    return f"{kind} {prefix}{name}"
