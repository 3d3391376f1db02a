"""Every row of the release table, at the releases before and after each change.

A change that moves no knob (metrics, event texts, log lines) is listed in docs/fidelity.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from kubectl_evictplan.controllers.flags import (
    ASSUMED,
    DEFAULT,
    DETECTED,
    GIVEN,
    ControllerConfiguration,
    resolve_configuration,
)
from kubectl_evictplan.controllers.releases import (
    ReleaseProfile,
    known_minors,
    parse_release,
    release_profile,
)
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.scenarios.scenario import ControllerSettings

SECOND_NS = 1_000_000_000
ALL_MINORS = [f"1.{minor}" for minor in range(16, 38)]


class Change(NamedTuple):
    """A knob changes ``at`` a release; the release before has the old value.

    ``backports`` lists (last patch without, first patch with) of older minors.
    """

    knob: str
    old: object
    new: object
    before: str
    at: str
    backports: tuple[tuple[str, str], ...] = ()


# -- the tables ------------------------------------------------------------------------------------

NODE_LIFECYCLE = [
    Change("repeats_deletion", False, True, "1.16.7", "1.17.0", (("1.16.7", "1.16.8"),)),
    Change("ga_zone_labels", False, True, "1.16.15", "1.17.0"),
    Change("taint_based_evictions_gate", True, False, "1.17.17", "1.18.0"),
    Change("tells_of_marked_pods", False, True, "1.18.20", "1.19.0"),
    Change("ticks_in_parallel", False, True, "1.26.15", "1.27.0"),
    Change("taint_writes_conflict", False, True, "1.25.3", "1.26.0", (("1.25.3", "1.25.4"),)),
    Change("queue_mode", "ADD", "SETREMOVE", "1.18.16", "1.19.0"),
    Change("queue_mode", "ADD", "REMOVE_ADD", "1.18.16", "1.18.17"),
    Change("queue_mode", "SETREMOVE", "REMOVE_ADD", "1.19.8", "1.19.9"),
    Change("queue_mode", "SETREMOVE", "REMOVE_ADD", "1.20.4", "1.20.5"),
    Change("queue_mode", "SETREMOVE", "REMOVE_ADD", "1.20.4", "1.21.0"),
    Change("exclusion_by_label", False, True, "1.18.20", "1.19.0"),
    Change("exclusion_by_name", True, False, "1.20.15", "1.21.0"),
    Change("nontaint_mode", True, False, "1.26.15", "1.27.0"),
    Change("missing_ready_crashes", True, False, "1.29.6", "1.30.0"),
    Change("node_monitor_grace_period_ns", 40 * SECOND_NS, 50 * SECOND_NS, "1.31.14", "1.32.0"),
    Change("taint_on_current_condition", False, True, "1.33.10", "1.34.0"),
    Change("rate_zero_accepts", True, False, "1.23.17", "1.24.0"),
    Change("lease_circuit_breaker", "none", "beta", "1.36.4", "1.37.0"),
]
TAINT_EVICTION = [
    Change(
        "cancel_on_infinite",
        False,
        True,
        "1.18.8",
        "1.19.0",
        (("1.16.14", "1.16.15"), ("1.17.11", "1.17.12"), ("1.18.8", "1.18.9")),
    ),
    Change("keep_nil_key", True, False, "1.32.10", "1.33.0"),
    Change("immediate_is_two_nows", True, False, "1.29.15", "1.30.0"),
    Change("disruption_condition", "none", "alpha-off", "1.24.17", "1.25.0"),
    Change("disruption_condition", "alpha-off", "beta", "1.25.16", "1.26.0"),
    Change("disruption_condition", "beta", "ga", "1.30.14", "1.31.0"),
    Change("condition_write", "patch", "server-side-apply", "1.25.16", "1.26.0"),
    Change(
        "condition_write",
        "server-side-apply",
        "patch",
        "1.28.3",
        "1.29.0",
        (("1.26.10", "1.26.11"), ("1.27.7", "1.27.8"), ("1.28.3", "1.28.4")),
    ),
    Change("separate_controller", False, True, "1.28.15", "1.29.0"),
    Change("separate_controller_locked", False, True, "1.33.10", "1.34.0"),
    Change("comparison_operators_gate", False, True, "1.34.9", "1.35.0"),
]
POD_GARBAGE_COLLECTION = [
    Change("orphan_quarantine", False, True, "1.16.15", "1.17.0"),
    Change("out_of_service", "none", "alpha-off", "1.23.17", "1.24.0"),
    Change("out_of_service", "alpha-off", "beta", "1.25.16", "1.26.0"),
    Change("out_of_service", "beta", "ga", "1.27.16", "1.28.0"),
    Change("evicted_pods_first", False, True, "1.26.15", "1.27.0"),
]
EVICTION_API = [
    Change("tells_of_terminating_namespaces", False, True, "1.16.15", "1.17.0"),
    Change("evicts_pending_unasked", False, True, "1.18.20", "1.19.0"),
    Change("evicts_unready_pods", False, True, "1.19.16", "1.20.0"),
    Change("unhealthy_pod_eviction_policy", False, True, "1.26.15", "1.27.0"),
    Change("tells_when_to_retry", False, True, "1.20.15", "1.21.0"),
]
STATEFUL_SETS = [
    Change("stateful_set_availability", "ready", "polled", "1.22.17", "1.23.0"),
    Change("stateful_set_availability", "polled", "planned", "1.35.9", "1.36.0"),
]
SCHEDULER = [
    Change("resized_pods_hold", "spec", "container", "1.26.15", "1.27.0"),
    Change("resized_pods_hold", "container", "pod", "1.36.4", "1.37.0"),
    Change("storage_capacity", False, True, "1.20.15", "1.21.0"),
]
PROXY = [
    Change("proxies_to_ending_pods", False, True, "1.25.16", "1.26.0"),
]
CHANGES = [
    *NODE_LIFECYCLE,
    *TAINT_EVICTION,
    *POD_GARBAGE_COLLECTION,
    *EVICTION_API,
    *STATEFUL_SETS,
    *SCHEDULER,
    *PROXY,
]


def _steps() -> list[Any]:
    return [
        pytest.param(change.knob, old, new, before, at, id=f"{change.knob}-{before}-{at}")
        for change in CHANGES
        for old, new, before, at in (
            (change.old, change.new, change.before, change.at),
            *((change.old, change.new, *backport) for backport in change.backports),
        )
    ]


@pytest.mark.parametrize(("knob", "old", "new", "before", "at"), _steps())
def test_each_change_arrives_with_its_release(
    knob: str, old: object, new: object, before: str, at: str
) -> None:
    assert getattr(release_profile(before), knob) == old
    assert getattr(release_profile(at), knob) == new


def test_every_knob_has_a_row() -> None:
    """A knob that nobody tests is a knob that nobody needs."""
    knobs = _knobs(release_profile("1.29")).keys()
    assert knobs == {change.knob for change in CHANGES}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.knob}-{change.at}")
def test_a_newer_minor_never_loses_a_change(change: Change) -> None:
    """Newest patch of each later minor: the value stays until the knob's next row."""
    first = parse_release(change.at).minor
    later = [c for c in CHANGES if c.knob == change.knob and parse_release(c.at).minor > first]
    last = min((parse_release(c.at).minor for c in later), default=38)
    for minor in range(first + 1, last):
        expected = change.new
        if change.knob == "queue_mode" and minor in (19, 20):
            expected = "REMOVE_ADD"  # the newest patches of both have the fix
        if change.knob == "condition_write" and change.new == "server-side-apply":
            expected = "patch"  # and so have those of 1.26 to 1.28
        assert getattr(release_profile(f"1.{minor}"), change.knob) == expected, minor


