"""What files show of what happened: captures, dumps and snapshots as one look, with the events in them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kubectl_evictplan.kube.durations import HOUR_NS, MINUTE_NS

if TYPE_CHECKING:
    from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
    from kubectl_evictplan.kube.sightings import Interval, SeenNode, SeenPod
    from kubectl_evictplan.plans.sightings import Sightings

# Lists of one capture are made one after the other; it takes no longer than this.
_CAPTURE_NS = MINUTE_NS
# What nothing in a capture tells the time of may be that much younger than the newest thing in it.
_AGE_MAX_NS = 7 * 24 * HOUR_NS


def captured_sightings(filenames: tuple[str, ...], *, recursive: bool) -> Sightings:
    """Return what the files show; raises InputError with every problem of every file."""
    from kubectl_evictplan.plans.sightings import Cover, Look, Sightings
    from kubectl_evictplan.sources.files import load_files
    from kubectl_evictplan.sources.witness import Witness

    witness = Witness()
    stdin = sys.stdin.buffer if sys.stdin is not None else None
    snapshot = load_files(filenames, recursive=recursive, stdin=stdin, witness=witness)
    # Our own snapshots keep pods in another form, and without who deleted them.
    pods = {pod.uid: _pod(pod) for pod in snapshot.pods if pod.uid} | witness.pods
    nodes = {node.name: _node(node) for node in snapshot.nodes} | witness.nodes
    look = Look(
        _taken_at(snapshot),
        tuple(pods.values()),
        tuple(nodes.values()) if nodes else None,
        Cover(_namespaces(snapshot, pods.values())),
    )
    missing = {} if nodes else {"Node": "the files have none"}
    if witness.left_out:
        missing["Event"] = "some are in files too large to read as YAML"
    elif not witness.events_seen:
        missing["Event"] = "the files have none"
    return Sightings(
        (look,),
        events=tuple(witness.events),
        not_evaluated=missing,
        unreadable=witness.unreadable.counts(),
    )


def _taken_at(snapshot: ClusterSnapshot) -> Interval:
    """Return when the pods were listed: around the newest renewal of a lease, or as the snapshot says."""
    from kubectl_evictplan.kube.sightings import Interval

    ns = snapshot.taken_at_ns
    if snapshot.taken_at_source.startswith("newest timestamp") or not ns:
        return Interval(ns, ns + _AGE_MAX_NS)
    return Interval(ns - _CAPTURE_NS, ns + _CAPTURE_NS)


def _namespaces(snapshot: ClusterSnapshot, pods: Iterable[SeenPod]) -> frozenset[str] | None:
    """Return the namespaces whose pods the files have; None for all."""
    if snapshot.pods_of_all_namespaces:
        return None
    return frozenset(pod.namespace for pod in pods)


def _pod(pod: Pod) -> SeenPod:
    from kubectl_evictplan.kube.sightings import SeenPod

    return SeenPod(
        pod.namespace,
        pod.name,
        pod.uid,
        pod.node_name,
        pod.creation_timestamp_ns,
        pod.deletion_timestamp_ns,
        pod.deletion_grace_period_seconds,
        pod.finished,
    )


def _node(node: Node) -> SeenNode:
    from kubectl_evictplan.kube.sightings import SeenNode

    ready = node.condition("Ready")
    return SeenNode(
        node.name,
        node.uid,
        node.taints,
        node.ready_status or "",
        ready.last_transition_time_ns if ready else None,
        node.taints_changed_ns,
    )
