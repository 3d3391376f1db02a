"""What kube-apiserver, the DaemonSet controller and kubelet add to a pod before it is stored.

Applied only to manifests that never went through an API server; stored objects already carry
the result. Order matters, because the first matching toleration wins. Upstream: the admission plugin
DefaultTolerationSeconds, ``AddOrUpdateDaemonPodTolerations``, and kubelet's defaults of static pods.
"""

from __future__ import annotations

import msgspec

from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, Toleration
from kubectl_evictplan.kube.taints import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from kubectl_evictplan.kube.validation import parse_int64

NOT_READY_SECONDS_FLAG = "default-not-ready-toleration-seconds"
UNREACHABLE_SECONDS_FLAG = "default-unreachable-toleration-seconds"
_DEFAULT_TOLERATION_SECONDS = 300

_DAEMON_SET_TOLERATIONS = tuple(
    Toleration(key, "Exists", "", effect)
    for key, effect in (
        (NOT_READY, NO_EXECUTE),
        (UNREACHABLE, NO_EXECUTE),
        (DISK_PRESSURE, NO_SCHEDULE),
        (MEMORY_PRESSURE, NO_SCHEDULE),
        (PID_PRESSURE, NO_SCHEDULE),
        (UNSCHEDULABLE, NO_SCHEDULE),
        # Only of pods in the network of their host.
        (NETWORK_UNAVAILABLE, NO_SCHEDULE),
    )
)
_STATIC_POD_TOLERATION = Toleration("", "Exists", "", NO_EXECUTE)

_PLUGIN = "DefaultTolerationSeconds"

Tolerations = tuple[Toleration, ...]


def admitted_tolerations(
    tolerations: Tolerations,
    *,
    daemon_set: bool = False,
    static: bool = False,
    host_network: bool = False,
    api_server_flags: dict[str, str] | None = None,
) -> Tolerations:
    """Return what the API server would store for a new pod with these tolerations.

    ``daemon_set``: the DaemonSet controller creates it. ``static``: kubelet creates it from a
    file. Admission comes last, as it does in a cluster.
    """
    if daemon_set:
        tolerations = _with_daemon_set_tolerations(tolerations, host_network=host_network)
    if static and _STATIC_POD_TOLERATION not in tolerations:
        tolerations = (*tolerations, _STATIC_POD_TOLERATION)
    if _PLUGIN in (api_server_flags or {}).get("disable-admission-plugins", "").split(","):
        return tolerations
    # The presence test looks at key and effect only, as the admission plugin does.
    return tolerations + tuple(
        Toleration(key, "Exists", "", NO_EXECUTE, _flag_seconds(api_server_flags or {}, flag))
        for key, flag in (
            (NOT_READY, NOT_READY_SECONDS_FLAG),
            (UNREACHABLE, UNREACHABLE_SECONDS_FLAG),
        )
        if not any(t.key in ("", key) and t.effect in ("", NO_EXECUTE) for t in tolerations)
    )


def _with_daemon_set_tolerations(tolerations: Tolerations, *, host_network: bool) -> Tolerations:
    """Add what the DaemonSet controller puts in its pods' template.

    An entry equal in key, operator, value and effect is overwritten in place, which drops its
    tolerationSeconds.
    """
    added = _DAEMON_SET_TOLERATIONS if host_network else _DAEMON_SET_TOLERATIONS[:-1]
    result = list(tolerations)
    unlimited = [msgspec.structs.replace(one, toleration_seconds=None) for one in tolerations]
    for toleration in added:
        if toleration in unlimited:
            result[unlimited.index(toleration)] = toleration
        else:
            result.append(toleration)
    return tuple(result)


def default_toleration_seconds(api_server_flags: dict[str, str]) -> dict[str, int | None]:
    """Return the seconds that new pods get, by flag; None where the plugin is switched off."""
    admitted = admitted_tolerations((), api_server_flags=api_server_flags)
    seconds = {toleration.key: toleration.toleration_seconds for toleration in admitted}
    return {
        NOT_READY_SECONDS_FLAG: seconds.get(NOT_READY),
        UNREACHABLE_SECONDS_FLAG: seconds.get(UNREACHABLE),
    }


def _flag_seconds(flags: dict[str, str], name: str) -> int:
    seconds = parse_int64(flags.get(name, ""))
    # kube-apiserver would not start with anything else; such a flag cannot have been in force.
    return _DEFAULT_TOLERATION_SECONDS if seconds is None else seconds
