"""What happens in soaked worlds: events of every action, drawn one after the other.

Events that a scenario file could not say, because they contradict those before them, are left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from building.builders import (
    NOT_READY,
    UNREACHABLE,
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_snapshot,
    ns,
    tolerates,
)
from realities.drawn_realities import Script

from kubectl_evictplan.kube.objects import ClusterSnapshot, Toleration
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE
from kubectl_evictplan.scenarios.history import History, ties


def draw_tolerations(rng: random.Random, seconds: tuple[int, ...]) -> Iterator[Toleration]:
    """What pods have: the admission's two, nothing, or a list of their own."""
    way = rng.random()
    if way < 0.3:
        yield from default_tolerations(rng.choice(seconds))
    elif way < 0.45:
        for key in (NOT_READY, UNREACHABLE):
            yield tolerates(key, rng.choice(seconds))
    elif way < 0.85:
        for _ in range(rng.randint(1, 4)):
            key = rng.choice(("A", "A", "B", UNREACHABLE, NOT_READY, ""))
            effect = rng.choice(("NoExecute",) * 4 + ("", "NoSchedule"))
            # Only NoExecute may have seconds.
            chosen = rng.choice((None, -1, *seconds)) if effect == "NoExecute" else None
            if key and rng.random() < 0.2:
                yield Toleration(key, "Equal", rng.choice(("", "x")), effect, chosen)
            else:
                yield tolerates(key, chosen, effect=effect)


@dataclass
class WideScript(Script):
    """All actions of the table; events that a scenario file could not say are left out."""

    seconds: tuple[int, ...] = ()
    lease_seconds: int = 40
    zones: tuple[str, ...] = ("",)
    snapshot: ClusterSnapshot = field(default_factory=make_snapshot)

    def step(self) -> None:
        """One more event, unless it contradicts those before it."""
        before = len(self.events)
        super().step()
        if any(self._wrong()) or ties(self.events):
            del self.events[before:]

    def _wrong(self) -> Iterator[tuple[str, str]]:
        history = History(self.snapshot)
        for event in self.events:
            try:
                yield from event.contradictions(history)
            except KeyError:  # it names what is gone
                yield "", "gone"

    def kubelet_flap(self) -> None:
        chosen = self._some(self.up, 2)
        if chosen:
            back = round(
                self.now + self.rng.choice((0.05, 1.0, 3.0)) * (0.5 + self.rng.random()), 3
            )
            self.events.append(make_event(self.now, "kubelet-stop", chosen))
            self.events.append(make_event(back, "kubelet-start", chosen))
            self.since.update(dict.fromkeys(chosen, back))
            self.now = back

    def kubelet_start_within(self) -> None:
        chosen = self._some(set(self.nodes) - self.up, 3)
        if chosen:
            within = round(self.rng.choice((0.5, 4.0, 10.0)) * self.rng.random(), 3)
            self.up |= set(chosen)
            event = make_event(self.now, "kubelet-start", chosen, within_ns=ns(within))
            self.events.append(event)
            self.now = round(self.now + within, 3)
            self.since.update(dict.fromkeys(chosen, self.now))

    def controller_stop(self) -> None:
        self.events.append(make_event(self.now, "controller-stop"))

    def node_again(self) -> None:
        """A node goes, and is back while its pods are in quarantine, or (up to 1.16) wait for the next loop."""
        self.node_delete()
        if self.gone:
            away = self.rng.choice((self.rng.uniform(0, 20), self.rng.uniform(40, 80)))
            self.now = round(self.now + away, 3)
            if self.now < self.horizon:
                self.node_create()

    def restart(self) -> None:
        if sum(event.manager_up is True for event in self.events) < 2:
            super().restart()

    def restart_within(self) -> None:
        if any(event.manager_up for event in self.events):
            return  # starts that depend on each other take long to explore
        within = round(self.rng.choice((0.5, 4.0, 15.0)) * self.rng.random(), 3)
        self.events.append(make_event(self.now, "controller-stop"))
        self.now = round(self.now + self.rng.choice((0.01, 1.0, 5.0)), 3)
        self.events.append(make_event(self.now, "controller-start", within_ns=ns(within)))
        self.now = round(self.now + within, 3)

    def _of_controllers(self) -> str:
        return f"{self.rng.choice((UNREACHABLE, UNREACHABLE, NOT_READY))}:NoExecute"

    def taint_as_controller(self) -> None:
        chosen = self._some(set(self.nodes), 2)
        self.events.append(make_event(self.now, "taint", chosen, taint=self._of_controllers()))

    def untaint_as_controller(self) -> None:
        chosen = self._some(set(self.nodes), 2)
        self.events.append(make_event(self.now, "untaint", chosen, taint=self._of_controllers()))

    def out_of_service(self) -> None:
        down = set(self.nodes) - self.up
        if down:
            taint = f"{OUT_OF_SERVICE}=nodeshutdown:{self.rng.choice(('NoExecute', 'NoSchedule'))}"
            self.events.append(make_event(self.now, "taint", self._some(down, 2), taint=taint))

    def cordon(self) -> None:
        action = self.rng.choice(("cordon", "uncordon"))
        self.events.append(make_event(self.now, action, self._some(set(self.nodes), 2)))

    def lease_touch(self) -> None:
        chosen = self._some(set(self.nodes), 3)
        self.events.append(make_event(self.now, "lease-touch", chosen))

    def node_create(self) -> None:
        if not self.gone:
            return
        name = self.rng.choice(sorted(self.gone))
        zone = self.rng.choice(self.zones)
        ready = self.rng.choice(("True", "True", "False", None))
        created = make_node(name, zone=zone, ready=ready, created=None, heartbeat=self.now)
        self.events.append(make_event(self.now, "node-create", node=created))
        self.nodes[name] = self.gone.pop(name)
        if ready is not None:
            self.up.add(name)
            self.since[name] = self.now

    def node_new(self) -> None:
        """A node that nobody has seen before."""
        self.gone = {f"new{len(self.events)}": make_node(f"new{len(self.events)}"), **self.gone}
        self.node_create()

    def pod_unbound(self) -> None:
        """A pod that waits for a node, for ever or until it is deleted."""
        pod = make_pod(f"waits{len(self.events)}", phase="Pending", ready="False", created=None)
        self.pods = [*self.pods, pod]
        self.events.append(make_event(self.now, "pod-create", pod=pod))

    def pod_create(self) -> None:
        if not self.nodes:
            return
        key = self.rng.choice(("new", *(pod.name for pod in self.pods)))
        pod = make_pod(
            key,
            self.rng.choice(sorted(self.nodes)),
            tolerations=tuple(draw_tolerations(self.rng, self.seconds)),
            grace_seconds=self.rng.choice((0, 1, 30)),
            created=None,
            uid=f"uid-{key}-{self.now}",
        )
        self.events.append(make_event(self.now, "pod-create", pod=pod))

    def pod_delete(self) -> None:
        if self.pods:
            key = self.rng.choice(self.pods).key
            self.events.append(make_event(self.now, "pod-delete", pods=(key,)))

    def pod_tolerations(self) -> None:
        if self.pods:
            pod = self.rng.choice(self.pods)
            more = (*pod.tolerations, *draw_tolerations(self.rng, self.seconds))
            event = make_event(self.now, "pod-tolerations", pods=(pod.key,), tolerations=more)
            self.events.append(event)
