"""Drawn worlds, played by upstream's own controllers: ``make judge``.

Every world is a seed (``tests/drawn/upstream_worlds.py``). A Go program (``tests/upstream``) plays it through the node
lifecycle, taint eviction and pod garbage collection controllers of one release, on a virtual clock, and records
it. What is predicted from the recorded start must hold everything that followed. A world that disagrees is told with
the command that repeats it alone; ``--keep`` writes its files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from soak import Tally, Verdict, soak
from trace_runs import (
    NODE_FACTS,
    Slack,
    Trace,
    compare_deletions,
    load_trace,
    predict_trace,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "upstream"))

from drawn.upstream_crowded_worlds import draw_upstream_crowded_world
from drawn.upstream_drain_worlds import draw_upstream_drain_world
from drawn.upstream_worlds import (
    NAMESPACE,
    Flags,
    Happening,
    UpstreamWorld,
    draw_lagging_world,
    draw_upstream_world,
)
from judge_drains import drain_disagreements, record_drains
from upstream_program import BuildError, build

from kubectl_evictplan.kube.durations import SECOND_NS

RELEASE = "1.37.0"
# The last minor release that has --enable-taint-manager and --pod-eviction-timeout.
LAST_WITH_EVICTION_TIMEOUT = 26
# Where a node without a Ready condition at the head of a line crashes releases up to 1.29 (docs/fidelity.md, rule 11).
CRASH_WITHOUT_READY = b"doNoExecuteTaintingPass"
# A write of a world with slow writes comes so many of the slowest after its tick, pass or timer.
WRITES_IN_A_ROW = 4
# What is drawn: nodes and taints for three controllers, the same with nodes full of pods, or with watches that are late, or
# ``kubectl drain`` (``judge_drains``).
CONTROLLERS, CROWDED, LAGGING, DRAINS = "controllers", "crowded", "lagging", "drains"
KINDS: dict[str, Callable[[int], UpstreamWorld]] = {
    CONTROLLERS: draw_upstream_world,
    CROWDED: draw_upstream_crowded_world,
    LAGGING: draw_lagging_world,
}
# So many events may wait for a client's limit, one of each controller that writes some.
EVENT_WRITERS = 2
# What lets a deletion wait at the start for which the input shows no reason any more.
REASONS_END = ("untaint", "kubelet-start", "node-ready", "node-delete", "pod-tolerations")
UNSEEN_NS = 180 * SECOND_NS
Document = dict[str, Any]


def judge(
    seed: int, release: str, program: Path, keep: Path | None = None, *, kind: str = CONTROLLERS
) -> Verdict:
    """Play the world of a seed, and hold what is predicted against what happened; ``keep`` gets the files of a wrong one."""
    world = KINDS[kind](seed)

    def wrong_in(folder: Path) -> list[str]:
        if not record(world, release, program, folder):
            return []
        return disagreements(load_trace(folder)._replace(slack=slack_of(world)))

    return _judged(seed, release, wrong_in, keep)


def _judged(
    seed: int, release: str, wrong_in: Callable[[Path], list[str]], keep: Path | None
) -> Verdict:
    since = time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            wrong = wrong_in(folder)
        except Exception:  # noqa: BLE001 - a crash is the worst disagreement
            wrong = ["crashed: " + traceback.format_exc(limit=-3)]
        if wrong and keep is not None:
            shutil.copytree(folder, keep / f"upstream-{seed}-{release}", dirs_exist_ok=True)
    return Verdict(seed, "upstream", release, tuple(wrong), time.process_time() - since)


def judge_drains(seed: int, release: str, program: Path, keep: Path | None = None) -> Verdict:
    """The same of a world with drains."""
    world = draw_upstream_drain_world(seed)

    def wrong_in(folder: Path) -> list[str]:
        record_drains(world, release, program, folder)
        return drain_disagreements(world, load_trace(folder))

    return _judged(seed, release, wrong_in, keep)


def slack_of(world: UpstreamWorld) -> Slack:
    """So much after its tick, pass or timer a write comes in a world with slow writes or late watches; the clock is exact."""
    late_ns = WRITES_IN_A_ROW * world.slowest_write_ns + world.watch_lag_ns
    return Slack(0.003 + late_ns / SECOND_NS, 0.002)


def disagreements(trace: Trace) -> list[str]:
    """What happened outside of its window, and what was certain and did not happen."""
    prediction, wrong = predict_trace(trace), []
    for what, compare in (("deleted", compare_deletions), *NODE_FACTS.items()):
        found = compare(trace, prediction)
        # A bound of a node's change stands for each change within it.
        bounds = [one for _, one in found.inside if what in NODE_FACTS and not one.certain]
        wrong += [
            f"{what}: {one.subject} at {one.at_seconds:.6f}"
            for one in found.outside
            if not any(bound.admits(one, trace.slack) for bound in bounds)
        ]
        wrong += [
            f"{what}: {one.subject} is absent, certain by {one.latest_seconds:.6f}"
            for one in found.absent
        ]
    return wrong


def record(world: UpstreamWorld, release: str, program: Path, folder: Path) -> bool:
    """Play a world; the folder is a trace then (``trace_runs``).

    Nothing is told of a start without nodes, of a process that upstream's own mistake ends, and of what waits at the start unseen: False.
    """
    asked, answer = folder / "world.json", folder / "recording.json"
    asked.write_bytes(msgspec.json.encode(world))
    played = subprocess.run([program, asked, answer], check=False, capture_output=True, timeout=120)
    if CRASH_WITHOUT_READY in played.stderr:
        return False
    played.check_returncode()
    recording = json.loads(answer.read_bytes())
    scenario = scenario_of(world, recording, release)
    for name, document in (
        ("cluster.json", recording["cluster"]),
        ("scenario.yaml", scenario),
        ("observed.json", recording),
    ):
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
    has_nodes = any(item["kind"] == "Node" for item in recording["cluster"]["items"])
    return has_nodes and not _waits_unseen(world, recording)


def _waits_unseen(world: UpstreamWorld, recording: Document) -> bool:
    """Whether requests wait at the start for a client's limit, maybe for what is not so any more."""
    since_ns = world.start_ns - UNSEEN_NS
    # A process that finds taints, or deletes once more whom the one before it deleted, asks twice also for pods that are gone at the start.
    taints = [each.at_ns for each in world.events if each.action == "taint"]
    begins = [each for each in world.events if each.action == "controller-start"]
    begun = [
        each for each in begins if each != begins[0] or min(taints, default=each.at_ns) < each.at_ns
    ]
    ended = any(
        (each.action in REASONS_END or each in begun) and since_ns < each.at_ns <= world.start_ns
        for each in world.events
    )
    # Garbage collection lets one request wait, however many pods its loop has listed of a Node that is there again.
    made_again = any(
        each.action == "node-create" and since_ns < each.at_ns <= world.start_ns
        for each in world.events
    )
    return ended and recording["waiting"] > (0 if made_again else EVENT_WRITERS)