# -- classes -------------------------------------------------------------------------------------

CLASSES = {
    "V16": (["1.16.0", "1.16.7"], "ADD", 40, False),
    "V16b": (["1.16.8", "1.16.15"], "ADD", 40, False),
    "V17": (["1.17.0", "1.17.17"], "ADD", 40, False),
    "V18": (["1.18.0", "1.18.16"], "ADD", 40, False),
    "V19X": (["1.19.0", "1.19.8", "1.20.0", "1.20.4"], "SETREMOVE", 40, False),
    "V21": (
        ["1.18.17", "1.19.9", "1.20.5", "1.21.0", "1.23.13", "1.26.15"],
        "REMOVE_ADD",
        40,
        False,
    ),
    "V27": (["1.27.0", "1.29.6", "1.31.14"], "REMOVE_ADD", 40, False),
    "V32": (["1.32.0", "1.33.10"], "REMOVE_ADD", 50, False),
    "V34": (["1.34.0", "1.36.4"], "REMOVE_ADD", 50, True),
    "V37": (["1.37.0", "1.37"], "REMOVE_ADD", 50, True),
}


@pytest.mark.parametrize(
    ("release", "queue_mode", "grace_seconds", "on_current"),
    [
        pytest.param(release, *knobs, id=f"{name}-{release}")
        for name, (releases, *knobs) in CLASSES.items()
        for release in releases
    ],
)
def test_class_of_release(
    release: str, queue_mode: str, grace_seconds: int, on_current: bool
) -> None:
    profile = release_profile(release)
    assert profile.queue_mode == queue_mode
    assert profile.node_monitor_grace_period_ns == grace_seconds * SECOND_NS
    assert profile.taint_on_current_condition is on_current


