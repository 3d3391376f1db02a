"""The generated cluster, made odd: what is shared by thousands of pods in most clusters is each one's own here.

Every variation is a function from snapshot to snapshot, deterministic; ``ODD`` names them. To look at one:

    python benchmarks/odd_clusters.py .bench/cluster-5000.snapshot.json.gz anti-affinity .bench/anti-affinity.json.gz
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from kubectl_evictplan.kube.infrastructure import (
    CsiDriver,
    CsiNode,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodClaims,
    Service,
    StorageClass,
    VolumeAttachment,
)
from kubectl_evictplan.kube.needs import (
    CPU,
    PODS,
    PodAffinityTerm,
    PodNeeds,
    TopologySpreadConstraint,
)
from kubectl_evictplan.kube.objects import (
    NO_SCHEDULE,
    ClusterSnapshot,
    IntOrPercent,
    Node,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    Taint,
    Toleration,
    Workload,
)

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
MEMORY = "memory"
MIB = 1 << 20
REQUESTS = ((CPU, 100), (MEMORY, 128 * MIB))
DRIVER = "ebs.csi.aws.com"
VOLUMES_MAX = 60

Odd = Callable[[ClusterSnapshot], ClusterSnapshot]


def owner_of(pod: Pod) -> str:
    owner = pod.controller()
    return owner.name if owner else pod.name


def with_needs(
    snapshot: ClusterSnapshot, needs_of: Callable[[str, int], PodNeeds]
) -> ClusterSnapshot:
    """Give each pod the needs of its owner: asked for by the owner's name and number, once for each."""
    known: dict[str, PodNeeds] = {}
    pods = []
    for pod in snapshot.pods:
        owner = owner_of(pod)
        if owner not in known:
            known[owner] = needs_of(owner, len(known))
        pods.append(replace(pod, needs=known[owner]))
    return replace(snapshot, pods=tuple(pods))


