"""The tables of evictions: one row per DELETE, or one per workload, node, namespace or zone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import EVICTION_API, KUBECTL_DELETE
from kubectl_evictplan.prediction.document import CERTAIN, Eviction, Prediction, TaintReference
from kubectl_evictplan.prediction.grouped_evictions import EvictionGroup, Evictions, PodNames
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Cell, Column, Phrase, Row, Table, columns
from kubectl_evictplan.report.words import Clock

PODS_MAX = 40

_NARROW = (
    Column("NAMESPACE"),
    Column("POD"),
    Column("NODE", 5),
    Column("EVICTED-AT"),
    Column("CERTAINTY", 6),
    Column("WHY", 3),
    Column("BY", 2),
    Column("GONE", 4),
    Column("OWNER", 1),
)
# Those from the node to the end hold for all pods of a group.
_SHARED = range(2, len(_NARROW) - 1)
# What is the same in every row and said elsewhere; None: whatever it is.
_ALIKE = {"NODE": None, "CERTAINTY": CERTAIN, "WHY": None, "BY": None, "GONE": "stuck"}
_WIDE = columns(
    *("NAMESPACE", "POD", "NODE", "CERTAINTY", "EVICTED-AT", "TIME"),
    *("BY", "WHY", "OWNER", "GONE", "UID"),
)
_SHORT_KINDS = {
    "ReplicaSet": "rs",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
    "Deployment": "deploy",
    "ReplicationController": "rc",
    "CronJob": "cj",
}
# Who deletes a pod for a drain.
_BY_DRAIN = {
    EVICTION_API: "kubectl drain asks the Eviction API, which lets a pod go when its budget does",
    KUBECTL_DELETE: "kubectl drain --disable-eviction deletes it, whatever its budget says",
}
# Why a pod is deleted without a taint, by the upstream function that decides.
_WORDS_BY_RULE = {
    "DeletePods": "pod-eviction-timeout",
    "gcOrphaned": "node-gone",
    "gcTerminated": "too-many-finished",
    "gcTerminating": "out-of-service",
    "gcUnscheduledTerminating": "never-scheduled",
}


def pod_table(evictions: Evictions, *, all_columns: bool = False) -> Table:
    """Return one row per eviction; columns that tell nothing are left out unless all are wanted."""
    whys = _Whys(evictions)
    # All but names and owner is the same for a group.
    shared = {id(group): _shared_cells(group, whys) for group in evictions.groups}
    cells = dict(zip(_SHARED, zip(*shared.values(), strict=True), strict=False))
    left_out = (
        () if all_columns else [at for at in cells if _is_alike(_NARROW[at].header, cells[at])]
    )
    if left_out:
        kept = [at - _SHARED[0] for at in _SHARED if at not in left_out]
        shared = {token: tuple([row[at] for at in kept]) for token, row in shared.items()}
    heads = tuple(column for at, column in enumerate(_NARROW) if at not in left_out)
    rows = [
        (
            _name(names.namespace),
            words.name(names.pod),
            *shared[id(group)],
            _owner_kind(names.owner),
        )
        for names, group in evictions.in_order
    ]
    return Table(heads, rows, notes=() if all_columns else whys.notes())


def _with_columns(shown: Sequence[int], table: Table) -> Table:
    chosen = itemgetter(*shown)
    return replace(
        table,
        columns=tuple(table.columns[at] for at in shown),
        rows=list(map(chosen, table.rows))
        if len(shown) > 1
        else [(chosen(r),) for r in table.rows],
        total=None if table.total is None else tuple(table.total[at] for at in shown),
    )


def _is_alike(header: str, cells: Sequence[Cell]) -> bool:
    """Whether a column tells nothing."""
    if header not in _ALIKE or not cells:
        return False
    texts = set(map(_text, set(cells)))
    return len(texts) == 1 and _ALIKE[header] in (None, *texts)


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text


def _shared_cells(group: EvictionGroup, whys: _Whys) -> Row:
    """The cells of ``_SHARED``."""
    shared = group.shared
    return (
        _name(shared.node),
        _evicted_at(shared, exact=False),
        shared.certainty,
        whys.of(group),
        _name(shared.controller),
        _gone(shared, exact=False),
    )


# For names that many rows share.
_name = lru_cache(maxsize=100_000)(words.name)


@lru_cache(maxsize=100_000)  # many pods share an owner
def _owner_kind(owner: str) -> str:
    return words.name(_short(owner).partition("/")[0])


def wide_table(evictions: Sequence[Eviction], clock: Clock) -> Table:
    """Return one row per eviction with everything known about it that fits into a row."""
    return Table(_WIDE, [_wide_row(entry, clock) for entry in evictions])


def _wide_row(entry: Eviction, clock: Clock) -> Row:
    if entry.taint is not None:
        why = f"{words.taint(entry.taint)} {words.tolerated(entry.toleration)}"
    else:
        why = entry.because[-1].what if entry.because else words.UNKNOWN
    return (
        words.name(entry.namespace),
        words.name(entry.pod),
        words.name(entry.node),
        words.name(entry.certainty),
        _evicted_at(entry, exact=True),
        clock.exactly(entry.offset_seconds) or words.UNKNOWN,
        words.name(entry.controller),
        words.name(why),
        words.name(entry.owner),
        _gone(entry, exact=True),
        words.name(entry.uid),
    )


def _evicted_at(entry: Eviction, *, exact: bool) -> Cell:
    return _certainly(words.outcomes(entry.windows, exact=exact), entry.certainty)


@lru_cache(maxsize=100_000)  # pods of one node share their instants
def _certainly(text: str, certainty: str) -> Phrase:
    return Phrase(text, "certain" if certainty == CERTAIN else "possible")


def _gone(entry: Eviction, *, exact: bool) -> Cell:
    gone = entry.gone
    if gone.stuck is None or (not exact and words.may_end(gone)):
        return words.gone(gone, exact=exact)
    return _stuck(words.gone(gone, exact=exact))


@lru_cache(maxsize=10_000)  # pods of one node share the reason
def _stuck(text: str) -> Phrase:
    return Phrase(words.name(text), "stuck")


class _Whys:
    """A word for the reason of each eviction: the end of the taint's key, or what stands for another rule."""

    def __init__(self, evictions: Evictions) -> None:
        self._groups = evictions.groups
        taints = {one.shared.taint for one in self._groups if one.shared.taint is not None}
        short = Counter(map(_last_part, taints))
        self._of_taint = {
            taint: words.name(last if short[last := _last_part(taint)] == 1 else words.taint(taint))
            for taint in taints
        }

    def of(self, group: EvictionGroup) -> str:
        """Return the word of a group."""
        shared = group.shared
        if shared.taint is not None:
            return self._of_taint[shared.taint]
        last = group.chain.last
        rule = "" if last is None else last.rule
        return words.name(_WORDS_BY_RULE.get(rule, shared.controller))

    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each word, the most frequent first."""
        by_word: dict[str, list[EvictionGroup]] = {}
        for group in self._groups:
            by_word.setdefault(self.of(group), []).append(group)
        rank = {word: -sum(len(one.pods) for one in some) for word, some in by_word.items()}
        order = sorted(by_word, key=lambda word: (rank[word], word))
        return tuple(f"WHY {word}: {_explained(by_word[word])}." for word in order)


def _last_part(taint: TaintReference) -> str:
    return taint.key.rpartition("/")[2]


def _explained(groups: Sequence[EvictionGroup]) -> str:
    # Those of one taint tell the same.
    tainted = all(one.shared.taint is not None for one in groups)
    first = groups[0] if tainted else min(groups, key=_place_of_first)
    if first.shared.controller in _BY_DRAIN:
        return _BY_DRAIN[first.shared.controller]
    if first.shared.taint is None:
        last = first.chain.last
        return words.UNKNOWN if last is None else words.name(last.what)
    # Several texts of tolerations are one: each is told once, with all its pods.
    tolerances = Counter[str]()
    for group in groups:
        tolerances[words.tolerated(group.shared.toleration)] += len(group.pods)
    parts = sorted(tolerances.items(), key=lambda item: (-item[1], item[0]))
    how = ", ".join(t if len(parts) == 1 else f"{t} ({number})" for t, number in parts)
    controllers = {one.shared.controller for one in groups}
    by = ", ".join(sorted(map(words.name, controllers)))
    return f"taint {words.name(words.taint(first.shared.taint))}, {how}; deleted by {by}"


def _place_of_first(group: EvictionGroup) -> tuple[float, tuple[str, str], str]:
    """By what rows are in order."""
    first = min((names.namespace, names.pod) for names in group.pods)
    return group.shared.offset_seconds, first, group.shared.controller


# -- groups -----------------------------------------------------------------------------------------

_Key = tuple[str, ...]
_KEY_COLUMNS = {
    "workload": ("NAMESPACE", "WORKLOAD"),
    "node": ("NODE", "ZONE"),
    "namespace": ("NAMESPACE",),
    "zone": ("ZONE",),
}
_LEAVE_OUT = {"NODES": 1, "STUCK": 2, "POSSIBLY": 3}


def grouped(prediction: Prediction, by: str) -> dict[_Key, list[Eviction]]:
    """Return the evictions by the texts of the key columns of ``by``, the most pods first.

    Where no pod goes twice each is what its group shares, without names: no row has to be made.
    """
    members: dict[_Key, list[Eviction]] = {}
    for key, entries in _keyed(prediction, by):
        if (group := members.get(key)) is None:
            members[key] = entries
        else:
            group.extend(entries)
    once = prediction.evicted.once

    def rank(item: tuple[_Key, list[Eviction]]) -> tuple[int, float, _Key]:
        key, group = item
        return -count_pods(group, once), min([entry.earliest_seconds for entry in group]), key

    return dict(sorted(members.items(), key=rank))


def group_table(
    prediction: Prediction, by: str, rows_max: int | None = None, *, explained: bool = True
) -> Table:
    """Return one row per ``by``, the most pods first, and the totals.

    Beyond ``rows_max`` rows the rest is one row. Not ``explained``: a table of pods tells why.
    """
    evictions = prediction.evictions
    notes = _Whys(evictions).notes() if explained else ()
    members = grouped(prediction, by)
    sizes = _sizes(prediction, by, members)
    order = list(members)
    shown, rest = order[:rows_max], order[rows_max:] if rows_max is not None else []
    once = prediction.evicted.once
    rows = [(*map(words.name, key), *_figures(members[key], sizes.get(key), once)) for key in shown]

    def sum_row(label: str, keys: Sequence[_Key]) -> Row:
        group = [entry for key in keys for entry in members[key]]
        of = [sizes[key] for key in keys if key in sizes]
        text = words.count(len(keys), by)
        named = (label, text) if len(_KEY_COLUMNS[by]) == 2 else (f"{label} {text}",)
        return (*named, *_figures(group, sum(of) if of else None, once))

    if rest:
        rows.append(sum_row("others", rest))
        notes = (f"--by {by} shows all {len(order)} {by}s, -o wide every pod.", *notes)
    total = sum_row("TOTAL", order)
    headers = (*_KEY_COLUMNS[by], "PODS", "POSSIBLY", "STUCK", "NODES", "EVICTED-AT")
    none_or_all = ("0", str(prediction.evicted.number))
    told = [
        at
        for at, header in enumerate(headers)
        if not (header in ("POSSIBLY", "STUCK") and total[at] in none_or_all)
        and not (header == "NODES" and by == "node")
    ]
    named = tuple(Column(header, _LEAVE_OUT.get(header, 0)) for header in headers)
    return _with_columns(told, Table(named, rows, total=total, notes=notes))


def count_pods(group: Sequence[Eviction], once: bool) -> int:
    """Return how many pods they are; ``once``: none is among them twice."""
    return len(group) if once else len({(entry.namespace, entry.pod) for entry in group})


def _figures(group: Sequence[Eviction], of: int | None, once: bool) -> Row:
    """Return pods (``of`` so many), possible, stuck, nodes and the hull of the windows."""
    pods = count_pods(group, once)
    certain = count_pods([entry for entry in group if entry.certainty == CERTAIN], once)
    stuck = count_pods([entry for entry in group if entry.gone.stuck is not None], once)
    earliest = min([entry.earliest_seconds for entry in group])
    return (
        str(pods) if of is None else f"{pods} of {max(of, pods)}",
        str(pods - certain),
        str(stuck),
        str(len({entry.node for entry in group})),
        words.window(earliest, max([entry.latest_seconds for entry in group])),
    )


def _keyed(prediction: Prediction, by: str) -> Iterator[tuple[_Key, list[Eviction]]]:
    """Yield evictions with the texts of their key columns, perhaps several times of one key."""
    zones = {report.node: report.zone for report in prediction.nodes}
    if by == "workload":
        yield from _by_workload(prediction)
        return
    for group in prediction.evictions.groups:
        node = group.shared.node
        zone = zones.get(node, "")
        if by == "namespace":
            for names, entry in _entries(prediction, group):
                yield (names.namespace,), [entry]
        else:
            key = (node, zone) if by == "node" else (zone,)
            yield key, [entry for _, entry in _entries(prediction, group)]


def _by_workload(prediction: Prediction) -> Iterator[tuple[_Key, list[Eviction]]]:
    """By owner first, of which there are fewer than pods; of bare pods each is on its own."""
    workloads = {
        (report.namespace, owner): report.workload
        for report in prediction.workloads
        for owner in report.owners
    }
    for (namespace, owner, pod), entries in _by_owner(prediction).items():
        top = workloads.get((namespace, owner), owner)
        yield (namespace, _short(top or f"Pod/{pod}")), list(entries)


def _by_owner(prediction: Prediction) -> Mapping[tuple[str, str, str], Iterable[Eviction]]:
    if prediction.evicted.once:
        return prediction.evictions.by_owner
    found: dict[tuple[str, str, str], list[Eviction]] = {}
    for group in prediction.evictions.groups:
        for names in group.pods:
            token = names.namespace, names.owner, "" if names.owner else names.pod
            found.setdefault(token, []).append(group.row(names))
    return found


def _entries(prediction: Prediction, group: EvictionGroup) -> Iterable[tuple[PodNames, Eviction]]:
    """The names of each pod with its row; where no pod goes twice, with what the group shares."""
    if prediction.evicted.once:
        return [(names, group.shared) for names in group.pods]
    return [(names, group.row(names)) for names in group.pods]


def _sizes(prediction: Prediction, by: str, keys: Iterable[_Key]) -> dict[_Key, int]:
    """Return how many pods each group has, evicted or not, where that is known."""
    if by == "workload":
        reports = prediction.workloads
        sizes: dict[_Key, int] = {(r.namespace, _short(r.workload)): r.pods for r in reports}
        return sizes | {key: 1 for key in keys if key[1].startswith("pod/")}
    if by == "node":
        groups = prediction.evictions.groups
        pods = {(group.shared.node, names.key) for group in groups for names in group.pods}
        pods.update((row.node, row.key) for row in prediction.kept)
        numbers = Counter(node for node, _ in pods)
        return {key: numbers[key[0]] for key in keys}
    return {}


@lru_cache(maxsize=100_000)
def _short(owner: str) -> str:
    """Return ``Kind/name`` as kubectl abbreviates it."""
    kind, slash, name = owner.partition("/")
    return f"{_SHORT_KINDS.get(kind, kind.lower())}{slash}{name}"
