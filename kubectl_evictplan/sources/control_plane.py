"""What static control-plane pods tell about their components: flags that matter, and the release.

An allow-list: other arguments of these pods may hold anything and are never kept. When several
replicas disagree the leader cannot be told from outside, so a disputed flag is not used at all.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kubectl_evictplan.kube.admission import NOT_READY_SECONDS_FLAG, UNREACHABLE_SECONDS_FLAG
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Pod
from kubectl_evictplan.sources.wire import ControlPlaneContainer, ControlPlanePod

CONTROLLER_MANAGER = "kube-controller-manager"
API_SERVER = "kube-apiserver"
COMPONENTS = (CONTROLLER_MANAGER, API_SERVER)
NAMESPACE = "kube-system"

_BOOLEAN_FLAGS = frozenset({"enable-taint-manager"})
_FLAGS = {
    CONTROLLER_MANAGER: frozenset(
        {
            "node-monitor-period",
            "node-monitor-grace-period",
            "node-startup-grace-period",
            "node-eviction-rate",
            "secondary-node-eviction-rate",
            "large-cluster-size-threshold",
            "unhealthy-zone-threshold",
            "pod-eviction-timeout",
            "enable-taint-manager",
            "terminated-pod-gc-threshold",
            "feature-gates",
            "controllers",
            "kube-api-qps",
            "kube-api-burst",
        }
    ),
    API_SERVER: frozenset(
        {
            NOT_READY_SECONDS_FLAG,
            UNREACHABLE_SECONDS_FLAG,
            "feature-gates",
            "enable-admission-plugins",
            "disable-admission-plugins",
        }
    ),
}
# kube-apiserver and kube-controller-manager add up repeated uses of these instead of replacing.
_ACCUMULATED = frozenset({"feature-gates", "controllers"})
_KUBELET_VERSION = re.compile(r"v?(\d{1,6}\.\d{1,6}\.\d{1,6})", re.ASCII)
_VERSION_TAG = re.compile(
    r":v?(\d{1,6}\.\d{1,6}\.\d{1,6})(?:[-_+.][0-9A-Za-z._+-]*)?(?:@.*)?$", re.ASCII
)


class Instance(NamedTuple):
    """One running copy of a component; ``version`` is "" when its image does not tell."""

    component: str
    version: str
    flags: dict[str, str]


def component_of(pod: Pod) -> str:
    """Return the component that a pod runs, or "" for any other pod."""
    if pod.namespace != NAMESPACE:
        return ""
    component = pod.labels.get("component", "")
    if component in COMPONENTS:
        return component
    named = (name for name in COMPONENTS if pod.mirror and f"{pod.name}-".startswith(f"{name}-"))
    return next(named, "")


def read_instance(component: str, pod: ControlPlanePod) -> Instance:
    """Return the flags and version of the component's container."""
    for container in pod.spec.containers:
        words = _words(container)
        image = container.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        runs = any(word.rpartition("/")[2] == component for word in words)
        if runs or component in (container.name, image):
            tag = _VERSION_TAG.search(container.image)
            return Instance(component, tag[1] if tag else "", parse_flags(component, words))
    return Instance(component, "", {})


def parse_flags(component: str, words: Sequence[str]) -> dict[str, str]:
    """Return the known flags of a command line; later uses win, as in the component."""
    flags: dict[str, str] = {}
    for name, value in _flags(words):
        # $(VAR) is replaced by kubelet from the environment, which is not read.
        if name not in _FLAGS[component] or "$(" in value:
            continue
        if name in _ACCUMULATED and name in flags:
            value = f"{flags[name]},{value}"
        flags[name] = value
    return flags


def _flags(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("_", "-")
        if equals:
            yield name, value
        elif name in _BOOLEAN_FLAGS or position == len(words) or words[position][:1] == "-":
            yield name, "true"
        else:
            yield name, words[position]
            position += 1


def _words(container: ControlPlaneContainer) -> list[str]:
    """Return the command line as words; a shell's ``-c`` text is split."""
    words: list[str] = []
    for word in (*container.command, *container.args):
        if " --" in word or "\n" in word:
            try:
                words.extend(shlex.split(word, comments=True))
            except ValueError:
                words.extend(word.split())
        else:
            words.append(word)
    return words


def newest_version(versions: Iterable[str]) -> str:
    """Return the newest of versions such as ``v1.29.6-eks-1``, as ``1.29.6``; "" when none."""
    found = [match.group(1) for text in versions if (match := _KUBELET_VERSION.match(text))]
    return max(found, key=lambda text: tuple(map(int, text.split("."))), default="")


def agree(
    instances: Sequence[Instance],
    leader_acquire_time_ns: int | None,
    kubelet_versions: Iterable[str] = (),
) -> tuple[ControlPlaneFlags, list[str]]:
    """Return what all replicas agree on, and a message for each thing they dispute."""
    disputes: list[str] = []
    managers = [one.version for one in instances if one.component == CONTROLLER_MANAGER]
    versions = sorted(set(filter(None, managers)))
    flags = ControlPlaneFlags(
        kubernetes_version=versions[0] if len(versions) == 1 else "",
        controller_manager=_agreed_flags(CONTROLLER_MANAGER, instances, disputes),
        api_server=_agreed_flags(API_SERVER, instances, disputes),
        newest_kubelet_version=newest_version(kubelet_versions),
        leader_acquire_time_ns=leader_acquire_time_ns,
    )
    if len(versions) > 1:
        found = ", ".join(versions)
        disputes.append(f"{CONTROLLER_MANAGER} pods run different versions ({found}): none is used")
    return flags, disputes


def _agreed_flags(
    component: str, instances: Sequence[Instance], disputes: list[str]
) -> dict[str, str]:
    mine = [instance.flags for instance in instances if instance.component == component]
    agreed: dict[str, str] = {}
    for name in sorted({name for flags in mine for name in flags}):
        values = {flags.get(name) for flags in mine}
        if len(values) == 1:
            agreed[name] = mine[0][name]
        else:
            found = ", ".join(sorted("unset" if value is None else value for value in values))
            disputes.append(f"{component} pods disagree on --{name} ({found}): none is used")
    return agreed
