"""Where memory ends: one line, exit code 2, nothing written by halves that need not be, and an end in every case."""

from __future__ import annotations

import os
import sys
import weakref
from contextlib import nullcontext
from pathlib import Path

import pytest

from kubectl_evictplan import __main__ as program
from kubectl_evictplan import cli
from kubectl_evictplan.commands import large_json
from kubectl_evictplan.commands import run as what_if

CLUSTER = Path(__file__).parents[2] / "fixtures/clusters/kubeadm-15-nodes-1.29.json"
WORDS = ("what-if", "fail", "zone", "eu-1b", "-f", str(CLUSTER), "-o", "json")
LINE = "error: the input is too large for this machine's memory\n"
# CPython makes whole numbers up to this one once, so that they need no memory.
SMALL_MAX = 256


def out_of_memory(*_: object, **__: object) -> None:
    raise MemoryError


def test_it_is_told_when_what_filled_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Large:
        """What filled it."""

    known: list[weakref.ref[Large]] = []
    still_there: list[bool] = []

    def fail(*_: object) -> int:
        large = Large()
        known.append(weakref.ref(large))
        raise MemoryError

    monkeypatch.setattr(cli, "_invoke", fail)
    monkeypatch.setattr(cli, "_say", lambda _: still_there.append(known[0]() is not None))

    assert (cli.run([]), still_there) == (2, [False])


def test_without_memory_to_tell_of_it_the_program_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "_main", out_of_memory)
    monkeypatch.setattr(os, "_exit", sys.exit)

    with pytest.raises(SystemExit) as ended:
        program.main()
    assert (ended.value.code, capfd.readouterr().err) == (2, LINE)


def test_the_way_out_of_the_longest_function_needs_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CPython 3.11 asks for it again and again where a ``with`` is left from behind its 256th instruction."""
    places: list[int] = []

    def fail(*_: object, **__: object) -> None:
        places.append(sys._getframe(1).f_lasti // 2)
        raise MemoryError

    monkeypatch.setattr(what_if, "_found", fail)

    assert cli.run(WORDS) == 2
    assert 0 < places[0] <= SMALL_MAX


@pytest.mark.parametrize("where", ["assess.with_impact", "findings.find"])
def test_where_no_copy_can_be_made_nothing_is_written_before_the_costs_are_known(
    where: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("_MANY_BYTES", "_MANY_PODS", "_MANY_EVICTIONS"):
        monkeypatch.setattr(what_if, name, 0)
    monkeypatch.setattr(large_json, "in_copy", lambda _: nullcontext())
    monkeypatch.setattr(f"kubectl_evictplan.impact.{where}", out_of_memory)

    assert cli.run(WORDS) == 2
    assert capfd.readouterr() == ("", LINE)
