"""Go's container/heap: what is first, and which of several entries of a name is removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from naive.queue import GoHeap

from kubectl_evictplan.controllers.node_lifecycle.rate_limited_timed_queue import TimedQueue


def drained(queue: TimedQueue) -> list[tuple[int, str]]:
    """Every entry, taken out from the head."""
    found = []
    while queue:
        found.append(queue.head())
        assert queue.remove_first(queue.head()[1])
    return found


def test_the_earliest_entry_is_the_head() -> None:
    queue = TimedQueue()
    for at_ns, name in ((30, "c"), (10, "a"), (20, "b")):
        queue.push(at_ns, name)
    assert drained(queue) == [(10, "a"), (20, "b"), (30, "c")]


def test_entries_of_one_instant_are_in_the_order_of_their_names() -> None:
    queue = TimedQueue()
    for name in ("n2", "n0", "n1"):
        queue.push(5, name)
    assert [name for _, name in drained(queue)] == ["n0", "n1", "n2"]


def test_a_name_that_is_not_there_is_not_removed() -> None:
    queue = TimedQueue()
    queue.push(1, "a")
    assert not queue.remove_first("b")
    assert queue.head() == (1, "a")


def test_the_entry_removed_is_the_first_in_the_array_not_the_oldest() -> None:
    # The array is a 1, b 5, b 3: Go's heap.Remove meets the one of 5 first.
    queue = TimedQueue()
    for at_ns, name in ((1, "a"), (5, "b"), (3, "b")):
        queue.push(at_ns, name)
    queue.remove_first("b")
    assert drained(queue) == [(1, "a"), (3, "b")]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(0, 9), st.sampled_from("abc")),
            st.sampled_from("abc"),
        ),
        max_size=30,
    )
)
def test_any_operations_leave_the_array_that_go_leaves(
    operations: list[tuple[int, str] | str],
) -> None:
    queue, go = TimedQueue(), GoHeap()
    for serial, operation in enumerate(operations):
        if isinstance(operation, str):
            assert queue.remove_first(operation) == go.remove_first(operation)
        else:
            at_ns, name = operation
            queue.push(at_ns * 1000 + serial, name)
            go.push({"name": name, "at": (at_ns * 1000 + serial, 0)})
        assert bool(queue) == bool(go.items)
        if queue:
            assert queue.head() == (go.items[0]["at"][0], go.items[0]["name"])
