"""Which successors a selector covers: a new pod has the labels of its template, not those that somebody set on the old one.

Patroni and operators of databases label the pod that leads (role=master). No controller of Kubernetes puts such a label on another
pod, so when a Service or a budget over it has one again, or another, is theirs to decide: at once, later or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from kubectl_evictplan.impact.fates import Fate
from kubectl_evictplan.impact.stretches import FOREVER_NS, NONE, Absence
from kubectl_evictplan.kube.objects import Pod, Workload
from kubectl_evictplan.kube.owners import OwnerKey
from kubectl_evictplan.kube.selectors import SET_BY_CONTROLLERS
from kubectl_evictplan.scenarios.names import listed

Selects = Callable[[Mapping[str, str]], bool]
AbsenceOf = Callable[[Fate], Absence]


def labels_lost(
    pods: Iterable[tuple[OwnerKey, Pod]],
    owners: Mapping[OwnerKey, Workload],
    keys: Iterable[str],
    selects: Selects,
) -> tuple[str, ...]:
    """Of a selector's label ``keys`` those that the successor of one of ``pods`` lacks, and is not selected for; sorted.

    ``selects``: whether labels meet the selector. Nothing is lost where templates are not known.
    """
    asked: set[tuple[OwnerKey, int]] = set()
    lost: set[str] = set()
    for owner, pod in pods:
        token = owner, id(pod.labels)
        if token not in asked:
            asked.add(token)
            new = _made_anew(pod, owners.get(owner))
            if new is not None and selects(pod.labels) and not selects(new):
                lost.update(key for key in keys if new.get(key) != pod.labels.get(key))
    return tuple(sorted(lost))


def _made_anew(pod: Pod, owner: Workload | None) -> Mapping[str, str] | None:
    """Labels of a successor; None: not known."""
    if owner is None or owner.template_labels is None:
        return None
    kept = {key: value for key, value in pod.labels.items() if key in SET_BY_CONTROLLERS}
    return {**kept, **owner.template_labels}


def hand_over(labels: Sequence[str]) -> str:
    """What to do where no replica more helps."""
    return (
        f"no pod gets the label {listed(labels)} from its template: let whoever sets it (the operator of this application) hand the "
        "role over to a pod elsewhere before the change"
    )


def until_labelled(absence_of: AbsenceOf) -> AbsenceOf:
    """The same absence where whoever sets labels ends it: it begins as it does, and nobody knows how long it lasts."""
    return lambda fate: _until_labelled(absence_of(fate), fate.deletion is not None)


# Alike pods share one object, and go on doing so.
@lru_cache(maxsize=10_000)
def _until_labelled(found: Absence, deleted: bool) -> Absence:
    if not found.possible:
        return NONE
    sure = tuple((low_ns, low_ns + 1) for low_ns, _ in found.sure[:1])
    begins = (
        () if sure else tuple(one._replace(least_ns=1, seen=False) for one in found.anchors[:1])
    )
    possible = ((found.possible[0][0], FOREVER_NS),) if deleted else found.possible
    return Absence(possible, sure, begins)
