"""What a change costs: the ``impact`` of a Prediction, computed by ``kubectl_evictplan.impact``.

Everything is bounded over all admissible runs: an instant is a ``Instant``, a number of pods a ``Count``. All
``...Seconds`` are offsets from the scenario's start. Lists are sorted and hold only what is touched: a service,
workload or budget that nothing can happen to is not there.
"""

from __future__ import annotations

from kubectl_evictplan.prediction.records import Record, RowsOf


class Instant(Record):
    """Something happens between the two; ``latest_seconds`` null: not in every run, or not within reach.

    ``earliest_seconds`` null as well: in no run.
    """

    earliest_seconds: float | None
    latest_seconds: float | None


class Count(Record):
    """At least and at most so many, over every admissible run."""

    least: int
    most: int


class Spell(Record):
    """A stretch of time in which something is wrong, from one instant to another.

    ``certainty`` certain: it comes in every run; possible: in some. ``least_seconds`` is how long it lasts at
    least (0 when it is only possible), ``most_seconds`` how long at most; null: without an end within reach.
    """

    certainty: str
    since: Instant
    until: Instant
    least_seconds: float | None
    most_seconds: float | None


class Step(Record):
    """From this instant until the next step there are at least and at most so many."""

    at_seconds: float
    least: int
    most: int


class ReadyAfter(Record):
    """How long after its creation a replacement is Ready; ``most_seconds`` null: perhaps never.

    ``source`` given (--assume-ready), learnt (from the creation and Ready times of ``samples`` pods of the
    same owner), or default.
    """

    least_seconds: float
    most_seconds: float | None
    source: str
    samples: int = 0


class BlackHole(Record):
    """Endpoints of one node that are offered to clients although nobody answers for them.

    From ``since`` (between the last heartbeat and the silence) until ``until``, when they leave the
    EndpointSlices. ``why``: silent (the kubelet is) | node-deleted (the machine may be gone).
    """

    node: str
    pods: tuple[str, ...]
    why: str
    since: Instant
    until: Instant


class TwoCopies(Record):
    """A pod that may run on behind a dead network while its replacement runs: from when on.

    It ends when the node is fenced, or when its kubelet is back and ends the old pod.
    """

    pod: str
    node: str
    since: Instant


class ServiceImpact(Record):
    """One Service whose endpoints change.

    ``source`` says what its endpoints were taken from: selector | endpointSlices | labels (no Services in the
    input: pods of one app label stand for one), ``workloads`` ("Kind/name") whose pods behind it are touched.
    ``endpoints_before`` are ready at the start. ``fewest_ready``
    and ``nobody_ready`` follow the EndpointSlices; ``nobody_answers`` leaves black holes out and is what a client
    notices: pods that are ending may answer until they exit, where no endpoint is ready and kube-proxy sends clients to them. ``undetected``: the outage that nobody has noticed yet, from the first last heartbeat to the end of
    the last black hole; null when there is none. ``whole_again``: from when on as many are ready as before, pods that
    their owner has too many of left out; of a Service whose endpoints do not follow Ready (publishNotReadyAddresses,
    no selector): as many answer. ``runtime_labels`` are labels that it selects by and that successors do not get from their
    template: until when nobody is behind it is up to whoever sets them.
    """

    namespace: str
    service: str
    source: str
    workloads: tuple[str, ...]
    endpoints_before: int
    fewest_ready: Count
    fewest_answering: Count
    black_holes: RowsOf[BlackHole]
    nobody_ready: tuple[Spell, ...]
    nobody_answers: tuple[Spell, ...]
    undetected: Spell | None
    whole_again: Instant
    steps: tuple[Step, ...]
    runtime_labels: tuple[str, ...] = ()


class WorkloadImpact(Record):
    """One workload ("Kind/name"; bare pods: "Pod/name") with pods that become unready or go away.

    ``wanted`` is what it asks for, null where that is not known; ``single_replica``: that is one, null where one pod of an
    owner is in the input that is not. ``ready_before`` pods are Ready at the start,
    ``below_before`` is when there are fewer, of a workload with more than it wants fewer than wanted, ``zero`` when there
    are none. ``whole_again``: from when on that many are there again. ``never_replaced``: pods that nobody makes anew, but for
    those that have ended or been replaced before, and those too many. ``ready_after`` is what
    was assumed of replacements.
    """

    namespace: str
    workload: str
    wanted: int | None
    single_replica: bool | None
    ready_before: int
    fewest_ready: Count
    below_before: tuple[Spell, ...]
    zero: tuple[Spell, ...]
    whole_again: Instant
    never_replaced: tuple[str, ...]
    two_copies: RowsOf[TwoCopies]
    ready_after: ReadyAfter
    steps: tuple[Step, ...]


class BudgetImpact(Record):
    """One PodDisruptionBudget over pods that are touched.

    ``desired_healthy`` null: not known. ``broken`` is when fewer are healthy, or, where that is so before the change
    as well, when fewer than then are; ``broken_by`` by how many at the worst moment. ``paths``, sorted: never-asked (taints, garbage collection and deletes do not ask
    budgets) | not-ready (its node is: nobody could ask) | asked (a drain asks). ``waits`` are pods
    that a drain has to wait for because of it. ``runtime_labels``: as of a ServiceImpact.
    """

    namespace: str
    budget: str
    workloads: tuple[str, ...]
    desired_healthy: int | None
    healthy_before: int
    fewest_healthy: Count
    broken: tuple[Spell, ...]
    broken_by: Count
    paths: tuple[str, ...]
    waits: tuple[str, ...]
    steps: tuple[Step, ...]
    runtime_labels: tuple[str, ...] = ()


