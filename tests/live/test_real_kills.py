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

import msgspec
import pytest
from live.apply_driver import Carrier
from live.applying import drain_of, drainable_cluster, plan_of
from live.changing import TOKEN, changing
from live.requests_answered import Asked
from live.writable_server import RealClock, WritableServer

from kubectl_evictplan.errors import EXIT_DONE, EXIT_UNKNOWN

FOREIGN = {"key": "theirs", "effect": "NoSchedule"}
FACTOR = 20.0
# What an undisturbed run takes here, about; kills fall within it.
RUN_SECONDS = 0.12
KILLS = 200
CASES = 20


def busy(api: WritableServer, seed: int) -> None:
    """Let somebody else touch the nodes, now and then between a read and a patch."""
    chance = random.Random(seed)

    def touch(asked: Asked) -> None:
        if asked.plural == "nodes" and asked.verb == "patch" and chance.random() < 0.3:
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
        path.write_bytes(msgspec.json.encode(plan))
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
            carrier = Carrier("resume" if journal.exists() else "run", *arguments)
            if not carrier.kill_after(chance.uniform(0.0, RUN_SECONDS)):
                break
            died += 1
        code = Carrier("resume" if journal.exists() else "run", *arguments).finished()
        if code == EXIT_UNKNOWN:
            # Killed while a patch was under way, and somebody wrote the node: to go on is to decide.
            code = Carrier("resume", *arguments).finished()
        assert code == EXIT_DONE
        assert_drained(api)
    return died


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
