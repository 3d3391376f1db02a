"""Many failures side by side, in blocks: the verdict, then one row each, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import (
    Block,
    Cell,
    Column,
    Figures,
    Phrase,
    Row,
    Table,
    Verdict,
)
from kubectl_evictplan.report.words import Clock
from kubectl_evictplan.sweeps.document import ClusterRow, FailureRow, FlagRow, Sweep
from kubectl_evictplan.sweeps.failures import is_costly, loses_control_plane

ROWS_MAX = 40
_NAMED_MAX = 3
_NOT_ASKED = (
    "Not asked: whether replacements find a node. Those that find none would cost more, "
    "and another failure may be the worst."
)
_LOST = "no control plane is left, so that nothing is evicted or replaced"
_KINDS = {"nodes": "node", "zones": "zone", "pairs": "pair"}


def sweep_contents(sweep: Sweep, *, wide: bool, zone: tzinfo | None) -> Iterator[Block]:
    """Yield the blocks of a sweep; ``wide`` shows every row and names what the others count."""
    if sweep.what == "flags":
        yield Verdict(tuple(_flags_verdict(sweep.cells)))
        yield _flags_table(sweep.cells)
    elif sweep.what == "fleet":
        yield Verdict(tuple(_fleet_verdict(sweep.clusters)))
        yield _fleet_table(sweep.clusters)
    else:
        yield Verdict(tuple(_verdict(sweep)))
        if sweep.failures:
            yield _table(sweep, wide=wide)
    yield Figures("", tuple(_provenance(sweep, zone)))


# -- failures -------------------------------------------------------------------------------------------


def _verdict(sweep: Sweep) -> Iterator[Phrase]:
    rows, kind = sweep.failures, _KINDS[sweep.what]
    if not rows:
        yield Phrase(f"There is no {kind} that could fail.", "loud")
        return
    tried = words.count(len(rows), kind)
    worst = rows[0]
    if not is_costly(worst):
        yield Phrase(f"None of {tried} costs a pod when it fails.", "good")
        return
    alike = sum(row.rank == worst.rank for row in rows)
    more = f", as would {alike - 1} more" if alike > 1 else ""
    yield Phrase(
        f"Of {tried} the failure of {kind} {words.name(worst.name)} costs most{more}: "
        f"{_cost(worst)}.",
        "certain",
    )
    yield from _not_placed(rows)
    yield from _of_all(rows, kind)


def _not_placed(rows: Sequence[FailureRow]) -> Iterator[Phrase]:
    """Yield what ranks do not count, where they do not: another failure may be the worst for it."""
    asked = sum(row.placement_asked for row in rows)
    if not asked and rows:
        yield Phrase(_NOT_ASKED, "possible")
    elif asked < len(rows):
        yield Phrase(
            f"Whether replacements find a node was asked of {asked} of {len(rows)}, those that come first: "
            "another may cost more than its row says.",
            "possible",
        )


def _cost(row: FailureRow) -> str:
    """Return what a failure costs, in words."""
    told = [_LOST] if loses_control_plane(row) else []
    if row.services_down:
        told.append(f"nobody ready behind {words.count(len(row.services_down), 'service')}")
    if row.budgets_broken:
        told.append(f"{words.count(len(row.budgets_broken), 'budget')} broken")
    if row.evicted_certain or not loses_control_plane(row):
        told.append(f"{words.count(row.evicted_certain, 'pod')} evicted for certain")
    if row.evicted_possible:
        told.append(f"{row.evicted_possible} more perhaps")
    if row.emptied:
        lose = words.verb(len(row.emptied), "workload loses", "workloads lose")
        told.append(f"{len(row.emptied)} {lose} every pod")
    if row.not_coming_back:
        itself = words.verb(len(row.not_coming_back), "itself", "themselves")
        told.append(f"{words.count(len(row.not_coming_back), 'pod')} not coming back by {itself}")
    return ", ".join(told)


def _of_all(rows: Sequence[FailureRow], kind: str) -> Iterator[Phrase]:
    """Yield how many of all failures have each of the costs that reviewers ask for."""
    for number, what in (
        (sum(map(loses_control_plane, rows)), "take the control plane down"),
        (sum(bool(row.services_down) for row in rows), "leave some service with nobody ready"),
        (sum(bool(row.budgets_broken) for row in rows), "break a budget"),
        (sum(bool(row.emptied) for row in rows), "take every pod of some workload"),
        (sum(bool(row.not_coming_back) for row in rows), "take pods that do not come back"),
    ):
        if number:
            yield Phrase(f"{number} of {words.count(len(rows), kind)} would {what}.", "possible")
    spared = sum(not is_costly(row) for row in rows)
    if spared:
        yield Phrase(f"{spared} would cost no pod.", "good")


# What of the control plane fails too.
_CONTROL_PLANE: dict[str, Cell] = {
    "leader": "leader",
    "leader-perhaps": "leader?",
    "controller-manager": Phrase("lost", "loud"),
    "control-plane": Phrase("lost", "loud"),
}
_ZONE, _PODS = Column("ZONE", 3), Column("PODS", 1)


def _columns(rows: Sequence[FailureRow], kind: str, *, wide: bool) -> tuple[Column, ...]:
    return (
        Column("RANK"),
        Column(kind.upper()),
        *((_ZONE,) if kind != "zone" else (Column("NODES"),)),
        *((Column("CONTROL-PLANE"),) if any(row.control_plane for row in rows) else ()),
        _PODS,
        Column("EVICTED"),
        *((Column("POSSIBLE"),) if any(row.evicted_possible for row in rows) or wide else ()),
        Column("FIRST"),
        Column("LAST", 4),
        Column("SERVICES-DOWN"),
        Column("BUDGETS-BROKEN"),
        Column("EMPTIED"),
        Column("SINGLE", 2),
        Column("NOT-BACK"),
        *((Column("STUCK"), Column("UNKNOWN")) if wide else ()),
        *((Column("ASKED", 5),) if len({row.placement_asked for row in rows}) > 1 else ()),
    )


def _table(sweep: Sweep, *, wide: bool) -> Table:
    kind = _KINDS[sweep.what]
    shown = sweep.failures if wide else sweep.failures[:ROWS_MAX]
    heads = _columns(sweep.failures, kind, wide=wide)
    left = len(sweep.failures) - len(shown)
    meaning = (
        "SERVICES-DOWN: nobody is ready at some time; BUDGETS-BROKEN: too few pods are healthy (+: perhaps); "
        "EMPTIED: workloads that lose every pod for certain; SINGLE: those of them that have one; "
        "NOT-BACK: pods that do not come back by themselves."
    )
    notes = [meaning]
    if any(head.header == "CONTROL-PLANE" for head in heads):
        notes.append(
            "CONTROL-PLANE: lost, nobody evicts or replaces; leader, another process takes over and counts anew; leader?, "
            "perhaps so, and these windows are too early then."
        )
    if any(head.header == "ASKED" for head in heads):
        notes.append(
            "ASKED: whether replacements find a node; where not, each counts as if it did."
        )
    if left:
        notes.append(f"And {left} more that cost no more than these (-o wide).")
    rows = [_row(row, kind, heads, wide=wide) for row in shown]
    return Table(heads, rows, "Failures, the worst first", notes=tuple(notes))


def _row(row: FailureRow, kind: str, heads: Sequence[Column], *, wide: bool) -> Row:
    zones = words.listed(row.zones, _NAMED_MAX) or words.NONE
    cells: dict[str, Cell] = {
        "RANK": str(row.rank),
        kind.upper(): words.name(row.name),
        "ZONE": zones,
        "NODES": str(len(row.nodes)),
        "CONTROL-PLANE": _CONTROL_PLANE.get(row.control_plane, words.NONE),
        "PODS": str(row.pods),
        "EVICTED": Phrase(str(row.evicted_certain), "certain" if row.evicted_certain else "plain"),
        "POSSIBLE": str(row.evicted_possible),
        "FIRST": words.window(row.first_earliest_seconds, row.first_latest_seconds)
        if row.first_earliest_seconds is not None
        else words.NONE,
        "LAST": words.window(row.last_earliest_seconds, row.last_latest_seconds)
        if row.last_earliest_seconds is not None
        else words.NONE,
        "SERVICES-DOWN": _names(row.services_down, row.services_down_perhaps, wide=wide),
        "BUDGETS-BROKEN": _names(row.budgets_broken, row.budgets_broken_perhaps, wide=wide),
        "EMPTIED": _names(row.emptied, (), wide=wide),
        "SINGLE": _names(row.single_replica, (), wide=wide),
        "NOT-BACK": _names(row.not_coming_back, (), wide=wide),
        "STUCK": str(row.stuck),
        "ASKED": "yes" if row.placement_asked else "no",
        "UNKNOWN": words.window(row.unknown_earliest_seconds, row.unknown_latest_seconds)
        if row.unknown_earliest_seconds is not None
        else words.NONE,
    }
    return tuple(cells[head.header] for head in heads)


def _names(sure: Sequence[str] | None, perhaps: Sequence[str] | None, *, wide: bool) -> str:
    """Return how many there are for certain and how many perhaps, and wide also which."""
    if sure is None:
        return words.UNKNOWN
    told = [_named(sure, wide=wide)]
    told += [f"+{_named(perhaps, wide=wide)}"] if perhaps else []
    return " ".join(told)


def _named(names: Sequence[str], *, wide: bool) -> str:
    shown = f" ({words.listed(names, len(names))})" if wide and names else ""
    return f"{len(names)}{shown}"


# -- flags ----------------------------------------------------------------------------------------------


def _flags_verdict(cells: Sequence[FlagRow]) -> Iterator[Phrase]:
    failure = cells[0].failure
    yield Phrase(
        f"The failure of {words.name(failure.what)} {words.name(failure.name)} under "
        f"{words.count(len(cells), 'choice')} of flags and tolerations."
    )
    timed = [cell for cell in cells if cell.failure.first_earliest_seconds is not None]
    if loses_control_plane(failure):
        yield Phrase(f"{_LOST[:1].upper()}{_LOST[1:]}.", "loud")
        return
    if not timed:
        yield Phrase("None of them evicts a pod.", "good")
        return
    first = min(timed, key=lambda cell: (_first(cell), cells.index(cell)))
    last = max(timed, key=lambda cell: (_first(cell), -cells.index(cell)))
    if _first(first) == _first(last):
        yield Phrase("All of them evict the first pod at the same time.")
        return
    yield Phrase(
        f"Soonest with {_choice(first)}: the first pod goes {_when_first(first)}; "
        f"latest with {_choice(last)}: {_when_first(last)}."
    )
    yield Phrase(
        f"What that costs: with {_choice(first)} a silence of {_silence(first)} may evict a pod already, and "
        f"a node may be given up after {words.count(first.missed_renewals + 1, 'lost renewal')} in a row.",
        "possible",
    )


def _first(cell: FlagRow) -> float:
    return cell.failure.first_earliest_seconds or 0.0


def _silence(cell: FlagRow) -> str:
    return words.offset(_first(cell)).removeprefix("+")


def _when_first(cell: FlagRow) -> str:
    row = cell.failure
    return words.window(row.first_earliest_seconds, row.first_latest_seconds)


def _choice(cell: FlagRow) -> str:
    told = [f"{name}={value}" for name, value in cell.flags.items()]
    if cell.toleration_seconds is not None:
        told.append(f"tolerationSeconds {cell.toleration_seconds}")
    return ", ".join(told) or "the present values"


def _flags_table(cells: Sequence[FlagRow]) -> Table:
    names = list(dict.fromkeys(name for cell in cells for name in cell.flags))
    tolerated = any(cell.toleration_seconds is not None for cell in cells)
    heads = (
        *(Column(name.upper()) for name in names),
        *((Column("TOLERATION"),) if tolerated else ()),
        *map(Column, ("UNKNOWN", "FIRST", "LAST", "EVICTED", "POSSIBLE", "MISSED-RENEWALS")),
    )
    rows = []
    for cell in cells:
        row = cell.failure
        seconds = cell.toleration_seconds
        rows.append(
            (
                *(cell.flags.get(name, words.NONE) for name in names),
                *((words.NONE if seconds is None else f"{seconds}s",) if tolerated else ()),
                _span(row.unknown_earliest_seconds, row.unknown_latest_seconds),
                _span(row.first_earliest_seconds, row.first_latest_seconds),
                _span(row.last_earliest_seconds, row.last_latest_seconds),
                str(row.evicted_certain),
                str(row.evicted_possible),
                str(cell.missed_renewals),
            )
        )
    note = (
        "UNKNOWN: when the node is given up and its endpoints leave; a silence shorter than its beginning is "
        "not noticed, one shorter than that of FIRST costs no pod. MISSED-RENEWALS: so many in a row may "
        "be lost and no node is ever given up for it."
    )
    return Table(heads, rows, "What a faster detection buys and costs", notes=(note,))


def _span(earliest: float | None, latest: float | None) -> str:
    return words.NONE if earliest is None else words.window(earliest, latest)


# -- fleets ---------------------------------------------------------------------------------------------


def _fleet_verdict(clusters: Sequence[ClusterRow]) -> Iterator[Phrase]:
    number = words.count(len(clusters), "cluster")
    tried = words.count(sum(cluster.tried for cluster in clusters), "failure")
    worst = clusters[0].worst if clusters else None
    if worst is None:
        yield Phrase(f"{tried} in {number}: none costs a pod.", "good")
        return
    where = f"node {words.name(worst.name)} of {words.name(clusters[0].cluster)}"
    yield Phrase(f"Of {tried} in {number} that of {where} costs most: {_cost(worst)}.", "certain")
    yield from _not_placed([one.worst for one in clusters if one.worst is not None])


def _fleet_table(clusters: Sequence[ClusterRow]) -> Table:
    heads = (
        "CLUSTER",
        "NODES",
        "PODS",
        "COSTLY",
        "WORST-NODE",
        "EVICTED",
        "FIRST",
        "EMPTIED",
        "NOT-BACK",
    )
    rows = []
    for cluster in clusters:
        worst = cluster.worst
        cells = [words.NONE] * 5
        if worst is not None:
            first = _span(worst.first_earliest_seconds, worst.first_latest_seconds)
            emptied, back = len(worst.emptied), len(worst.not_coming_back)
            cells = [words.name(worst.name), str(worst.evicted_certain), first]
            cells += [str(emptied), str(back)]
        rows.append(
            (
                words.name(cluster.cluster),
                str(cluster.nodes),
                str(cluster.pods),
                str(cluster.costly),
                *cells,
            )
        )
    return Table(tuple(map(Column, heads)), rows, "Clusters, the worst first")


# -- where it comes from --------------------------------------------------------------------------------


def _provenance(sweep: Sweep, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    for assumption in sweep.assumptions:
        yield "Assumed", assumption
    for what in sweep.not_evaluated:
        yield "Not evaluated", what
    yield from _not_evaluated_of_fleet(sweep.clusters)
    inputs = sweep.inputs
    if inputs is None:
        return
    nodes, pods = words.count(inputs.nodes, "node"), words.count(inputs.pods, "pod")
    yield "Read", f"{nodes}, {pods}; Kubernetes {words.sourced(inputs.release)}"
    yield "Flags", words.flags(inputs)
    start = Clock(str(inputs.start.value), zone).start() or str(inputs.start.value)
    yield "Start", f"{start} ({inputs.start.source}) is +0s of every failure"
    rows = (*sweep.failures, *(cell.failure for cell in sweep.cells))
    same = "says the same of one failure, and why"
    if not all(row.placement_asked for row in rows):
        same = "says of one failure why, and asks besides whether replacements find a node"
    yield "Reasons", f"kubectl evictplan what-if fail {same}"


def _not_evaluated_of_fleet(clusters: Sequence[ClusterRow]) -> Iterator[tuple[str, str]]:
    """Each gap once, with the clusters that have it."""
    where: dict[str, list[str]] = {}
    for cluster in clusters:
        for what in cluster.not_evaluated:
            where.setdefault(what, []).append(cluster.cluster)
    for what, names in where.items():
        of = "every cluster" if len(names) == len(clusters) else words.listed(names, 5)
        yield "Not evaluated", f"{what} ({of})"
