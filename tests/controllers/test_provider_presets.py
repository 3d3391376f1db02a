"""Where each flag's value comes from: given, detected, the provider's, the release's default."""

from __future__ import annotations

import re

import pytest
from building.builders import (
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import (
    DEFAULT,
    DETECTED,
    GIVEN,
    PRESET,
    ControllerConfiguration,
    flag_problem,
    resolve_configuration,
)
from kubectl_evictplan.controllers.presets import PRESETS, PUBLISHED, Preset, preset
from kubectl_evictplan.kube.infrastructure import Infrastructure, LeaderLease
from kubectl_evictplan.kube.objects import ControlPlaneFlags, ObjectReference
from kubectl_evictplan.kube.providers import PROVIDERS
from kubectl_evictplan.prediction.control_plane import api_server_flags, leader_since, provider
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings

FLAG = "large-cluster-size-threshold"


def resolve(
    given: dict[str, str] | None = None,
    release: str = "1.29.6",
    places: dict[str, str] | None = None,
    **control_plane: object,
) -> ControllerConfiguration:
    settings = ControllerSettings(release, None, given or {}, places or {})
    return resolve_configuration(settings, ControlPlaneFlags(**control_plane))  # type: ignore[arg-type]


def where(configuration: ControllerConfiguration, flag: str = FLAG) -> tuple[str, str, str]:
    return configuration.texts[flag], configuration.sources[flag], configuration.origins[flag]


@pytest.mark.parametrize("row", PRESETS, ids=lambda row: f"{row.provider}-{row.flag}")
def test_every_preset_is_valid_and_says_where_it_is_published(row: Preset) -> None:
    assert row.provider in PROVIDERS
    assert flag_problem(row.flag, row.value) is None
    assert row.source.startswith("https://")
    assert re.fullmatch(r"2\d{3}-\d\d-\d\d", row.seen)
    assert row.source in row.origin and row.seen in row.origin
    releases = range(row.first_minor, row.last_minor + 1)
    assert [preset(row.provider, row.flag, f"1.{minor}") for minor in releases] == [row] * len(
        releases
    )


def test_of_every_provider_it_is_said_what_is_published() -> None:
    assert PUBLISHED.keys() == set(PROVIDERS)


def test_what_is_given_counts_before_all_else() -> None:
    seen = {"kube-controller-manager": {FLAG: (ObjectReference("Pod", "m1", "kube-system"),)}}
    detected = {"controller_manager": {FLAG: "7"}, "origins": seen, "provider": "EKS"}
    assert where(resolve({FLAG: "9"}, **detected)) == ("9", GIVEN, "the command line")
    places = {FLAG: "s.yaml:8:3"}
    assert where(resolve({FLAG: "9"}, places=places, **detected)) == ("9", GIVEN, "s.yaml:8:3")
    assert where(resolve(**detected)) == ("7", DETECTED, "Pod kube-system/m1")
    assert where(resolve(provider="EKS"))[:2] == ("100000", PRESET)
    assert where(resolve()) == ("50", DEFAULT, "Kubernetes 1.29.6")


def test_a_detected_value_that_cannot_be_read_leaves_the_providers() -> None:
    configuration = resolve(controller_manager={FLAG: "many"}, provider="EKS")
    assert where(configuration)[:2] == ("100000", PRESET)
    assert [warning.code for warning in configuration.warnings] == ["flag-ignored"]


def test_presets_follow_the_release() -> None:
    grace = "node-monitor-grace-period"
    assert where(resolve(release="1.26", provider="Gardener"), grace)[:2] == ("2m0s", PRESET)
    assert where(resolve(release="1.27", provider="Gardener"), grace)[:2] == ("40s", PRESET)
    assert where(resolve(release="1.32", provider="Gardener"), grace)[:2] == ("40s", PRESET)
    assert where(resolve(release="1.32", provider="GKE"), grace)[:2] == ("50s", DEFAULT)
    assert where(resolve(release="1.31", provider="EKS"), grace)[:2] == ("40s", PRESET)
    assert where(resolve(release="1.32", provider="EKS"), grace)[:2] == ("50s", DEFAULT)
    assert where(resolve(release="1.33", provider="OpenShift"), grace)[:2] == ("40s", PRESET)


def test_the_release_says_who_told_it() -> None:
    told_by = (ObjectReference("Pod", "m1", "kube-system"),)
    detected = resolve(release="", kubernetes_version="1.29.6", version_told_by=told_by)
    assert detected.origins["kubernetes-version"] == "Pod kube-system/m1"
    assumed = resolve(release="", newest_kubelet_version="1.28.3")
    assert assumed.origins["kubernetes-version"] == "the newest kubelet is 1.28.3"


def test_default_toleration_seconds_have_their_origin() -> None:
    flag = "default-unreachable-toleration-seconds"
    origins = {"kube-apiserver": {flag: (ObjectReference("KubeAPIServer", "cluster"),)}}
    found = api_server_flags(ControlPlaneFlags(api_server={flag: "60"}, origins=origins))
    assert (found[flag].value, found[flag].source) == (60, DETECTED)
    assert found[flag].origin == "KubeAPIServer cluster"
    other = found["default-not-ready-toleration-seconds"]
    assert (other.value, other.source) == (300, DEFAULT)


def test_without_the_admission_plugin_there_are_none() -> None:
    disabled = {"disable-admission-plugins": "PodNodeSelector,DefaultTolerationSeconds"}
    found = api_server_flags(ControlPlaneFlags(api_server=disabled))
    assert [one.value for one in found.values()] == [None, None]


def test_what_nothing_tells_is_unknown() -> None:
    nothing = ControlPlaneFlags()
    assert (provider(nothing).value, provider(nothing).source) == (None, "unknown")
    assert (leader_since(nothing).value, leader_since(nothing).source) == (None, "unknown")


# -- what it does to a prediction ----------------------------------------------------------------------


def predicted(
    control_plane: ControlPlaneFlags,
    nodes: int = 60,
    silent: int = 40,
    flags: dict[str, str] | None = None,
    **infrastructure: object,
) -> Prediction:
    """One zone of which so many kubelets fall silent, in a cluster that is large by default."""
    names = [f"n{index:02}" for index in range(nodes)]
    pods = [make_pod(f"p-{name}", name, tolerations=default_tolerations(30)) for name in names]
    snapshot = replace(
        make_snapshot([make_node(name, zone="a") for name in names], pods, renewed=-1),
        control_plane=control_plane,
        infrastructure=Infrastructure(**infrastructure),  # type: ignore[arg-type]
    )
    settings = ControllerSettings("1.29.6", 0, flags=flags or {})
    configuration = resolve_configuration(settings, control_plane)
    stop = make_event(0, "kubelet-stop", names[:silent])
    return predict(snapshot, make_scenario([stop], horizon=400), configuration)


def messages(prediction: Prediction, code: str) -> list[str]:
    return [warning.message for warning in prediction.warnings if warning.code == code]


def test_on_eks_a_large_zone_in_partial_disruption_stops() -> None:
    # With limits the tick that stops the zone waits, and somebody may be tainted meanwhile.
    flags = {"kube-api-qps": "-1"}
    plain, eks = (predicted(ControlPlaneFlags(provider=name), flags=flags) for name in ("", "EKS"))
    assert plain.evictions and not eks.evictions
    assert messages(eks, "zone-stopped") and not messages(plain, "zone-stopped")
    assert eks.inputs.flags[FLAG].source == PRESET


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("GKE", "no public page of GKE tells them"),
        ("AKS", "no public page of AKS tells them"),
        ("EKS", "no public page of EKS tells these"),
        ("k3s", "k3s sets none of them itself"),
        ("", "not in the input; the release's defaults"),
    ],
)
def test_what_is_not_published_is_said_to_be_unknown(name: str, says: str) -> None:
    (message,) = messages(predicted(ControlPlaneFlags(provider=name), 3, 1), "flags-assumed")
    assert says in message


def test_flags_that_are_seen_are_not_assumed() -> None:
    seen = {"kube-controller-manager": (ObjectReference("Pod", "m1", "kube-system"),)}
    assert not messages(predicted(ControlPlaneFlags(seen_in=seen), 3, 1), "flags-assumed")


@pytest.mark.parametrize(
    ("switched_off", "code"),
    [
        ("*,-node-lifecycle-controller", "node-lifecycle-disabled"),
        ("*,-taint-eviction-controller", "taint-eviction-disabled"),
    ],
)
def test_who_could_run_a_controller_instead_is_named(switched_off: str, code: str) -> None:
    flags = ControlPlaneFlags(controller_manager={"controllers": switched_off})
    other = LeaderLease("kube-system", "cloud-controller-manager")
    (message,) = messages(predicted(flags, 3, 1, leader_leases=(other,)), code)
    assert "if cloud-controller-manager, which runs here too, does it instead" in message
    (alone,) = messages(predicted(flags, 3, 1), code)
    assert "runs here too" not in alone
