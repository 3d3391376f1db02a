"""What is read of objects that tell of the control plane, as decoder types; see ``wire``."""

from typing import Any

import msgspec
from msgspec import Struct, field

from kubectl_evictplan.sources.wire_needs import LabelSelector
from kubectl_evictplan.sources.wire_object import WireObject

# Kind of OpenShift's operator -> the component that it runs.
OPERATOR_KINDS = {
    "KubeControllerManager": "kube-controller-manager",
    "KubeAPIServer": "kube-apiserver",
}


class NodeAnnotations(Struct, gc=False, frozen=True):
    """The command line of k3s and RKE2, in which they mask secrets; only known flags are kept."""

    k3s_arguments: str = field(default="", name="k3s.io/node-args")
    rke2_arguments: str = field(default="", name="rke2.io/node-args")


class OperatorSpec(Struct, rename="camel", frozen=True):
    # Of these only known flags are kept.
    observed_config: dict[str, Any] = {}
    unsupported_config_overrides: dict[str, Any] = {}


class WireOperator(WireObject, kw_only=True):
    """What an operator of OpenShift configures a control-plane component with."""

    spec: OperatorSpec = OperatorSpec()


class Operand(Struct, frozen=True):
    name: str = ""
    version: str = ""


class ClusterOperatorStatus(Struct, frozen=True):
    versions: tuple[Operand, ...] = ()


class WireClusterOperator(WireObject, tag="ClusterOperator", kw_only=True):
    """Which version of what an operator of OpenShift runs."""

    status: ClusterOperatorStatus = ClusterOperatorStatus()


class ControlPlaneContainer(Struct):
    """Read only for kube-controller-manager and kube-apiserver; of it only known flags are kept."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class ControlPlaneSpec(Struct, frozen=True):
    containers: tuple[ControlPlaneContainer, ...] = ()


class ControlPlanePod(Struct):
    spec: ControlPlaneSpec = ControlPlaneSpec()


CONTROL_PLANE_POD = msgspec.json.Decoder(ControlPlanePod)


class WebhookRule(Struct, rename="camel"):
    api_groups: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


class Webhook(Struct, rename="camel"):
    name: str = ""
    rules: tuple[WebhookRule, ...] = ()
    # The default of v1; that of v1beta1 is Ignore.
    failure_policy: str = "Fail"
    object_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None


class WireWebhooks(WireObject):
    webhooks: tuple[Webhook, ...] = ()