def scenario_of(world: UpstreamWorld, recording: Document, release: str) -> Document:
    """The scenario file of a world, with what its recording tells of kubelets."""
    spec = {
        "start": recording["start"],
        "horizon": f"{world.end_ns - world.start_ns}ns",
        "controller": {"kubernetesVersion": release, "flags": _flags_told(world.flags, release)},
        "events": list(_events(world, recording)),
    }
    metadata = {"name": f"upstream-{world.seed}"}
    return {
        "apiVersion": "evictplan.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": metadata,
        "spec": spec,
    }


def _flags_told(flags: Flags, release: str) -> dict[str, str]:
    told = {
        "node-monitor-period": _seconds(flags.node_monitor_period_ns),
        "node-monitor-grace-period": _seconds(flags.node_monitor_grace_period_ns),
        "node-startup-grace-period": _seconds(flags.node_startup_grace_period_ns),
        "node-eviction-rate": str(flags.node_eviction_rate),
        "secondary-node-eviction-rate": str(flags.secondary_node_eviction_rate),
        "large-cluster-size-threshold": str(flags.large_cluster_size_threshold),
        "unhealthy-zone-threshold": str(flags.unhealthy_zone_threshold),
    }
    if flags.kube_api_qps:
        told["kube-api-qps"] = f"{flags.kube_api_qps:g}"
        told["kube-api-burst"] = str(flags.kube_api_burst)
    if int(release.split(".")[1]) <= LAST_WITH_EVICTION_TIMEOUT:
        told["enable-taint-manager"] = str(flags.enable_taint_manager).lower()
        told["pod-eviction-timeout"] = _seconds(flags.pod_eviction_timeout_ns)
    return told


