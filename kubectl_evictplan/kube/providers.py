"""Who runs a cluster's control plane, as its nodes tell: one table of marks.

A cloud in a providerID is not a provider: kubeadm on a cloud's machines has it too. Only what a
provider's own node images and agents write counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

EKS, GKE, AKS, OPENSHIFT, GARDENER, K3S, RKE2 = (
    "EKS", "GKE", "AKS", "OpenShift", "Gardener", "k3s", "RKE2",
)  # fmt: skip
PROVIDERS = (EKS, GKE, AKS, OPENSHIFT, GARDENER, K3S, RKE2)

PROVIDER_ID, LABEL, KUBELET_VERSION = "providerID", "label", "kubelet version"


class Mark(msgspec.Struct, frozen=True, order=True):
    """What a provider leaves on its nodes.

    ``text`` begins a providerID or a label's key, or is a part of the kubelet's version.
    """

    provider: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where} {self.text}".strip()


# The more special one first: OpenShift, Gardener, RKE2 and k3s run on machines of the others' clouds.
_MARKS = (
    Mark(OPENSHIFT, LABEL, "node.openshift.io/"),
    Mark(GARDENER, LABEL, "worker.gardener.cloud/"),
    Mark(RKE2, PROVIDER_ID, "rke2://"),
    Mark(RKE2, KUBELET_VERSION, "+rke2"),
    Mark(K3S, PROVIDER_ID, "k3s://"),
    Mark(K3S, KUBELET_VERSION, "+k3s"),
    Mark(EKS, PROVIDER_ID, "eks-hybrid://"),
    Mark(EKS, LABEL, "eks.amazonaws.com/"),
    Mark(EKS, LABEL, "alpha.eksctl.io/"),
    Mark(EKS, KUBELET_VERSION, "-eks-"),
    Mark(GKE, LABEL, "cloud.google.com/gke-"),
    Mark(GKE, KUBELET_VERSION, "-gke."),
    Mark(AKS, LABEL, "kubernetes.azure.com/"),
)


def mark_of(provider_id: str, labels: Collection[str], kubelet_version: str) -> Mark | None:
    """Return the first mark that a node bears; ``labels`` are their keys."""
    for mark in _MARKS:
        if mark.where == LABEL:
            borne = any(key.startswith(mark.text) for key in labels)
        elif mark.where == PROVIDER_ID:
            borne = provider_id.startswith(mark.text)
        else:
            borne = mark.text in kubelet_version
        if borne:
            return mark
    return None


def the_provider(marks: Mapping[Mark, int]) -> tuple[str, tuple[str, ...]]:
    """Return the one provider of all marked nodes and what told it; ("", ()) for none or several.

    ``marks`` counts the nodes that bear each.
    """
    found = {mark.provider for mark in marks}
    if len(found) != 1:
        return "", ()
    ordered = sorted(marks)
    return found.pop(), tuple(f"{mark} ({_nodes(marks[mark])})" for mark in ordered)


def contradiction(marks: Iterable[Mark]) -> str:
    """Return which providers the nodes name when it is more than one, else ""."""
    found = sorted({mark.provider for mark in marks})
    return " and ".join(found) if len(found) > 1 else ""


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"
