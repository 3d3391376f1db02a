"""Credentials from a program (``client.authentication.k8s.io``): EKS, GKE, AKS and others log in so.

Ours, because the Python client swallows every failure of such a plugin and goes on anonymously, and
waits for one for ever. What a plugin prints on standard output is a credential and is never shown.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kubectl_evictplan.errors import AccessError, Correction, Problem
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.live.plugin_rules import PluginRules
from kubectl_evictplan.live.problems import LOOK_AT_USER, bounded, masked

SECONDS_MAX = 60
# Somebody may have to type a code into a browser first.
INTERACTIVE_SECONDS_MAX = 300
OUTPUT_BYTES_MAX = 1 << 20
_GROUP = "client.authentication.k8s.io/"
_VERSIONS = ("v1", "v1beta1")

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


class ExecCredential(NamedTuple):
    """What the plugin gave: a token, or a certificate with its key, as PEM; until when."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    expires_ns: int | None = None

    def secrets(self) -> tuple[str, ...]:
        """Return what must never be shown."""
        return tuple(filter(None, (self.token, self.key)))


def run_plugin(
    plugin: Mapping[str, Any],
    cluster: Mapping[str, Any],
    environ: Mapping[str, str],
    rules: PluginRules,
    run: Run = subprocess.run,
) -> ExecCredential:
    """Run the plugin of a user entry and return what it gave.

    Raises AccessError: no such program, one that the rules do not allow, a failure (with what it wrote
    to standard error), no answer in time, an answer that is none.
    """
    command = plugin.get("command")
    version = plugin.get("apiVersion")
    if not isinstance(command, str) or not command:
        raise _failed("exec: command is missing")
    if not isinstance(version, str) or version.removeprefix(_GROUP) not in _VERSIONS:
        raise _failed(f"exec plugin {command}: apiVersion is not {_GROUP}v1 or v1beta1")
    hint = plugin.get("installHint")
    program = rules.program(command, environ, bounded(hint) if isinstance(hint, str) else "")
    own = _environment(plugin.get("env"))
    interactive = _is_interactive(plugin)
    info = _exec_info(version, plugin, cluster, interactive)
    environment = {**environ, **own, "KUBERNETES_EXEC_INFO": info}
    seconds = INTERACTIVE_SECONDS_MAX if interactive else SECONDS_MAX
    try:
        done = run(
            [command, *_words(plugin.get("args"))],
            executable=program,
            env=environment,
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # A person at the terminal must see what there is to do.
            stderr=None if interactive else subprocess.PIPE,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _failed(f"exec plugin {command} gave no credential within {seconds} s") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "cannot be run"
        raise _failed(f"exec plugin {command}: {reason.lower()}") from None
    if done.returncode:
        told = (done.stderr or b"").decode("utf-8", "replace")
        said = bounded(masked(told, [*own.values(), *_words(plugin.get("args"))]))
        text = f"exec plugin {command} ended with exit code {done.returncode}"
        raise _failed(f"{text}: {said}" if said else text)
    return _credential(command, version, done.stdout)


def _credential(command: str, version: str, output: bytes) -> ExecCredential:
    try:
        if len(output) > OUTPUT_BYTES_MAX:
            raise ValueError
        answer = json.loads(output)
        status = answer["status"]
        if answer.get("kind") != "ExecCredential" or not isinstance(status, dict):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        message = f"exec plugin {command} printed no ExecCredential ({len(output)} bytes)"
        raise _failed(message) from None
    if answer.get("apiVersion") != version:
        message = f"exec plugin {command} answered in another apiVersion than {version}"
        raise _failed(message)
    found = ExecCredential(
        _text(status, "token"),
        _text(status, "clientCertificateData"),
        _text(status, "clientKeyData"),
        _expiry(command, status),
    )
    if bool(found.certificate) != bool(found.key):
        raise _failed(f"exec plugin {command} gave a certificate or a key, but not both")
    if not (found.token or found.certificate):
        raise _failed(f"exec plugin {command} gave neither a token nor a certificate")
    return found


def _expiry(command: str, status: Mapping[str, Any]) -> int | None:
    text = _text(status, "expirationTimestamp")
    if not text:
        return None
    try:
        return parse_rfc3339_ns(text)
    except ValueError:
        message = f"exec plugin {command} gave an expirationTimestamp that is none"
        raise _failed(message) from None


def _exec_info(
    version: str, plugin: Mapping[str, Any], cluster: Mapping[str, Any], interactive: bool
) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        keys = (
            *("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"),
            "certificate-authority-data",
        )
        spec["cluster"] = {key: cluster[key] for key in keys if cluster.get(key)}
        for extension in cluster.get("extensions") or ():
            if isinstance(extension, dict) and extension.get("name") == f"{_GROUP}exec":
                spec["cluster"]["config"] = extension.get("extension")
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": spec})


def _is_interactive(plugin: Mapping[str, Any]) -> bool:
    """Tell whether the plugin gets the terminal (``interactiveMode``)."""
    mode = plugin.get("interactiveMode") or "IfAvailable"
    available = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    if mode == "Always" and not available:
        command = plugin.get("command")
        raise _failed(f"exec plugin {command} needs a terminal (interactiveMode Always)")
    return mode != "Never" and available


def _environment(listed: object) -> dict[str, str]:
    return {
        item["name"]: str(item.get("value", ""))
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    }


def _words(listed: object) -> list[str]:
    return [str(word) for word in listed] if isinstance(listed, list) else []


def _text(status: Mapping[str, Any], key: str) -> str:
    value = status.get(key)
    return value if isinstance(value, str) else ""


def _failed(message: str) -> AccessError:
    return AccessError(Problem(message, correction=Correction((), (), first=LOOK_AT_USER)))
