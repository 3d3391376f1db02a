"""Small clusters drawn at random, of which a scheduler has something to refuse."""

from __future__ import annotations

from random import Random
from typing import Any

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APPS = ("web", "db")
NAMESPACES = {"default": {}, "team": {"env": "prod"}}

Object = dict[str, Any]


def nodes(draw: Random) -> list[Object]:
    """Three to five nodes; no more, so that an answer names all that pass."""
    return [_node(draw, f"n{number}") for number in range(draw.randint(3, 5))]


def _node(draw: Random, name: str) -> Object:
    labels = {HOSTNAME: name, "disk": draw.choice(["ssd", "hdd"])}
    if draw.random() < 0.9:
        labels[ZONE] = draw.choice("ab")
    if draw.random() < 0.5:
        labels["cores"] = draw.choice(["4", "8", "many"])
    taints = [
        {
            "key": draw.choice(["dedicated", "gpu"]),
            "value": draw.choice(["x", "y"]),
            "effect": effect,
        }
        for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule")
        if draw.random() < 0.08
    ]
    offered = {
        "cpu": draw.choice(["700m", "2", "4"]),
        "memory": draw.choice(["700Mi", "4Gi"]),
        "pods": draw.choice(["3", "10"]),
    }
    if draw.random() < 0.3:
        offered["acme.example/chip"] = draw.choice(["1", "2"])
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": True, "taints": taints}
        if draw.random() < 0.08
        else {"taints": taints},
        "status": {"conditions": [ready], "allocatable": offered, "capacity": offered},
    }


DRIVER, NO_PROVISIONER = "disk.example", "kubernetes.io/no-provisioner"


def storage_classes() -> list[Object]:
    """Classes that wait for their first consumer: one that makes volumes anywhere, some in one zone only, one that makes none."""
    made = []
    for name, provisioner, zone in (
        *(("anywhere", DRIVER, ""), ("only-a", DRIVER, "a")),
        *(("only-c", DRIVER, "c"), ("static", NO_PROVISIONER, "")),
    ):
        one: Object = {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        if zone:
            terms = [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}]
            one["allowedTopologies"] = terms
        made.append(one)
    return made


def csi_node(draw: Random, node: Object) -> Object:
    """The driver on a node, which limits its volumes or does not."""
    driver: Object = {"name": DRIVER, "nodeID": node["metadata"]["name"], "topologyKeys": []}
    if draw.random() < 0.8:
        driver["allocatable"] = {"count": 1}
    return {"metadata": {"name": node["metadata"]["name"]}, "spec": {"drivers": [driver]}}


