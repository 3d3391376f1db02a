"""One thing that is not as a plan says: a fact with what it changes."""

from __future__ import annotations

import msgspec

# Kinds of which at least some are harmless: the plan still does what was reviewed.
ACCEPTABLE = {
    "age": "the plan is older than 15 minutes",
    "elsewhere": "pods of nodes that the plan does not touch are evicted besides",
    "node-ready": "a node has become Ready",
    "partial": "not everything could be read when the plan was made",
    "pod-gone": "a pod that was to be evicted is gone",
    "release": "the control plane has another patch release",
    "tool": "the plan was made by another version of this program",
}


class Difference(msgspec.Struct, frozen=True):
    """``then`` and ``now`` are facts, ``changes`` says what follows; nothing is escaped.

    ``kind`` is one of cluster, identity, release, node-gone, node-recreated, node-taints, node-schedulable,
    node-ready, pod-added, pod-gone, pod-recreated, pod-owner, operations, execution, losses, prediction, elsewhere, age, tool, partial.
    ``acceptable``: ``--accept-drift`` of its kind lets the plan be carried out all the same.
    """

    kind: str
    object: str
    then: str
    now: str
    changes: str
    acceptable: bool = False

    @property
    def told(self) -> str:
        """Return it in one line."""
        known = f"{self.then or 'not known'}, now {self.now or 'not known'}"
        return f"{self.object}: was {known}: {self.changes}"
