"""Clocks that are far apart keep everything from being sent, unless somebody says that this is known."""

from __future__ import annotations

import time
from typing import cast

import pytest
from commands.typed_commands import Type, planned, stopped_before_n2, taints
from live.writable_server import WritableServer

from kubectl_evictplan.apply.cluster import ClusterApi
from kubectl_evictplan.commands.clock_check import check_clocks
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.world import World


class Skewed:
    """A cluster whose time nobody knows before it has answered."""

    def __init__(self, ahead_seconds: float) -> None:
        self._ahead_seconds, self._has_answered = ahead_seconds, False

    def identity(self) -> None:
        self._has_answered = True

    def now_ns(self) -> int:
        assert self._has_answered
        return time.time_ns() + round(self._ahead_seconds * SECOND_NS)


def checked(ahead_seconds: float, *, accept_skew: bool = False) -> None:
    check_clocks(cast(ClusterApi, Skewed(ahead_seconds)), accept_skew=accept_skew)


@pytest.mark.parametrize("ahead_seconds", [-3600, -61, 62, 3600])
def test_clocks_more_than_a_minute_apart_are_an_error_until_it_is_accepted(
    ahead_seconds: float, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="this machine's clock is") as refused:
        checked(ahead_seconds)
    (problem,) = refused.value.problems
    assert problem.correction is not None
    assert problem.correction.instead == ("--accept-skew",)
    assert capsys.readouterr().err == ""
    checked(ahead_seconds, accept_skew=True)
    assert capsys.readouterr().err.startswith("warning: this machine's clock is ")


@pytest.mark.parametrize(("ahead_seconds", "said"), [(0, ""), (1.5, ""), (-40, "ahead of")])
def test_clocks_seconds_apart_are_a_warning_at_most(
    ahead_seconds: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checked(ahead_seconds)
    err = capsys.readouterr().err
    assert (bool(err), said in err) == (bool(said), True)


@pytest.mark.slow
def test_nothing_is_sent_while_clocks_are_far_apart(
    server: WritableServer, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(type_)
    with monkeypatch.context() as wrong:
        wrong.setattr(World.__new__, "__defaults__", _defaults(-90))
        for words in (["--yes"], ["--dry-run=server"], ["--dry-run=client"]):
            said = type_("apply", "plan.json", *words)
            assert (said.code, "s behind the API server's" in said.err) == (2, True)
            assert "apply plan.json" in said.err
            assert "--accept-skew" in said.err
        assert server.executed == []
        assert type_("apply", "plan.json", "--yes", "--accept-skew").code == 0
        assert "maint" in taints(server)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--resume", "--rollback"])
def test_a_run_is_neither_gone_on_with_nor_taken_back_while_clocks_are_far_apart(
    option: str, server: WritableServer, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_before_n2(server, type_, "NoSchedule")
    sent = len(server.executed)
    with monkeypatch.context() as wrong:
        wrong.setattr(World.__new__, "__defaults__", _defaults(90))
        words = ("apply", option, "plan.journal.jsonl", "--yes")
        said = type_(*words)
        assert (said.code, "s ahead of the API server's" in said.err) == (2, True)
        assert len(server.executed) == sent
        assert type_(*words, "--accept-skew").code == 0


def _defaults(ahead_seconds: int) -> tuple[object, ...]:
    """Return what a World is made of on a machine whose clock is wrong."""
    return tuple(World(wall_ns=lambda: time.time_ns() + ahead_seconds * SECOND_NS))
