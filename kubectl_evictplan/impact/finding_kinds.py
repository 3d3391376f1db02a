"""What can be found, by code: how bad it is, why it is so, and what to do about it. The one home of these texts.

Codes are stable. ``kubectl evictplan explain CODE`` prints an entry; ``findings`` says each with its objects and numbers.
A finding that is only possible counts as one step less severe.
"""

from __future__ import annotations

import msgspec

# Of what a silent kubelet holds.
_END_SILENCE = (
    "Bring the kubelet back. Only when the machine is surely powered off, taint the node "
    "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute: pods are then removed and volumes detached."
)

SEVERITIES = ("info", "low", "medium", "high", "critical")


class FindingKind(msgspec.Struct, frozen=True):
    """``severity`` when it is certain; ``why`` is the mechanism, ``remedy`` what helps in general."""

    severity: str
    why: str
    remedy: str


FINDING_KINDS: dict[str, FindingKind] = {
    "service-down": FindingKind(
        "critical",
        "Every endpoint of the Service is not ready, or dead but still offered: nobody answers its clients. From 1.26 on kube-proxy "
        "sends them to pods that are ending where no endpoint is ready: how long these still answer is up to their application.",
        "Run more replicas and spread them over nodes and zones (topologySpreadConstraints), or move the pods "
        "away before the change (kubectl drain).",
    ),
    "majority-lost": FindingKind(
        "critical",
        "A group that decides by majority has fewer than half of its members plus one: it stops, and what needs it "
        "stops with it. Without etcd nothing else of a prediction happens as told.",
        "Take one member at a time, wait until it is back, and keep members in an odd number of zones.",
    ),
    "local-endpoints-gone": FindingKind(
        "medium",
        "With internalTrafficPolicy or externalTrafficPolicy Local a node sends clients to its own endpoints only. The last one leaves "
        "while the node goes on: these clients have nobody, although the Service has endpoints elsewhere.",
        "Move the clients too, take the node out of the load balancer first, or use the policy Cluster while the change is on.",
    ),
    "workload-down": FindingKind(
        "high",
        "Every Ready pod of the workload is away or dead at one time, because all are on nodes that the change takes: "
        "until the first successor is Ready there is none.",
        "Spread the pods over nodes and zones (topologySpreadConstraints), move them away before the change (kubectl "
        "drain) under a PodDisruptionBudget, or take fewer nodes at a time.",
    ),
    "budget-broken": FindingKind(
        "high",
        "Fewer pods are healthy than the PodDisruptionBudget wants. Taints, node failures, garbage collection and "
        "plain deletes never ask a budget; only the Eviction API (kubectl drain) does.",
        "For planned work drain the node first: kubectl drain asks. Against failures spread the pods; more replicas help under minAvailable, not under maxUnavailable.",
    ),
    "drain-waits": FindingKind(
        "medium",
        "A budget refuses evictions: kubectl drain asks again every five seconds, without a --timeout for ever. Pods that "
        "are not ready block it too, unless the budget says unhealthyPodEvictionPolicy: AlwaysAllow.",
        "Scale up before the drain (under minAvailable; under maxUnavailable that changes nothing), let the budget allow one disruption, or give the drain a --timeout.",
    ),
    "drain-unfinished": FindingKind(
        "high",
        "kubectl drain does not get all pods off the node: it refuses the node, is given up by --timeout, ends with an error, or "
        "waits without end. The node stays cordoned, with pods on it.",
        "See what it waits for (the finding drain-waits, pods that stay Terminating, pods that kubectl refuses) and mend that first; "
        "without a --timeout a drain that never ends has to be interrupted.",
    ),
    "identity-held": FindingKind(
        "high",
        "A StatefulSet never runs two pods of one name: it waits until the old object is gone. A silent kubelet never "
        "confirms the end, so the pod stays Terminating and nothing takes its place.",
        _END_SILENCE,
    ),
    "replacement-pending": FindingKind(
        "high",
        "Every node refuses the replacement by one of the scheduler's filters while the change is on: it stays Pending. "
        "Certain where that is so whatever other replacements do, possible where these, or a preemption, decide it.",
        "Look at the filter that most nodes fail: free room or add nodes, widen the selector or the affinity, let spread "
        "honour taints, or do less at a time.",
    ),
    "no-room-left": FindingKind(
        "high",
        "One replacement would fit, but all together need more than the other nodes have left. Who finds no place depends "
        "on the order in which they come, which is not predicted.",
        "Add nodes before the change, lower requests, or do less at a time.",
    ),
    "replacement-gated": FindingKind(
        "medium",
        "The pod template carries schedulingGates: kube-scheduler does not look at a new pod until each gate is taken "
        "off it. Whether and when somebody does that is not known here.",
        "See that whoever takes the gates off is at work and is not itself on a node that goes, or take them out of the "
        "template.",
    ),
    "bare-pod-gone": FindingKind(
        "high",
        "No ownerReference of the pod says controller: true: once deleted it is not made anew.",
        "Put it under a Deployment, or keep its manifest at hand.",
    ),
    "volume-never-moves": FindingKind(
        "high",
        "The volume lies on one node's own disk. A pod that needs it can run on that node only.",
        "Wait for the node, or restore the data elsewhere. Replicate what must survive a node.",
    ),
    "volume-deleted": FindingKind(
        "high",
        "The claim has a deletionTimestamp, and only the pods that use it keep it. When the last is gone it goes, and with it a "
        "volume whose reclaim policy is Delete. The scheduler refuses successors that ask for it; a StatefulSet makes an "
        "empty one.",
        "Save the data before the change: set persistentVolumeReclaimPolicy: Retain on the volume, or take a snapshot.",
    ),
    "volume-held": FindingKind(
        "high",
        "A volume that one node may mount stays attached while the object of the old pod is there, and a silent kubelet "
        "never confirms its end. The successor is made, and waits on another node in ContainerCreating.",
        _END_SILENCE,
    ),
    "volume-left-behind": FindingKind(
        "high",
        "A hostPath volume without nodeAffinity is a directory of whatever node its pod is on. Nothing keeps the successor "
        "on the node: it starts elsewhere, with what lies there under that path, which may be nothing.",
        "Copy the data first, give the PersistentVolume a nodeAffinity so that the pod waits for its node, or use storage "
        "that several nodes reach.",
    ),
    "volume-still-used": FindingKind(
        "high",
        "Several pods use one ReadWriteOnce volume, which is attached to one node at a time. The scheduler does not "
        "heed that: whoever comes to another node than the others waits there in ContainerCreating (Multi-Attach).",
        "Keep the users together (podAffinity to each other by kubernetes.io/hostname), move all of them, or use a volume "
        "that several nodes may mount (ReadWriteMany).",
    ),
    "single-replica": FindingKind(
        "medium",
        "The workload has one replica: from the moment it goes until its successor is Ready there is none.",
        "Run a second replica, on another node.",
    ),
    "volume-waits": FindingKind(
        "medium",
        "A ReadWriteOnce volume is attached to one node. From a silent node it is taken by force six minutes "
        "after the pod's end, from a drained one after its unmount; the successor is Pending until then.",
        "Of a silent node whose machine is surely off: tell so with the out-of-service taint (detaches at once). Else "
        "use volumes that several nodes may mount.",
    ),
    "slow-failover": FindingKind(
        "low",
        "Pods tolerate an unreachable node for a time (five minutes unless the manifest says otherwise) before they "
        "are deleted and replaced elsewhere; until then the workload runs with fewer.",
        "Give the pod template shorter tolerations: {key: node.kubernetes.io/unreachable, operator: Exists, effect: "
        "NoExecute, tolerationSeconds: 60}, and the same for node.kubernetes.io/not-ready.",
    ),
    "outage-undetected": FindingKind(
        "medium",
        "A dead node's pods stay in the EndpointSlices until the node monitor gives the node up: clients are sent to "
        "addresses where nobody answers.",
        "Let clients retry with short timeouts. A shorter --node-monitor-grace-period of kube-controller-manager (with "
        "shorter leases of the kubelets) notices sooner and errs more often.",
    ),
    "two-copies": FindingKind(
        "low",
        "A silent kubelet cannot be told to end its pods. If only the network is gone they run on beside their "
        "successors.",
        "Fence the machine (power it off) before its work runs elsewhere, or let the application take a lock.",
    ),
    "stays-terminating": FindingKind(
        "low",
        "A silent kubelet cannot confirm that a deleted pod has ended: its object stays Terminating.",
        "It goes when the kubelet is back, when the Node is deleted (garbage collection, 40 to 80 s later), or "
        "with the out-of-service taint, which is safe once the machine is surely off.",
    ),
    "evicted-again": FindingKind(
        "medium",
        "The pod template tolerates the taint for a while, so the scheduler may put the successor on the same node, where "
        "it is evicted again after that time, again and again. A DaemonSet's controller makes it there at once.",
        "Cordon the node as well (kubectl cordon), or add a NoSchedule taint that the pods do not tolerate. A DaemonSet heeds "
        "no cordon: give its toleration no tolerationSeconds.",
    ),
    "daemon-set-away": FindingKind(
        "info",
        "The DaemonSet's pods do not tolerate the taint: they are deleted and stay away as long as it is there.",
        "Add the toleration to the DaemonSet if the node needs it during the work.",
    ),
    "job-fails": FindingKind(
        "medium",
        "A deleted pod counts as a failed one, and the Job has no attempt left (backoffLimit, backoffLimitPerIndex), or its "
        "podFailurePolicy fails it for disruptions.",
        "Let it finish first, raise backoffLimit, or ignore disruptions: podFailurePolicy with onPodConditions "
        "DisruptionTarget and action Ignore.",
    ),
    "job-waits": FindingKind(
        "medium",
        "With podReplacementPolicy Failed, which is the default of Jobs with a podFailurePolicy, a Job makes no other pod "
        "until the old one has ended, and a silent kubelet never confirms that.",
        "Wait for the kubelet, or delete the Node once the machine is surely off. The Job has not failed: keep it.",
    ),
    "empty-dir-gone": FindingKind(
        "low",
        "The pods keep data in an emptyDir, which goes with them.",
        "Save what is needed first, or use a PersistentVolumeClaim.",
    ),
}


def severity_of(code: str, *, certain: bool) -> str:
    """How bad a finding is: one step less when it need not come."""
    place = SEVERITIES.index(FINDING_KINDS[code].severity)
    return SEVERITIES[place if certain else max(place - 1, 0)]
