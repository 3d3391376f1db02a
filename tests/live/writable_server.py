"""The simulated API server with everything that applying a plan needs, as a real one answers it.

Nodes are patched, pods evicted under budgets, Leases taken by compare-and-swap, access reviewed by the
rules of a role; webhooks and other people interfere where a test says so. Every request belongs to a
*site*, ``VERB PLURAL`` as RBAC has them (``patch nodes``, ``create pods/eviction``, ``get leases``,
``get version``), and faults are told by it. tests/controlplane holds the answers against a real server.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from live.api_server import KINDS, Action, ApiServer, Handler, Seen
from live.requests_answered import Asked, Refused, Result, Tree, failure, not_found, understood
from live.simulated_budgets import count, is_deleted, spend
from live.simulated_nodes import check_taints, normalize

from kubectl_evictplan.kube.timestamps import format_rfc3339

SECOND_NS = 1_000_000_000
_REVIEWS = ("selfsubjectaccessreviews", "selfsubjectreviews")


# Changes the object that a mutation leads to; raises Refused to deny it.
Webhook = Callable[[Asked, Tree], None]


@dataclass
class WritableServer(ApiServer):
    """The state. ``rules`` are those of a ClusterRole; None allows everything.

    Pods end ``exit_after_seconds`` after their deletion, at the latest when their grace is over; with
    ``replaces`` a ReplicaSet's pod has a successor at once, Ready on another node. ``controllers`` act
    whenever something was asked. ``executed`` has each mutation that was carried out: its site, its object
    and its body.
    """

    user: str = "jane"
    rules: list[Tree] | None = None
    # Tokens of users who may do nothing.
    powerless: set[str] = field(default_factory=set)
    exit_after_seconds: float = 1.0
    replaces: bool = False
    counts_budgets: bool = True
    eviction_version: str = "v1"
    review_version: str = "v1"
    webhooks: list[Webhook] = field(default_factory=list)
    before: list[Callable[[Asked], None]] = field(default_factory=list)
    controllers: list[Callable[[WritableServer], None]] = field(default_factory=list)
    executed: list[tuple[str, str, Tree]] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)
    understood: list[Asked] = field(default_factory=list)
    # Held while a request is handled; tests that change objects while others ask hold it too.
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _made: int = 0

    def __post_init__(self) -> None:
        self.handler = WritingHandler
        self.add({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system"}})

    # -- objects ------------------------------------------------------------------------------------------

    def now_ns(self) -> int:
        return round(self.clock.server_seconds() * SECOND_NS)

    def instant(self) -> str:
        return format_rfc3339(self.now_ns())

    def renew_leases(self) -> None:
        """Let kubelets and controllers have been alive until now."""
        for lease in self.objects["leases"]:
            lease["spec"]["renewTime"] = self.instant()

    def find(self, plural: str, name: str, namespace: str = "") -> Tree | None:
        for item in self.objects.get(plural, ()):
            meta = item["metadata"]
            if meta["name"] == name and meta.get("namespace", "") == namespace:
                return item
        return None

    def node(self, name: str) -> Tree:
        found = self.find("nodes", name)
        assert found is not None
        return found

    def touch(self, item: Tree) -> None:
        """Give an object that was changed its next resourceVersion."""
        self.resource_version += 1
        item["metadata"]["resourceVersion"] = str(self.resource_version)

    def remove(self, plural: str, item: Tree) -> None:
        self.objects[plural] = [one for one in self.objects[plural] if one is not item]
        self.resource_version += 1

    def recreate(self, plural: str, name: str, namespace: str = "") -> Tree:
        """Delete an object and make one of the same name: with another UID."""
        item = self.find(plural, name, namespace)
        assert item is not None
        self.remove(plural, item)
        newer = copy.deepcopy(item)
        self._made += 1
        newer["metadata"]["uid"] = f"{item['metadata']['uid']}-again-{self._made}"
        for gone in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"):
            newer["metadata"].pop(gone, None)
        newer.pop("due", None)
        self.add(newer)
        return newer

    def set_taints(self, name: str, taints: list[Tree]) -> None:
        """Change a node's taints as somebody else would."""
        node = self.node(name)
        node["spec"]["taints"] = taints
        self._managed(node, "somebody-else", "taints")
        self.touch(node)

    def _managed(self, node: Tree, manager: str, field_name: str) -> None:
        entries = node["metadata"].setdefault("managedFields", [])
        entries[:] = [one for one in entries if one["manager"] != manager]
        entries.append(
            {
                "manager": manager,
                "operation": "Update",
                "time": format_rfc3339(self.now_ns() // SECOND_NS * SECOND_NS),
                "fieldsV1": {"f:spec": {f"f:{field_name}": {}}},
            }
        )

    # -- what goes on by itself -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Let pods end that are due, replacements come up and budgets be counted."""
        now_ns = self.now_ns()
        for pod in list(self.objects.get("pods", ())):
            if pod.get("due", now_ns + 1) <= now_ns and not pod["metadata"].get("finalizers"):
                self.remove("pods", pod)
        for budget in self.objects.get("poddisruptionbudgets", ()) if self.counts_budgets else ():
            count(budget, self.objects.get("pods", ()))
        for controller in self.controllers:
            controller(self)

    def _replace(self, pod: Tree) -> None:
        """Make the successor that the pod's ReplicaSet would."""
        here = pod["spec"].get("nodeName")
        free = [
            node["metadata"]["name"]
            for node in self.objects["nodes"]
            if node["metadata"]["name"] != here and not node["spec"].get("unschedulable")
        ]
        newer = copy.deepcopy(pod)
        self._made += 1
        newer["metadata"] = {
            key: value
            for key, value in newer["metadata"].items()
            if key in ("namespace", "labels", "ownerReferences")
        } | {"name": f"{pod['metadata']['name']}-r{self._made}"}
        newer.pop("due", None)
        newer["spec"]["nodeName"] = free[0] if free else ""
        if not free:
            newer["status"] = {"phase": "Pending"}
        self.add(newer)

    # -- requests -------------------------------------------------------------------------------------------

    def allows(self, verb: str, group: str, resource: str, name: str, token: str = "") -> bool:
        """Tell whether the rules allow that."""
        if token in self.powerless:
            return resource in ("api", "version", *_REVIEWS)
        # Everybody may ask who they are; to ask what one may do takes a rule.
        if self.rules is None or resource in ("api", "version", "selfsubjectreviews"):
            return True
        return any(
            group in rule["apiGroups"]
            and resource in rule["resources"]
            and verb in rule["verbs"]
            and ("resourceNames" not in rule or name in rule["resourceNames"])
            for rule in self.rules
        )

    def handle(self, asked: Asked) -> Result:
        """Carry a request out, whatever becomes of its answer."""
        with self.lock:
            for interfere in self.before:
                interfere(asked)
            self.settle()
            try:
                self._authorize(asked)
                return self._route(asked)
            except Refused as refused:
                return refused.result
            finally:
                self.settle()

    def _authorize(self, asked: Asked) -> None:
        # A name cannot be checked when an object is created.
        name = "" if asked.verb == "create" and not asked.subresource else asked.name
        if not self.allows(asked.verb, asked.group, asked.resource, name, asked.token):
            raise self.forbidden(asked)

    def forbidden(self, asked: Asked, why: str = "") -> Refused:
        message = (
            f'{asked.resource} "{asked.name}" is forbidden: User "{self.user}" cannot '
            f'{asked.verb} resource "{asked.resource}" in API group "{asked.group}"{why}'
        )
        return failure(403, message, details={"name": asked.name, "kind": asked.plural})

    def _route(self, asked: Asked) -> Result:
        if asked.plural in _REVIEWS:
            return self._review(asked)
        if asked.site == "get api":
            return Result(200, self._resources())
        known = KINDS.get(asked.plural)
        if known is None or known[0] != asked.group or asked.plural in self.missing:
            raise Refused(Result(404, "404 page not found\n"))
        route = {
            "get": self._get,
            "patch": self._patch_node,
            "create": self._create,
            "update": self._update_lease,
        }.get(asked.verb)
        if route is None or (asked.verb == "patch" and asked.plural != "nodes"):
            raise failure(405, "the server does not allow this method", reason="MethodNotAllowed")
        return route(asked)

    def _resources(self) -> Tree:
        found: list[Tree] = [{"name": "pods", "namespaced": True, "kind": "Pod", "verbs": ["get"]}]
        if self.eviction_version:
            eviction = {"group": "policy", "version": self.eviction_version, "kind": "Eviction"}
            found.append(
                {"name": "pods/eviction", "namespaced": True, "verbs": ["create"], **eviction}
            )
        return {"kind": "APIResourceList", "groupVersion": "v1", "resources": found}

    def _review(self, asked: Asked) -> Result:
        tree = dict(asked.body)
        if asked.plural == "selfsubjectreviews":
            if asked.version != self.review_version:
                raise Refused(Result(404, "404 page not found\n"))
            groups = ["system:authenticated"]
            tree["status"] = {"userInfo": {"username": self.user, "groups": groups}}
            return Result(201, tree)
        wanted = asked.body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (wanted["resource"], wanted.get("subresource"))))
        may = self.allows(
            wanted["verb"],
            wanted.get("group", ""),
            resource,
            wanted.get("name", ""),
            asked.token,
        )
        tree["status"] = {"allowed": may}
        return Result(201, tree)

    def _item(self, asked: Asked) -> Tree:
        item = self.find(asked.plural, asked.name, asked.namespace)
        if item is None:
            raise not_found(asked.plural, asked.name, asked.group)
        return item

    def _get(self, asked: Asked) -> Result:
        return Result(200, self._shown(asked, self._item(asked)))

    def _shown(self, asked: Asked, item: Tree) -> Tree:
        _, kind, version = KINDS[asked.plural]
        head = {"kind": kind, "apiVersion": f"{asked.group}/{version}".lstrip("/")}
        shown = {key: value for key, value in item.items() if key != "due"}
        return {**head, **copy.deepcopy(shown)}

    def _patch_node(self, asked: Asked) -> Result:
        node, body = self._item(asked), asked.body
        meta, spec = body.get("metadata") or {}, body.get("spec") or {}
        if "resourceVersion" not in meta:
            self.problems.append("a node is patched without its resourceVersion")
        if meta.get("uid", node["metadata"]["uid"]) != node["metadata"]["uid"]:
            raise failure(422, f'Node "{asked.name}" is invalid: metadata.uid: field is immutable')
        if meta.get("resourceVersion") != node["metadata"]["resourceVersion"]:
            message = (
                f'Operation cannot be fulfilled on nodes "{asked.name}": the object has been '
                "modified; please apply your changes to the latest version and try again"
            )
            raise failure(409, message, details={"name": asked.name, "kind": "nodes"})
        changed = copy.deepcopy(node)
        for name, value in spec.items():
            changed["spec"][name] = value
        normalize(changed["spec"])
        for webhook in self.webhooks:
            webhook(asked, changed)
        check_taints(asked.name, changed["spec"].get("taints") or ())
        if asked.is_dry or changed["spec"] == node["spec"]:
            return Result(200, self._shown(asked, changed))
        node["spec"] = changed["spec"]
        self._managed(node, asked.query.get("fieldManager", "unknown"), next(iter(spec)))
        self.touch(node)
        self.executed.append((asked.site, asked.name, body))
        return Result(200, self._shown(asked, node))

    def _create(self, asked: Asked) -> Result:
        if asked.resource == "pods/eviction":
            return self._evict(asked)
        if asked.plural != "leases":
            raise failure(405, "the server does not allow this method", reason="MethodNotAllowed")
        name = asked.body["metadata"]["name"]
        if self.find("leases", name, asked.namespace):
            details = {"name": name, "group": asked.group, "kind": "leases"}
            message = f'leases.coordination.k8s.io "{name}" already exists'
            raise failure(409, message, reason="AlreadyExists", details=details)
        lease = copy.deepcopy(asked.body)
        lease["metadata"]["namespace"] = asked.namespace
        self._made += 1
        lease["metadata"]["uid"] = f"uid-lease-{self._made}"
        self.add(lease)
        self.executed.append((asked.site, name, asked.body))
        return Result(201, self._shown(asked, lease))

    def _update_lease(self, asked: Asked) -> Result:
        lease, meta = self._item(asked), asked.body["metadata"]
        current = lease["metadata"]
        if meta.get("resourceVersion", current["resourceVersion"]) != current["resourceVersion"]:
            message = (
                f'Operation cannot be fulfilled on leases.coordination.k8s.io "{asked.name}": the '
                "object has been modified; please apply your changes to the latest version and "
                "try again"
            )
            raise failure(409, message, details={"name": asked.name, "kind": "leases"})
        if meta.get("uid", current["uid"]) != current["uid"]:
            message = f"Precondition failed: UID in precondition: {meta['uid']}"
            raise failure(409, message, details={"name": asked.name, "kind": "leases"})
        lease["spec"], current["annotations"] = asked.body["spec"], meta.get("annotations")
        self.touch(lease)
        self.executed.append((asked.site, asked.name, asked.body))
        return Result(200, self._shown(asked, lease))

    # -- evictions ------------------------------------------------------------------------------------------

    def _evict(self, asked: Asked) -> Result:
        if not self.eviction_version:
            raise failure(404, "the server could not find the requested resource", details={})
        if asked.body.get("apiVersion") != f"policy/{self.eviction_version}":
            message = f'no kind "Eviction" is registered for version "{asked.body["apiVersion"]}"'
            raise failure(400, message)
        pod = self._item(asked)
        options = asked.body.get("deleteOptions") or {}
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted is None:
            self.problems.append("a pod is evicted without its UID")
        for webhook in self.webhooks:
            webhook(asked, copy.deepcopy(pod))
        is_dry = asked.is_dry or bool(options.get("dryRun"))
        phase = pod.get("status", {}).get("phase", "")
        if phase not in ("Succeeded", "Failed", "Pending") and not is_deleted(pod):
            spent = spend(pod, self.objects.get("poddisruptionbudgets", ()), is_dry=is_dry)
            if spent:
                self.touch(spent)
        meta = pod["metadata"]
        if wanted not in (None, meta["uid"]):
            message = (
                f'Operation cannot be fulfilled on Pod "{asked.name}": the UID in the precondition '
                f"({wanted}) does not match the UID in record ({meta['uid']}). The object might have "
                "been deleted and then recreated"
            )
            raise failure(409, message, details={"name": asked.name, "kind": "Pod"})
        if not is_dry:
            self.executed.append((asked.site, f"{asked.namespace}/{asked.name}", asked.body))
            self.delete_pod(pod, options.get("gracePeriodSeconds"))
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Result(201, {**success, "code": 201})

    def delete_pod(self, pod: Tree, grace: int | None = None) -> None:
        """Delete a pod gracefully, as its eviction and everybody else does."""
        meta = pod["metadata"]
        if is_deleted(pod):
            return
        own = pod["spec"].get("terminationGracePeriodSeconds", 30)
        grace = own if grace is None else grace
        now_ns = self.now_ns()
        meta["deletionTimestamp"] = format_rfc3339(
            now_ns // SECOND_NS * SECOND_NS + grace * SECOND_NS
        )
        meta["deletionGracePeriodSeconds"] = grace
        pod["due"] = now_ns + round(min(self.exit_after_seconds, grace) * SECOND_NS)
        self.touch(pod)
        if self.replaces and meta.get("ownerReferences"):
            self._replace(pod)


