"""Every fault at every request of a run: how it ends, what it did, and that resuming finishes it.

Real client, real engine, a journal on disk; the server and its clock are simulated. Expectations are
tables by kind of request (what an answer means depends on what was asked) and by kind of fault. Each
cell of faults x requests x phases is looked up there: one that is missing fails. Phases: ``once`` (the
first attempt), ``stays`` (all that follow), ``resumed`` (once, after the run was killed between two
evictions).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from live.api_server import Fault as Armed
from live.applying import Carrying, drain_of, drainable_cluster, plan_of
from live.changing import changing
from live.mutation_faults import FAULTS
from live.writable_server import WritableServer

from kubectl_evictplan.apply.cluster import ClusterApi, Outcome
from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.files import LocalFiles
from kubectl_evictplan.apply.progress import AnyProgress, RequestSent
from kubectl_evictplan.apply.run import RunResult
from kubectl_evictplan.apply.status import status
from kubectl_evictplan.live import transport
from kubectl_evictplan.plans.document import Evict

OPERATIONS = 4
# Long enough for a machine that is busy with other tests to answer within.
SILENCE_SECONDS = 0.1

# -- faults of requests that change nothing ----------------------------------------------------------

READS = {
    "login": ("F1 credentials expired",),
    "denied": ("F6 forbidden", "F7 namespace terminates"),
    "absent": ("F8 not there",),
    "no API": ("F10 no such API", "F10 no such resource"),
    "refused": (
        "F10 method not allowed", "F11 another resourceVersion", "F13 exists already", "F17 invalid",
        "F23 too large", "F23 bad request", "F26 bad gateway's 400",
    ),
    "redirected": ("F30 redirect",),
    "strange": (
        "F30 another kind", "F30 another object", "F30 Failure with 200", "F30 Status with 200",
        "F30 an empty object", "F30 a list",
    ),
    "page": ("F30 login page",),
    "garbled": ("F29 cut, no length",),
    "too large": ("F32 gzip bomb",),
    "again": (
        "F19 priority and fairness", "F19 proxy limits rates", "F19 webhook asks to wait",
        "F20 budget spent", "F21 budget not observed", "F22 goes down, 429", "F22 goes down, 503",
        "F24 several budgets", "F25 internal error", "F25 internal error, done", "F25 timeout",
        "F25 timeout, done", "F25 store without leader", "F26 gateway 502", "F26 gateway 503, done",
        "F26 gateway 504, done", "F26 request timeout", "F28 reset, not done", "F28 reset, done",
        "F28 closed, not done", "F28 closed, done", "F28 reset within the answer",
        "F29 cut, with Content-Length", "F29 cut within chunks", "F29 cut gzip",
        "F29 damaged gzip", "F33 silence, not done", "F33 silence, done", "F33 drip",
    ),
}  # fmt: skip
READ_CLASS = {fault: kind for kind, faults in READS.items() for fault in faults}

FINISHED, DRIFT, DENIED = EndCode.FINISHED, EndCode.DRIFT, EndCode.DENIED
LOGIN, GONE, REFUSED = EndCode.UNAUTHENTICATED, EndCode.UNREACHABLE, EndCode.REFUSED
FORBIDDEN, NOT_EMPTY = EndCode.FORBIDDEN, EndCode.NOT_EMPTY
UNREADABLE = EndCode.UNREADABLE
TOLERATED, REPEATED = (FINISHED, FINISHED), (FINISHED, GONE)
ENDS, EXPIRES = (GONE, GONE), (FINISHED, LOGIN)
Endings = dict[str, tuple[EndCode, EndCode]]

_OBJECT: Endings = {
    "login": EXPIRES, "denied": (UNREADABLE, UNREADABLE), "absent": (DRIFT, DRIFT), "no API": ENDS,
    "refused": ENDS, "redirected": ENDS, "strange": ENDS, "page": ENDS, "garbled": REPEATED,
    "too large": ENDS, "again": REPEATED,
}  # fmt: skip
_IDENTITY: Endings = {
    **_OBJECT, "denied": (DRIFT, DRIFT), "no API": (DRIFT, DRIFT), "refused": REPEATED,
    "strange": REPEATED, "page": REPEATED,
}  # fmt: skip
_OPTIONAL: Endings = {
    **_OBJECT, "denied": TOLERATED, "absent": TOLERATED, "no API": TOLERATED, "refused": TOLERATED,
}  # fmt: skip
# (ending when the fault comes once, ending when it stays)
ON_READS: dict[str, Endings] = {
    # Which release it is decides nothing here: it is compared with the plan's elsewhere.
    "version": {
        **_OPTIONAL, "strange": TOLERATED, "page": TOLERATED, "garbled": TOLERATED,
    },
    "identity": _IDENTITY,
    # A right that nobody can tell about is noted as unknown.
    "rights": {**_OPTIONAL, "strange": TOLERATED, "page": REPEATED},
    "lock": {
        **_OBJECT, "login": (FINISHED, DENIED), "denied": (DENIED, DENIED), "absent": TOLERATED,
    },
    "node": _OBJECT,
    # A pod that is not there needs no eviction; but it is seen at the end that it is.
    "pod": {**_OBJECT, "absent": (NOT_EMPTY, NOT_EMPTY)},
    "pod that goes": {**_OBJECT, "absent": TOLERATED},
    "list": {**_OBJECT, "absent": ENDS},
    # What is not said is assumed: policy/v1.
    "API": {
        **_OPTIONAL, "login": TOLERATED, "strange": REPEATED, "page": REPEATED,
        "too large": ENDS,
    },
}  # fmt: skip

# -- faults of mutations -------------------------------------------------------------------------------

ON_MUTATIONS: dict[str, Endings] = {
    "take the lock": {
        "login": (FINISHED, DENIED), "forbidden": (DENIED, DENIED), "refused": (DENIED, DENIED),
        "later": REPEATED, "absent": REPEATED, "conflict": REPEATED, "budget": REPEATED,
        "several": REPEATED, "unknown": REPEATED, "done": TOLERATED,
    },
    # It expires by itself.
    "release the lock": dict.fromkeys(
        ("login", "forbidden", "refused", "later", "absent", "conflict", "budget", "several",
         "unknown", "done"),
        TOLERATED,
    ),
    # Nothing is done either way. A conflict there is met when it counts.
    "dry run": {
        "login": EXPIRES, "forbidden": (FORBIDDEN, FORBIDDEN), "refused": (REFUSED, REFUSED),
        "later": REPEATED, "absent": (DRIFT, DRIFT), "conflict": TOLERATED, "budget": ENDS,
        "several": ENDS, "unknown": REPEATED, "done": REPEATED,
    },
    "patch": {
        "login": EXPIRES, "forbidden": (FORBIDDEN, FORBIDDEN), "refused": (REFUSED, REFUSED),
        "later": REPEATED, "absent": (DRIFT, DRIFT), "conflict": (FINISHED, DRIFT),
        "budget": (REFUSED, REFUSED), "several": (REFUSED, REFUSED), "unknown": REPEATED,
        "done": TOLERATED,
    },
    "evict": {
        "login": EXPIRES, "forbidden": (FORBIDDEN, FORBIDDEN), "refused": (REFUSED, REFUSED),
        "later": REPEATED, "absent": (FINISHED, REFUSED), "conflict": (FINISHED, REFUSED),
        "budget": (FINISHED, EndCode.TIMED_OUT), "several": (REFUSED, REFUSED),
        "unknown": REPEATED, "done": TOLERATED,
    },
}  # fmt: skip
_BY_OUTCOME = {
    Outcome.UNAUTHENTICATED: "login",
    Outcome.REFUSED: "refused",
    Outcome.NOT_NOW: "later",
    Outcome.ABSENT: "absent",
    Outcome.CONFLICT: "conflict",
    Outcome.BUDGET: "budget",
    Outcome.SEVERAL_BUDGETS: "several",
    Outcome.UNKNOWN: "unknown",
}


def mutation_class(fault: str) -> str:
    row = FAULTS[fault]
    if fault == "F6 forbidden":
        return "forbidden"
    return "done" if row.executes else _BY_OUTCOME[row.outcome]


class Site(NamedTuple):
    """A request of the run: which, after how many, and how many mutations were made before."""

    place: str
    kind: str
    done: int
    after: int = 0


SITES = {
    "which release": Site("get version", "version", 0),
    "which cluster": Site("list namespaces", "identity", 0),
    "which user": Site("create selfsubjectreviews", "identity", 0),
    "may it": Site("create selfsubjectaccessreviews", "rights", 0, 3),
    "read the lock": Site("get leases", "lock", 0),
    "take the lock": Site("create leases", "take the lock", 0),
    "read a node": Site("get nodes", "node", 0),
    "dry run": Site("patch nodes dry-run", "dry run", 0),
    "see what would go": Site("list pods", "list", 0),
    "taint": Site("patch nodes", "patch", 0),
    "read the node back": Site("get nodes", "node", 1, 3),
    "cordon": Site("patch nodes", "patch", 1, 1),
    "which API": Site("get api", "API", 0),
    "read a pod": Site("get pods", "pod", 2),
    "evict": Site("create pods/eviction", "evict", 2),
    "evict another": Site("create pods/eviction", "evict", 3, 1),
    "see pods go": Site("get pods", "pod that goes", 4, 2),
    "see what is left": Site("list pods", "list", 4, 1),
    "release the lock": Site("update leases", "release the lock", 4),
}
# (nothing was changed, something was)
EXIT_CODES = {
    EndCode.FINISHED: (0, 0),
    EndCode.DRIFT: (4, 4),
    EndCode.DENIED: (5, 5),
    EndCode.UNAUTHENTICATED: (5, 5),
    EndCode.UNREADABLE: (5, 5),
    EndCode.FORBIDDEN: (5, 3),
    EndCode.REFUSED: (4, 3),
    EndCode.TIMED_OUT: (3, 3),
    EndCode.NOT_EMPTY: (3, 3),
    EndCode.UNREACHABLE: (6, 3),
}


def expected(fault: str, site: Site) -> tuple[EndCode, EndCode]:
    """Return the cell: how the run ends when the fault comes once, and when it stays."""
    if site.kind in ON_READS:
        return ON_READS[site.kind][READ_CLASS[fault]]
    if site.kind == "evict" and FAULTS[fault].eviction is Outcome.APPLIED:
        return TOLERATED
    return ON_MUTATIONS[site.kind][mutation_class(fault)]


# One cell for each kind of ending, at the requests where most can go wrong.
SAMPLE = {
    ("F1 credentials expired", "taint"), ("F6 forbidden", "taint"), ("F6 forbidden", "evict"),
    ("F8 not there", "evict"), ("F11 another resourceVersion", "taint"),
    ("F20 budget spent", "evict"), ("F24 several budgets", "evict"),
    ("F28 reset, done", "taint"), ("F28 reset, not done", "taint"), ("F28 reset, done", "evict"),
    ("F28 reset, not done", "evict"), ("F26 gateway 503, done", "take the lock"),
    ("F30 login page", "read the node back"), ("F6 forbidden", "which cluster"),
}  # fmt: skip
CELLS = [
    pytest.param(
        fault,
        site,
        id=f"{fault}: {site}",
        marks=[] if (fault, site) in SAMPLE else [pytest.mark.slow],
    )
    for fault in FAULTS
    for site in SITES
]


def test_no_cell_is_without_an_expectation() -> None:
    assert sorted(READ_CLASS) == sorted(FAULTS)
    assert sum(map(len, READS.values())) == len(READ_CLASS)
    for fault in FAULTS:
        for site in SITES.values():
            assert set(expected(fault, site)) <= set(EXIT_CODES)
    assert {(fault, site) for fault in FAULTS for site in SITES} >= SAMPLE


class Run:
    """A cluster, the plan to drain n1, and a fault that is armed where a test says."""

    def __init__(self, api: WritableServer, cluster: ClusterApi, folder: Path, fault: str) -> None:
        if "silence" in fault:
            api.read_seconds_max = SILENCE_SECONDS
            cluster._transport._world = api.clock.world(SILENCE_SECONDS)  # type: ignore[attr-defined]
        self.api = api
        plan = plan_of(cluster, drain_of(cluster, "n1"), eviction_timeout_seconds=120.0)
        cluster._eviction_version = ""  # type: ignore[attr-defined]
        self.carrying = Carrying(api, cluster, plan, folder)

    def arm(self, fault: str, site: Site, *, times: int | None) -> Armed:
        armed = Armed(site.place, FAULTS[fault].action, after=site.after, times=times)
        self.api.faults.append(armed)
        return armed

    def mutations(self) -> list[tuple[str, str]]:
        """What was carried out, locks aside."""
        made = [(site, name) for site, name, _ in self.api.executed]
        return [one for one in made if "leases" not in one[0]]

    def assert_whole(self, result: RunResult) -> None:
        """The plan is carried out, each of its mutations once, and the lock is free."""
        assert (result.ending.code, result.exit_code) == (FINISHED, 0), result.ending
        assert self.api.node("n1")["spec"]["unschedulable"] is True
        assert [one["key"] for one in self.api.node("n1")["spec"]["taints"]] == ["maintenance"]
        assert len(self.mutations()) == len(set(self.mutations())) + 1, "two patches of one node"


@pytest.mark.parametrize(("fault", "site"), CELLS)
@pytest.mark.parametrize("stays", [False, True], ids=["once", "stays"])
def test_every_fault_of_a_run_ends_as_the_tables_say(
    fault: str, site: str, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 1 << 20)
    place = SITES[site]
    ending = expected(fault, place)[stays]
    with drainable_cluster().serve() as api, changing(api) as cluster:
        assert isinstance(api, WritableServer)
        run = Run(api, cluster, tmp_path, fault)
        armed = run.arm(fault, place, times=None if stays else 1)
        result = run.carrying.apply()
        assert armed.fired
        assert_ended(run, result, ending, place)
        assert status(run.carrying.journal, LocalFiles()).state.ending == result.ending
        api.faults.clear()
        if ending in (FINISHED, NOT_EMPTY):
            return
        assert result.resumable
        run.assert_whole(run.carrying.resume())
        assert len(run.mutations()) == OPERATIONS


def assert_ended(run: Run, result: RunResult, ending: EndCode, place: Site) -> None:
    made = len(run.mutations())
    code = EXIT_CODES[ending][bool(made)]
    if result.state.unknown:
        # A mutation of which nobody knows is worse than any other end.
        code = 7
    assert (result.ending.code, result.exit_code) == (ending, code), result.ending
    phases = [doing.phase.value for doing in result.state.operations.values()]
    if ending in (FINISHED, NOT_EMPTY):
        assert phases == ["done"] * OPERATIONS
    else:
        assert made == place.done
        # An eviction is done when its pod is gone.
        patches = sum(site == "patch nodes" for site, _ in run.mutations())
        assert patches <= phases.count("done") <= made


class Killed(BaseException):
    """What SIGKILL looks like from inside: nothing is cleaned up."""


@pytest.mark.parametrize(
    ("fault", "site"),
    [
        pytest.param(
            fault, site, id=f"{fault}: {site}",
            marks=[] if (fault, site) in SAMPLE and site == "evict" else [pytest.mark.slow],
        )
        for fault in FAULTS
        for site in SITES
    ],
)  # fmt: skip
def test_every_fault_of_a_resumed_run_ends_as_the_tables_say(
    fault: str, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 1 << 20)
    with drainable_cluster().serve() as api, changing(api) as cluster:
        assert isinstance(api, WritableServer)
        run = Run(api, cluster, tmp_path, fault)
        told = run.carrying.told

        def killed(event: AnyProgress) -> None:
            if isinstance(event, RequestSent) and isinstance(event.operation, Evict):
                raise Killed

        run.carrying.told = _Calls(killed)  # type: ignore[assignment]
        with pytest.raises(Killed):
            run.carrying.apply()
        run.carrying.told = told
        # Another process goes on: it has not learnt yet to be brief with a server that was there.
        cluster.ask_briefly(None)
        place = SITES[site]._replace(after=0)
        if site == "release the lock":
            # It is taken first: from the process that was killed.
            place = place._replace(kind="take the lock")
        if site == "read a pod":
            # Whether its eviction was sent is not known: it is asked for twice.
            place = place._replace(kind="pod that goes")
        armed = run.arm(fault, place, times=1)
        result = run.carrying.resume()
        once = expected(fault, place)[0]
        assert result.ending.code is (once if armed.fired else FINISHED), result.ending
        api.faults.clear()
        if result.resumable and result.ending.code is not NOT_EMPTY:
            run.assert_whole(run.carrying.resume())
        assert len(run.mutations()) <= OPERATIONS


class _Calls(list[AnyProgress]):
    """A list that tells what is appended."""

    def __init__(self, call: object) -> None:
        super().__init__()
        self.append = call  # type: ignore[method-assign, assignment]
