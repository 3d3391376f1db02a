"""Random stories: whatever others, faults and crashes do, what must hold does."""

from __future__ import annotations

import pytest
from apply.chaos import story
from apply.faults import Fault

QUICK = 60


def test_a_few_random_stories_hold() -> None:
    for seed in range(QUICK):
        story(seed)


@pytest.mark.slow
def test_many_random_stories_hold_and_everything_that_can_happen_does() -> None:
    seen: set[str] = set()
    for seed in range(3000):
        seen |= story(seed).seen

    assert {f"fault:{fault.name}" for fault in Fault if fault is not Fault.NO_DRY_RUN} <= seen
