"""Plans, ledgers, snapshots and scenarios: written whole or not at all, whatever ends the process that writes."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from apply.clusters import taint_bench
from plans.ledger_worlds import POD, START, deleted, expectation, look, predicted
from sources.failing_disk import ERRORS, Disk, Killed

from kubectl_evictplan.commands.ledgers import write_ledger
from kubectl_evictplan.commands.plan_file import read_plan_file
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.plans.fingerprint import plan_text, sealed
from kubectl_evictplan.plans.ledger import ledger_of
from kubectl_evictplan.plans.sightings import Sightings
from kubectl_evictplan.sources.private_file import write_private

PLAN = sealed(taint_bench().plan)
LEDGER = ledger_of(expectation(predicted((5, 6))), Sightings((look(60, deleted(POD, 5)),)), START)
OLD = b"old"


def write_plan_anew(path: Path) -> None:
    write_private(str(path), plan_text(PLAN))


def replace_plan(path: Path) -> None:
    write_private(str(path), plan_text(PLAN), force=True)


def replace_ledger(path: Path) -> None:
    write_ledger(LEDGER, str(path))


# (what is written, beside which plan; the names that it has; whether they were there)
Case = tuple[Callable[[Path], None], tuple[str, ...], bool]
CASES: dict[str, Case] = {
    "a plan": (write_plan_anew, ("plan.json",), False),
    "a plan with --force": (replace_plan, ("plan.json",), True),
    "a first ledger": (replace_ledger, ("plan.ledger.json", "plan.ledger.md"), False),
    "a ledger anew": (replace_ledger, ("plan.ledger.json", "plan.ledger.md"), True),
}
# Ledgers are two files, and drawn each time.
QUICK = [pytest.param(one, marks=[pytest.mark.slow] if "ledger" in one else []) for one in CASES]


def prepared(folder: Path, case: Case) -> Path:
    _, names, there = case
    folder.mkdir()
    for name in names if there else ():
        (folder / name).write_bytes(OLD)
        (folder / name).chmod(0o600)
    return folder / "plan.json"


def whole(folder: Path, case: Case) -> dict[str, bytes]:
    """Return what is there when nothing goes wrong."""
    write, names, _ = case
    write(prepared(folder, case))
    assert sorted(path.name for path in folder.iterdir()) == sorted(names), "something was left"
    return {name: (folder / name).read_bytes() for name in names}


def steps(case: Case, folder: Path) -> Disk:
    """Return the disk of an undisturbed run, which has counted it."""
    disk = Disk()
    path = prepared(folder, case)
    with pytest.MonkeyPatch.context() as patched:
        disk.use(patched)
        case[0](path)
    assert disk.points > disk.calls > 10
    return disk


def assert_old_or_whole(folder: Path, case: Case, expected: dict[str, bytes]) -> None:
    allowed = (OLD,) if case[2] else (None,)
    for name in case[1]:
        found = (folder / name).read_bytes() if (folder / name).exists() else None
        assert found in (*allowed, expected[name]), name
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} <= {0o600}


@pytest.mark.parametrize("name", QUICK)
def test_killed_at_any_instant_it_leaves_the_old_file_or_the_whole_new_one(
    name: str, tmp_path: Path
) -> None:
    case = CASES[name]
    expected = whole(tmp_path / "whole", case)
    for at in range(steps(case, tmp_path / "steps").points):
        folder = tmp_path / str(at)
        path, disk = prepared(folder, case), Disk(dies_at=at)
        with pytest.MonkeyPatch.context() as patched:
            disk.use(patched)
            with contextlib.suppress(Killed):
                case[0](path)
        assert disk.dead
        assert_old_or_whole(folder, case, expected)

        # What a dead process left beside it is in nobody's way.
        with contextlib.suppress(InputError):
            case[0](path)
        assert {one: (folder / one).read_bytes() for one in case[1]} == expected


def attempted(case: Case, path: Path) -> str:
    """Write; return what is said when that does not work."""
    try:
        case[0](path)
    except InputError as told:
        return str(told)
    return ""


@pytest.mark.parametrize(
    "error", [ERRORS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in ERRORS[1:])]
)
@pytest.mark.parametrize("name", QUICK)
def test_a_disk_that_fails_at_any_step_leaves_no_half_file_and_nothing_beside_it(
    name: str, error: int, tmp_path: Path
) -> None:
    case = CASES[name]
    expected = whole(tmp_path / "whole", case)
    refused = 0
    for at in range(steps(case, tmp_path / "steps").calls):
        folder = tmp_path / str(at)
        path, disk = prepared(folder, case), Disk(fails_at=at, error=error)
        with pytest.MonkeyPatch.context() as patched:
            disk.use(patched)
            told = attempted(case, path)
        assert_old_or_whole(folder, case, expected)
        if told:
            refused += 1
            assert "cannot be written: " in told
        else:
            assert all((folder / one).read_bytes() == expected[one] for one in case[1])
        # A temporary file stays only where it is the removal that fails.
        beside = [one for one in folder.iterdir() if one.name not in case[1]]
        assert len(beside) <= 1
        assert all(one.name.endswith(".tmp") for one in beside)
    assert refused > 3


def test_a_plan_that_lost_its_end_is_never_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    text = plan_text(PLAN)
    for size in range(0, len(text), 97):
        path.write_bytes(text[:size])
        with pytest.raises(InputError):
            read_plan_file(str(path))


@pytest.mark.parametrize("name", ["\N{OCTOPUS}" * 63, "x" * 255])
def test_a_name_may_be_as_long_as_the_file_system_takes(name: str, tmp_path: Path) -> None:
    write_private(str(tmp_path / name), b"data")
    assert [path.name for path in tmp_path.iterdir()] == [name]
