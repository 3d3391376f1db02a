"""kube-controller-manager's flags: their names, types, defaults by release, and where a value came from.

Upstream: cmd/kube-controller-manager/app/options and the controllers' ``config`` packages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from kubectl_evictplan.controllers.presets import preset
from kubectl_evictplan.controllers.releases import ReleaseProfile, known_minors, release_profile
from kubectl_evictplan.errors import Correction, InputError, Problem
from kubectl_evictplan.kube.durations import SECOND_NS, format_duration, parse_duration_ns
from kubectl_evictplan.kube.feature_gates import (
    ALL_ALPHA,
    ALL_BETA,
    is_on,
    listed_gates,
    parse_boolean,
)
from kubectl_evictplan.kube.objects import ControlPlaneFlags, ObjectReference, Pod, Warning
from kubectl_evictplan.scenarios.names import did_you_mean, similar
from kubectl_evictplan.scenarios.scenario import (
    KUBERNETES_VERSION,
    MONITOR_PHASE,
    ControllerSettings,
)

GIVEN, DETECTED, DEFAULT = "given", "detected", "default of release"
PRESET = "provider preset"
ASSUMED, ASSUMED_FROM_KUBELETS = "assumed", "assumed from kubelets"
COMMAND_LINE = "the command line"
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


class _Flag(msgspec.Struct, frozen=True):
    """A flag's value, where it comes from, and what says so there."""

    text: str
    source: str
    origin: str


class ControllerConfiguration(msgspec.Struct, frozen=True):
    """Typed configuration of the three controllers for one run.

    ``sources`` maps each flag's own name (and "kubernetes-version", "monitor-phase") to where its value
    came from, ``origins`` to what says so there: objects of the input, a provider's public page, a
    place in a file. ``texts`` holds the value as it would be written on the command line.
    """

    profile: ReleaseProfile
    node_monitor_period_ns: int
    node_monitor_grace_period_ns: int
    node_startup_grace_period_ns: int
    node_eviction_rate_qps: float
    secondary_node_eviction_rate_qps: float
    large_cluster_size_threshold: int
    unhealthy_zone_threshold: float
    pod_eviction_timeout_ns: int
    terminated_pod_gc_threshold: int
    kube_api_qps: float
    kube_api_burst: int
    # Pods are deleted by the taint manager; False is the mode with --pod-eviction-timeout.
    taint_mode: bool
    # The taint eviction controller runs (1.29+ it can be disabled by --controllers).
    taint_eviction_enabled: bool
    # Taint eviction is a controller of its own, with a client of its own (1.29+).
    separate_taint_eviction: bool
    node_lifecycle_enabled: bool
    pod_gc_enabled: bool
    comparison_operators: bool
    out_of_service: bool
    disruption_condition: bool
    exclusion_by_label: bool
    exclusion_by_name: bool
    lease_circuit_breaker: bool
    monitor_phase_ns: int | None
    sources: dict[str, str]
    texts: dict[str, str]
    origins: dict[str, str] = {}
    job_enabled: bool = True
    warnings: tuple[Warning, ...] = ()
    # Where no phase is given: spans (first, last) of it that the snapshot leaves, and the nodes that
    # show it; none when nothing does.
    monitor_phases_ns: tuple[tuple[int, int], ...] = ()
    monitor_seen_on: tuple[str, ...] = ()

    def refuses_status(self, pod: Pod) -> bool:
        """Whether no controller can write the status of the pod before it deletes it: server-side apply fails for what stands in it twice."""
        by_apply = self.disruption_condition and self.profile.condition_write == "server-side-apply"
        return by_apply and pod.duplicate_env_or_port

    def nominal_phase_ns(self) -> int:
        """The phase of the run that is told as *the* timeline."""
        if self.monitor_phase_ns is not None:
            return self.monitor_phase_ns
        return self.monitor_phases_ns[0][0] if self.monitor_phases_ns else 0


