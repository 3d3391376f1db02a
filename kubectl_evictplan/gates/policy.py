"""Policy files: rules that a repository keeps, and rules of the command line, as gates.

apiVersion: evictplan.dev/v1alpha1
kind: Policy
metadata: {name: production}
spec:
  failOn:
  - rule: unavailable(shop/frontend) > 30s
    reason: the shop earns the money
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from kubectl_evictplan.errors import Correction, InputError, Problem, WrongWord
from kubectl_evictplan.gates.figures import Names, check
from kubectl_evictplan.gates.judge import Gate
from kubectl_evictplan.gates.language import parse
from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.schema import Metadata
from kubectl_evictplan.scenarios.written import check_header, read_document

KIND = "Policy"
FAIL_ON = "--fail-on"
_EXAMPLE = "evictions > 20"
_RULES_MAX = 1000


class PolicyRule(Struct, forbid_unknown_fields=True):
    """One rule, and why it is there."""

    rule: str
    reason: str | None = None


class PolicySpec(Struct, rename="camel", forbid_unknown_fields=True):
    """What a prediction must not hold."""

    fail_on: Annotated[list[Any], Meta(max_length=_RULES_MAX)]


class PolicyFile(Struct, rename="camel", forbid_unknown_fields=True):
    """Rules that every change must keep."""

    api_version: Annotated[str, Meta(extra_json_schema={"const": API_VERSION})]
    kind: Annotated[str, Meta(extra_json_schema={"const": KIND})]
    spec: PolicySpec
    metadata: Metadata | None = None


def typed_gates(rules: Iterable[str]) -> list[Gate]:
    """Return the gates of the command line; InputError tells of every one that says nothing."""
    gates, problems = [], []
    for text in rules:
        try:
            gates.append(Gate(text, parse(text, check), FAIL_ON))
        except ValueError as error:
            known = Correction((text,), (_EXAMPLE,), True, (FAIL_ON,))
            if isinstance(error, WrongWord) and error.instead:
                meant = text.replace(error.typed, error.instead[0], 1)
                known = Correction((text,), (meant,), len(error.instead) > 1, (FAIL_ON,))
            problems.append(Problem(str(error), known, location=FAIL_ON, got=repr(text)))
    if problems:
        raise InputError(problems)
    return gates


def load_policy(text: str, location: str) -> list[Gate]:
    """Return the gates of a policy file; InputError with every problem, each with its line."""
    document, _ = read_document(text, location, KIND)
    check_header(document, KIND, "scenarios are given to `what-if scenario`, cluster state with -f")
    document.check(PolicyFile)
    document.raise_any()
    gates = []
    for at, entry in enumerate(document.tree["spec"]["failOn"]):
        path = ("spec", "failOn", at)
        document.check(PolicyRule, path)
        rule = document.parsed((*path, "rule"), lambda text: parse(text, check))
        if rule is not None:
            place = document.place((*path, "rule"))
            written = document.text((*path, "rule"))
            reason = entry.get("reason") or ""
            gates.append(Gate(written, rule, f"{location}:{place}", reason, location, place.line))
    document.raise_any()
    return gates


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema of a Policy document."""
    (document, rule), components = msgspec.json.schema_components((PolicyFile, PolicyRule))
    components["PolicySpec"]["properties"]["failOn"]["items"] = rule
    return {**document, "$defs": components}


def named_objects(snapshot: ClusterSnapshot) -> Names:
    """Return what of the input a rule can name."""
    infrastructure = snapshot.infrastructure
    services = {f"{one.namespace}/{one.name}" for one in infrastructure.services}
    services |= {f"{one.namespace}/{one.service}" for one in infrastructure.endpoint_slices}
    deployed = {
        (one.namespace, one.kind, one.name): (one.namespace, owner.kind, owner.name)
        for one in snapshot.workloads
        if one.kind == "ReplicaSet"
        for owner in one.owner_references
        if owner.controller
    }
    found = {*deployed.values()} | {
        (one.namespace, one.kind, one.name) for one in snapshot.workloads
    }
    for pod in snapshot.pods:
        owner = pod.controller()
        # Images of static pods are each their own: a node is no workload.
        bare = owner is None or owner.kind == "Node"
        named = ("Pod", pod.name) if owner is None or bare else (owner.kind, owner.name)
        found.add((pod.namespace, *named))
    return Names(
        frozenset(f"{namespace}/{name}" for namespace, _, name in found - deployed.keys()),
        frozenset(services),
        frozenset(one.key for one in snapshot.budgets),
    )