def _seconds(duration_ns: int) -> str:
    return f"{duration_ns // SECOND_NS}s"


def _events(world: UpstreamWorld, recording: Document) -> Iterator[Document]:
    renewals = {(one["atNs"], one["node"]): one["seconds"] for one in recording["lastRenewals"]}
    # What it posts later makes another tick the last one that hears it.
    posted = {(one["atNs"], one["node"]) for one in recording["lastRenewals"] if one["posted"]}
    items = recording["cluster"]["items"]
    pods = {one["metadata"]["name"] for one in items if one["kind"] == "Pod"}
    for node, last in _silent_at_start(world, renewals).items():
        yield {"at": "0s", "action": "kubelet-stop", "nodes": [node], "lastHeartbeat": last}
    for each in world.events:
        if each.at_ns < world.start_ns or (each.pod and each.pod not in pods):
            continue
        event = {"at": f"{each.at_ns - world.start_ns}ns", "action": each.action, **_fields(each)}
        if each.action == "pod-create":
            pods.add(event["manifest"]["metadata"]["name"])
        last = renewals.get((each.at_ns, each.node))
        told = world.tells_renewals and (each.at_ns, each.node) not in posted
        if each.action == "kubelet-stop" and told and last is not None:
            event["lastHeartbeat"] = _offset(last)
        yield event


def _offset(seconds: float) -> str:
    return f"{round(seconds * SECOND_NS)}ns"


def _fields(each: Happening) -> Document:
    if each.manifest is not None:
        return {"manifest": each.manifest}
    if each.pod:
        pods: Document = {"pods": [f"{NAMESPACE}/{each.pod}"]}
        return pods if each.tolerations is None else pods | {"tolerations": each.tolerations}
    fields: Document = {"nodes": [each.node]} if each.node else {}
    if each.status:
        fields["status"] = each.status
    if each.taint:
        value = f"={each.taint['value']}" if each.taint["value"] and each.action == "taint" else ""
        fields["taint"] = f"{each.taint['key']}{value}:{each.taint['effect']}"
    return fields


def _silent_at_start(
    world: UpstreamWorld, renewals: dict[tuple[int, str], float | None]
) -> dict[str, str]:
    """The last renewal of kubelets that fell silent before the start, which a fresh Lease does not show."""
    silent: dict[str, str] = {}
    for each in world.events:
        if each.at_ns >= world.start_ns:
            break
        if each.action == "kubelet-stop":
            last = renewals[each.at_ns, each.node]
            if last is not None:
                silent[each.node] = _offset(last)
        elif each.action in ("kubelet-start", "node-create", "node-delete"):
            silent.pop(each.node, None)
    return silent


def main() -> int:
    """Read the command line; the exit status is 1 when anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--release", default=RELEASE, help="of Kubernetes, from 1.16 on")
    parser.add_argument("--kind", choices=(*KINDS, DRAINS), default=CONTROLLERS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1, help="of the first world")
    parser.add_argument("--world", type=int, help="only the world of this seed")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="where files of wrong worlds go"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    try:
        program = build(given.release, drains=given.kind == DRAINS)
    except BuildError as error:
        parser.error(str(error))
    one = judge_drains if given.kind == DRAINS else partial(judge, kind=given.kind)
    judged = partial(one, release=given.release, program=program, keep=given.keep)
    repeat = f"make judge RELEASE={given.release}"
    if given.kind != CONTROLLERS:
        repeat += f" KIND={given.kind}"
    tally = Tally(repeat)
    if given.world is not None:
        tally.note(judged(given.world))
    else:
        print(f"worlds from seed {given.seed} on", flush=True)
        soak(judged, count(given.seed), given.seconds, given.processes, tally)
    print(tally)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
