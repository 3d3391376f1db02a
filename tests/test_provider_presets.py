"""Where each flag's value comes from: given, detected, the provider's, the release's default."""

from __future__ import annotations

import re

import pytest

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
from kubectl_evictplan.kube.objects import ControlPlaneFlags, ObjectReference
from kubectl_evictplan.kube.providers import PROVIDERS
from kubectl_evictplan.prediction.control_plane import api_server_flags, leader_since, provider
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