class VolumeImpact(Record):
    """A claim of a pod that goes away, and when its successor can have the volume.

    ``code``: force-detach (a silent node's: six minutes after the pod's end) | detach (after the pod's end) |
    never-moves (a disk of that node) | left-behind (a directory of that node, which the successor does not find) | held (the object of the old pod stays) | still-used (another pod uses it
    too, so it perhaps, or surely, stays) | deleted (the claim is being deleted: it goes with the last pod that uses it) |
    unknown (the claim is not in the input). Volumes that many nodes may use are not waited for and not told. ``free``: from when on it can be
    attached elsewhere.
    """

    namespace: str
    claim: str
    pod: str
    node: str
    code: str
    why: str
    free: Instant


class NotComingBack(Record):
    """A pod that does not come back, or not by itself.

    ``code``: bare-pod | finalizers | local-volume | identity-held (a StatefulSet's name is not free) |
    daemon-set-kept-away | job-failed | job-waits (for the old pod's end) | no-node (every node refuses its successor) |
    no-room (of several alike so many find no room) | volume-held (by the old pod, which stays Terminating) |
    volume-still-used (by a pod that stays) | gated (by scheduling gates of the template) |
    owner-deleted | namespace-deleted (they are going away) | unknown-owner. ``release`` is what would release it, "" when nothing does.
    Pods that stay Terminating beside a successor come back: ``gone`` of their evictions tells them.
    """

    namespace: str
    pod: str
    node: str
    code: str
    why: str
    release: str


class QuorumImpact(Record):
    """A group that needs a majority of its ``members`` (etcd, or a set that says so).

    ``told_by``: etcd (a static pod or a StatefulSet of that name) | label | option. ``majority_lost`` is when
    fewer than ``needed`` can vote.
    """

    name: str
    told_by: str
    members: int
    needed: int
    fewest_voting: Count
    majority_lost: tuple[Spell, ...]


class FilterCount(Record):
    """A filter of kube-scheduler by its name, and how many nodes it is the first to refuse a pod."""

    filter: str
    nodes: int


class ReplacementFit(Record):
    """Where the replacements of one workload's evicted pods (``pods``, of which ``pod`` is one) can run.

    By the scheduler's filters alone; what preferences would choose is not predicted. ``verdict``: fits | partly (some
    find no place) | noRoomLeft (replacements before them take the room) | onlyOnLeaving (cordons,
    taints, affinity and volumes allow only nodes that the change takes) | nowhere | unknown. ``on_nodes`` pass every filter when the first
    looks for a place, ``nodes`` names some; leaving nodes are not counted. ``placed`` find one. ``because`` says
    what refuses the first one that finds none, or, when all find one, the first of all. ``returns_to`` counts leaving
    nodes that would take it as they are then. ``lower_priority`` counts nodes where pods of lower priority hold
    the room, which the scheduler may preempt. ``unknown`` names what would have to be known to say that it fits:
    needs | scheduler | revision (made from a template that is not in the input) | gates (their template carries scheduling gates) | devices | volumes | offers | otherPods | namespaces | tooMany (different needs). ``sure_of_a_node`` of the pods find a node while
    the change is on, whatever else looks for one, ``may_find_one`` at the most; ``all_have_one``: from when on all of
    them do. ``assumed``: the input does not hold what speaks against a node, so they count as if they found one.
    """

    namespace: str
    workload: str
    pod: str
    pods: int
    verdict: str
    on_nodes: int
    nodes: tuple[str, ...]
    placed: int
    only_on_leaving: bool
    nowhere: bool
    returns_to: int
    lower_priority: int
    because: tuple[FilterCount, ...]
    unknown: tuple[str, ...]
    sure_of_a_node: int
    may_find_one: int
    all_have_one: Instant
    assumed: bool


class Finding(Record):
    """Something that a reviewer must know, with what to do about it.

    ``code`` is stable and explained by ``kubectl evictplan explain CODE``. ``severity``: info | low | medium | high |
    critical. ``objects`` are "Kind/namespace/name" (nodes: "Node/name"; "App/..." for pods of
    one app label where no Services are listed; "Quorum/..." for what needs a majority). ``summary`` is one sentence with the
    numbers, ``remedy`` the exact command or change of a manifest.
    """

    code: str
    severity: str
    certainty: str
    objects: tuple[str, ...]
    summary: str
    why: str
    remedy: str


class Impact(Record):
    """The whole answer; ``assumptions`` are sentences. What is not evaluated is in ``not_evaluated``."""

    services: RowsOf[ServiceImpact]
    workloads: RowsOf[WorkloadImpact]
    budgets: tuple[BudgetImpact, ...]
    volumes: RowsOf[VolumeImpact]
    not_coming_back: RowsOf[NotComingBack]
    quorums: tuple[QuorumImpact, ...]
    findings: RowsOf[Finding]
    assumptions: RowsOf[str] = ()
    not_evaluated: RowsOf[str] = ()
    replacements: RowsOf[ReplacementFit] = ()
