"""Random stories: whatever others, faults and crashes do, what must hold does."""

from __future__ import annotations

import pytest
from apply.chaos import story
from apply.faults import Fault

from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.records import Kept, Verdict

QUICK = 60
MANY = 10_000

# What a batch has to show, or its faults do not bite. Left out is what needs a case of its own:
# locks, conditions, signals, disks, rights.
ENDINGS = (
    EndCode.FINISHED,
    EndCode.NOT_EMPTY,
    EndCode.TIMED_OUT,
    EndCode.REFUSED,
    EndCode.FORBIDDEN,
    EndCode.CHANGED,
    EndCode.DRIFT,
    EndCode.REVERTED,
    EndCode.CHANGED_SINCE,
    EndCode.UNAUTHENTICATED,
    EndCode.UNREACHABLE,
    EndCode.UNKNOWN,
)
CRASHES = ("all", "none", "torn", "no newline")
EVERYTHING = {
    *(f"fault:{fault.name}" for fault in Fault if fault is not Fault.NO_DRY_RUN),
    *(f"end:{code.value}" for code in ENDINGS),
    *(f"exit:{code}" for code in (0, 3, 4, 5, 6, 7)),
    *(f"verify:{verdict.value}" for verdict in Verdict),
    *(f"kept:{why.value}" for why in Kept),
    *(f"killed:{kept}" for kept in CRASHES),
}


def test_a_few_random_stories_hold() -> None:
    for seed in range(QUICK):
        story(seed)


@pytest.mark.slow
def test_many_random_stories_hold_and_everything_that_can_happen_does() -> None:
    seen: set[str] = set()
    for seed in range(MANY):
        seen |= story(seed).seen

    assert EVERYTHING - seen == set()


def test_the_same_seed_is_the_same_story() -> None:
    one, other = story(17), story(17)

    assert one.bench.cluster.mutations == other.bench.cluster.mutations
    assert one.bench.lines == other.bench.lines
