"""Rounds of evictions under one budget: who asks for pods in them, how often one is refused, and how long a round lasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kubectl_evictplan.controllers.replication import STATEFUL_SET, is_owned_by
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drains.delays import FORGOTTEN_NS, RETRY, UNASKED
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.planned import PlannedTurn

# From one try to the answer of the next, at most.
HEARD_NS = RETRY[1] + UNASKED[1]


class Request(NamedTuple):
    """A pod that kubectl may ask for in a turn, and that keeps a budget closed by that.

    ``name``: one for all requests for the pod; guests are others in each turn. ``counts``: it may need a disruption.
    ``kept``: the budget never lets it go. ``back_ns``: by that offset the budget counts somebody in its stead, ``gone_ns``: and its object
    is gone; None: not known. Where they are known ``deleted_ns`` is the offset by which it surely is deleted.
    """

    turn: PlannedTurn
    pod: Pod
    name: tuple[str, NodeDrain | None]
    counts: bool
    kept: bool
    back_ns: int | None
    gone_ns: int | None
    deleted_ns: int


class Enough(NamedTuple):
    """From the offset ``since_ns`` on a disruption is left for whoever asks, who is ``refused`` so often at most all the same.

    ``again``: once more he may be when somebody else has got the pod deleted.
    """

    since_ns: int
    refused: int
    again: bool


def enough_for(requests: Iterable[Request], spare: int, since_ns: int) -> Enough | None:
    """Where the pods of these requests take no more disruptions than there are from that offset on; None: they may.

    Every pod keeps one. Each further request for it that was sent before it was deleted may take one more, until the status is
    written anew, which is before the next try of whoever is refused because of that; and it may be refused itself, once.
    """
    takers = Counter(one.name for one in requests if one.counts)
    if spare < len(takers):
        return None
    besides = [number - 1 for number in takers.values()]
    at_once = spare - len(takers) + 1
    # A further request for the same pod keeps nobody from evicting it.
    others = sum(besides) - min(besides, default=0)
    return Enough(since_ns, others // at_once, again=any(besides))


def rounds_of(requests: Iterable[Request], at_a_time: int, *, deleted_once: bool) -> int:
    """How many rounds these evict before the last of their pods, at most.

    ``deleted_once``: whom one process has evicted another one evicts without asking a budget.
    """
    taking = [one.name for one in requests if one.counts]
    rounds = max(len(taking) - 1, 0) // at_a_time
    return min(rounds, max(len(set(taking)) - 1, 0)) if deleted_once else rounds


def round_ns(closed_ns: int) -> int:
    """How long a pod waits at most because of one round of evictions, which keeps its budget closed for so long.

    Of tries that are refused take the first, the first of those that come ``closed_ns`` or more after it, and so on: what had been
    evicted shortly before one of these was over at the next, so there are no more of them than rounds. From one of them to
    the next, or to the try that is granted, it is ``closed_ns`` and the rest of a sleep at most; and no more tries than fit into
    ``closed_ns``, each a sleep after the one before it.
    """
    tries = closed_ns // RETRY[0] + 1
    return min(closed_ns + RETRY[1], tries * RETRY[1])


def forgotten_ns(requests: Iterable[Request]) -> int:
    """Two processes that evict one pod of a StatefulSet may leave word that its replacement is about to go."""
    names = Counter(one.pod.key for one in requests if is_owned_by(one.pod, STATEFUL_SET))
    return FORGOTTEN_NS * sum(1 for number in names.values() if number > 1)
