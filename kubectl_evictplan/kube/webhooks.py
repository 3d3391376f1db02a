"""Admission webhooks that the API server asks before a pod is deleted, and which pods they may refuse.

Their answers, matchConditions and the labels of namespaces are not known here: where those decide,
a webhook *may* refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubectl_evictplan.kube.objects import DeleteWebhook, Pod
from kubectl_evictplan.kube.selectors import meets

# The one label of a namespace that every namespace has.
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


def webhooks_asked(webhooks: Iterable[DeleteWebhook], pod: Pod) -> list[str]:
    """Names of the webhooks that may refuse the deletion of the pod."""
    return [webhook.name for webhook in webhooks if _may_ask(webhook, pod)]


def pods_refusable(webhooks: tuple[DeleteWebhook, ...], pods: Mapping[str, Pod]) -> frozenset[str]:
    """Keys of the pods whose deletion some webhook may refuse."""
    if not webhooks:
        return frozenset()
    return frozenset(key for key, pod in pods.items() if webhooks_asked(webhooks, pod))


def _may_ask(webhook: DeleteWebhook, pod: Pod) -> bool:
    namespace = {_NAMESPACE_NAME: pod.namespace}
    return all(meets(pod.labels, *wish) for wish in webhook.object_selector) and all(
        meets(namespace, *wish) for wish in webhook.namespace_selector if wish[0] == _NAMESPACE_NAME
    )
