"""What a release and its flags change: the tables of docs/fidelity.md."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

SECOND = 1_000_000_000
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}


def float32(number: float) -> float:
    """Round to single precision, as the flags are stored."""
    (rounded,) = struct.unpack("f", struct.pack("f", number))
    return float(rounded)


def go_duration(text: str) -> int:
    parts = re.findall(r"([0-9.]+)(ns|us|ms|s|m|h)", text)
    assert parts, text
    return sum(round(float(number) * UNITS[unit]) for number, unit in parts)


@dataclass
class Profile:
    """Every knob the naive model reads."""

    minor: int
    patch: int
    period: int
    grace: int
    startup_grace: int
    rate: float
    secondary_rate: float
    large_zone: int
    threshold: float
    pod_eviction_timeout: int
    taint_mode: bool
    current_decides: bool
    mark: str
    pod_worker: bool
    leases: bool
    taint_by_condition: bool
    exclude_label: bool
    exclude_name: bool
    ga_zone_labels: bool
    lease_breaker: bool
    rate_zero_accepts: bool
    retries_without_ready: bool
    node_lifecycle_runs: bool
    eviction_runs: bool
    cancel_on_infinite: bool
    keep_nil_key: bool
    two_nows: bool
    server_side_apply: bool
    pod_gc_runs: bool
    quarantine: int
    out_of_service: bool
    terminated_threshold: int
    evicted_first: bool


def queue_mode(minor: int, patch: int) -> str:
    if (minor == 19 and patch <= 8) or (minor == 20 and patch <= 4):
        return "SETREMOVE"
    if minor < 18 or (minor == 18 and patch <= 16):
        return "ADD"
    return "REMOVE_ADD"


def runs(flags: dict[str, str], *names: str) -> bool:
    wanted = flags.get("controllers", "*").split(",")
    if any(f"-{name}" in wanted for name in names):
        return False
    return "*" in wanted or any(name in wanted for name in names)


def make_profile(version: str, flags: dict[str, str]) -> Profile:
    """Read the release tables and the flags' own names."""
    _, minor, patch = (int(part) for part in version.split("."))
    gates = dict(p.split("=") for p in flags.get("feature-gates", "").split(",") if p)

    def gate(name: str, default: bool) -> bool:
        return gates[name].lower() in ("true", "t", "1") if name in gates else default

    def duration(name: str, default: int) -> int:
        return go_duration(flags[name]) if name in flags else default * SECOND

    manager = flags.get("enable-taint-manager", "true").lower() == "true" or minor >= 27
    taint_mode = manager and (minor >= 18 or gate("TaintBasedEvictions", True))
    separate = minor >= 34 or (minor >= 29 and gate("SeparateTaintEvictionController", True))
    lifecycle = runs(flags, "nodelifecycle", "node-lifecycle-controller")
    eviction = runs(flags, "taint-eviction-controller") if separate else lifecycle and manager
    old_infinite = {16: 15, 17: 12, 18: 9}
    ssa_fixed = {26: 11, 27: 8, 28: 4}
    return Profile(
        minor=minor,
        patch=patch,
        period=duration("node-monitor-period", 5),
        grace=duration("node-monitor-grace-period", 50 if minor >= 32 else 40),
        startup_grace=duration("node-startup-grace-period", 60),
        rate=float32(float(flags.get("node-eviction-rate", "0.1"))),
        secondary_rate=float32(float(flags.get("secondary-node-eviction-rate", "0.01"))),
        large_zone=int(flags.get("large-cluster-size-threshold", "50")),
        threshold=float32(float(flags.get("unhealthy-zone-threshold", "0.55"))),
        pod_eviction_timeout=duration("pod-eviction-timeout", 300),
        taint_mode=taint_mode,
        current_decides=minor >= 34,
        mark=queue_mode(minor, patch),
        pod_worker=minor >= 17 or (minor == 16 and patch >= 8),
        leases=minor >= 17 or gate("NodeLease", True),
        taint_by_condition=minor >= 17 or gate("TaintNodesByCondition", True),
        exclude_label=minor >= 21 or gate("NodeDisruptionExclusion", minor >= 19),
        exclude_name=minor <= 20 and gate("LegacyNodeRoleBehavior", True),
        ga_zone_labels=minor >= 17,
        lease_breaker=minor >= 37 and gate("NodeControllerLeaseCircuitBreaker", True),
        rate_zero_accepts=minor <= 23,
        retries_without_ready=minor >= 30,
        node_lifecycle_runs=lifecycle,
        eviction_runs=eviction,
        cancel_on_infinite=minor >= 19 or patch >= old_infinite[minor],
        keep_nil_key=minor <= 32,
        two_nows=minor <= 29,
        server_side_apply=minor in ssa_fixed and patch < ssa_fixed[minor],
        pod_gc_runs=runs(flags, "podgc", "pod-garbage-collector-controller"),
        quarantine=40 * SECOND if minor >= 17 else 0,
        out_of_service=minor >= 24 and gate("NodeOutOfServiceVolumeDetach", minor >= 26),
        terminated_threshold=int(flags.get("terminated-pod-gc-threshold", "12500")),
        evicted_first=minor >= 27,
    )
