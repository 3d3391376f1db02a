"""SIGKILL at random instants of a real process, then resume: as if nothing had happened.

The seed of a case is in its name. A server that is asked over HTTP, a journal on a disk; nodes are
touched by others all the time, so that patches meet conflicts as well.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from building.builders import encoded
from live.apply_driver import Carrier
from live.applying import drain_of, drainable_cluster, plan_of
from live.changing import TOKEN, changing
from live.real_clock import RealClock
from live.requests_answered import Asked
from live.writable_server import WritableServer

from kubectl_evictplan.apply.cluster import Outcome
from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.files import LocalFiles
from kubectl_evictplan.apply.node_changes import RETRIES_MAX
from kubectl_evictplan.apply.states import Phase
from kubectl_evictplan.apply.status import status
from kubectl_evictplan.errors import EXIT_DONE, EXIT_UNKNOWN, InputError
from kubectl_evictplan.plans.document import Evict

FOREIGN = {"key": "theirs", "effect": "NoSchedule"}
FACTOR = 20.0
# What an undisturbed run takes here, about; kills fall within it.
RUN_SECONDS = 0.12
KILLS = 200
CASES = 20


def busy(api: WritableServer, seed: int) -> None:
    """Let somebody else touch the nodes, now and then between a read and a patch.

    Never as often in a row as a run puts up with: else it would end, as it should.
    """
    chance, in_a_row = random.Random(seed), 0

    def touch(asked: Asked) -> None:
        nonlocal in_a_row
        if asked.plural != "nodes" or asked.verb != "patch":
            return
        touches = chance.random() < 0.3 and in_a_row < RETRIES_MAX[Outcome.CONFLICT]
        in_a_row = in_a_row + 1 if touches else 0
        if touches:
            node = api.node(asked.name)
            node["metadata"].setdefault("annotations", {})["seen"] = str(chance.random())
            api.touch(node)

    api.before.append(touch)


@contextmanager
def prepared(folder: Path, seed: int) -> Iterator[tuple[WritableServer, tuple[Any, ...]]]:
    api = drainable_cluster(clock=RealClock(), exit_after_seconds=0.02)
    api.set_taints("n1", [FOREIGN])
    with api.serve():
        with changing(api) as cluster:
            plan = plan_of(cluster, drain_of(cluster, "n1", "n2"))
        busy(api, seed)
        path = folder / "plan.json"
        path.write_bytes(encoded(plan))
        flags = {"server": api.url, "token": TOKEN}
        yield api, (str(path), str(folder / "journal.jsonl"), flags, FACTOR)


def mutations(api: WritableServer) -> list[tuple[str, str, str]]:
    """What was carried out, locks aside: once each, or something was done twice."""
    return sorted(
        (site, name, str(sorted(body.get("spec", ()))))
        for site, name, body in api.executed
        if "leases" not in site
    )


def assert_drained(api: WritableServer) -> None:
    made = mutations(api)
    evicted = [name for site, name, _ in made if site == "create pods/eviction"]
    assert sorted(evicted) == ["shop/web-0", "shop/web-1", "shop/web-4", "shop/web-5"]
    patches = [(name, spec) for site, name, spec in made if site == "patch nodes"]
    assert patches == [
        (node, spec) for node in ("n1", "n2") for spec in ("['taints']", "['unschedulable']")
    ]
    keys = {name: [one["key"] for one in api.node(name)["spec"]["taints"]] for name in ("n1", "n2")}
    assert keys == {"n1": ["theirs", "maintenance"], "n2": ["maintenance"]}
    assert all(api.node(name)["spec"]["unschedulable"] for name in keys)
    lock = api.find("leases", "evictplan-apply", "default")
    assert lock is not None
    assert not lock["spec"].get("holderIdentity")


def killed_and_resumed(folder: Path, seed: int, kills: int) -> int:
    """Kill a run and its successors so often, let the last one finish; returns how many died."""
    chance = random.Random(seed)
    with prepared(folder, seed) as (api, arguments):
        died, journal = 0, Path(arguments[1])
        for _ in range(kills):
            carrier = Carrier(command(journal), *arguments)
            if not carrier.kill_after(chance.uniform(0.0, RUN_SECONDS)):
                assert_ended_by_protocol(carrier.code, journal)
                break
            died += 1
        told: set[int] = set()
        while (code := Carrier(command(journal), *arguments).finished()) != EXIT_DONE:
            number = assert_ended_by_protocol(code, journal)
            assert number not in told, "to go on is to decide: it cannot be unknown again"
            told.add(number)
        assert_drained(api)
    return died


def command(journal: Path) -> str:
    """Return what an operator types: a journal in which no run became durable is begun again."""
    try:
        status(journal, LocalFiles())
    except InputError:
        return "run"
    return "resume"


def assert_ended_by_protocol(code: int, journal: Path) -> int:
    """Check an end that is none by SIGKILL; return the operation that is unknown, 0 when all is done.

    A patch that was under way when its process died, on a node that somebody wrote since, is one of
    which nobody can tell whether it was executed and undone: exit code 7, and nothing else is.
    """
    state = status(journal, LocalFiles()).state
    assert state.ending is not None
    if code == EXIT_DONE:
        assert state.ending.code is EndCode.FINISHED
        return 0
    assert (code, state.ending.code) == (EXIT_UNKNOWN, EndCode.UNKNOWN)
    doing = state.operations[state.ending.number]
    assert not isinstance(doing.operation, Evict), "a pod tells what became of it"
    assert doing.phase is Phase.UNKNOWN
    assert doing.moved
    return state.ending.number


# Its clock runs twenty times as fast, so a machine that stalls for two seconds loses the lock.
@pytest.mark.slow
def test_a_process_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    assert killed_and_resumed(tmp_path, seed=1, kills=2) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("case", range(CASES))
def test_after_two_hundred_kills_nothing_was_done_twice(case: int, tmp_path: Path) -> None:
    """Ten processes die in each case; a run that ended before is followed by another."""
    died, seed = 0, case * 1000
    while died < KILLS // CASES:
        folder = tmp_path / str(seed)
        folder.mkdir()
        died += killed_and_resumed(folder, seed, kills=KILLS // CASES - died)
        seed += 1
