"""Messages that more than one command and the error edge need."""

from __future__ import annotations

KINDS_READ = (
    "nodes,pods,leases,deployments,replicasets,statefulsets,daemonsets,jobs,"
    "replicationcontrollers,poddisruptionbudgets"
)
DUMP_COMMAND = f"kubectl get {KINDS_READ} -A -o json > cluster.json"
NO_LIVE_CLUSTER = (
    "reading a live cluster is not available in this version: make a file with "
    f"`{DUMP_COMMAND}` and add `-f cluster.json`"
)