def _duration(text: str) -> int:
    value = parse_duration_ns(text)
    if value < 0:
        raise ValueError("must not be negative")
    return value


def _positive_duration(text: str) -> int:
    value = _duration(text)
    if value < 1_000_000:
        raise ValueError("must be at least 1ms")
    return value


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError("not an integer")
    return int(text)


def _float(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise ValueError("not a finite number")
    value = float(text)
    if not math.isfinite(value) or abs(value) > 3.4e38:
        raise ValueError("not a finite number")
    return value


def _threshold(text: str) -> float:
    value = _float(text)
    if not 0 <= value <= 1:
        raise ValueError("must be between 0 and 1")
    return value


# Flag -> (parser, default, what is expected). node-monitor-grace-period: see ReleaseProfile.
_FLAGS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "node-monitor-period": (_positive_duration, "5s", "a Go duration of at least 1ms"),
    "node-monitor-grace-period": (_duration, "", "a Go duration such as 40s"),
    "node-startup-grace-period": (_duration, "1m0s", "a Go duration such as 1m"),
    "node-eviction-rate": (_float, "0.1", "a number of nodes per second"),
    "secondary-node-eviction-rate": (_float, "0.01", "a number of nodes per second"),
    "large-cluster-size-threshold": (_integer, "50", "an integer"),
    "unhealthy-zone-threshold": (_threshold, "0.55", "a fraction from 0 to 1"),
    "pod-eviction-timeout": (_duration, "5m0s", "a Go duration such as 5m"),
    "enable-taint-manager": (parse_boolean, "true", "true or false"),
    "terminated-pod-gc-threshold": (_integer, "12500", "an integer (0 or less disables)"),
    "kube-api-qps": (_float, "20", "requests per second"),
    "kube-api-burst": (_integer, "30", "an integer"),
    "controllers": (str, "*", "a list such as *,-taint-eviction-controller"),
    "feature-gates": (str, "", "a list such as SomeGate=true"),
}
# For examples; the grace period is that of releases up to 1.31.
FLAG_DEFAULTS = {name: default or "40s" for name, (_, default, _) in _FLAGS.items()}
# What people look for here and would find elsewhere, by the beginning of the flag's name.
_OTHER_FLAGS = {
    "default-not-ready-": "kube-apiserver's: pods of the input have their tolerations already",
    "default-unreachable-": "kube-apiserver's: pods of the input have their tolerations already",
    "node-status-": "the kubelet's: renewals are read from the leases of the input",
    "node-lease-": "the kubelet's: renewals are read from the leases of the input",
    **dict.fromkeys(
        ("eviction-", "shutdown-grace-", "system-reserved", "kube-reserved"), "the kubelet's"
    ),
    **dict.fromkeys(("scale-down-", "max-graceful-", "unremovable-"), "cluster-autoscaler's"),
    **dict.fromkeys(
        ("leader-elect", "concurrent-", "kubeconfig", "cluster-", "service-", "v", "vmodule"),
        "one that decides no eviction: leave it out",
    ),
}
_NONTAINT_FLAGS = ("enable-taint-manager", "pod-eviction-timeout")