# -- texts of releases -----------------------------------------------------------------------------


@pytest.mark.parametrize("minor", ALL_MINORS)
def test_a_missing_patch_means_the_newest_one(minor: str) -> None:
    profile, newest = release_profile(minor), release_profile(f"{minor}.30")
    assert profile.version == minor
    assert _knobs(profile) == _knobs(newest)


@pytest.mark.parametrize(
    "text", ["1.29.6", "v1.29.6", " v1.29.6 ", "1.29.6-gke.100", "1.29.6+k3s1", "v1.29.6-eks-a1b2"]
)
def test_spellings_of_one_release(text: str) -> None:
    assert release_profile(text) == release_profile("1.29.6")


@pytest.mark.parametrize(
    "text",
    ["1.15", "1.15.12", "1.38", "1.99", "2.0", "1", "", "latest", "1.29.", "1.29.31", "1.٢٩"],
)
def test_an_unknown_release_lists_the_known_ones(text: str) -> None:
    with pytest.raises(InputError) as caught:
        release_profile(text)
    (problem,) = caught.value.problems
    assert repr(text) in str(problem)
    assert problem.expected == "one of " + ", ".join(ALL_MINORS)


def test_known_minors_have_a_profile() -> None:
    assert [f"1.{minor}" for minor in known_minors()] == ALL_MINORS


# -- flags by release ------------------------------------------------------------------------------

DEFAULTS = {
    "node_monitor_period_ns": 5 * SECOND_NS,
    "node_startup_grace_period_ns": 60 * SECOND_NS,
    "node_eviction_rate_qps": 0.1,
    "secondary_node_eviction_rate_qps": 0.01,
    "large_cluster_size_threshold": 50,
    "unhealthy_zone_threshold": 0.55,
    "pod_eviction_timeout_ns": 300 * SECOND_NS,
    "terminated_pod_gc_threshold": 12500,
    "kube_api_qps": 20.0,
    "kube_api_burst": 30,
    "taint_mode": True,
    "taint_eviction_enabled": True,
    "node_lifecycle_enabled": True,
    "pod_gc_enabled": True,
    "comparison_operators": False,
    "monitor_phase_ns": None,
}


def resolve(
    release: str = "", given: dict[str, str] | None = None, detected: dict[str, str] | None = None
) -> ControllerConfiguration:
    """The configuration of a release with given and detected flags."""
    return resolve_configuration(
        ControllerSettings(kubernetes_version=release, flags=given or {}),
        ControlPlaneFlags(controller_manager=detected or {}),
    )


@pytest.mark.parametrize("minor", ALL_MINORS)
def test_default_flags(minor: str) -> None:
    configuration = resolve(minor)
    assert {name: getattr(configuration, name) for name in DEFAULTS} == DEFAULTS
    grace_seconds = 50 if int(minor[2:]) >= 32 else 40
    assert configuration.node_monitor_grace_period_ns == grace_seconds * SECOND_NS
    assert configuration.texts["node-monitor-grace-period"] == f"{grace_seconds}s"
    named = set(configuration.sources) - {"kubernetes-version", "monitor-phase"}
    assert {configuration.sources[name] for name in named} == {DEFAULT}


