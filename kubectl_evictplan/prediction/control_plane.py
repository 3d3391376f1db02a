"""What is known of the control plane beside its controllers' flags, each with its origin."""

from __future__ import annotations

from kubectl_evictplan.controllers.flags import (
    DEFAULT,
    DETECTED,
    GIVEN,
    ControllerConfiguration,
)
from kubectl_evictplan.kube.admission import default_toleration_seconds
from kubectl_evictplan.kube.durations import MILLISECOND_NS, format_duration
from kubectl_evictplan.kube.objects import ControlPlaneFlags, ObservedRenewals
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import Renewals, Sourced
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import starts_without_controller

_UNKNOWN = "unknown"


def api_server_flags(control_plane: ControlPlaneFlags) -> dict[str, Sourced]:
    """Return the flags that decide which tolerations new pods get; a missing plugin is null."""
    origins = control_plane.origins.get("kube-apiserver", {})
    resolved = {}
    for name, value in default_toleration_seconds(control_plane.api_server).items():
        detected = name in control_plane.api_server
        origin = ", ".join(map(str, origins.get(name, ()))) if detected else ""
        resolved[name] = Sourced(value, DETECTED if detected else DEFAULT, origin)
    return resolved


def provider(control_plane: ControlPlaneFlags) -> Sourced:
    """Return who runs the control plane, and by which marks of the nodes that is told."""
    if not control_plane.provider:
        return Sourced(None, _UNKNOWN)
    return Sourced(control_plane.provider, DETECTED, ", ".join(control_plane.provider_marks))


def leader_since(control_plane: ControlPlaneFlags) -> Sourced:
    """Return since when the present kube-controller-manager leads."""
    acquired_ns = control_plane.leader_acquire_time_ns
    if acquired_ns is None:
        return Sourced(None, _UNKNOWN)
    return Sourced(
        format_rfc3339(acquired_ns), DETECTED, "Lease kube-system/kube-controller-manager"
    )


def renewals(observed: ObservedRenewals | None) -> Renewals | None:
    """Return what a second look at the leases gained."""
    if observed is None:
        return None
    return Renewals(
        apart_seconds=seconds(observed.apart_ns),
        kubelets=observed.kubelets,
        exact_before=observed.exact_before,
        exact_now=observed.exact_now,
        widest_before_seconds=seconds(observed.widest_before_ns),
        widest_now_seconds=seconds(observed.widest_now_ns),
        missing=observed.missing,
    )


def monitor_phase(scenario: Scenario, configuration: ControllerConfiguration) -> Sourced:
    """Return from the start to the first monitor tick, or the spans of it that are left."""
    if configuration.monitor_phase_ns is not None:
        return Sourced(format_duration(configuration.monitor_phase_ns), GIVEN)
    if starts_without_controller(scenario):
        return Sourced("0s", GIVEN)
    if not configuration.monitor_phases_ns:
        return Sourced(None, _UNKNOWN)
    spans = " or ".join(
        f"{format_duration(first // MILLISECOND_NS * MILLISECOND_NS)} to "
        f"{format_duration(-(-last // MILLISECOND_NS) * MILLISECOND_NS)}"
        for first, last in configuration.monitor_phases_ns
    )
    seen_on = ", ".join(f"Node {name}" for name in configuration.monitor_seen_on)
    return Sourced(spans, "observed", f"when it gave up {seen_on}")