def resolve_configuration(
    settings: ControllerSettings, control_plane: ControlPlaneFlags
) -> ControllerConfiguration:
    """Settle release and flags: given, else detected, else the provider's, else the release's default.

    Raises ``InputError`` with every wrong flag and for an unknown release.
    """
    profile, version_source, version_origin = _resolve_release(settings, control_plane)
    problems: list[Problem] = []
    warnings = _release_warning(profile, version_source)
    _check_names(settings, profile, problems)
    values: dict[str, Any] = {}
    sources = {"kubernetes-version": version_source}
    texts = {"kubernetes-version": profile.version}
    origins = {"kubernetes-version": version_origin}
    for name, (parse, default, _) in _FLAGS.items():
        if name in _NONTAINT_FLAGS and not profile.nontaint_mode:
            values[name] = parse(default)
            continue
        flag = _pick(name, default, settings, control_plane, profile)
        problem = flag_problem(name, flag.text)
        if problem is not None and flag.source == DETECTED:
            message = f"detected --{name}={flag.text} cannot be read: {problem.message}"
            warnings.append(Warning("flag-ignored", message))
            flag = _published(name, default, control_plane, profile)
        elif problem is not None:
            problems.append(settings.blamed(name, problem))
            continue
        values[name] = parse(flag.text)
        texts[name], sources[name], origins[name] = flag.text, flag.source, flag.origin
    gates = _feature_gates(settings, str(values.get("feature-gates", "")), problems)
    _check_phase(settings, values.get("node-monitor-period"), problems)
    if problems:
        raise InputError(problems)
    sources["monitor-phase"] = GIVEN if settings.monitor_phase_ns is not None else "unknown"
    configuration = _assemble(profile, values, gates, settings, sources, texts, warnings)
    return msgspec.structs.replace(configuration, origins=origins)


def _resolve_release(
    settings: ControllerSettings, control_plane: ControlPlaneFlags
) -> tuple[ReleaseProfile, str, str]:
    """Return the release, where it comes from, and what says so."""
    if settings.kubernetes_version:
        given = settings.places.get(KUBERNETES_VERSION, COMMAND_LINE)
        try:
            return release_profile(settings.kubernetes_version), GIVEN, given
        except InputError as error:
            blamed = [settings.blamed(KUBERNETES_VERSION, problem) for problem in error.problems]
            raise InputError(blamed) from None
    if control_plane.kubernetes_version:
        told_by = _listed(control_plane.version_told_by)
        return release_profile(control_plane.kubernetes_version), DETECTED, told_by
    kubelet = control_plane.newest_kubelet_version
    if kubelet:
        try:
            profile = release_profile(".".join(kubelet.split(".")[:2]))
            return profile, ASSUMED_FROM_KUBELETS, f"the newest kubelet is {kubelet}"
        except InputError:
            pass
    return release_profile(f"1.{known_minors()[-1]}"), ASSUMED, ""


def _release_warning(profile: ReleaseProfile, source: str) -> list[Warning]:
    if source not in (ASSUMED, ASSUMED_FROM_KUBELETS):
        return []
    reason = (
        "because it is the newest one known" if source == ASSUMED else "from the newest kubelet"
    )
    message = (
        f"the control plane's release is not in the input; {profile.version} is assumed {reason}. "
        "Give --kubernetes-version to be sure"
    )
    return [Warning("release-assumed", message)]


def flag_problem(name: str, text: str) -> Problem | None:
    """Return what is wrong with a flag's name or value, whatever the release; None when nothing is."""
    field = f"--controller-flag {name}"
    if name not in _FLAGS:
        return _unknown_flag(name, text, field)
    parse, _, expected = _FLAGS[name]
    try:
        parse(text)
    except ValueError as error:
        return Problem(str(error), field=field, got=repr(text), expected=expected)
    return None


def _unknown_flag(name: str, text: str, field: str) -> Problem:
    whose = next((whose for start, whose in _OTHER_FLAGS.items() if _begins(name, start)), "")
    if whose:
        known = Correction(("--controller-flag", f"{name}={text}"), ())
        message = f"not a flag of these controllers but {whose}"
        return Problem(message, field=field, correction=known)
    dashed = re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower()
    close = similar(dashed, _FLAGS)
    right = f"{close[0]}={text}" if close else "node-monitor-period=5s"
    known = Correction((f"{name}={text}",), (right,), example=len(close) != 1)
    return Problem(
        f"unknown kube-controller-manager flag{did_you_mean(close)}",
        field=field,
        expected="" if close else f"one of {', '.join(_FLAGS)}",
        correction=known,
    )


def _begins(name: str, start: str) -> bool:
    return name == start or (name.startswith(start) and len(start) > 1)


