"""What kube-apiserver, the DaemonSet controller and kubelet add to a pod before it is stored.

Applied only to manifests that never went through an API server; stored objects already carry
the result. Order matters, because the first matching toleration wins. Upstream: the admission plugin
DefaultTolerationSeconds, ``AddOrUpdateDaemonPodTolerations``, and kubelet's defaults of static pods.
"""

from __future__ import annotations

from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, ControlPlaneFlags, Toleration

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY_SECONDS_FLAG = "default-not-ready-toleration-seconds"
UNREACHABLE_SECONDS_FLAG = "default-unreachable-toleration-seconds"
DEFAULT_TOLERATION_SECONDS = 300
EXISTS = "Exists"

_DAEMON_SET_TOLERATIONS = (
    Toleration(NOT_READY, EXISTS, "", NO_EXECUTE),
    Toleration(UNREACHABLE, EXISTS, "", NO_EXECUTE),
    Toleration("node.kubernetes.io/disk-pressure", EXISTS, "", NO_SCHEDULE),
    Toleration("node.kubernetes.io/memory-pressure", EXISTS, "", NO_SCHEDULE),
    Toleration("node.kubernetes.io/pid-pressure", EXISTS, "", NO_SCHEDULE),
    Toleration("node.kubernetes.io/unschedulable", EXISTS, "", NO_SCHEDULE),
)
_HOST_NETWORK_TOLERATION = Toleration(
    "node.kubernetes.io/network-unavailable", EXISTS, "", NO_SCHEDULE
)
STATIC_POD_TOLERATION = Toleration("", EXISTS, "", NO_EXECUTE)

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
        tolerations = with_daemon_set_tolerations(tolerations, host_network=host_network)
    if static and STATIC_POD_TOLERATION not in tolerations:
        tolerations = (*tolerations, STATIC_POD_TOLERATION)
    return with_default_toleration_seconds(tolerations, api_server_flags or {})


def with_daemon_set_tolerations(tolerations: Tolerations, *, host_network: bool) -> Tolerations:
    """Add what the DaemonSet controller puts in its pods' template.

    An entry equal in key, operator, value and effect is overwritten in place, which drops its
    tolerationSeconds.
    """
    result = list(tolerations)
    added = _DAEMON_SET_TOLERATIONS + ((_HOST_NETWORK_TOLERATION,) if host_network else ())
    for toleration in added:
        for index, present in enumerate(result):
            if _same_toleration(present, toleration):
                result[index] = toleration
                break
        else:
            result.append(toleration)
    return tuple(result)


def with_default_toleration_seconds(
    tolerations: Tolerations, api_server_flags: dict[str, str]
) -> Tolerations:
    """Append the not-ready and unreachable defaults where nothing stands in their place.

    The presence test looks at key and effect only, as the admission plugin does.
    """
    return tolerations + tuple(
        Toleration(key, EXISTS, "", NO_EXECUTE, _flag_seconds(api_server_flags, flag))
        for key, flag in (
            (NOT_READY, NOT_READY_SECONDS_FLAG),
            (UNREACHABLE, UNREACHABLE_SECONDS_FLAG),
        )
        if not any(t.key in ("", key) and t.effect in ("", NO_EXECUTE) for t in tolerations)
    )


def default_toleration_flags(flags: ControlPlaneFlags) -> dict[str, str]:
    """Return the API server's flags that decide the defaults; {} when it was not seen."""
    return {
        name: flags.api_server[name]
        for name in (NOT_READY_SECONDS_FLAG, UNREACHABLE_SECONDS_FLAG)
        if name in flags.api_server
    }


def _flag_seconds(flags: dict[str, str], name: str) -> int:
    text = flags.get(name, "")
    digits = text[1:] if text[:1] in ("-", "+") else text
    # kube-apiserver would not start with anything else; such a flag cannot have been in force.
    if not (digits.isascii() and digits.isdigit()):
        return DEFAULT_TOLERATION_SECONDS
    return int(text)


def _same_toleration(a: Toleration, b: Toleration) -> bool:
    return (a.key, a.effect, a.operator, a.value) == (b.key, b.effect, b.operator, b.value)
