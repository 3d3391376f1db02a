"""What is read of pods and nodes to tell where a pod can run, as decoder types; see ``wire``.

Of affinity and spread only what is required is named: preferences are skipped as bytes.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct, field

NULL = Raw(b"null")
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# The API writes text, people write numbers as well.
Quantity = Annotated[str | int | float, Meta(extra={"quantity": True})]
Quantities = dict[str, Quantity]


class Requirement(Struct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Struct, rename="camel"):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Struct, rename="camel"):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Resources(Struct):
    requests: Quantities = {}
    limits: Quantities = {}


class RequiredNodes(Struct):
    required: NodeSelector | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class PodTerm(Struct, rename="camel"):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class RequiredPods(Struct):
    required: tuple[PodTerm, ...] = field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, rename="camel"):
    node_affinity: RequiredNodes | None = None
    pod_affinity: RequiredPods | None = None
    pod_anti_affinity: RequiredPods | None = None


class SpreadConstraint(Struct, rename="camel"):
    topology_key: str = ""
    max_skew: Int64 = 1
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int64 | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = ""
    node_taints_policy: str = ""


# Left as bytes by the decoder of pods and nodes, and read once per distinct text.
AnyResources = Annotated[Raw, Meta(extra={"holds": Resources})]
AnyQuantities = Annotated[Raw, Meta(extra={"holds": Quantities})]
AnyAffinity = Annotated[Raw, Meta(extra={"holds": Affinity})]
AnySpread = Annotated[Raw, Meta(extra={"holds": list[SpreadConstraint]})]
AnySelector = Annotated[Raw, Meta(extra={"holds": dict[str, str]})]

RESOURCES: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Resources | None)
QUANTITIES: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Quantities | None)
AFFINITY: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Affinity | None)
SPREAD: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[SpreadConstraint] | None)


class SchedulingGate(Struct, frozen=True, gc=False):
    name: str = ""


class TemplateContainer(Struct, frozen=True):
    name: str = ""
    resources: AnyResources = NULL


class TemplateMeta(Struct, frozen=True):
    labels: AnySelector = NULL


class TemplateSpec(Struct, frozen=True, rename="camel"):
    containers: tuple[TemplateContainer, ...] = ()
    init_containers: tuple[TemplateContainer, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class PodTemplate(Struct, frozen=True):
    metadata: TemplateMeta = TemplateMeta()
    spec: TemplateSpec = TemplateSpec()
