"""``tryUpdateNodeHealth``: one look at one node. Instants are seconds, the grace periods 40 s and 60 s."""

from __future__ import annotations

from building.builders import epoch_ns, make_node
from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import LeaseVersion
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.controllers.node_lifecycle.node_health import (
    HealthUpdate,
    NodeHealth,
    try_update_node_health,
)
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Node
from kubectl_evictplan.scenarios.scenario import ControllerSettings

READY = make_node("n", heartbeat=-100)


def lease(renewed: float, touches: int = 0) -> LeaseVersion:
    return LeaseVersion(epoch_ns(renewed), touches)


def look(
    at: float,
    health: NodeHealth | None,
    seen: LeaseVersion | None = None,
    *,
    node: Node = READY,
    release: str = "1.29",
    gates: str = "",
) -> HealthUpdate:
    settings = ControllerSettings(
        kubernetes_version=release,
        flags={"node-monitor-grace-period": "40s"} | ({"feature-gates": gates} if gates else {}),
    )
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    return try_update_node_health(node, health, seen, epoch_ns(at), configuration)


def remembered(probe: float, seen: LeaseVersion | None, node: Node = READY) -> NodeHealth:
    return NodeHealth(epoch_ns(probe), epoch_ns(probe), node.condition("Ready"), seen)


def test_the_first_look_of_a_process_is_a_probe_whatever_the_lease_says() -> None:
    health = look(5, None, lease(-1000)).health
    assert health.probe_ns == epoch_ns(5)
    assert health.lease == lease(-1000)


def test_a_renewed_lease_moves_the_probe_to_the_instant_of_the_look() -> None:
    health = look(10, remembered(5, lease(4)), lease(7)).health
    assert health == replace(remembered(10, lease(7)), ready_transition_ns=epoch_ns(5))


def test_a_lease_that_was_not_renewed_moves_nothing() -> None:
    before = remembered(5, lease(4))
    assert look(10, before, lease(4)).health == before


def test_silence_for_exactly_the_grace_period_is_enough() -> None:
    before = remembered(5, lease(4))
    assert look(44.999, before, lease(4)).conditions is None
    update = look(45, before, lease(4))
    assert update.conditions is not None
    assert {c.type: c.status for c in update.conditions}["Ready"] == "Unknown"


def test_unknown_keeps_the_probe_and_counts_as_a_transition_now() -> None:
    health = look(45, remembered(5, lease(4)), lease(4)).health
    assert (health.probe_ns, health.ready_transition_ns) == (epoch_ns(5), epoch_ns(45))
    assert health.ready is not None
    assert health.ready.status == "Unknown"


def test_what_was_found_and_what_was_written_are_told_apart() -> None:
    update = look(45, remembered(5, lease(4)), lease(4))
    assert update.observed.status == "True"
    assert update.current is not None
    assert update.current.status == "Unknown"


def test_a_lease_renewed_before_the_look_saves_the_node() -> None:
    update = look(45, remembered(5, lease(4)), lease(44.9))
    assert update.conditions is None
    assert update.health.probe_ns == epoch_ns(45)


def test_a_new_heartbeat_is_a_probe_and_makes_the_controller_forget_the_lease() -> None:
    posted = make_node("n", heartbeat=9)
    health = look(10, remembered(5, lease(4)), lease(4), node=posted).health
    assert health.probe_ns == epoch_ns(10)
    assert health.lease is None


def test_a_forgotten_lease_is_accepted_at_the_next_look_which_is_a_free_probe() -> None:
    health = look(15, remembered(10, None), lease(4)).health
    assert health.probe_ns == epoch_ns(15)


def test_a_heartbeat_of_the_same_second_is_not_seen() -> None:
    before = remembered(5, lease(4))
    not_ready = make_node("n", ready="False", heartbeat=-100)
    update = look(10, before, lease(4), node=not_ready)
    assert update.health == before
    assert update.observed.status == "False"


def test_unknown_is_written_once() -> None:
    unknown = make_node("n", ready="Unknown", heartbeat=-100)
    update = look(60, remembered(5, lease(4), unknown), lease(4), node=unknown)
    assert update.conditions is None
    assert update.current == update.observed


def test_a_node_that_never_posted_is_judged_from_its_creation_by_the_startup_grace_period() -> None:
    fresh = make_node("n", ready=None, created=-30)
    assert look(29.9, None, node=fresh).current is None
    update = look(30, None, node=fresh)
    assert update.observed.status == "Unknown"
    assert update.conditions is not None
    assert update.conditions[0].reason == "NodeStatusNeverUpdated"


def test_a_lease_alone_keeps_a_node_that_never_posted() -> None:
    fresh = make_node("n", ready=None, created=-100)
    update = look(5, None, lease(1), node=fresh)
    assert update.conditions is None
    assert update.health.probe_ns == epoch_ns(5)


def test_a_node_created_again_without_ready_is_judged_by_its_old_probe() -> None:
    fresh = make_node("n", ready=None, created=80)
    update = look(85, remembered(20, None), node=fresh)
    assert update.conditions is not None


def test_the_first_ready_ever_is_a_probe() -> None:
    health = look(70, NodeHealth(epoch_ns(-100), 0, None, None)).health
    assert health.probe_ns == health.ready_transition_ns == epoch_ns(70)


# -- 1.37's lease circuit breaker -----------------------------------------------------------------


def test_from_1_37_on_a_node_whose_lease_was_written_since_it_was_judged_is_skipped() -> None:
    before = remembered(5, lease(4))
    update = look(45, before, lease(4, touches=1), release="1.37")
    assert update.skipped
    assert update.conditions is None
    assert update.health == before


def test_up_to_1_36_nobody_asks_for_the_live_lease() -> None:
    update = look(45, remembered(5, lease(4)), lease(4, touches=1), release="1.36")
    assert update.conditions is not None


def test_the_gate_of_the_circuit_breaker_can_be_closed() -> None:
    update = look(
        45,
        remembered(5, lease(4)),
        lease(4, touches=1),
        release="1.37",
        gates="NodeControllerLeaseCircuitBreaker=false",
    )
    assert update.conditions is not None


def test_a_touched_lease_that_was_accepted_is_judged() -> None:
    update = look(45, remembered(5, lease(4, touches=1)), lease(4, touches=1), release="1.37")
    assert not update.skipped
    assert update.conditions is not None


def test_a_renewal_closes_the_circuit_breaker() -> None:
    update = look(45, remembered(5, lease(4)), lease(44, touches=1), release="1.37")
    assert not update.skipped
    assert update.health.lease == lease(44, touches=1)


def test_a_touched_lease_of_a_node_that_is_not_due_skips_nothing() -> None:
    update = look(44, remembered(5, lease(4)), lease(4, touches=1), release="1.37")
    assert not update.skipped


def test_without_a_lease_the_circuit_breaker_stays_closed() -> None:
    assert look(45, remembered(5, None), None, release="1.37").conditions is not None