def _check_names(
    settings: ControllerSettings, profile: ReleaseProfile, problems: list[Problem]
) -> None:
    for name, text in sorted(settings.flags.items()):
        if name not in _FLAGS:
            unknown = flag_problem(name, text)
            problems += [settings.blamed(name, unknown)] if unknown is not None else []
        elif name in _NONTAINT_FLAGS and not profile.nontaint_mode:
            removed = Problem(
                f"flag does not exist in Kubernetes {profile.version}: removed in 1.27",
                field=f"--controller-flag {name}",
                got=repr(text),
                expected="a release up to 1.26, or none",
                correction=Correction(("--controller-flag", f"{name}={text}"), ()),
            )
            problems.append(settings.blamed(name, removed))


def _check_phase(
    settings: ControllerSettings, period_ns: int | None, problems: list[Problem]
) -> None:
    phase_ns = settings.monitor_phase_ns
    if phase_ns is not None and period_ns is not None and not 0 <= phase_ns < period_ns:
        # The same ticks, counted from the first one.
        first = format_duration(phase_ns % period_ns)
        late = Problem(
            "the first monitor tick comes within one --node-monitor-period",
            field="--monitor-phase",
            got=format_duration(phase_ns),
            expected=f"less than {format_duration(period_ns)}",
            correction=Correction((), (first,), option=("--monitor-phase",)),
        )
        problems.append(settings.blamed(MONITOR_PHASE, late))


def _pick(
    name: str,
    default: str,
    settings: ControllerSettings,
    control_plane: ControlPlaneFlags,
    profile: ReleaseProfile,
) -> _Flag:
    if name in settings.flags:
        return _Flag(settings.flags[name], GIVEN, settings.places.get(name, COMMAND_LINE))
    if name in control_plane.controller_manager:
        seen_in = control_plane.origins.get("kube-controller-manager", {}).get(name, ())
        return _Flag(control_plane.controller_manager[name], DETECTED, _listed(seen_in))
    return _published(name, default, control_plane, profile)


def _published(
    name: str, default: str, control_plane: ControlPlaneFlags, profile: ReleaseProfile
) -> _Flag:
    """What is public: the provider's value, else the release's default."""
    if row := preset(control_plane.provider, name, profile.version):
        return _Flag(row.value, PRESET, row.origin)
    if name == "node-monitor-grace-period":
        default = f"{profile.node_monitor_grace_period_ns // SECOND_NS}s"
    return _Flag(default, DEFAULT, f"Kubernetes {profile.version}")


def _listed(seen_in: Sequence[ObjectReference]) -> str:
    return ", ".join(map(str, seen_in))


def _feature_gates(
    settings: ControllerSettings, text: str, problems: list[Problem]
) -> dict[str, bool]:
    gates = {}
    for name, value in listed_gates(text):
        try:
            gates[name] = parse_boolean(value)
        except ValueError as error:
            wrong = Problem(
                f"{name}: {error}",
                field="--controller-flag feature-gates",
                got=repr(value),
                expected="NAME=true or NAME=false",
            )
            problems.append(settings.blamed("feature-gates", wrong))
    return gates


def _enabled(controllers: str, *names: str) -> bool:
    items = [item.strip() for item in controllers.split(",")]
    for name in names:
        if f"-{name}" in items:
            return False
        if name in items:
            return True
    return "*" in items


