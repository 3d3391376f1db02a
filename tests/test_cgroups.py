"""What a control group allows: copies of a large process are made only where there is room for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubectl_evictplan import cgroups, processes
from kubectl_evictplan.cgroups import memory_max_bytes


def group(tmp_path: Path, text: str, **limits: str) -> tuple[Path, Path]:
    """Files that tell of this process's groups (``text``) and, by their path with __ for /, of their limits."""
    (tmp_path / "cgroup").write_text(text)
    for name, limit in limits.items():
        file = tmp_path / "mounted" / name.replace("__", "/").replace("_max", ".max")
        file = file.with_name(file.name.replace("limit_in_bytes", "memory.limit_in_bytes"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit)
    return tmp_path / "cgroup", tmp_path / "mounted"


@pytest.mark.parametrize(
    ("text", "limits", "most_bytes"),
    [
        ("0::/\n", {"memory_max": "536870912\n"}, 536870912),
        ("0::/\n", {"memory_max": "max\n"}, None),
        ("0::/\n", {}, None),
        ("0::/a/b\n", {"a__b__memory_max": "max\n", "a__memory_max": "1000\n"}, 1000),
        ("0::/a/b\n", {"a__b__memory_max": "700\n", "a__memory_max": "1000\n"}, 700),
        ("4:memory:/a\n0::/\n", {"memory__a__limit_in_bytes": "9000\n"}, 9000),
        ("1:cpu:/a\n", {"cpu__a__memory_max": "9000\n"}, None),
    ],
)
def test_the_smallest_limit_of_a_group_and_those_around_it_counts(
    tmp_path: Path, text: str, limits: dict[str, str], most_bytes: int | None
) -> None:
    assert memory_max_bytes(*group(tmp_path, text, **limits)) == most_bytes


def test_a_system_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert memory_max_bytes(tmp_path / "nothing", tmp_path) is None


@pytest.mark.parametrize(
    ("most_bytes", "copies"), [(None, True), (1 << 30, True), ((1 << 30) - 1, False)]
)
def test_copies_are_made_where_a_container_has_room_for_them(
    most_bytes: int | None, copies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "default_jobs", lambda: 2)
    monkeypatch.setattr(processes, "is_memory_bounded", lambda: False)
    monkeypatch.setattr(processes, "_may_be_copied", lambda: True)
    monkeypatch.setattr(cgroups, "memory_max_bytes", lambda: most_bytes)
    assert processes.may_have_copy() is copies