@pytest.mark.parametrize(
    ("minor", "by_label", "by_name", "condition", "out_of_service"),
    [
        ("1.16", False, True, False, False),
        ("1.18", False, True, False, False),
        ("1.19", True, True, False, False),
        ("1.20", True, True, False, False),
        ("1.21", True, False, False, False),
        ("1.24", True, False, False, False),
        ("1.25", True, False, False, False),
        ("1.26", True, False, True, True),
        ("1.28", True, False, True, True),
        ("1.37", True, False, True, True),
    ],
)
def test_default_gates(
    minor: str, by_label: bool, by_name: bool, condition: bool, out_of_service: bool
) -> None:
    configuration = resolve(minor)
    assert configuration.exclusion_by_label is by_label
    assert configuration.exclusion_by_name is by_name
    assert configuration.disruption_condition is condition
    assert configuration.out_of_service is out_of_service


# Gate, what it switches, releases where it is read (default there), releases where it is not.
GATES: list[tuple[str, str, dict[str, bool], dict[str, bool]]] = [
    ("TaintBasedEvictions", "taint_mode", {"1.16": True, "1.17.17": True}, {"1.18.0": True}),
    (
        "NodeDisruptionExclusion",
        "exclusion_by_label",
        {"1.16": False, "1.18": False, "1.19": True, "1.20": True},
        {"1.21": True},
    ),
    (
        "NodeControllerLeaseCircuitBreaker",
        "lease_circuit_breaker",
        {"1.37.0": True},
        {"1.36.4": False},
    ),
    (
        "LegacyNodeRoleBehavior",
        "exclusion_by_name",
        {"1.16": True, "1.20": True},
        {"1.21": False, "1.37": False},
    ),
    (
        "PodDisruptionConditions",
        "disruption_condition",
        {"1.25": False, "1.26": True, "1.30": True},
        {"1.24": False, "1.31": True},
    ),
    (
        "NodeOutOfServiceVolumeDetach",
        "out_of_service",
        {"1.24": False, "1.25": False, "1.26": True, "1.27": True},
        {"1.23": False, "1.28": True},
    ),
    (
        "TaintTolerationComparisonOperators",
        "comparison_operators",
        {"1.35": False, "1.36": False, "1.37": False},
        {"1.34": False, "1.16": False},
    ),
]


@pytest.mark.parametrize(
    ("gate", "switch", "release", "default", "read"),
    [
        pytest.param(gate, switch, release, default, read, id=f"{gate}-{release}")
        for gate, switch, read_in, ignored_in in GATES
        for read, releases in ((True, read_in), (False, ignored_in))
        for release, default in releases.items()
    ],
)
def test_feature_gate(gate: str, switch: str, release: str, default: bool, read: bool) -> None:
    flipped = resolve(release, {"feature-gates": f"{gate}={str(not default).lower()}"})
    assert getattr(resolve(release), switch) is default
    assert getattr(flipped, switch) is (default != read)


@pytest.mark.parametrize(
    ("release", "gates", "switch", "on"),
    [
        ("1.17.17", "AllBeta=false", "taint_mode", False),
        ("1.17.17", "AllBeta=false,TaintBasedEvictions=true", "taint_mode", True),
        ("1.17.17", "AllAlpha=true", "exclusion_by_label", True),
        ("1.18.6", "AllAlpha=false", "exclusion_by_name", False),
        ("1.19.16", "AllBeta=false", "exclusion_by_label", False),
        ("1.25.16", "AllAlpha=true", "disruption_condition", True),
        ("1.25.16", "AllAlpha=true,PodDisruptionConditions=false", "disruption_condition", False),
        ("1.26.15", "AllBeta=false", "out_of_service", False),
        ("1.36.0", "AllAlpha=true", "comparison_operators", True),
        ("1.37.0", "AllBeta=false", "lease_circuit_breaker", False),
        ("1.37.0", "AllAlpha=false", "lease_circuit_breaker", True),
    ],
)
def test_all_gates_of_a_stage_are_set_together_but_for_those_that_are_named(
    release: str, gates: str, switch: str, on: bool
) -> None:
    assert getattr(resolve(release, {"feature-gates": gates}), switch) is on


# -- who evicts, and whether it runs ---------------------------------------------------------------


@pytest.mark.parametrize("release", ["1.16.0", "1.17.17", "1.18.0", "1.23.13", "1.26.15"])
def test_taint_manager_can_be_switched_off_up_to_1_26(release: str) -> None:
    configuration = resolve(release, {"enable-taint-manager": "false"})
    assert not configuration.taint_mode
    assert not configuration.taint_eviction_enabled


