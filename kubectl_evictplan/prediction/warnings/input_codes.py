"""The codes of warnings that loaders and commands say about their input; the rest are in ``registry``.

docs/warnings.md explains them all.
"""

from __future__ import annotations

# The input is not the whole cluster: an all-clear may be false.
INCOMPLETE_CODES = frozenset(
    (
        "nodes-not-listed",
        "nodes-without-pods",
        "pods-not-listed",
        "kind-not-readable",
        "single-namespace",
    )
)

INPUT_CODES = frozenset(
    [
        "captured-namespaces",
        "captured-twice",
        "clock-offset",
        "confusable-names",
        "control-plane-conflict",
        "control-plane-fails-too",
        "directory-loop",
        "duplicate-anchor",
        "duplicate-taint",
        "duplicate-uid",
        "empty-file",
        "empty-list",
        "event-after-horizon",
        "file-changed",
        "files-skipped",
        "flag-ignored",
        "future-timestamp",
        "invalid-name",
        "invalid-taint",
        "invalid-toleration",
        "kubectl-refuses",
        "kubelet-not-renewing",
        "large-dump",
        "large-yaml",
        "leader-fails-too",
        "leader-lease-stale",
        "leader-may-fail-too",
        "leap-second",
        "loaded-once",
        "long-grace-period",
        "many-taints",
        "misspelled-field",
        "namespace-defaulted",
        "namespace-ignored",
        "negative-grace-period",
        "node-not-ready-at-start",
        "nodes-not-listed",
        "nodes-without-pods",
        "not-kubernetes",
        "odd-budget",
        "odd-lease",
        "odd-renewals",
        "outage-kubelets-return",
        "outage-replicas",
        "outage-return",
        "overlapping-budgets",
        "owner-cycle",
        "pods-not-listed",
        "release-assumed",
        "single-namespace",
        "skewed-snapshot",
        "slow-yaml",
        "stuck-terminating",
        "synthetic-name",
        "taint-time",
        "tolerations-removed",
        "two-controllers",
        "unknown-kind",
        "unknown-owner",
        "unknown-phase",
        "unknown-taint-effect",
        "unknown-time",
        "unknown-version",
        "unschedulable-mismatch",
        "yaml-directive",
    ]
)
