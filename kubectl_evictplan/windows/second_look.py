"""Two looks at the leases, some seconds apart: when each kubelet renews, and which one does not.

A list of leases shows each kubelet's last renewal before the list; what came after it until the
prediction's start is a window. Reading a large cluster takes long, and a file may be old. A second look
just before the start shows the last renewals anew, and whether they come as often as kubelets renew:
every quarter of the lease's duration, and up to 4 % later.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import longest_renewal_ns, renew_period_ns
from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Lease, ObservedRenewals, Warning
from kubectl_evictplan.windows.unknowns.last_heartbeats import (
    last_renewal_window,
)

# What a renewal may come late by for the API server's sake without anything being odd.
_LATENCY_NS = SECOND_NS
SOURCE = "second look at the leases"


class SecondLook(NamedTuple):
    """Leases of nodes by name, and when they were listed, by the clock of the API server."""

    leases: dict[str, Lease]
    at_ns: int


def with_second_look(first: ClusterSnapshot, look: SecondLook) -> ClusterSnapshot:
    """Return the cluster at the second look, which changes leases and time only.

    Nodes, pods and taints are those of the first one: the looks are to be seconds apart. What was
    gained is ``observed``; the digest is the caller's to add. Raises InputError for a look that is not later, or at another cluster.
    """
    if look.at_ns <= first.taken_at_ns:
        earlier = format_duration(first.taken_at_ns - look.at_ns)
        message = f"the second look at the leases was {earlier} before the first one"
        raise InputError(Problem(message, expected="leases that were listed later"))
    known = {name for name in first.leases if name in look.leases}
    if len(known) * 2 < len(first.leases) or not known:
        message = f"only {len(known)} of {len(first.leases)} leases are in the second look"
        raise InputError(Problem(message, expected="the leases of the same cluster"))
    leases = {name: _newer(lease, look.leases.get(name)) for name, lease in first.leases.items()}
    observed, warnings = _compared(first, leases, look.at_ns)
    return replace(
        first,
        leases=leases,
        taken_at_ns=look.at_ns,
        taken_at_source=SOURCE,
        observed=observed,
        warnings=(*first.warnings, *warnings),
        digest="",
    )


def _newer(first: Lease, second: Lease | None) -> Lease:
    if second is None or second.renew_time_ns is None:
        return first
    if first.renew_time_ns is not None and second.renew_time_ns < first.renew_time_ns:
        return first
    return second


def _compared(
    first: ClusterSnapshot, leases: dict[str, Lease], at_ns: int
) -> tuple[ObservedRenewals, list[Warning]]:
    """Return how much better the last renewals are known, and which kubelets are odd."""
    widths: list[tuple[int, int]] = []
    missing, odd = [], []
    for name, lease in sorted(leases.items()):
        before_ns, now_ns = first.leases[name].renew_time_ns, lease.renew_time_ns
        if before_ns is None or now_ns is None:
            continue
        period_ns, longest_ns = renew_period_ns(lease), longest_renewal_ns(lease)
        if now_ns == before_ns and at_ns - now_ns > longest_ns + _LATENCY_NS:
            missing.append(name)
            continue
        if not _regular(now_ns - before_ns, period_ns, longest_ns):
            odd.append(name)
        widths.append(
            (
                _width(before_ns, at_ns, period_ns, longest_ns),
                _width(now_ns, at_ns, period_ns, longest_ns),
            )
        )
    found = ObservedRenewals(
        apart_ns=at_ns - first.taken_at_ns,
        kubelets=len(widths),
        exact_before=sum(before == 0 for before, _ in widths),
        exact_now=sum(now == 0 for _, now in widths),
        widest_before_ns=max((before for before, _ in widths), default=0),
        widest_now_ns=max((now for _, now in widths), default=0),
        missing=tuple(missing),
    )
    return found, _warnings(found, odd)


def _width(known_ns: int, at_ns: int, period_ns: int, longest_ns: int) -> int:
    earliest_ns, latest_ns = last_renewal_window(known_ns, at_ns, period_ns, longest_ns)
    return latest_ns - earliest_ns


def _regular(apart_ns: int, period_ns: int, longest_ns: int) -> bool:
    """Whether some number of renewals can lie so far apart."""
    fewest = -(-(apart_ns - _LATENCY_NS) // longest_ns)
    return max(fewest, 0) * period_ns <= apart_ns


def _warnings(found: ObservedRenewals, odd: list[str]) -> list[Warning]:
    warnings = []
    if found.missing:
        message = (
            f"renewed no lease in {format_duration(found.apart_ns)} of looking: taken as it stands"
        )
        warnings.append(Warning("kubelet-not-renewing", message, found.missing))
    if odd:
        message = (
            "renewed its lease at another pace than a quarter of its duration, as kubelets do: when "
            "its silence is noticed may be predicted wrongly"
        )
        warnings.append(Warning("odd-renewals", message, tuple(odd)))
    return warnings
