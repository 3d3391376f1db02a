"""What happens around a run and not between it and its server, at every step of it, in every phase.

``ENVIRONMENT`` is the one table: the numbers are those of the list of faults that this program is built against. Each
row says how a run may end that meets it; that nothing is done twice, that nobody else's pod is touched and that
going on ends as if nothing had happened holds for all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from apply.clusters import BENCHES
from apply.crashes import KEEPS, Final, final, go_on, killing
from apply.crashing_files import Killed, Killer
from apply.faults import Fault
from apply.runs import Bench

from kubectl_evictplan.apply.cluster import Request
from kubectl_evictplan.apply.run import RunResult
from kubectl_evictplan.apply.stop import Stop, StoppedAtOnce
from kubectl_evictplan.errors import EXIT_INTERRUPTED, InputError
from kubectl_evictplan.kube.durations import SECOND_NS

HOUR_NS = 3600 * SECOND_NS
# A run that was refused before it was begun.
REFUSED = 2
SAMPLE = 13


class Environment(NamedTuple):
    """``happens`` once, at one step. ``ends``: exit codes; ``sends``: mutations that may still arrive after it, None: any."""

    happens: Callable[[Bench], object]
    ends: frozenset[int]
    sends: int | None = None


def signals(bench: Bench, number: int) -> None:
    for _ in range(number):
        bench.stop.request("SIGTERM")


def fills_up(bench: Bench) -> None:
    bench.files.full_at = bench.files.appends + 1


def cannot_sync(bench: Bench) -> None:
    bench.files.syncs_fail_at = bench.files.syncs + 1


def closes(bench: Bench) -> None:
    assert isinstance(bench.told, Listener)
    bench.told.closed = True


def jumps(bench: Bench, by_ns: int) -> None:
    bench.cluster.faults.wall_offset_ns += by_ns


def lags(bench: Bench, reads: int) -> None:
    bench.cluster.faults.stale_reads = reads


def codes(*ends: int) -> frozenset[int]:
    return frozenset(ends)


# A signal at the very end comes too late to interrupt anything.
ENVIRONMENT = {
    "F35 the machine sleeps": Environment(lambda bench: jumps(bench, HOUR_NS), codes(0)),
    "F35 the clock goes back": Environment(lambda bench: jumps(bench, -HOUR_NS), codes(0)),
    "F43 a signal": Environment(lambda bench: signals(bench, 1), codes(0, 130), sends=1),
    "F43 two signals": Environment(lambda bench: signals(bench, 2), codes(130), sends=0),
    "F45 nobody listens any more": Environment(closes, codes(0)),
    "F46 the disk is full": Environment(fills_up, codes(0, REFUSED, 3, 7), sends=1),
    "F47 the disk cannot sync": Environment(cannot_sync, codes(0, REFUSED, 3, 7), sends=1),
    "F51 a cache answers": Environment(lambda bench: lags(bench, 2), codes(0)),
    "F52 a server lags behind": Environment(lambda bench: lags(bench, 1), codes(0)),
}
PHASES = ("first", "retry", "resumed")


class Listener(list[Any]):
    """Who is told of a run, until it has gone."""

    closed = False

    def append(self, event: Any) -> None:
        if self.closed:
            raise BrokenPipeError
        super().append(event)


class At(Killer):
    """Something happens at one step of a run, and the run goes on."""

    def __init__(self, bench: Bench, at: int, happens: Callable[[Bench], object]) -> None:
        super().__init__()
        self.bench, self.happens_at, self.happens = bench, at, happens
        self.sent: int | None = None

    def step(self) -> None:
        self.steps += 1
        if self.steps - 1 == self.happens_at:
            self.sent = len(self.bench.cluster.mutations)
            self.happens(self.bench)


def arrange(bench: Bench, killer: Killer) -> None:
    """Let the killer see every durable step and every mutation, and that each of these was written down."""
    bench.files.killer = killer

    def passes(_request: Request) -> None:
        killer.step()

    bench.cluster.before_mutation = bench.cluster.after_mutation = passes


def begun(name: str, phase: str) -> Bench:
    """Return a bench where the next run is of this phase."""
    bench = BENCHES[name]()
    bench.told = Listener()
    if phase == "retry":
        bench.cluster.faults.line.extend([Fault.BUSY, None, Fault.OTHER_WRITES, Fault.NOT_SENT] * 2)
    if phase == "resumed":
        killing(bench, 33)
        with pytest.raises(Killed):
            bench.apply()
        bench.files.crash(KEEPS["all"])
        bench.cluster.sleep(1.0)
    return bench


def carried_on(bench: Bench) -> RunResult | None:
    """Do what an operator does, None when that is refused; signals reach a run that is gone on with as well."""
    stop = bench.stop
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("apply.runs.Stop", lambda: stop)
        with contextlib.suppress(InputError):
            return go_on(bench)
    return None


def code_of(bench: Bench) -> int:
    """Carry on and return the exit code. A second signal where no run is at work ends the process on the spot."""
    try:
        result = carried_on(bench)
    except StoppedAtOnce:
        bench.files.crash(KEEPS["all"])
        return EXIT_INTERRUPTED
    return REFUSED if result is None else result.exit_code


def steps(name: str, phase: str) -> int:
    bench = begun(name, phase)
    killer = At(bench, -1, lambda _: None)
    arrange(bench, killer)
    assert carried_on(bench) is not None
    return killer.steps


def ended_well(bench: Bench) -> RunResult:
    """Go on, in surroundings that are as they should be, until all is done."""
    arrange(bench, Killer())
    bench.stop = Stop()
    bench.files.full_at = bench.files.syncs_fail_at = None
    bench.cluster.faults.stale_reads = 0
    bench.cluster.faults.line.clear()
    bench.cluster.sleep(1.0)
    for _ in range(2):
        result = carried_on(bench)
        if result is not None and result.exit_code == 0:
            return result
    raise AssertionError(result and result.ending)


def check(name: str, row: str, phase: str, at: int, expected: Final) -> None:
    environment, where = ENVIRONMENT[row], (name, row, phase, at)
    bench = begun(name, phase)
    killer = At(bench, at, environment.happens)
    arrange(bench, killer)

    code = code_of(bench)

    assert killer.sent is not None, where
    assert code in environment.ends, (where, code)
    if environment.sends is not None and code:
        assert len(bench.cluster.mutations) - killer.sent <= environment.sends, where
    assert final(bench, ended_well(bench)) == expected, where
    assert bench.cluster.met_newcomer == 0
    assert set(bench.cluster.evicted) <= {pod.uid for pod in bench.plan.pods}
    assert all(times <= 2 for times in bench.cluster.evicted.values())


def undisturbed(name: str) -> Final:
    bench = BENCHES[name]()
    return final(bench, bench.apply())


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("row", ENVIRONMENT)
def test_what_happens_around_a_run_at_some_step_ends_it_as_the_table_says(
    row: str, phase: str
) -> None:
    expected = undisturbed("drain")
    offset = list(ENVIRONMENT).index(row)
    for at in range(offset, steps("drain", phase), 2 * SAMPLE):
        check("drain", row, phase, at, expected)


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("row", ENVIRONMENT)
@pytest.mark.parametrize("name", BENCHES)
def test_what_happens_around_a_run_at_any_step_ends_it_as_the_table_says(
    name: str, row: str, phase: str
) -> None:
    expected = undisturbed(name)
    for at in range(steps(name, phase)):
        check(name, row, phase, at, expected)
