"""The plan file: what was reviewed, whole, so that exactly this is carried out or nothing.

A plan is data: the mutations in order, the state in which they make sense, the prediction that was
reviewed, and whose cluster all that is. Its names never change; ``schema plan`` prints its schema.
``...Seconds`` are offsets from the first mutation.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.prediction.document import Prediction, TaintReference


class _Document(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Camel-cased frozen record; a field that nobody knows is a plan of somebody else."""


class ClusterIdentity(_Document):
    """Which cluster, asked by whom; "" is not known, and never equal to anything.

    ``cluster_uid`` is the UID of namespace kube-system, ``ca_sha256`` the digest of the certificate
    authorities that the server was trusted by, ``user`` what SelfSubjectReview calls the user.
    """

    cluster_uid: str = ""
    server: str = ""
    ca_sha256: str = ""
    user: str = ""
    context: str = ""
    kubernetes_version: str = ""


class SnapshotReference(_Document):
    """The state that the plan was made from.

    ``not_evaluated`` names kinds that could not be read; ``namespace`` "" means that all were.
    """

    digest: str
    taken_at: str
    resource_versions: dict[str, str] = {}
    not_evaluated: tuple[str, ...] = ()
    namespace: str = ""


class NodeBefore(_Document):
    """A node that the plan changes, as it was."""

    name: str
    uid: str
    resource_version: str
    taints: tuple[TaintReference, ...]
    unschedulable: bool
    ready: str


class PodBefore(_Document):
    """A pod on such a node, as it was; ``owner`` is "Kind/name" of its controller, "" for a bare pod."""

    namespace: str
    pod: str
    uid: str
    node: str
    owner: str = ""
    empty_dir: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.pod}"


class Operation(_Document, tag_field="action", tag=str.lower):
    """One mutation of one object. ``number`` counts from 1, ``at_seconds`` is not before when."""

    number: int
    at_seconds: float
    node: str

    @property
    def told(self) -> str:
        """Return the mutation in words, unescaped."""
        raise NotImplementedError


class AddTaint(Operation, tag="add-taint"):
    """Put a taint on; ``replaces`` is the taint of the same key and effect whose value it takes over."""

    taint: TaintReference
    replaces: TaintReference | None = None

    @property
    def told(self) -> str:
        """Return the mutation in words, unescaped."""
        return f"taint {self.node} {taint_words(self.taint)}"


class RemoveTaint(Operation, tag="remove-taint"):
    """Take off exactly this taint."""

    taint: TaintReference

    @property
    def told(self) -> str:
        """Return the mutation in words, unescaped."""
        return f"untaint {self.node} {taint_words(self.taint)}"


class Cordon(Operation, tag="cordon"):
    """Set spec.unschedulable."""

    @property
    def told(self) -> str:
        """Return the mutation in words, unescaped."""
        return f"cordon {self.node}"


class Uncordon(Operation, tag="uncordon"):
    """Clear spec.unschedulable."""

    @property
    def told(self) -> str:
        """Return the mutation in words, unescaped."""
        return f"uncordon {self.node}"


class Evict(Operation, tag="evict"):
    """Ask the Eviction API to evict one pod, this one and no other of its name.

    ``grace_period_seconds`` None: the pod's own.
    """

    namespace: str
    pod: str
    uid: str
    grace_period_seconds: int | None = None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.pod}"

    @property
    def told(self) -> str:
        """Return the mutation in words, unescaped."""
        return f"evict {self.key} from {self.node}"


AnyOperation = AddTaint | RemoveTaint | Cordon | Uncordon | Evict


class Loss(_Document):
    """What is lost for good: a pod that nothing replaces, or the data of its emptyDir volumes."""

    kind: Literal["bare-pod", "empty-dir"]
    namespace: str
    pod: str
    node: str


class Execution(_Document):
    """How to carry it out. It was reviewed as well, so ``apply`` changes nothing of it.

    ``parallel``: evictions of one node under way at once. ``settle_seconds``: the pause after a node
    before the next. ``canary``: the first node must end as predicted before there is a second.
    ``until_ready``: replacements of a node's pods are Ready before the next node. ``eviction_timeout_seconds``: how
    long one node's evictions may take, 0 for as long as they like. ``abort_if``: conditions, each in
    the words of ``--abort-if``.
    """

    parallel: int = 10
    settle_seconds: float = 0.0
    canary: bool = True
    until_ready: bool = False
    eviction_timeout_seconds: float = 0.0
    abort_if: tuple[str, ...] = ()


class Plan(_Document, kw_only=True):
    """Everything of one plan. ``fingerprint`` is "sha256:<hex>" over all the rest, canonically."""

    api_version: Literal["evictplan.dev/v1alpha1"] = API_VERSION
    kind: Literal["Plan"] = "Plan"
    fingerprint: str
    created_at: str
    tool_version: str
    title: str
    cluster: ClusterIdentity
    snapshot: SnapshotReference
    execution: Execution
    operations: tuple[AnyOperation, ...]
    losses: tuple[Loss, ...]
    nodes: tuple[NodeBefore, ...]
    pods: tuple[PodBefore, ...]
    # The scenario file's document, from which a fresh prediction is made.
    scenario: dict[str, Any]
    # From when to when after its binding a replacement was taken to be Ready; a null end: perhaps never; null instead of
    # both: as long as its owner's pods took, 30 s where these do not tell. Older plans always took 30 s.
    assume_ready_seconds: tuple[float, float | None] | None = (30.0, 30.0)
    prediction: Prediction


def taint_words(taint: TaintReference) -> str:
    """Return a taint as ``kubectl taint`` writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
