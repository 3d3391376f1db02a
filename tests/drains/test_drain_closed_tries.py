"""How many tries in a row others can close a budget."""

from __future__ import annotations

from kubectl_evictplan.windows.drains.closed_tries import Met, closed_tries


def tries(wanted: int, *taken: tuple[int, ...]) -> list[Met]:
    """Tries that need so many disruptions taken; ``taken`` has how many each pod may take at each of them."""
    return [Met(wanted, each) for each in zip(*taken, strict=True)]


def test_who_is_back_first_is_out_first() -> None:
    assert closed_tries(tries(1, (1, 1, 0), (1, 0, 0))) == 2
    assert closed_tries(tries(1, (1, 0, 0), (1, 0, 0))) == 1


def test_what_a_pod_takes_at_one_try_it_does_not_take_at_another_one() -> None:
    assert closed_tries(tries(2, (2, 2, 2), (2, 2, 2), (0, 0, 2))) == 3
    # Both are needed at the first one.
    assert closed_tries(tries(2, (1, 2, 2), (1, 2, 2))) == 1


def test_those_are_spared_that_take_more_later() -> None:
    assert closed_tries(tries(2, (1, 2, 2), (1, 1, 1), (1, 1, 1))) == 2


def test_a_try_that_needs_nobody_out_takes_nobody() -> None:
    assert closed_tries([Met(0, (1,)), Met(1, (1,)), Met(1, (1,))]) == 2


def test_of_too_many_choices_there_are_no_more_tries_than_disruptions_to_take() -> None:
    pods = [tuple(1 + (pod * nth) % 3 for nth in range(12)) for pod in range(1, 14)]
    assert closed_tries(tries(4, *pods)) <= sum(max(one) for one in pods) // 4
