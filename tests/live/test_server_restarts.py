"""A server that goes away in the middle of a run and comes back, as if nothing had happened.

Real client, real engine, a journal on disk; the server and its clock are simulated. A server that has
just started knows nobody's rights: measured on real ones it says 403 for a part of a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from live import api_server as server
from live.api_server import Action, Fault, Handler
from live.applying import Carrying, drain_of, drainable_cluster, plan_of
from live.changing import changing
from live.writable_server import WritableServer

from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.progress import AnyProgress, ServerAway, ServerBack
from kubectl_evictplan.apply.working import AWAY_SECONDS_MAX
from kubectl_evictplan.errors import UnreachableError
from kubectl_evictplan.live.transport import NEWBORN_SECONDS
from kubectl_evictplan.report.run_words import line

FORBIDDEN = server.status(403, "Forbidden", 'User "jane" cannot get resource "nodes"')
UNAUTHORIZED = server.status(401, "Unauthorized", "Unauthorized")
FOR_EVER = 1e9


@dataclass
class Restart(Fault):
    """No connections for ``away`` seconds, then nothing but refusals for ``newborn`` seconds.

    It begins when so many mutations were carried out, locks aside.
    """

    api: WritableServer | None = None
    begins_after: int = 0
    away: float = 0.0
    newborn: float = 0.0
    refusal: Action = FORBIDDEN
    began: float | None = None

    def applies(self, plural: str) -> bool:
        assert self.api is not None
        now = self.api.clock.server_seconds()
        if self.began is None and len(mutations(self.api)) >= self.begins_after:
            self.began = now
        passed = -1.0 if self.began is None else now - self.began
        self.action = server.reset if passed < self.away else self.refusal
        return 0.0 <= passed < self.away + self.newborn


def mutations(api: WritableServer) -> list[tuple[str, str]]:
    return [(site, name) for site, name, _ in api.executed if "leases" not in site]


@contextmanager
def draining(folder: Path, **restart: object) -> Iterator[tuple[WritableServer, Carrying]]:
    """A drain of n1, two patches and two evictions, and when its server restarts."""
    with drainable_cluster().serve() as api, changing(api) as cluster:
        assert isinstance(api, WritableServer)
        carrying = Carrying(api, cluster, plan_of(cluster, drain_of(cluster, "n1")), folder)
        api.faults.append(Restart("", server.reset, api=api, **restart))  # type: ignore[arg-type]
        yield api, carrying


def assert_whole(api: WritableServer) -> None:
    made = mutations(api)
    assert len(made) == 4
    assert len(set(made)) == 3, "two patches of one node"
    assert api.node("n1")["spec"]["unschedulable"] is True


def told(carrying: Carrying, kind: type[AnyProgress]) -> list[str]:
    return [line(event) or "" for event in carrying.told if isinstance(event, kind)]


@pytest.mark.parametrize(
    ("refusal", "begins_after"),
    [
        pytest.param(FORBIDDEN, 1, id="403, at a node"),
        pytest.param(FORBIDDEN, 2, id="403, at the first pod", marks=pytest.mark.slow),
        pytest.param(FORBIDDEN, 3, id="403, at the next pod", marks=pytest.mark.slow),
        pytest.param(UNAUTHORIZED, 1, id="401, at a node", marks=pytest.mark.slow),
        pytest.param(UNAUTHORIZED, 2, id="401, at the first pod", marks=pytest.mark.slow),
        pytest.param(UNAUTHORIZED, 3, id="401, at the next pod"),
    ],
)
def test_a_run_goes_on_when_its_server_is_back_and_knows_who_may_what(
    refusal: Action, begins_after: int, tmp_path: Path
) -> None:
    restart = {"begins_after": begins_after, "away": 70.0, "newborn": 5.0, "refusal": refusal}
    with draining(tmp_path, **restart) as (api, carrying):
        result = carrying.apply()

        assert (result.ending.code, result.exit_code) == (EndCode.FINISHED, 0), result.ending
        assert_whole(api)
        lock = api.find("leases", "evictplan-apply", "default")
        assert lock is not None
        assert not lock["spec"].get("holderIdentity")


def test_who_watches_is_told_that_nothing_is_sent_and_for_how_long(tmp_path: Path) -> None:
    with draining(tmp_path, begins_after=3, away=40.0) as (_, carrying):
        assert carrying.apply().exit_code == 0

        (away,), (back,) = told(carrying, ServerAway), told(carrying, ServerBack)
        assert away.startswith("the server is away: nothing is sent, asking again for up to 11")
        assert "the connection broke off" in away
        assert back.startswith("the server answers again, after 4")


def test_a_server_that_stays_away_ends_the_run_which_can_be_resumed(tmp_path: Path) -> None:
    with draining(tmp_path, begins_after=3, away=FOR_EVER) as (api, carrying):
        before = api.clock.server_seconds()
        result = carrying.apply()

        assert result.ending.code is EndCode.UNREACHABLE
        assert result.is_away
        assert result.exit_code in (3, 7)
        assert result.resumable
        assert AWAY_SECONDS_MAX < api.clock.server_seconds() - before < 2 * AWAY_SECONDS_MAX
        api.faults.clear()
        assert carrying.resume().exit_code == 0
        assert_whole(api)


def test_a_right_that_does_not_come_back_ends_the_run(tmp_path: Path) -> None:
    with draining(tmp_path, begins_after=3, away=5.0, newborn=FOR_EVER) as (api, carrying):
        before = api.clock.server_seconds()
        result = carrying.apply()

        assert result.ending.code is EndCode.UNREADABLE
        assert result.exit_code == 5
        assert api.clock.server_seconds() - before < 3 * NEWBORN_SECONDS
        api.faults.clear()
        assert carrying.resume().exit_code == 0
        assert_whole(api)


def test_a_right_that_is_taken_away_ends_the_run_at_once(tmp_path: Path) -> None:
    with draining(tmp_path, begins_after=3, newborn=FOR_EVER) as (api, carrying):
        before = api.clock.server_seconds()

        assert carrying.apply().exit_code == 5
        assert api.clock.server_seconds() - before < 5.0


def test_a_server_that_was_not_seen_to_restart_gets_time_as_well(tmp_path: Path) -> None:
    """It went and came between two requests: all that is left of it is a lost connection."""

    def dies(handler: Handler) -> None:
        handler.respond(handler.path_parts, handler.namespace)
        handler.close_connection = True

    with draining(tmp_path, begins_after=99) as (api, carrying):
        api.faults += [
            Fault("create pods/eviction", dies, after=1),
            Fault("get pods", FORBIDDEN, after=3, times=2),
        ]
        assert carrying.apply().exit_code == 0
        assert api.faults[-1].fired
        assert_whole(api)


def test_before_anything_was_sent_nobody_waits_for_a_server(tmp_path: Path) -> None:
    with draining(tmp_path, away=FOR_EVER) as (api, carrying):
        before = api.clock.server_seconds()

        assert carrying.apply().exit_code == 6
        assert api.clock.server_seconds() - before < 10.0
        assert mutations(api) == []


def test_rights_that_a_new_server_does_not_know_yet_are_not_missing(tmp_path: Path) -> None:
    with draining(tmp_path, away=0.3, newborn=0.5) as (api, carrying):
        assert carrying.apply().exit_code == 0
        assert_whole(api)


def test_who_does_not_want_to_wait_ends_it_with_a_signal(tmp_path: Path) -> None:
    with draining(tmp_path, begins_after=3, away=FOR_EVER) as (api, carrying):
        before = api.clock.server_seconds()

        def interrupted(event: AnyProgress) -> None:
            if isinstance(event, ServerAway):
                carrying.stop.request("SIGINT")

        carrying.told = _Calls(interrupted)  # type: ignore[assignment]

        assert carrying.apply().exit_code == 130
        assert api.clock.server_seconds() - before < 10.0


def test_who_took_the_lock_meanwhile_keeps_it(tmp_path: Path) -> None:
    def taken(event: AnyProgress) -> None:
        if isinstance(event, ServerAway):
            lock = api.find("leases", "evictplan-apply", "default")
            assert lock is not None
            lock["spec"]["holderIdentity"] = "joe@elsewhere/7/another-run"
            api.touch(lock)

    with draining(tmp_path, begins_after=2, away=70.0) as (api, carrying):
        carrying.told = _Calls(taken)  # type: ignore[assignment]
        result = carrying.apply()

        assert (result.ending.code, result.exit_code) == (EndCode.LOCK_LOST, 4)
        assert len(mutations(api)) == 2


class _Calls(list[AnyProgress]):
    """A list that tells what is appended."""

    def __init__(self, call: object) -> None:
        super().__init__()
        self.append = call  # type: ignore[method-assign, assignment]


def test_no_answer_is_waited_for_without_end_whatever_the_timeout_says(tmp_path: Path) -> None:
    """``--request-timeout 0`` lets an answer take as long as it likes: not while others are locked out."""
    with drainable_cluster().serve() as api, changing(api, request_timeout_ns=0) as cluster:
        api.faults.append(Fault("get nodes", server.drip(20.0, 4), times=None))
        before = api.clock.server_seconds()

        with pytest.raises(UnreachableError):
            cluster.get_node("n1")
        assert api.clock.server_seconds() - before < 300.0