def volumes(draw: Random, name: str) -> tuple[Object | None, Object]:
    """A volume for the pod of that name, bound to its claim, and the claim; None: it waits for its first consumer."""
    claim: Object = {
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {
            "accessModes": [draw.choice(["ReadWriteOnce", "ReadWriteOncePod"])],
            "storageClassName": "none",
            "volumeName": f"v-{name}",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    if draw.random() < 0.25:
        kinds = [one["metadata"]["name"] for one in storage_classes()]
        claim["metadata"].pop("annotations")
        claim["spec"] |= {"storageClassName": draw.choice(kinds), "volumeName": ""}
        return None, claim
    volume: Object = {
        "metadata": {"name": f"v-{name}", "labels": {}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": "none",
        },
    }
    if draw.random() < 0.3:
        zones = draw.choice(["a", "b", "a__b", "c"])
        key = draw.choice([ZONE, "failure-domain.beta.kubernetes.io/zone"])
        volume["metadata"]["labels"][key] = zones
    if draw.random() < 0.75:
        volume["spec"]["csi"] = {"driver": DRIVER, "volumeHandle": f"h-{name}"}
    else:
        wish = draw.choice(
            [
                {"key": ZONE, "operator": "In", "values": [draw.choice("ab")]},
                {"key": HOSTNAME, "operator": "In", "values": [f"n{draw.randint(0, 4)}"]},
            ]
        )
        terms = [{"matchExpressions": [wish]}]
        volume["spec"]["local"] = {"path": "/x"}
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return volume, claim


def pod(draw: Random, name: str, *, claim: str = "") -> Object:
    """A pod that may need anything; with a ``claim`` it uses that."""
    labels = {"app": draw.choice(APPS), "hash": draw.choice("12")}
    spec: Object = {"containers": [_container(draw)], "terminationGracePeriodSeconds": 0}
    if draw.random() < 0.2:
        spec["initContainers"] = [_container(draw, name="i")]
    if draw.random() < 0.2:
        spec["nodeSelector"] = {"disk": "ssd"}
    if draw.random() < 0.3:
        spec["tolerations"] = [_toleration(draw)]
    if affinity := _affinity(draw):
        spec["affinity"] = affinity
    if draw.random() < 0.5:
        spec["topologySpreadConstraints"] = [_spread(draw) for _ in range(draw.randint(1, 2))]
        # A key may stand there once.
        if len({one["topologyKey"] for one in spec["topologySpreadConstraints"]}) < 2:
            del spec["topologySpreadConstraints"][1:]
    if claim:
        spec["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]
    namespace = draw.choice(["default", "default", "team"]) if not claim else "default"
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


def _container(draw: Random, name: str = "c") -> Object:
    requests = {"cpu": draw.choice(["100m", "300m", "700m", "1"])}
    if draw.random() < 0.5:
        requests["memory"] = draw.choice(["128Mi", "300Mi", "800M"])
    resources: Object = {"requests": requests}
    if draw.random() < 0.1:
        chips = {"acme.example/chip": "1"}
        resources = {"requests": {**requests, **chips}, "limits": chips}
    container: Object = {"name": name, "image": "x", "resources": resources}
    if name == "c" and draw.random() < 0.2:
        container["ports"] = [{"containerPort": 80, "hostPort": draw.choice([80, 81])}]
        if draw.random() < 0.4:
            container["ports"][0]["hostIP"] = draw.choice(["0.0.0.0", "10.0.0.1", "10.0.0.2"])
    return container


def _toleration(draw: Random) -> Object:
    toleration: Object = {"key": draw.choice(["dedicated", "gpu"]), "operator": "Exists"}
    if draw.random() < 0.4:
        toleration |= {"operator": "Equal", "value": draw.choice(["x", "y"])}
    if draw.random() < 0.3:
        toleration |= {"effect": draw.choice(["NoSchedule", "NoExecute"])}
    if draw.random() < 0.2:
        return {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    return toleration


def _affinity(draw: Random) -> Object:
    affinity: Object = {}
    if draw.random() < 0.25:
        terms = [{"matchExpressions": [_wish(draw)]} for _ in range(draw.randint(1, 2))]
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
    if draw.random() < 0.2:
        affinity["podAffinity"] = {REQUIRED: [_term(draw)]}
    if draw.random() < 0.3:
        affinity["podAntiAffinity"] = {REQUIRED: [_term(draw)]}
    return affinity


def _wish(draw: Random) -> Object:
    operator = draw.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    if operator in ("Gt", "Lt"):
        return {"key": "cores", "operator": operator, "values": ["6"]}
    key = draw.choice(["disk", "cores"])
    if operator in ("In", "NotIn"):
        return {
            "key": key,
            "operator": operator,
            "values": draw.choice([["ssd"], ["4", "8"], ["hdd", "4"]]),
        }
    return {"key": key, "operator": operator}


def _selector(draw: Random) -> Object:
    if draw.random() < 0.15:
        return {}
    if draw.random() < 0.3:
        wish = {"key": "app", "operator": draw.choice(["In", "NotIn"]), "values": ["web", "other"]}
        return {"matchExpressions": [wish]}
    return {"matchLabels": {"app": draw.choice(APPS)}}


def _term(draw: Random) -> Object:
    term: Object = {"topologyKey": draw.choice([HOSTNAME, ZONE]), "labelSelector": _selector(draw)}
    chosen = draw.random()
    if chosen < 0.15:
        term["namespaces"] = [draw.choice(list(NAMESPACES))]
    elif chosen < 0.3:
        term["namespaceSelector"] = draw.choice([{}, {"matchLabels": {"env": "prod"}}])
    return term


def _spread(draw: Random) -> Object:
    constraint: Object = {
        "topologyKey": draw.choice([HOSTNAME, ZONE]),
        "maxSkew": draw.choice([1, 1, 2]),
        "whenUnsatisfiable": draw.choice(["DoNotSchedule"] * 4 + ["ScheduleAnyway"]),
        "labelSelector": _selector(draw),
    }
    if draw.random() < 0.3 and constraint["whenUnsatisfiable"] == "DoNotSchedule":
        constraint["minDomains"] = draw.choice([2, 3])
    if draw.random() < 0.3:
        constraint["nodeTaintsPolicy"] = draw.choice(["Honor", "Ignore"])
    if draw.random() < 0.3:
        constraint["nodeAffinityPolicy"] = draw.choice(["Honor", "Ignore"])
    if draw.random() < 0.3 and constraint["labelSelector"]:
        constraint["matchLabelKeys"] = ["hash"]
    return constraint
