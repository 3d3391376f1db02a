"""One observation of a live cluster: everything that was seen so far, with its gaps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from kubectl_evictplan.errors import AccessError, Correction, DriftError, Problem, UnreachableError
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.sightings import Interval, SeenEvent
from kubectl_evictplan.live.connecting import connected
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.identity import kube_system_uid
from kubectl_evictplan.live.observer import Observer
from kubectl_evictplan.live.transport import Transport
from kubectl_evictplan.plans.sightings import Change, Gap, Look, Sightings
from kubectl_evictplan.world import World

# Nodes tell by themselves when they changed; so they need not be looked at all the time.
_NODES_EVERY_SECONDS = 10.0
_EVENTS_EVERY_SECONDS = 60.0
# Also of a healthy watch; ten times as long as a list takes where that is more.
_PODS_EVERY_SECONDS = 10.0
_AGAIN_SECONDS = 5.0


class Observation:
    """What is seen of the nodes named and of their pods, for as long as ``more`` is called."""

    def __init__(self, observer: Observer, pods: Collection[str], world: World) -> None:
        self._observer = observer
        self._pods = frozenset(pods)
        self._world = world
        self._looks: list[Look] = []
        self._node_looks: list[Look] = []
        # Until when the watch has told everything: replaced while it goes on.
        self._current: Look | None = None
        self._changes: list[Change] = []
        self._events: dict[SeenEvent, None] = {}
        self._gaps: list[Gap] = []
        self._nodes_due = self._events_due = world.monotonic()
        self._pods_due = self._nodes_due + _PODS_EVERY_SECONDS
        # A failure before anything was seen is the caller's; later ones are gaps.
        self._add(observer.look())
        self._look_around()

    def more(self) -> None:
        """See what happens in the next seconds; what cannot be seen becomes a gap."""
        began_ns = self._world.wall_ns()
        try:
            changes, look = self._observer.follow()
            self._changes += changes
            if look is not None:
                self._add(look)
            else:
                self._current = self._observer.now()
            self._look_around()
        except (UnreachableError, AccessError) as error:
            self._world.sleep(_AGAIN_SECONDS)
            self._add_gap(Interval(began_ns, self._world.wall_ns()), str(error))

    def confirm(self) -> None:
        """Look at everything once more, whatever was looked at how long ago; a failure becomes a gap.

        A watch that tells nothing may be broken, and nodes and events are looked at now and then only.
        """
        began_ns = self._world.wall_ns()
        try:
            self._confirm()
            self._nodes_due = self._events_due = self._world.monotonic()
            self._look_around()
        except (UnreachableError, AccessError) as error:
            self._add_gap(Interval(began_ns, self._world.wall_ns()), str(error))

    def _confirm(self) -> None:
        began = self._world.monotonic()
        look = self._observer.confirm()
        now = self._world.monotonic()
        self._pods_due = now + max(_PODS_EVERY_SECONDS, 10 * (now - began))
        self._current = None
        if [one.pods for one in self._looks[-2:]] == [look.pods] * 2:
            self._looks.pop()
        self._looks.append(look)

    def sightings(self) -> Sightings:
        """Return everything that was seen so far."""
        return Sightings(
            (*self._looks, *((self._current,) if self._current else ()), *self._node_looks),
            tuple(self._changes),
            tuple(self._events),
            tuple(self._gaps),
            dict(self._observer.not_evaluated),
            unreadable=self._observer.unreadable.counts(),
        )

    def now_ns(self) -> int:
        """Return the server's time."""
        return self._observer.now_ns()

    def _look_around(self) -> None:
        now = self._world.monotonic()
        if now >= self._pods_due:
            self._confirm()
        if now >= self._nodes_due:
            self._nodes_due = now + _NODES_EVERY_SECONDS
            self._add_nodes(self._observer.look_at_nodes())
        if now >= self._events_due:
            self._events_due = now + _EVENTS_EVERY_SECONDS
            self._events |= dict.fromkeys(self._observer.events(self._pods))

    def _add(self, look: Look) -> None:
        """Keep a new list of pods, and what was known just before it: something may be missing between."""
        self._looks += [self._current, look] if self._current else [look]
        self._current = None

    def _add_nodes(self, look: Look) -> None:
        """Keep a look at nodes; of several one after the other that show the same, the first and the last."""
        same = [one for one in self._node_looks[-2:] if one.nodes == look.nodes]
        if len(same) == 2:
            self._node_looks.pop()
        self._node_looks.append(look)

    def _add_gap(self, at: Interval, why: str) -> None:
        if self._gaps and at.earliest_ns - self._gaps[-1].at.latest_ns < SECOND_NS:
            first = self._gaps.pop()
            at = Interval(first.at.earliest_ns, at.latest_ns)
        self._gaps.append(Gap(at, why))


@contextmanager
def observing(
    flags: ConnectionFlags,
    environ: Mapping[str, str],
    *,
    nodes: Collection[str],
    pods: Collection[str],
    cluster_uid: str = "",
    warn: Callable[[str], None] | None = None,
    world: World | None = None,
) -> Iterator[Observation]:
    """Connect, look once, and give an observation that can go on.

    ``cluster_uid`` is that of the cluster that is meant, "" for any. Raises DriftError for another one,
    and InputError, AccessError and UnreachableError as reading a cluster does.
    """
    world = world or World()
    with connected(flags, environ, warn=warn, world=world) as transport:
        _check_cluster(transport, cluster_uid)
        observer = Observer(transport, flags, nodes, world)
        yield Observation(observer, pods, world)


def _check_cluster(transport: Transport, wanted: str) -> None:
    """Raise for another cluster; where it may not be told, the pods' UIDs tell."""
    found = kube_system_uid(transport) if wanted else ""
    if found and found != wanted:
        message = "this is another cluster than the plan was made for"
        correction = Correction((), (), first="kubectl config get-contexts")
        where = transport.where()
        raise DriftError(Problem(message, correction, location=where, got=found, expected=wanted))
