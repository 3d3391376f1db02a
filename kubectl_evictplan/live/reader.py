"""A live cluster as a ``ClusterSnapshot``: the same values as from files, read page by page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from kubectl_evictplan.errors import AccessError, Correction, Problem
from kubectl_evictplan.garbage import collector_paused
from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Lease, ListRecord, Reading
from kubectl_evictplan.live.connecting import connected
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.lists import Listed, Page, read_list
from kubectl_evictplan.live.moments import Changes, changes_since
from kubectl_evictplan.live.problems import unreachable, unusable
from kubectl_evictplan.live.resources import LEASES, NODES, OPENSHIFT, PODS, RESOURCES, Resource
from kubectl_evictplan.live.server_clock import OFFSET_SAID_NS, offset_words
from kubectl_evictplan.live.server_version import server_version
from kubectl_evictplan.live.transport import Transport
from kubectl_evictplan.sources.assembly import Assembly
from kubectl_evictplan.sources.diagnostics import Diagnostics, Document, Origin
from kubectl_evictplan.sources.files import Progress, completed
from kubectl_evictplan.sources.items import ItemReader
from kubectl_evictplan.world import World

TAKEN_AT_SOURCE = "clock of the API server"
# Lists that lie further apart than this do not show one moment.
SKEW_SAID_NS = 30 * SECOND_NS


def read_cluster(
    flags: ConnectionFlags,
    environ: Mapping[str, str],
    *,
    strict: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
    world: World | None = None,
) -> ClusterSnapshot:
    """Read the cluster that the options and the kubeconfig name.

    ``warn`` is told what is odd about the connection; it is no part of the snapshot. Raises
    InputError for kubeconfigs and options, AccessError for credentials and for nodes or pods that may
    not be listed, UnreachableError when no usable answer comes in time. Nothing is ever changed.
    """
    with _reader(flags, environ, strict, progress, warn, world) as reader:
        return reader.read()


def read_leases(
    flags: ConnectionFlags,
    environ: Mapping[str, str],
    *,
    wait_seconds: float = 0.0,
    progress: Progress | None = None,
    world: World | None = None,
) -> tuple[dict[str, Lease], int]:
    """Wait, then read the leases of nodes; return them, and when that was by the server's clock.

    Connects and logs in anew; raises what ``read_cluster`` raises, and AccessError when leases may not
    be listed.
    """
    world = world or World()
    # Before connecting: the time that reading may take does not include it.
    for passed in range(int(wait_seconds)):
        if progress:
            progress("leases once more, seconds waited", passed, int(wait_seconds))
        world.sleep(1.0)
    world.sleep(wait_seconds % 1)
    with _reader(flags, environ, False, progress, None, world) as reader:
        return reader.read_leases()


@contextmanager
def _reader(
    flags: ConnectionFlags,
    environ: Mapping[str, str],
    strict: bool,
    progress: Progress | None,
    warn: Callable[[str], None] | None,
    world: World | None,
) -> Iterator[_Reader]:
    """Give a reader of the cluster that is named."""
    world = world or World()
    with connected(flags, environ, warn=warn, world=world) as transport, collector_paused():
        yield _Reader(transport, flags, world, strict, progress)


def _ignore(page: Page) -> None:
    """Take a page that was only asked for to see whether it may be."""


class _Reader:
    """One reading of one cluster."""

    def __init__(
        self,
        transport: Transport,
        flags: ConnectionFlags,
        world: World,
        strict: bool,
        progress: Progress | None,
    ) -> None:
        self._transport = transport
        self._flags = flags
        self._world = world
        self._progress = progress
        self._strict = strict
        self._begin("")

    def _begin(self, version: str) -> None:
        self._assembly = Assembly(Diagnostics(strict=self._strict))
        self._assembly.control_plane.server_version = version
        self._items = ItemReader(self._assembly)
        self._records: list[ListRecord] = []

    def read(self) -> ClusterSnapshot:
        """Return the cluster; see ``read_cluster``."""
        version = server_version(self._transport)
        self._refuse_without_rights()
        began = self._world.monotonic()
        changes = self._read_lists(version)
        took, left = self._world.monotonic() - began, self._transport.seconds_left()
        if (changes.came or changes.went) and (left is None or left > took):
            changes = self._read_lists(version)
        if words := changes.words():
            self._assembly.diagnostics.warning("skewed-snapshot", words)
        return self._completed(version)

    def _read_lists(self, version: str) -> Changes:
        """Read everything, anew; return which nodes came or went meanwhile."""
        self._begin(version)
        first_ns = self._world.wall_ns()
        for resource in RESOURCES:
            self._read_kind(resource)
            if resource is NODES and self._assembly.control_plane.is_openshift():
                for operator in OPENSHIFT:
                    self._read_kind(operator)
        last_ns = self._world.wall_ns()
        self._assembly.taken_at_ns = last_ns + self._transport.clock.offset_ns()
        self._note_oddities(last_ns - first_ns)
        nodes = self._assembly.stored["Node"].values()
        return changes_since(self._transport, nodes, chunk_size=self._flags.chunk_size)

    def _completed(self, version: str) -> ClusterSnapshot:
        clock = self._transport.clock
        if not self._assembly.stored["Node"]:
            message = "the cluster has no nodes: nothing to simulate"
            raise unusable(message, location=self._transport.where())
        snapshot = completed(self._assembly, self._items, whole_cluster=not self._flags.namespace)
        reading = Reading(
            server=self._transport.server,
            context=self._transport.target.context,
            namespace=self._flags.namespace,
            server_version=version,
            clock_offset_ns=clock.offset_ns() if clock.is_known else None,
            lists=tuple(self._records),
        )
        return msgspec.structs.replace(
            snapshot,
            taken_at_source=TAKEN_AT_SOURCE if clock.is_known else "clock of this machine",
            reading=reading,
        )

    def read_leases(self) -> tuple[dict[str, Lease], int]:
        """Return the leases of nodes; see ``read_leases``."""
        self._read_kind(LEASES)
        at_ns = self._transport.server_now_ns()
        (record,) = self._records
        if record.not_evaluated:
            problem = Problem(record.not_evaluated, location=self._transport.where())
            problem.subject = "list leases"
            raise AccessError([problem])
        leases = self._assembly.stored["Lease"].values()
        return {lease.name: lease for lease in leases}, at_ns

    def _refuse_without_rights(self) -> None:
        """Raise before the long part when nodes or pods may not be listed."""
        denied = []
        for resource in (NODES, PODS):
            found = read_list(
                self._transport,
                resource,
                namespace=self._flags.namespace,
                chunk_size=1,
                pages_max=1,
                begin=lambda: _ignore,
            )
            if found.denied:
                denied.append((resource, found))
            elif found.not_evaluated:
                self._no_such_api(resource, found)
        if denied:
            raise self._missing_rule(denied)

    def _read_kind(self, resource: Resource) -> None:
        """Read one list into the assembly; a half one leaves nothing behind."""
        scratch: list[Assembly] = []

        def begin() -> Callable[[Page], None]:
            mine = Assembly(Diagnostics(strict=self._assembly.diagnostics.strict))
            scratch[:] = [mine]
            return self._taker(resource, mine)

        found = read_list(
            self._transport,
            resource,
            namespace=self._flags.namespace,
            chunk_size=self._flags.chunk_size,
            begin=begin,
        )
        if found.not_evaluated:
            if resource.required:
                if found.denied:
                    raise self._missing_rule([(resource, found)])
                self._no_such_api(resource, found)
            if found.denied or not resource.newer:
                self._assembly.denied.add(resource.kind)
        else:
            self._assembly.absorb(scratch[0])
            self._assembly.kinds_seen.add(resource.kind)
        read_at_ns = self._transport.server_now_ns()
        self._records.append(
            ListRecord(
                resource.kind,
                found.resource_version,
                found.objects,
                read_at_ns,
                found.not_evaluated,
            )
        )

    def _taker(self, resource: Resource, assembly: Assembly) -> Callable[[Page], None]:
        items = ItemReader(assembly, build=self._items.build)
        origin = Origin(Document(f"{self._transport.where()} {resource.plural}"))
        count = 0

        def take(page: Page) -> None:
            nonlocal count
            items.read_list(page.items, origin, resource.kind, version=page.api_version)
            count += len(page.items)
            if self._progress:
                total = count + page.remaining if page.remaining else 0
                self._progress(resource.plural, count, total)

        return take

    def _note_oddities(self, span_ns: int) -> None:
        warning = self._assembly.diagnostics.warning
        clock = self._transport.clock
        offset_ns = clock.offset_ns()
        if not clock.is_known:
            warning(
                "clock-offset", "the server did not tell its time: this machine's clock is used"
            )
        elif abs(offset_ns) > OFFSET_SAID_NS:
            warning("clock-offset", f"{offset_words(offset_ns)}: the latter is used")
        if span_ns > SKEW_SAID_NS:
            apart = format_duration(span_ns // SECOND_NS * SECOND_NS)
            message = (
                f"reading took {apart}: pods were listed that much earlier than nodes and leases"
            )
            warning("skewed-snapshot", message)

    def _no_such_api(self, resource: Resource, found: Listed) -> None:
        message = f"{resource.plural}: {found.not_evaluated}: is it an API server?"
        raise unreachable(message, location=self._transport.where())

    def _missing_rule(self, denied: Sequence[tuple[Resource, Listed]]) -> AccessError:
        """Say what may not be listed, the rule that is missing, and who can add it how."""
        where = self._transport.where()
        problems = [
            Problem(found.not_evaluated, location=where, subject=f"list {resource.plural}")
            for resource, found in denied
        ]
        plurals = ", ".join(resource.plural for resource, _ in denied)
        text = f'{{apiGroups: [""], resources: [{plurals}], verbs: [list]}}'
        rule = f"the missing rule of a ClusterRole is {text}; deploy/rbac has the whole role"
        problems.append(Problem(rule))
        correction = Correction((), (), first=self._grant(denied), example=True)
        for problem in problems:
            problem.correction = correction
        return AccessError(problems)

    def _grant(self, denied: Sequence[tuple[Resource, Listed]]) -> str:
        """Return the commands that give what is missing; an administrator's to type."""
        plurals = ",".join(resource.plural for resource, _ in denied)
        named = re.search(r'User "([^"\s]{1,200})"', denied[0][1].not_evaluated)
        user = shlex.quote(named[1]) if named else "NAME"
        role = f"kubectl create clusterrole evictplan-reader --verb=list --resource={plurals}"
        binding = "kubectl create clusterrolebinding evictplan-reader"
        return f"{role} && {binding} --clusterrole=evictplan-reader --user={user}"
