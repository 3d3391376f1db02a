"""The instants at which a node is taken to be tainted: all that matter where they are few enough."""

from __future__ import annotations

from kubectl_evictplan.windows.line_windows import WaitWindow
from kubectl_evictplan.windows.node_runs import NodeRecord
from kubectl_evictplan.windows.unknowns.services import HISTORIES_MAX, History, Services


def histories(changes: int, *, beside_others: bool = False) -> list[History]:
    """Of a node with one wait, inside which the fate of a pod changes so many times."""
    changes_ns = range(110, 110 + 10 * changes, 10)
    end_ns = 200 + 10 * changes
    record = NodeRecord(decisions=[(5, "False")])
    wait = WaitWindow(((100, end_ns),), certain=True, eligible_ns=5, useless_ns=end_ns)
    services = Services(
        [wait], record, [], latest=False, changes_ns=changes_ns, beside_others=beside_others
    )
    return services.histories()


def test_every_instant_is_tried_as_long_as_all_fit_into_the_budget() -> None:
    changes = (HISTORIES_MAX - 1) // 2
    found = histories(changes)
    assert len(found) == 1 + 2 * changes
    assert not any(history.missed for history in found)


def test_more_instants_than_that_are_named_as_missed() -> None:
    found = histories(HISTORIES_MAX)
    assert len(found) < HISTORIES_MAX
    assert all(history.missed == {Services.name} for history in found)


def test_beside_other_nodes_both_ends_of_a_span_are_tried() -> None:
    assert {each.served_ns for each in histories(0, beside_others=True)} == {(100,), (200,)}
    assert {each.served_ns for each in histories(0)} == {(100,)}
