"""What upstream's own controllers do on a virtual clock, in worlds drawn here, lies in the windows that are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from binaries import BuildError
from judge import judge
from upstream_program import build

pytestmark = pytest.mark.live
WORLDS = 25


@pytest.fixture(scope="module")
def program(release: str) -> Path:
    try:
        return build(release)
    except BuildError as error:
        pytest.skip(f"cannot be built here: {error}")


def test_no_deletion_and_no_change_of_a_node_by_upstream_lies_outside_its_window(
    release: str, program: Path
) -> None:
    verdicts = [judge(seed, release, program) for seed in range(1, 1 + WORLDS)]

    assert {one.seed: one.wrong for one in verdicts if one.wrong} == {}
