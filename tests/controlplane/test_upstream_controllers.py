"""What upstream's own controllers do on a virtual clock, in worlds drawn here, lies in the windows that are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from binaries import BuildError
from judge import CONTROLLERS, CROWDED, LAGGING, RELEASE, judge, judge_drains
from upstream_program import build

pytestmark = pytest.mark.live
# A handful, to see that both sides understand each other; `make judge` looks for what is wrong.
SEEDS = range(1, 11)


def built(release: str, *, drains: bool) -> Path:
    if release != RELEASE:
        pytest.skip(f"only {RELEASE} is played here: `make judge RELEASE={release}` plays this one")
    try:
        return build(release, drains=drains)
    except BuildError as error:
        pytest.skip(f"cannot be built here: {error}")


@pytest.mark.parametrize("kind", [CONTROLLERS, LAGGING, CROWDED])
def test_no_deletion_and_no_change_of_a_node_by_upstream_lies_outside_its_window(
    release: str, kind: str
) -> None:
    program = built(release, drains=False)
    verdicts = [judge(seed, release, program, kind=kind) for seed in SEEDS]

    assert {one.seed: one.wrong for one in verdicts if one.wrong} == {}


def test_no_eviction_and_no_end_of_kubectls_own_drain_lies_outside_its_window(release: str) -> None:
    program = built(release, drains=True)
    verdicts = [judge_drains(seed, release, program) for seed in SEEDS]

    assert {one.seed: one.wrong for one in verdicts if one.wrong} == {}
