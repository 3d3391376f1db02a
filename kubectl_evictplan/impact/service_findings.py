"""Findings about services: nobody answers, or clients are sent to endpoints that are dead."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kubectl_evictplan.impact.black_holes import dead_endpoints
from kubectl_evictplan.impact.finding_items import Facts, Item
from kubectl_evictplan.impact.finding_words import lasts, longest, told_spell
from kubectl_evictplan.impact.services import (
    LABELS,
    clients_stay_near,
    remedy_of_dead,
    remedy_of_down,
    services_of,
)
from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.prediction.impact_document import ServiceImpact


def down(facts: Facts) -> Iterator[Item]:
    """Items of services that have nobody ready, or nobody who answers, at some time."""
    listed = services_of(facts.world.snapshot)
    for one in facts.impact.services:
        spell = longest((*one.nobody_answers, *one.nobody_ready))
        if spell is not None:
            text = f"nobody answers for {_service(one)} {told_spell(spell)}"
            if spell not in one.nobody_answers:
                text = f"{_service(one)} has no ready endpoint {told_spell(spell)}; pods that are ending may answer until they exit"
            service = listed.get((one.namespace, one.service))
            remedy = remedy_of_down(service, one.runtime_labels)
            remedy = remedy or facts.scaling.of(one.namespace, one.workloads)
            yield Item(_service_object(one), text, spell.certainty, lasts(spell), remedy)


def _service(one: ServiceImpact) -> str:
    noun = "app" if one.source == LABELS else "service"
    return f"{noun} {one.namespace}/{one.service}"


def _service_object(one: ServiceImpact) -> str:
    """Where no Services are listed, the label says who belongs together: that is no object of the cluster."""
    kind = "App" if one.source == LABELS else "Service"
    return f"{kind}/{one.namespace}/{one.service}"


def local_endpoints_gone(facts: Facts) -> Iterator[Item]:
    """Items of services whose clients stay on their nodes: most clusters have none."""
    if clients_stay_near(facts.world.snapshot):
        from kubectl_evictplan.impact import local_traffic

        yield from local_traffic.local_endpoints_gone(facts)


def undetected(facts: Facts) -> Iterator[Item]:
    """Items of services with endpoints that are dead but offered."""
    listed = services_of(facts.world.snapshot)
    for one in facts.impact.services:
        if (spell := one.undetected) is not None:
            dead = dead_endpoints(one)
            text = f"{dead} of {one.endpoints_before} endpoints of {_service(one)} are dead but offered"
            if spell.most_seconds is not None:
                text += f" for up to {format_duration(math.ceil(spell.most_seconds) * SECOND_NS)}"
            else:
                text += ", perhaps without end"
            weight = dead / max(one.endpoints_before, 1)
            remedy = remedy_of_dead(listed.get((one.namespace, one.service)))
            yield Item(_service_object(one), text, spell.certainty, weight, remedy)
