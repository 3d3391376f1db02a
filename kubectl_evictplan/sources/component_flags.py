"""Flags of control-plane components out of command lines and configurations: an allow-list.

Other arguments may hold anything and are never kept.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from kubectl_evictplan.kube.admission import NOT_READY_SECONDS_FLAG, UNREACHABLE_SECONDS_FLAG
from kubectl_evictplan.sources.wire_control_plane import ControlPlaneContainer

CONTROLLER_MANAGER = "kube-controller-manager"
API_SERVER = "kube-apiserver"
COMPONENTS = (CONTROLLER_MANAGER, API_SERVER)

_BOOLEAN_FLAGS = frozenset({"enable-taint-manager", "leader-elect"})
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
            "leader-elect",
            "leader-elect-lease-duration",
            "leader-elect-renew-deadline",
            "leader-elect-retry-period",
            "requestheader-client-ca-file",
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
# How k3s and RKE2 pass a component's flags on, by the words of their own command line.
_PASSED_ON = {
    "--kube-controller-manager-arg": CONTROLLER_MANAGER,
    "--kube-controller-arg": CONTROLLER_MANAGER,
    "--kube-apiserver-arg": API_SERVER,
}


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


def _flags(words: Sequence[str], dashes: str = "-") -> Iterator[tuple[str, str]]:
    """Yield names and values; a word that begins with ``dashes`` is no value."""
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
        elif name in _BOOLEAN_FLAGS or position == len(words) or words[position].startswith(dashes):
            yield name, "true"
        else:
            yield name, words[position]
            position += 1


def read_words(container: ControlPlaneContainer) -> list[str]:
    """Return a container's command line as words; a shell's ``-c`` text is split."""
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


def node_arguments(text: str) -> dict[str, dict[str, str]]:
    """Return flags by component of a k3s or RKE2 server, from its node's annotation of arguments.

    The annotation is a JSON list of words, those of the configuration file too, with secrets masked.
    {} for agents, and for what is no such list.
    """
    import json  # few clusters have one

    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(words, list) or words[:1] != ["server"]:
        return {}
    passed: dict[str, list[str]] = {component: [] for component in COMPONENTS}
    for name, value in _flags([word for word in words if isinstance(word, str)], dashes="--"):
        if component := _PASSED_ON.get(f"--{name}"):
            passed[component].append(f"--{value.removeprefix('--')}")
    return {component: parse_flags(component, found) for component, found in passed.items()}


def configured_flags(component: str, arguments: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the known flags of a configuration that gives each flag as a list of values."""
    words = [f"--{name}={value}" for name, values in arguments.items() for value in values]
    return parse_flags(component, words)