def own_kind(owner: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """A selector of the pods of one owner."""
    return (("app.kubernetes.io/instance", "In", (owner,)),)


# -- what pods need ---------------------------------------------------------------------------------


def anti_affinity(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """No two pods of any of 15,000 workloads may share a node."""
    return with_needs(
        snapshot,
        lambda owner, _: PodNeeds(
            REQUESTS, pod_anti_affinity=(PodAffinityTerm(HOSTNAME, own_kind(owner)),)
        ),
    )


def zone_anti_affinity(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """... nor a zone, which those that run do already."""
    return with_needs(
        snapshot,
        lambda owner, _: PodNeeds(
            REQUESTS, pod_anti_affinity=(PodAffinityTerm(ZONE, own_kind(owner)),)
        ),
    )


def affinity(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Pods of each workload have to be in a zone with others of theirs."""
    return with_needs(
        snapshot,
        lambda owner, _: PodNeeds(REQUESTS, pod_affinity=(PodAffinityTerm(ZONE, own_kind(owner)),)),
    )


def spread(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Each workload is spread over zones and over nodes."""
    return with_needs(
        snapshot,
        lambda owner, _: PodNeeds(
            REQUESTS,
            topology_spread=tuple(
                TopologySpreadConstraint(key, skew, own_kind(owner))
                for key, skew in ((ZONE, 2), (HOSTNAME, 1))
            ),
        ),
    )


def every_pod_different(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Requests, selectors, tolerations and labels of its own for each pod, and an owner of its own."""
    pods = []
    for number, pod in enumerate(snapshot.pods):
        instance_type = (("kubernetes.io/os", "linux"),) if number % 2 else ()
        needs = PodNeeds(((CPU, 100 + number % 997), (MEMORY, (64 + number) * 1024)), instance_type)
        owner = OwnerReference("ReplicaSet", f"rs-{number:06d}", f"rs-{number}", "apps/v1", True)
        pods.append(
            replace(
                pod,
                needs=needs,
                labels={**pod.labels, "app.kubernetes.io/instance": owner.name, "own": str(number)},
                owner_references=(owner,),
                tolerations=(*pod.tolerations, Toleration(f"own-{number}", "Exists")),
            )
        )
    return replace(snapshot, pods=tuple(pods))


def priorities(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Five priorities, so that most replacements may push out somebody."""
    needs = [PodNeeds(((CPU, 450), (MEMORY, 1900 * MIB)), priority=at * 1000) for at in range(5)]
    return full(with_needs(snapshot, lambda _, number: needs[number % len(needs)]))


def full(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Nodes offer hardly more than what their pods ask for: 99 % is taken."""
    if all(pod.needs is None or not pod.needs.requests for pod in snapshot.pods[:1]):
        plain = PodNeeds(REQUESTS)
        snapshot = with_needs(snapshot, lambda *_: plain)
    taken: Counter[tuple[str, str]] = Counter()
    for pod in snapshot.pods:
        for name, amount in pod.needs.requests if pod.needs else ():
            taken[pod.node_name, name] += amount
    nodes = [
        replace(
            node,
            allocatable={
                **{name: taken[node.name, name] * 100 // 99 for name in (CPU, MEMORY)},
                PODS: 110,
            },
        )
        for node in snapshot.nodes
    ]
    return replace(snapshot, nodes=tuple(nodes))


# -- what surrounds them ----------------------------------------------------------------------------


def claims(snapshot: ClusterSnapshot, *, limits: bool = False) -> ClusterSnapshot:
    """A PersistentVolumeClaim for each pod, its volume in the pod's zone."""
    zone_of = {node.name: node.labels[ZONE] for node in snapshot.nodes}
    volumes, persistent, of_pods, attachments = [], [], [], []
    for number, pod in enumerate(snapshot.pods):
        name, volume = f"data-{pod.name}", f"pvc-{number:06d}"
        in_zone = ((ZONE, "In", (zone_of[pod.node_name],)),)
        volumes.append(
            PersistentVolume(
                volume, "Bound", pod.namespace, name, ("ReadWriteOnce",), DRIVER,
                node_affinity=(in_zone,),
            )
        )  # fmt: skip
        persistent.append(
            PersistentVolumeClaim(pod.namespace, name, volume, "Bound", ("ReadWriteOnce",), "fast")
        )
        of_pods.append(PodClaims(pod.namespace, pod.name, (name,)))
        attachments.append(
            VolumeAttachment(f"csi-{number:06d}", DRIVER, pod.node_name, volume, attached=True)
        )
    driver = CsiDriver(DRIVER, VOLUMES_MAX if limits else None)
    infrastructure = replace(
        snapshot.infrastructure,
        persistent_volumes=tuple(volumes),
        persistent_volume_claims=tuple(
            sorted(persistent, key=lambda one: (one.namespace, one.name))
        ),
        pod_claims=tuple(sorted(of_pods, key=lambda one: (one.namespace, one.name))),
        volume_attachments=tuple(attachments),
        storage_classes=(StorageClass("fast", DRIVER, waits_for_consumer=True),),
        csi_nodes=tuple(CsiNode(node.name, (driver,)) for node in snapshot.nodes),
    )
    return seen(
        replace(snapshot, infrastructure=infrastructure),
        (
            "PersistentVolume",
            "PersistentVolumeClaim",
            "VolumeAttachment",
            "StorageClass",
            "CSINode",
        ),
    )


def limited_claims(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """... and nodes take so many volumes at most."""
    return claims(snapshot, limits=True)


def seen(snapshot: ClusterSnapshot, kinds: Sequence[str]) -> ClusterSnapshot:
    return replace(snapshot, kinds_seen=tuple(sorted({*snapshot.kinds_seen, *kinds})))


def services(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """10,000 Services; each selects several workloads, and each workload is behind several Services."""
    kinds: dict[tuple[str, str], None] = {}
    for pod in snapshot.pods:
        kinds[pod.namespace, owner_of(pod)] = None
    by_namespace: dict[str, list[str]] = {}
    for namespace, owner in kinds:
        by_namespace.setdefault(namespace, []).append(owner)
    found = []
    for namespace, owners in sorted(by_namespace.items()):
        applications = sorted({owner.partition("-")[0] for owner in owners})
        for number in range(50):
            if number % 2:
                selector = {"app": applications[number % len(applications)]}
            else:
                selector = {"app.kubernetes.io/instance": owners[number % len(owners)]}
            found.append(Service(namespace, f"service-{number:03d}", selector))
    return seen(
        replace(snapshot, infrastructure=replace(snapshot.infrastructure, services=tuple(found))),
        ("Service",),
    )


def budgets(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """10,000 PodDisruptionBudgets, one for each of as many workloads."""
    kinds: dict[tuple[str, str], None] = {}
    for pod in snapshot.pods:
        kinds[pod.namespace, owner_of(pod)] = None
    found = [
        PodDisruptionBudget(
            namespace, owner, {"app.kubernetes.io/instance": owner}, disruptions_allowed=2,
            current_healthy=10, desired_healthy=8, expected_pods=10,
            max_unavailable=IntOrPercent(2),
        )
        for namespace, owner in sorted(kinds)[:10_000]
    ]  # fmt: skip
    return seen(replace(snapshot, budgets=tuple(found)), ("PodDisruptionBudget",))


def jobs(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """30,000 Jobs of one pod each besides."""
    extra, workloads = [], []
    for number, pod in enumerate(snapshot.pods[::5]):
        name = f"job-{number:06d}"
        owner = OwnerReference("Job", name, f"job-uid-{number}", "batch/v1", True)
        labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
        extra.append(
            replace(
                pod, name=f"{name}-x1", uid=f"job-pod-{number}", owner_references=(owner,),
                labels=labels, finalizers=("batch.kubernetes.io/job-tracking",),
            )
        )  # fmt: skip
        workloads.append(
            Workload("Job", pod.namespace, name, owner.uid, 1, backoff_limit=6, failed=0)
        )
    return with_more(snapshot, extra, workloads)


def with_more(
    snapshot: ClusterSnapshot, pods: Iterable[Pod], workloads: Iterable[Workload]
) -> ClusterSnapshot:
    every = sorted(chain(snapshot.pods, pods), key=lambda pod: (pod.namespace, pod.name))
    listed = tuple(
        sorted(
            chain(snapshot.workloads, workloads),
            key=lambda one: (one.kind, one.namespace, one.name),
        )
    )
    kinds = sorted({one.kind for one in listed})
    return seen(replace(snapshot, pods=tuple(every), workloads=listed), kinds)


def stateful_sets(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """1,000 StatefulSets of 100 pods each instead of ReplicaSets, in order."""
    pods, workloads = [], []
    for number, pod in enumerate(snapshot.pods[: 100 * (len(snapshot.pods) * 2 // 300)]):
        at, ordinal = divmod(number, 100)
        namespace, name = f"team-{at % 200:03d}", f"db-{at:04d}"
        owner = OwnerReference("StatefulSet", name, f"sts-{at}", "apps/v1", True)
        if not ordinal:
            workloads.append(Workload("StatefulSet", namespace, name, owner.uid, 100))
        pods.append(
            replace(
                pod, namespace=namespace, name=f"{name}-{ordinal}", owner_references=(owner,),
                labels={"app": name, "apps.kubernetes.io/pod-index": str(ordinal)},
            )
        )  # fmt: skip
    return with_more(replace(snapshot, pods=()), pods, workloads)


def one_deployment(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """A third of all pods is one Deployment."""
    share = len(snapshot.pods) // 3
    owner = OwnerReference("ReplicaSet", "huge-5d9f", "huge", "apps/v1", True)
    pods = [
        replace(
            pod, namespace="team-000", name=f"huge-5d9f-{number:06d}", owner_references=(owner,),
            labels={"app": "huge", "pod-template-hash": "5d9f"},
        )
        for number, pod in enumerate(snapshot.pods[::3][:share])
    ]  # fmt: skip
    of_deployment = OwnerReference("Deployment", "huge", "huge-d", "apps/v1", True)
    workloads = [
        Workload("Deployment", "team-000", "huge", "huge-d", share),
        Workload("ReplicaSet", "team-000", "huge-5d9f", "huge", share, (of_deployment,)),
    ]
    rest = [pod for number, pod in enumerate(snapshot.pods) if number % 3]
    return with_more(replace(snapshot, pods=tuple(rest)), pods, workloads)


def namespaces(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """5,000 namespaces instead of 200."""
    name_of: dict[str, str] = {}
    for pod in snapshot.pods:
        name_of.setdefault(owner_of(pod), f"ns-{len(name_of) % 5000:04d}")
    pods = [replace(pod, namespace=name_of[owner_of(pod)]) for pod in snapshot.pods]
    named = tuple(
        Namespace(name, {"kubernetes.io/metadata.name": name}, "Active")
        for name in sorted(set(name_of.values()))
    )
    infrastructure = replace(snapshot.infrastructure, namespaces=named)
    return seen(
        with_more(replace(snapshot, pods=(), infrastructure=infrastructure), pods, ()),
        ("Namespace",),
    )


# -- nodes --------------------------------------------------------------------------------------------


def with_nodes(snapshot: ClusterSnapshot, change: Callable[[int, Node], Node]) -> ClusterSnapshot:
    nodes = (change(number, node) for number, node in enumerate(snapshot.nodes))
    return replace(snapshot, nodes=tuple(nodes))


def own_taints(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Each node has a taint of its own, which its pods tolerate."""
    number_of = {node.name: number for number, node in enumerate(snapshot.nodes)}
    tolerations: dict[tuple[object, int], tuple[Toleration, ...]] = {}
    pods = []
    for pod in snapshot.pods:
        number = number_of[pod.node_name]
        key = (id(pod.tolerations), number)
        if key not in tolerations:
            own = Toleration("own", "Equal", str(number), NO_SCHEDULE)
            tolerations[key] = (*pod.tolerations, own)
        pods.append(replace(pod, tolerations=tolerations[key]))
    return with_nodes(
        replace(snapshot, pods=tuple(pods)),
        lambda number, node: replace(node, taints=(Taint("own", NO_SCHEDULE, str(number)),)),
    )


def own_labels(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Each node has a label of its own, and each workload asks for one."""
    count = len(snapshot.nodes)
    return with_nodes(
        with_needs(
            snapshot, lambda _, number: PodNeeds(REQUESTS, (("own", str(number * 7 % count)),))
        ),
        lambda number, node: replace(node, labels={**node.labels, "own": str(number)}),
    )


def racks(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Racks of two nodes, and no two pods of a workload may share one."""
    return with_nodes(
        with_needs(
            snapshot,
            lambda owner, _: PodNeeds(
                REQUESTS, pod_anti_affinity=(PodAffinityTerm("rack", own_kind(owner)),)
            ),
        ),
        lambda number, node: replace(node, labels={**node.labels, "rack": str(number // 2)}),
    )


ODD: dict[str, Odd] = {
    function.__name__.replace("_", "-"): function
    for function in (
        anti_affinity, zone_anti_affinity, affinity, spread, every_pod_different, priorities, full,
        claims, limited_claims, services, budgets, jobs, stateful_sets, one_deployment, namespaces,
        own_taints, own_labels, racks,
    )
}  # fmt: skip


def main() -> None:
    from kubectl_evictplan.sources.files import load_files
    from kubectl_evictplan.sources.snapshot import write_snapshot

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source")
    parser.add_argument("variation", choices=sorted(ODD))
    parser.add_argument("output")
    arguments = parser.parse_args()
    odd = ODD[arguments.variation](load_files([arguments.source]))
    write_snapshot(odd, arguments.output, force=True)


if __name__ == "__main__":
    main()