@pytest.mark.parametrize("release", ["1.27.0", "1.29.6", "1.37"])
@pytest.mark.parametrize(
    ("flag", "text"), [("enable-taint-manager", "false"), ("pod-eviction-timeout", "1m")]
)
def test_flags_of_the_mode_without_taint_manager_are_removed_in_1_27(
    release: str, flag: str, text: str
) -> None:
    with pytest.raises(InputError, match=r"removed in 1\.27"):
        resolve(release, {flag: text})
    assert resolve("1.26", {flag: text}).profile.nontaint_mode


@pytest.mark.parametrize("flag", ["enable-taint-manager", "pod-eviction-timeout"])
def test_a_removed_flag_that_was_detected_is_not_read(flag: str) -> None:
    configuration = resolve("1.29.6", detected={flag: "false"})
    assert configuration.taint_mode
    assert flag not in configuration.texts


@pytest.mark.parametrize(
    ("release", "controllers", "gates", "runs"),
    [
        ("1.28.15", "*,-taint-eviction-controller", "", True),  # part of node lifecycle
        ("1.28.15", "*,-nodelifecycle", "", False),
        ("1.29.0", "*,-taint-eviction-controller", "", False),
        ("1.29.0", "*,-node-lifecycle-controller", "", True),
        ("1.29.0", "*,-nodelifecycle", "SeparateTaintEvictionController=false", False),
        ("1.33.0", "*", "SeparateTaintEvictionController=false", True),
        (
            "1.33.0",
            "*,-taint-eviction-controller",
            "SeparateTaintEvictionController=false",
            True,
        ),
        # Locked on from 1.34: the gate is not read any more.
        ("1.34.0", "*,-nodelifecycle", "SeparateTaintEvictionController=false", True),
        ("1.37", "node-lifecycle-controller", "", False),
        ("1.37", "taint-eviction-controller", "", True),
    ],
)
def test_taint_eviction_by_home_and_controllers_flag(
    release: str, controllers: str, gates: str, runs: bool
) -> None:
    configuration = resolve(release, {"controllers": controllers, "feature-gates": gates})
    assert configuration.taint_eviction_enabled is runs


# -- where a value comes from ----------------------------------------------------------------------


def test_given_wins_over_detected_wins_over_default() -> None:
    detected = {"node-monitor-grace-period": "20s", "node-monitor-period": "2s"}
    configuration = resolve("1.29.6", {"node-monitor-period": "1s"}, detected)
    assert configuration.node_monitor_period_ns == 1 * SECOND_NS
    assert configuration.node_monitor_grace_period_ns == 20 * SECOND_NS
    assert configuration.sources["node-monitor-period"] == GIVEN
    assert configuration.sources["node-monitor-grace-period"] == DETECTED
    assert configuration.sources["node-eviction-rate"] == DEFAULT


@pytest.mark.parametrize(
    ("given", "detected", "kubelet", "version", "source"),
    [
        ("1.20.4", "1.29.6", "1.28.0", "1.20.4", GIVEN),
        ("", "1.29.6", "1.28.0", "1.29.6", DETECTED),
        ("", "", "1.28.0", "1.28", f"{ASSUMED} from kubelets"),
        ("", "", "", "1.37", ASSUMED),
        ("", "", "1.99.0", "1.37", ASSUMED),
    ],
)
def test_release_is_given_or_detected_or_assumed(
    given: str, detected: str, kubelet: str, version: str, source: str
) -> None:
    configuration = resolve_configuration(
        ControllerSettings(kubernetes_version=given),
        ControlPlaneFlags(kubernetes_version=detected, newest_kubelet_version=kubelet),
    )
    assert configuration.profile.version == version
    assert configuration.sources["kubernetes-version"] == source
    assumed = "release-assumed" in {warning.code for warning in configuration.warnings}
    assert assumed is source.startswith(ASSUMED)


def test_every_wrong_flag_is_reported_at_once() -> None:
    wrong = {"node-monitor-perid": "1s", "node-eviction-rate": "x", "pod-eviction-timeout": "1m"}
    with pytest.raises(InputError) as caught:
        resolve("1.29.6", wrong)
    assert len(caught.value.problems) == 3


def _knobs(profile: ReleaseProfile) -> dict[str, object]:
    return {
        f.name: getattr(profile, f.name)
        for f in msgspec.structs.fields(ReleaseProfile)
        if f.name != "version"
    }
