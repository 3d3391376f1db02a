"""The kubectl command whose output is everything that a prediction can use; for hints."""

from __future__ import annotations

KINDS_READ = (
    "nodes,pods,leases,deployments,replicasets,statefulsets,daemonsets,jobs,"
    "replicationcontrollers,poddisruptionbudgets"
)
GET_COMMAND = f"kubectl get {KINDS_READ} -A -o json"
