"""Messages that more than one command and the error edge need."""

from __future__ import annotations

from kubectl_evictplan.sources.kubectl import GET_COMMAND

DUMP_COMMAND = f"{GET_COMMAND} > cluster.json"
NO_LIVE_CLUSTER = (
    "reading a live cluster is not available in this version: make a file with "
    f"`{DUMP_COMMAND}` and add `-f cluster.json`"
)
