"""What upstream's own controllers do on a virtual clock, in worlds drawn here, lies in the windows that are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from binaries import BuildError
from judge import RELEASE, judge
from upstream_program import build

pytestmark = pytest.mark.live
# A handful, to see that both sides understand each other; `make judge` looks for what is wrong.
SEEDS = range(1, 11)


@pytest.fixture(scope="module")
def program(release: str) -> Path:
    if release != RELEASE:
        pytest.skip(f"only {RELEASE} is played here: `make judge RELEASE={release}` plays this one")
    try:
        return build(release)
    except BuildError as error:
        pytest.skip(f"cannot be built here: {error}")


def test_no_deletion_and_no_change_of_a_node_by_upstream_lies_outside_its_window(
    release: str, program: Path
) -> None:
    verdicts = [judge(seed, release, program) for seed in SEEDS]

    assert {one.seed: one.wrong for one in verdicts if one.wrong} == {}
