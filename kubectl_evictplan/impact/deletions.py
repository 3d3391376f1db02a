"""Who deletes which pod when, and when its object is gone: from the evictions of the Prediction and the scenario."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import attrgetter

import msgspec

from kubectl_evictplan.cluster.timeline import SCENARIO
from kubectl_evictplan.engine.drain_timing import Latency, range_ns
from kubectl_evictplan.impact.node_lives import REACTION_MAX_NS, NodeLife, between
from kubectl_evictplan.impact.stretches import FOREVER_NS, NEVER, Between
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.finalizers import Jobs, is_tracked_by_job_controller, lasting_finalizers
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.document import CERTAIN, Eviction
from kubectl_evictplan.prediction.grouped_evictions import Evictions, PodNames
from kubectl_evictplan.scenarios.actions.pods import DeletePods
from kubectl_evictplan.scenarios.scenario import Scenario


class Deletion(msgspec.Struct, frozen=True):
    """The first DELETE of a pod, and the end of its object.

    ``gone`` holds if the pod is deleted, which is not ``certain``: of a pod that stays as it is nothing is held.
    ``by`` are all controllers that may send it, sorted. ``taint`` is "key:effect" of what decided, "" when none did;
    ``tolerated_seconds`` for how long its toleration holds. ``stuck``: why the object's end is not certain.
    """

    when: Between
    certain: bool
    gone: Between
    by: tuple[str, ...]
    taint: str = ""
    tolerated_seconds: int | None = None
    stuck: str = ""

    @property
    def controllers(self) -> frozenset[str]:
        """``by`` as a set."""
        return frozenset(self.by)

    @property
    def held(self) -> bool:
        """Whether the object of the deleted pod may stay for ever."""
        return self.gone.latest_ns >= FOREVER_NS


def deletions(
    scenario: Scenario,
    evictions: Evictions,
    pods: Mapping[str, Pod],
    lives: Mapping[str, NodeLife],
    *,
    job_controller: bool = True,
    elsewhere: Jobs = (),
) -> dict[str, Deletion]:
    """Return the deletion of every pod of the input that is deleted in some run, by its key.

    ``job_controller``: it runs in the end; ``elsewhere``: Jobs that others manage.
    """
    found = _by_controllers(evictions, pods)
    started = [event.at_ns for event in scenario.events if event.manager_up]
    end = max(started, default=0) if job_controller else FOREVER_NS
    for event in scenario.events:
        for key in event.pods if isinstance(event, DeletePods) else ():
            pod = pods.get(key)
            if pod is not None:
                tracked_ns = end if is_tracked_by_job_controller(pod, elsewhere) else FOREVER_NS
                other = _by_scenario(pod, event.at_ns, lives.get(pod.node_name), tracked_ns)
                known = found.get(key)
                found[key] = other if known is None or other.when < known.when else known
    return found


_POD = attrgetter("of")


def _by_controllers(evictions: Evictions, pods: Mapping[str, Pod]) -> dict[str, Deletion]:
    """Who is deleted more than once goes by whichever DELETE comes first."""
    # Pods of one node share all of it, and so do many nodes.
    memo: dict[object, Deletion] = {}
    groups = [(_of_group(group.shared, memo), group.pods) for group in evictions.groups]
    every = chain.from_iterable([some for _, some in groups])
    known = list(map(id, map(_POD, every)))
    each = chain.from_iterable([repeat(deletion, len(some)) for deletion, some in groups])
    by_pod = dict(zip(known, each, strict=True))
    if len(by_pod) == len(known) and id(None) not in by_pod:
        # Each is one pod that is known: no name has to be looked up.
        deleted = list(map(by_pod.get, map(id, pods.values())))
        found = dict(zip(compress(pods, deleted), filter(None, deleted), strict=True))
        if len(found) == len(by_pod):
            return found
    return _by_names(evictions, groups, pods, memo)


def _by_names(
    evictions: Evictions,
    groups: Iterable[tuple[Deletion, Sequence[PodNames]]],
    pods: Mapping[str, Pod],
    memo: dict[object, Deletion],
) -> dict[str, Deletion]:
    found: dict[str, Deletion] = {}
    again: set[str] = set()
    for deletion, some in groups:
        for names in some:
            key = names.key
            pod = pods.get(key)
            # A later pod of the same name is another one.
            if pod is None or pod.uid != names.uid:
                continue
            if key in found:
                again.add(key)
            else:
                found[key] = deletion
    for key, rows in _rows_of(again, evictions, pods).items():
        rows.sort(key=attrgetter("offset_seconds", "controller"))
        found[key] = _joined(rows, memo)
    return found


def _of_group(shared: Eviction, memo: dict[object, Deletion]) -> Deletion:
    """The deletion of all pods of a group. Groups mostly share the objects that their rows are made of."""
    token = (
        shared.earliest_seconds,
        shared.latest_seconds,
        shared.certainty,
        shared.controller,
        id(shared.gone),
        id(shared.taint),
        id(shared.toleration),
    )
    if (known := memo.get(token)) is None:
        known = memo[token] = _joined([shared], memo)
    return known


def _rows_of(
    keys: Collection[str], evictions: Evictions, pods: Mapping[str, Pod]
) -> dict[str, list[Eviction]]:
    """What is shared by each eviction of these pods."""
    rows: dict[str, list[Eviction]] = {}
    for group in evictions.groups if keys else ():
        for names in group.pods:
            if names.key in keys and pods[names.key].uid == names.uid:
                rows.setdefault(names.key, []).append(group.shared)
    return rows


def _token(row: Eviction) -> tuple[object, ...]:
    """All that a deletion is made of, quick to compare."""
    gone, taint, toleration = row.gone, row.taint, row.toleration
    return (
        row.certainty,
        row.earliest_seconds,
        row.latest_seconds,
        row.controller,
        gone.earliest_seconds,
        gone.latest_seconds,
        gone.stuck,
        taint and (taint.key, taint.effect),
        toleration and toleration.toleration_seconds,
    )


def _joined(rows: list[Eviction], memo: dict[object, Deletion]) -> Deletion:
    token = _token(rows[0]) if len(rows) == 1 else tuple(map(_token, rows))
    if (known := memo.get(token)) is not None:
        return known
    first = min(rows, key=lambda row: row.earliest_seconds)
    when = [between(row.earliest_seconds, row.latest_seconds) for row in rows]
    sure = [w.latest_ns for w, row in zip(when, rows, strict=True) if row.certainty == CERTAIN]
    latest_ns = min(sure) if sure else max(w.latest_ns for w in when)
    deleted = Between(min(w.earliest_ns for w in when), latest_ns).later(0, REACTION_MAX_NS)
    gone = _gone(rows).later(0, REACTION_MAX_NS)
    why = next((row.gone.stuck for row in reversed(rows) if row.gone.stuck), "")
    found = memo[token] = Deletion(
        deleted,
        bool(sure),
        gone,
        tuple(sorted({row.controller for row in rows})),
        f"{first.taint.key}:{first.taint.effect}" if first.taint is not None else "",
        first.toleration.toleration_seconds if first.toleration is not None else None,
        why if gone.latest_ns >= FOREVER_NS else "",
    )
    return found


def _gone(rows: Sequence[Eviction]) -> Between:
    """The object's end by whichever delete ends it, if the pod is deleted: those that are certain all come."""
    ends = [between(row.gone.earliest_seconds, row.gone.latest_seconds) for row in rows]
    sure = [end.latest_ns for end, row in zip(ends, rows, strict=True) if row.certainty == CERTAIN]
    latest_ns = min(sure) if sure else max(end.latest_ns for end in ends)
    return Between(min(end.earliest_ns for end in ends), latest_ns)


def _by_scenario(pod: Pod, at_ns: int, life: NodeLife | None, tracked_ns: int) -> Deletion:
    """``kubectl delete pod``: its kubelet ends it within its grace period, if it is heard.

    ``tracked_ns``: from then on the Job controller takes its finalizer away; FOREVER_NS: it never does.
    """
    when = Between(at_ns, at_ns + REACTION_MAX_NS)
    silence = life.silent_at(at_ns) if life is not None else None
    grace_ns = pod.termination_grace_period_seconds * SECOND_NS
    begins = when if silence is None else silence.until
    gone = begins.later(0, grace_ns + REACTION_MAX_NS)
    if lasting_finalizers(pod, job_controller=tracked_ns < FOREVER_NS):
        gone = NEVER
    elif pod.finalizers:
        removed_ns = range_ns(Latency.REMOVE_FINALIZER)[1]
        gone = Between(gone.earliest_ns, max(gone.latest_ns, tracked_ns)).later(0, removed_ns)
    return Deletion(when, True, gone, (SCENARIO,), stuck="" if silence is None else "silent")
