"""One object at a time, from bytes or from a checked tree, into the assembly.

Two paths. The fast one decodes bytes straight into the few fields needed and is all that an
object from an API server costs. The careful one parses to plain values and names every problem;
it runs for what people wrote (no uid, no resourceVersion: API validation applies) and for
whatever the fast path could not take.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from kubectl_evictplan.kube import validation
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.sources import control_plane, schema, wire
from kubectl_evictplan.sources.assembly import Assembly, Document, Source
from kubectl_evictplan.sources.findings import Origin
from kubectl_evictplan.sources.flatten import BadTimestamp, Flattener
from kubectl_evictplan.sources.json_trees import JsonSyntaxError, load_tree
from kubectl_evictplan.sources.kinds import Verdict, classify
from kubectl_evictplan.sources.marked_tree import Path

NODE_LEASE_NAMESPACE = "kube-node-lease"
LEADER_LEASE = ("kube-system", "kube-controller-manager")
# A pod of 150,000 may be odd; a list within a list within a list is a mistake.
LIST_DEPTH_MAX = 3

_POD_VERSIONS = (None, "v1")
_UNDECODABLE = (msgspec.DecodeError, BadTimestamp, RecursionError)


class ItemReader:
    """Reads objects into an assembly; ``comparison_operators``: manifests may use Lt and Gt."""

    def __init__(self, assembly: Assembly, *, comparison_operators: bool = True) -> None:
        self.assembly = assembly
        self.findings = assembly.findings
        self.flatten = Flattener()
        self._comparison_operators = comparison_operators

    def read_list(
        self, raws: list[msgspec.Raw], document: Document, kind: str = "", depth: int = 1
    ) -> None:
        """Read a list's items; ``kind`` is theirs when the list's own kind says so."""
        decode = wire.BY_KIND[kind].decode if kind in wire.BY_KIND else wire.OBJECT.decode
        self.assembly.objects_seen += len(raws)
        if kind:
            self.assembly.kinds_seen.add(kind)
        add_pod, flatten_pod = self._fast_pod, self.flatten.pod
        for index, raw in enumerate(raws):
            try:
                decoded = decode(raw)
                if type(decoded) is wire.WirePod and decoded.api_version in _POD_VERSIONS:
                    pod = flatten_pod(decoded)
                    if pod.uid and pod.name and pod.namespace:
                        add_pod(pod, raw, Source(document, index))
                        continue
                elif self._fast_other(decoded, kind, Source(document, index)):
                    continue
            except _UNDECODABLE:
                pass
            self.read_raw(bytes(raw), document, index, kind, depth)

    def _fast_pod(self, pod: Any, raw: msgspec.Raw, source: Source) -> None:
        if pod.termination_grace_period_seconds < 0:
            pod = self._with_least_grace(pod)
        if self.assembly.add_pod(pod, source) and pod.namespace == control_plane.NAMESPACE:
            component = control_plane.component_of(pod)
            if component:
                decoded = wire.CONTROL_PLANE_POD.decode(raw)
                self.assembly.instances.append(control_plane.read_instance(component, decoded))
        self.assembly.kinds_seen.add("Pod")

    def _with_least_grace(self, pod: Any) -> Any:
        message = "negative terminationGracePeriodSeconds: the API server reads it as 1"
        self.findings.warning("negative-grace-period", message, f"Pod {pod.key}")
        return msgspec.structs.replace(pod, termination_grace_period_seconds=1)

    def _fast_other(self, decoded: Any, list_kind: str, source: Source) -> bool:
        """Store a decoded object that came from an API server; False sends it the careful way."""
        meta = decoded.metadata
        kind = type(decoded).__struct_config__.tag
        if not (meta.uid or meta.resource_version) or not meta.name:
            return False
        if decoded.api_version is None:
            if not list_kind:
                return False
        elif classify(kind, decoded.api_version).verdict is not Verdict.READ:
            return False
        if (kind == "Node") == bool(meta.namespace):
            return False
        self._store(kind, decoded, source)
        return True

    def _store(self, kind: str, decoded: Any, source: Source) -> bool:
        """Flatten and add; may raise what ``_UNDECODABLE`` names. False: it was there already."""
        flatten, assembly = self.flatten, self.assembly
        assembly.kinds_seen.add(kind)
        if kind == "Node":
            info = decoded.status and decoded.status.node_info
            assembly.kubelet_versions.add((info and info.kubelet_version) or "")
            return assembly.add_node(flatten.node(decoded), source)
        if kind == "Lease":
            return self._store_lease(decoded, source)
        if kind == "PodDisruptionBudget":
            added = assembly.add_budget(flatten.budget(decoded), source)
            if added:
                self._check_budget(decoded)
            return added
        return assembly.add_workload(flatten.workload(kind, decoded), source)

    def _store_lease(self, decoded: wire.WireLease, source: Source) -> bool:
        meta = decoded.metadata
        if meta.namespace == NODE_LEASE_NAMESPACE:
            return self.assembly.add_lease(self.flatten.lease(decoded), source)
        if (meta.namespace, meta.name) == LEADER_LEASE and decoded.spec:
            acquired = self.flatten.time(decoded.spec.acquire_time)
            if acquired is not None:
                self.assembly.leader_acquire_times.append(acquired)
        return True

    def _check_budget(self, decoded: wire.WireBudget) -> None:
        for message in budget_oddities(decoded):
            subject = f"PodDisruptionBudget {decoded.metadata.namespace}/{decoded.metadata.name}"
            self.findings.warning("odd-budget", message, subject)

    # The careful path.

    def read_raw(
        self, data: bytes, document: Document, index: int, kind: str = "", depth: int = 1
    ) -> None:
        """Read one JSON object carefully; its syntax is valid to the fast decoder."""
        try:
            tree = load_tree(data)
        except JsonSyntaxError as error:
            head = _head(data)
            # What is in an object that is not read cannot hurt.
            if head and classify(*head).verdict in (Verdict.IGNORED, Verdict.UNKNOWN_VERSION):
                self.assembly.ignore(str(head[0]))
                return
            for problem in error.problems:
                got = problem.got or None
                self.findings.problem(document.origin(index), problem.message, got=got)
            return
        self.read_tree(tree, document, index, kind, depth)

    def read_tree(
        self,
        tree: Any,
        document: Document,
        index: int,
        default_kind: str = "",
        depth: int = 1,
        *,
        beside_allowed: bool = False,
    ) -> None:
        """Read one parsed object; every problem it has is recorded."""
        origin = document.origin(index)
        if not isinstance(tree, dict):
            self.findings.problem(origin, "expected an object", got=schema.describe(tree))
            return
        kind = tree.get("kind") or default_kind or None
        api_version = tree.get("apiVersion") or ("v1" if default_kind else None)
        if default_kind and not tree.get("apiVersion"):
            group, versions = wire.GROUPS[default_kind]
            api_version = f"{group}/v1" if group else min(versions)
        verdict, reason = classify(kind, api_version, tree)
        if verdict is Verdict.READ:
            self._read_object(str(kind), {**tree, "kind": kind, "apiVersion": api_version},
                              Source(document, index), origin)  # fmt: skip
        elif verdict is Verdict.LIST:
            self._read_nested_list(tree, str(kind), document, index, depth)
        elif verdict is Verdict.BESIDE and beside_allowed:
            self.findings.warning("not-kubernetes", f"skipped: {reason}", origin.file)
        elif verdict in (Verdict.MISTAKE, Verdict.BESIDE, Verdict.SNAPSHOT):
            if verdict is Verdict.SNAPSHOT:
                inside = "a snapshot inside a list"
                reason = (
                    inside if index >= 0 else "damaged snapshot (not the JSON that was written)"
                )
            self.findings.problem(origin, reason, subject=_subject(kind, tree) or origin.place)
        else:
            if verdict is Verdict.UNKNOWN_VERSION:
                self.findings.warning("unknown-version", reason)
            self.assembly.ignore(str(kind))

    def _read_nested_list(
        self, tree: dict[str, Any], kind: str, document: Document, index: int, depth: int
    ) -> None:
        origin = document.origin(index)
        items = tree.get("items")
        item_kind = kind[:-4] if kind[:-4] in wire.GROUPS else ""
        if item_kind:
            self.assembly.kinds_seen.add(item_kind)
        if depth > LIST_DEPTH_MAX:
            message = f"lists nested deeper than {LIST_DEPTH_MAX}"
            self.findings.problem(origin, message)
            return
        if items is None:
            self.findings.warning("empty-list", "items is null: read as an empty list", origin.file)
            return
        if not isinstance(items, list):
            self.findings.problem(
                origin, "must be a list", path=("items",), got=schema.describe(items)
            )
            return
        self.check_complete(tree.get("metadata"), origin)
        nested = Document(origin.file, origin.place)
        for number, item in enumerate(items):
            place = " ".join(part for part in (origin.place, f"items[{number}]") if part)
            base = (*origin.base, "items", number)
            nested.set_origin(number, Origin(origin.file, place, origin.tree, base))
            self.assembly.objects_seen += 1
            self.read_tree(item, nested, number, item_kind, depth + 1)

    def check_complete(self, metadata: Any, origin: Origin) -> None:
        """Refuse one page of a paged list: what is missing would be predicted away."""
        if isinstance(metadata, dict) and metadata.get("continue"):
            message = "incomplete list: metadata.continue is set (one page of several)"
            self.findings.problem(origin, message)

    def _read_object(self, kind: str, tree: dict[str, Any], source: Source, origin: Origin) -> None:
        before = len(self.findings.problems)
        subject = _subject(kind, tree)
        wrong = list(schema.check_types(kind, tree))
        for found in wrong:
            self.findings.problem(
                origin, found.message, subject=subject, path=found.path, got=found.got
            )
        # What is wrong is taken out, so that the rest can be checked too.
        removed = [found.path for found in wrong]
        tree = _without(tree, removed)
        meta = tree["metadata"]
        if meta is None:
            return
        written = not (meta.get("uid") or meta.get("resourceVersion"))
        tree = _without(tree, self._check_timestamps(kind, tree, subject, origin))
        tree = {**tree, "metadata": self._named(kind, tree["metadata"], written, subject, origin)}
        subject = _subject(kind, tree)
        if written:
            self._check_spelling(kind, tree, subject)
        # Back to bytes: one decoder and one flattening for every format.
        try:
            decoded = wire.BY_KIND[kind].decode(msgspec.json.encode(_plain(tree)))
            if written:
                self._check_written(kind, decoded, subject, origin, removed)
        except _UNDECODABLE:
            if len(self.findings.problems) == before:
                raise
            return
        if len(self.findings.problems) > before:
            return
        if kind == "Pod":
            added = self._store_pod(decoded, tree, source)
        else:
            added = self._store(kind, decoded, source)
        if written and added:
            name = decoded.metadata.name or ""
            namespace = decoded.metadata.namespace
            key = (kind, name) if kind == "Node" else (kind, namespace or "", name)
            self.assembly.manifests.add(key)

    def _store_pod(self, decoded: wire.WirePod, tree: dict[str, Any], source: Source) -> bool:
        pod = self.flatten.pod(decoded)
        before = len(self.assembly.pods)
        self._fast_pod(pod, msgspec.Raw(msgspec.json.encode(_plain(tree))), source)
        return len(self.assembly.pods) > before

    def _check_timestamps(
        self, kind: str, tree: dict[str, Any], subject: str, origin: Origin
    ) -> list[Path]:
        wrong = []
        for path, text in _timestamps(tree, schema.KINDS[kind], ()):
            try:
                parse_rfc3339_ns(text)
            except ValueError as error:
                got = schema.describe(text)
                self.findings.problem(
                    origin, str(error), subject=subject, path=path, got=got,
                    expected="RFC 3339 such as 2026-11-20T22:00:00Z",
                )  # fmt: skip
                wrong.append(path)
        return wrong

    def _named(
        self, kind: str, meta: dict[str, Any], written: bool, subject: str, origin: Origin
    ) -> dict[str, Any]:
        """Return the metadata with name and namespace as the API server would set them."""
        meta = dict(meta)
        if not meta.get("name"):
            if written and meta.get("generateName"):
                digest = hashlib.sha256(repr(sorted(map(str, meta.items()))).encode()).hexdigest()
                meta["name"] = meta["generateName"] + digest[:5]
                message = "has only a generateName: a made-up name is used"
                self.findings.warning("synthetic-name", message, f"{kind} {meta['name']}")
            else:
                path = ("metadata", "name")
                self.findings.problem(origin, "is missing", subject=subject, path=path)
        namespace = meta.get("namespace")
        if kind in wire.CLUSTER_SCOPED:
            if namespace:
                message = "is cluster-scoped: its namespace is ignored"
                self.findings.warning("namespace-ignored", message, f"{kind} {meta.get('name')}")
            meta["namespace"] = None
        elif not namespace:
            meta["namespace"] = "default"
            if written:
                subject = f"{kind} default/{meta.get('name')}"
                message = 'no namespace: "default" is used'
                self.findings.warning("namespace-defaulted", message, subject)
            else:
                path = ("metadata", "namespace")
                self.findings.problem(origin, "is missing", subject=subject, path=path)
        return meta

    def _check_spelling(self, kind: str, tree: dict[str, Any], subject: str) -> None:
        for path, likely in schema.misspelled_fields(kind, tree):
            field = ".".join(str(part) for part in path)
            message = f"{field} is not read: did you mean {likely}?"
            self.findings.warning("misspelled-field", message, subject)

    def _check_written(
        self, kind: str, decoded: Any, subject: str, origin: Origin, removed: list[Path]
    ) -> None:
        """Apply the API server's validation to what a person wrote.

        A taint or toleration of which a field was ``removed`` is left alone: what is left of it
        would be blamed for what the person did write.
        """
        damaged = {path[:3] for path in removed}
        meta = decoded.metadata
        before = len(self.findings.problems)
        for path, message, got in self._violations(kind, decoded):
            if path[:3] in damaged:
                continue
            self.findings.problem(origin, message, subject=subject, path=path, got=f'"{got}"')
        for name, rule in ((meta.name, validation.validate_dns_subdomain),
                           (meta.namespace, validation.validate_dns_label)):  # fmt: skip
            for message in rule(name) if name else ():
                field = "name" if name is meta.name else "namespace"
                self.findings.problem(
                    origin, message, subject=subject, path=("metadata", field), got=f'"{name}"'
                )
        if kind == "PodDisruptionBudget" and before == len(self.findings.problems):
            spec = decoded.spec or wire.BudgetSpec()
            if spec.min_available is not None and spec.max_unavailable is not None:
                message = "minAvailable and maxUnavailable are mutually exclusive"
                self.findings.problem(origin, message, subject=subject, path=("spec",))

    def _violations(self, kind: str, decoded: Any) -> list[tuple[Path, str, str]]:
        found: list[tuple[Path, str, str]] = []
        labels = self.flatten.labels(decoded.metadata.labels)
        for field, message, got in validation.validate_labels(labels):
            found.append((("metadata", "labels", field), message, got))
        if kind == "Pod" and decoded.spec:
            for field, message, got in validation.validate_tolerations(
                self.flatten.tolerations(decoded.spec.tolerations),
                comparison_operators=self._comparison_operators,
            ):
                found.append((("spec", "tolerations", *_indexed(field)), message, got))
        if kind == "Node" and decoded.spec:
            for field, message, got in validation.validate_taints(
                self.flatten.node(decoded).taints
            ):
                found.append((("spec", "taints", *_indexed(field)), message, got))
        return found


def budget_oddities(decoded: wire.WireBudget) -> list[str]:
    """Return what is strange about a budget, one message each."""
    spec = decoded.spec or wire.BudgetSpec()
    status = decoded.status
    found = []
    values = (spec.min_available, spec.max_unavailable)
    if values == (None, None):
        found.append("neither minAvailable nor maxUnavailable is set")
    elif None not in values:
        found.append("both minAvailable and maxUnavailable are set")
    for value in values:
        percent = value[:-1] if isinstance(value, str) and value.endswith("%") else ""
        if isinstance(value, str) and not (percent.isascii() and percent.isdigit()):
            found.append(f'"{value[:40]}" is neither a number nor a percentage')
        elif percent and (len(percent) > 3 or int(percent) > 100):
            found.append("a percentage above 100")
        elif isinstance(value, int) and value < 0:
            found.append("a negative number of pods")
    found += [f"its selector has the unknown operator {o!r}" for o in _unknown_operators(spec)]
    if spec.selector is None:
        found.append("no selector: it selects no pods")
    elif not (spec.selector.match_labels or spec.selector.match_expressions):
        everything = decoded.api_version != "policy/v1beta1"
        selects = "every pod of its namespace" if everything else "no pods (policy/v1beta1)"
        found.append(f"an empty selector: it selects {selects}")
    if status is None:
        found.append("no status: what it allows now is unknown")
    elif (status.observed_generation or 0) < (decoded.metadata.generation or 0):
        found.append("its status is older than its spec")
    elif status.expected_pods == 0:
        found.append("it expects no pods: it allows no eviction")
    return found


def _unknown_operators(spec: wire.BudgetSpec) -> list[str]:
    expressions = spec.selector.match_expressions if spec.selector else None
    return [
        requirement.operator[:40]
        for requirement in expressions or ()
        if requirement.operator not in ("In", "NotIn", "Exists", "DoesNotExist")
    ]


def _timestamps(value: Any, expected: Any, path: Path) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    if isinstance(expected, list):
        for index, item in enumerate(value):
            found += _timestamps(item, expected[0], (*path, index))
    elif isinstance(expected, dict):
        for name, wanted in expected.items():
            item = value.get(name)
            if name in schema.TIMESTAMP_FIELDS and isinstance(item, str) and item:
                found.append(((*path, name), item))
            elif item is not None:
                found += _timestamps(item, wanted, (*path, name))
    return found


def _without(tree: dict[str, Any], paths: list[Path]) -> dict[str, Any]:
    """Return the tree with those fields null; list items become empty objects."""
    if not paths:
        return tree
    result: dict[str, Any] = _copied(tree)
    for path in paths:
        value: Any = result
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = {} if isinstance(value, list) else None
    return result


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _head(data: bytes) -> tuple[str | None, str | None] | None:
    try:
        envelope = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return None
    return envelope.kind, envelope.apiVersion


class _Head(msgspec.Struct):
    kind: str | None = None
    apiVersion: str | None = None  # noqa: N815 - the API's name


def _subject(kind: Any, tree: dict[str, Any]) -> str:
    """Return ``KIND NS/NAME`` as far as it is known, or ""."""
    meta = tree.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(kind, str) or not isinstance(name, str) or not name:
        return ""
    namespace = meta.get("namespace") if isinstance(meta, dict) else None
    return f"{kind} {namespace}/{name}" if isinstance(namespace, str) and namespace else (
        f"{kind} {name}"
    )  # fmt: skip


def _indexed(field: str) -> Path:
    """Turn ``[3].key`` into a path."""
    index, _, name = field.removeprefix("[").partition("]")
    return (int(index), name[1:]) if len(name) > 1 else (int(index),)


def _plain(value: Any) -> Any:
    """Return a tree of builtin types that JSON can hold; only what the decoder reads matters."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        # Out of range only in fields that nobody reads: the others were refused.
        return int(value) if schema.INT64_MIN <= value <= schema.INT64_MAX else 0
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value
