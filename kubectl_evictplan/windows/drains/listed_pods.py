"""Pods in an order, of which it is asked again and again whether one is among them."""

from __future__ import annotations

from functools import cached_property

from kubectl_evictplan.kube.objects import Pod


class ListedPods(tuple[Pod, ...]):
    """A tuple that looks for a pod only among those of its name."""

    def __contains__(self, pod: object) -> bool:
        return isinstance(pod, Pod) and pod in self._by_key.get(pod.key, ())

    @cached_property
    def _by_key(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self:
            found.setdefault(pod.key, []).append(pod)
        return found
