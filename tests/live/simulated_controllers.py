"""What controllers of the control plane do to the objects of a simulated API server."""

from __future__ import annotations

from live.writable_server import WritableServer

from kubectl_evictplan.kube.taints import UNSCHEDULABLE


def taint_cordoned_nodes(api: WritableServer) -> None:
    """Give cordoned nodes the taint that says so, and take it off the others (node lifecycle controller)."""
    for node in api.objects["nodes"]:
        taints = node["spec"].get("taints") or []
        others = [one for one in taints if one["key"] != UNSCHEDULABLE]
        is_cordoned = bool(node["spec"].get("unschedulable"))
        if is_cordoned == (len(others) == len(taints)):
            since = f"{api.instant()[:19]}Z"
            mine = {"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": since}
            api.set_taints(node["metadata"]["name"], [*others, *[mine] * is_cordoned])
