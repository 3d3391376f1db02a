"""What admission adds: DefaultTolerationSeconds, and tolerations of DaemonSet and static pods."""

from __future__ import annotations

from kubectl_evictplan.kube.admission import admitted_tolerations
from kubectl_evictplan.kube.objects import Toleration

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def finite(key: str, seconds: int | None) -> Toleration:
    return Toleration(key, "Exists", "", "NoExecute", seconds)


def test_not_ready_then_unreachable_are_appended_with_300_seconds() -> None:
    own = Toleration("a", "Exists")
    assert admitted_tolerations((own,)) == (own, finite(NOT_READY, 300), finite(UNREACHABLE, 300))


def test_the_api_servers_flags_replace_300_seconds() -> None:
    flags = {
        "default-not-ready-toleration-seconds": "120",
        "default-unreachable-toleration-seconds": "-5",
    }
    assert admitted_tolerations((), api_server_flags=flags) == (
        finite(NOT_READY, 120),
        finite(UNREACHABLE, -5),
    )


def test_presence_ignores_operator_and_value() -> None:
    own = Toleration(NOT_READY, "Equal", "x", "NoExecute")
    assert admitted_tolerations((own,)) == (own, finite(UNREACHABLE, 300))


def test_another_effect_does_not_suppress_the_default() -> None:
    own = Toleration(NOT_READY, "Exists", "", "NoSchedule")
    assert finite(NOT_READY, 300) in admitted_tolerations((own,))


def test_a_wildcard_suppresses_both() -> None:
    for own in (Toleration("", "Exists"), Toleration("", "Exists", "", "NoExecute", 5)):
        assert admitted_tolerations((own,)) == (own,)


def test_admission_is_idempotent() -> None:
    once = admitted_tolerations((), daemon_set=True, host_network=True)
    assert admitted_tolerations(once, daemon_set=True, host_network=True) == once


def test_daemon_set_pods_tolerate_node_problems_for_ever() -> None:
    added = admitted_tolerations((), daemon_set=True)
    assert [t.key.rpartition("/")[2] for t in added] == [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    ]
    assert all(t.toleration_seconds is None for t in added)


def test_host_network_adds_network_unavailable() -> None:
    added = admitted_tolerations((), daemon_set=True, host_network=True)
    assert added[-1].key == "node.kubernetes.io/network-unavailable"


def test_an_equal_daemon_set_entry_is_overwritten_in_place_and_loses_its_seconds() -> None:
    other = Toleration("x", "Exists")
    added = admitted_tolerations((finite(NOT_READY, 60), other), daemon_set=True)
    assert added[:2] == (finite(NOT_READY, None), other)


def test_an_earlier_wildcard_of_the_user_stays_first() -> None:
    wildcard = Toleration("", "Exists", "", "NoExecute", 60)
    assert admitted_tolerations((wildcard,), daemon_set=True)[0] == wildcard


def test_static_pods_get_the_wildcard_last_and_no_defaults() -> None:
    own = finite("x", 10)
    assert admitted_tolerations((own,), static=True) == (
        own,
        Toleration("", "Exists", "", "NoExecute"),
    )