def _resolve_switches(
    profile: ReleaseProfile, values: dict[str, Any], gates: dict[str, bool]
) -> dict[str, Any]:
    """What runs and what is on, from controllers, gates and the release."""
    controllers = values["controllers"]
    taint_mode = bool(values["enable-taint-manager"]) or not profile.nontaint_mode
    if profile.taint_based_evictions_gate:
        taint_mode = taint_mode and is_on("TaintBasedEvictions", gates, ALL_BETA, default=True)
    lifecycle = _enabled(controllers, "node-lifecycle-controller", "nodelifecycle")
    separate = profile.separate_controller and (
        profile.separate_controller_locked
        or is_on("SeparateTaintEvictionController", gates, ALL_BETA, default=True)
    )
    if separate:
        eviction = _enabled(controllers, "taint-eviction-controller", "taint-eviction")
    else:
        eviction = lifecycle and taint_mode
    # NodeDisruptionExclusion: alpha and off up to 1.18, on from 1.19, locked on from 1.21.
    by_label, by_name = profile.exclusion_by_label, profile.exclusion_by_name
    if by_name:
        every = ALL_BETA if by_label else ALL_ALPHA
        by_label = is_on("NodeDisruptionExclusion", gates, every, default=by_label)
        by_name = is_on("LegacyNodeRoleBehavior", gates, every, default=True)
    return {
        "taint_mode": taint_mode,
        "taint_eviction_enabled": eviction,
        "separate_taint_eviction": separate,
        "node_lifecycle_enabled": lifecycle,
        "pod_gc_enabled": _enabled(controllers, "pod-garbage-collector-controller", "podgc"),
        "job_enabled": _enabled(controllers, "job-controller", "job"),
        "comparison_operators": profile.comparison_operators_gate
        and is_on("TaintTolerationComparisonOperators", gates, ALL_ALPHA, default=False),
        "out_of_service": _at_stage(profile.out_of_service, "NodeOutOfServiceVolumeDetach", gates),
        "disruption_condition": _at_stage(
            profile.disruption_condition, "PodDisruptionConditions", gates
        ),
        "exclusion_by_label": by_label,
        "exclusion_by_name": by_name,
        "lease_circuit_breaker": _at_stage(
            profile.lease_circuit_breaker, "NodeControllerLeaseCircuitBreaker", gates
        ),
    }


def _at_stage(stage: str, name: str, gates: dict[str, bool]) -> bool:
    """Whether a feature is on at its stage: none and ga cannot be switched."""
    if stage in ("none", "ga"):
        return stage == "ga"
    is_beta = stage == "beta"
    return is_on(name, gates, ALL_BETA if is_beta else ALL_ALPHA, default=is_beta)


def _assemble(
    profile: ReleaseProfile,
    values: dict[str, Any],
    gates: dict[str, bool],
    settings: ControllerSettings,
    sources: dict[str, str],
    texts: dict[str, str],
    warnings: list[Warning],
) -> ControllerConfiguration:
    switches = _resolve_switches(profile, values, gates)
    return ControllerConfiguration(
        profile=profile,
        node_monitor_period_ns=values["node-monitor-period"],
        node_monitor_grace_period_ns=values["node-monitor-grace-period"],
        node_startup_grace_period_ns=values["node-startup-grace-period"],
        node_eviction_rate_qps=values["node-eviction-rate"],
        secondary_node_eviction_rate_qps=values["secondary-node-eviction-rate"],
        large_cluster_size_threshold=values["large-cluster-size-threshold"],
        unhealthy_zone_threshold=values["unhealthy-zone-threshold"],
        pod_eviction_timeout_ns=values["pod-eviction-timeout"],
        terminated_pod_gc_threshold=values["terminated-pod-gc-threshold"],
        kube_api_qps=values["kube-api-qps"],
        kube_api_burst=values["kube-api-burst"],
        **switches,
        monitor_phase_ns=settings.monitor_phase_ns,
        sources=sources,
        texts=texts,
        warnings=(*warnings, *_ignored_timeout(sources, texts, switches["taint_mode"])),
    )


def _ignored_timeout(
    sources: dict[str, str], texts: dict[str, str], taint_mode: bool
) -> Iterator[Warning]:
    """What many people look for: the flag by which pods were evicted before taints decided."""
    name = "pod-eviction-timeout"
    if taint_mode and sources.get(name) in (GIVEN, DETECTED):
        yield Warning(
            "flag-ignored",
            f"--{name}={texts[name]} decides nothing while the taint manager is on: a pod goes by its "
            "own tolerationSeconds for not-ready and unreachable, 300 unless it says otherwise",
        )