class WritingHandler(Handler):
    """Understands requests, asks the server, sends its answers; faults come in between."""

    api: WritableServer
    asked: Asked

    def _take(self) -> None:
        address = urlsplit(self.path)
        parts = [part for part in address.path.split("/") if part]
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            # Who asked is gone, in the middle of it.
            self.close_connection = True
            return
        self.asked = understood(
            self.command, parts, query, json.loads(body) if body else {}
        )._replace(token=(self.headers.get("Authorization") or "").partition(" ")[2])
        self.query, self.plural = query, self.asked.plural
        self.path_parts, self.namespace = parts, self.asked.namespace
        headers = {name.lower(): self.headers.get_all(name) or [] for name in self.headers}
        with self.api.lock:
            seen = Seen(self.command, address.path, self.plural, query, headers)
            self.api.seen.append(seen)
            self.api.sites.append(self.asked.site)
            self.api.understood.append(self.asked)
            met = next((one for one in self.api.faults if one.applies(self.asked.site)), None)
        if met:
            met.action(self)
        else:
            self.reply()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _take  # noqa: N815 - http.server's names

    def reply(self) -> None:
        """Answer as a healthy server does."""
        result = self.execute()
        if result is None:
            return
        if isinstance(result.tree, str):
            self.raw(result.code, result.tree.encode(), {"Content-Type": "text/plain"})
        else:
            self.answer(result.tree, result.code, {**result.headers, "Audit-Id": self.audit_id()})

    def respond(self, parts: Sequence[str], namespace: str) -> None:
        """Answer; what faults of the server that only lists call."""
        self.reply()

    def audit_id(self) -> str:
        return f"audit-{len(self.api.seen)}"

    def execute(self) -> Result | None:
        """Carry the request out; None: it was a list, and is answered already."""
        if self.api.tokens is not None and not self._is_known():
            return failure(401, "Unauthorized").result
        if self.asked.verb == "list" or self.plural == "version":
            with self.api.lock:
                for interfere in self.api.before:
                    interfere(self.asked)
                self.api.settle()
                if self.asked.verb == "list":
                    if not self.api.allows("list", self.asked.group, self.plural, ""):
                        return self.api.forbidden(self.asked).result
                    parts = [*self.path_parts]
                    if self.asked.namespace:
                        at = parts.index("namespaces")
                        del parts[at : at + 2]
                    self._list(parts, self.asked.namespace)
                else:
                    super().respond(self.path_parts, "")
            return None
        return self.api.handle(self.asked)

    def page(self, kind: str, api_version: str, items: list[Tree]) -> None:
        selector = self.query.get("fieldSelector", "")
        for path, _, value in (term.partition("=") for term in filter(None, selector.split(","))):
            section, _, name = path.partition(".")
            items = [one for one in items if one.get(section, {}).get(name, "") == value]
        shown = [{key: value for key, value in one.items() if key != "due"} for one in items]
        super().page(kind, api_version, shown)


# Faults of mutations: what a healthy server, or its network, does around one that is carried out.


def executed(action: Action) -> Action:
    """The request is carried out; then this happens instead of its answer."""

    def act(handler: Handler) -> None:
        assert isinstance(handler, WritingHandler)
        if handler.asked.verb not in ("get", "list"):
            handler.execute()
        action(handler)

    return act


def refusing(refused: Refused) -> Action:
    """The server says no."""

    def act(handler: Handler) -> None:
        handler.answer(refused.result.tree, refused.result.code, dict(refused.result.headers))

    return act
