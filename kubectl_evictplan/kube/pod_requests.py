"""What a pod requests of its node, and what counts of it while it is resized in place.

Upstream: ``PodRequests`` and ``AggregateContainerRequests`` of component-helpers/resource (before 1.32 of
pkg/api/v1/resource). What a node has left is counted with what its running pods *hold*; a pod that replaces one of
them is made from its owner's template again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec

from kubectl_evictplan.kube.needs import CPU, HUGE_PAGES_PREFIX

Amount = Annotated[int, msgspec.Meta(ge=0)]
# (resource, amount), sorted; cpu in thousandths, memory in bytes, others in whole units.
Requests = tuple[tuple[str, Amount], ...]

# What counts of a pod that is resized (``ReleaseProfile.resized_pods_hold``): its spec; of each container the most of
# what is asked, allotted and in force; the most of the three sums.
BY_SPEC, BY_CONTAINER, BY_POD = "spec", "container", "pod"
# How a container runs: beside others, before them to its end, or from before them on.
RUNS, INIT, SIDECAR = "", "init", "sidecar"
# Resources of the whole pod win over those of its containers, for these.
_POD_LEVEL = frozenset({CPU, "memory"})


class ContainerRequests(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one container requests. ``how`` it runs: RUNS, INIT or SIDECAR."""

    name: str
    requests: Requests = ()
    how: str = RUNS


class Resized(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod whose requests were changed while it ran, or may have been (its spec was written again).

    ``by_container`` and ``by_pod``: what it holds by either way of counting. The rest is its spec: ``containers``, and what
    is requested for the pod as a whole, ``of_pod``, and its ``overhead``. ``advised``: by the vertical pod autoscaler, which
    writes the requests of new pods as well.
    """

    by_container: Requests = ()
    by_pod: Requests = ()
    containers: tuple[ContainerRequests, ...] = ()
    of_pod: Requests = ()
    overhead: Requests = ()
    advised: bool = False

    def held(self, counting: str) -> Requests | None:
        """What counts by that rule; None: what its spec says."""
        return {BY_CONTAINER: self.by_container, BY_POD: self.by_pod}.get(counting)

    def anew(self, template: Sequence[ContainerRequests]) -> Requests:
        """What a pod requests that is made from the template again.

        What the template leaves out, and containers that it does not know, somebody added at admission: they are so again.
        Where an autoscaler advises, what it does now is the best that is known of what it will do.
        """
        known = {} if self.advised else {one.name: dict(one.requests) for one in template}
        containers = [
            (one.how, {**dict(one.requests), **known.get(one.name, {})}) for one in self.containers
        ]
        return in_order(whole(effective(containers), dict(self.of_pod), dict(self.overhead)))


def effective(containers: Iterable[tuple[str, Mapping[str, int]]]) -> Counter[str]:
    """Return what containers request together: those that run to their end first do so one by one.

    A sidecar runs on, so it counts with the others and with those that come after it.
    """
    total, sidecars, highest = Counter[str](), Counter[str](), Counter[str]()
    for how, requests in containers:
        own = Counter(requests)
        if how == RUNS:
            total.update(own)
        elif how == SIDECAR:
            sidecars.update(own)
            highest |= sidecars
        else:
            highest |= sidecars + own
    total.update(sidecars)
    return total | highest


def whole(
    containers: Mapping[str, int], of_pod: Mapping[str, int], overhead: Mapping[str, int]
) -> Counter[str]:
    """Return what counts of the pod: where it has requests of its own, these, and its overhead."""
    total = Counter(containers)
    total.update(
        {
            name: amount - total[name]
            for name, amount in of_pod.items()
            if name in _POD_LEVEL or name.startswith(HUGE_PAGES_PREFIX)
        }
    )
    total.update(overhead)
    return total


def in_order(requests: Mapping[str, int]) -> Requests:
    """Return what is more than nothing, sorted by name."""
    return tuple(sorted((name, amount) for name, amount in requests.items() if amount > 0))
