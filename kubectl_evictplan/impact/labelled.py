"""Pods that carry the same labels: what is asked of all pods of the cluster is asked once for all of these."""

from __future__ import annotations

from functools import cached_property

from kubectl_evictplan.impact.fates import Fate, Moving, is_counted
from kubectl_evictplan.kube.objects import Pod


class Labelled:
    """Pods of one namespace whose labels are one object, in input order within each owner.

    ``moving`` are those that something happens to, ``fates`` what becomes of these, in the same order.
    """

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        self.moving: list[Moving] = []
        self.fates: list[Fate] = []

    @cached_property
    def counted(self) -> int:
        """How many of ``pods`` are there at the start."""
        return sum(map(is_counted, self.pods))
