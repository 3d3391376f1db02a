"""The tables of evictions: one row per DELETE, or one per workload, node, namespace or zone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kubectl_evictplan.prediction.document import CERTAIN, Eviction, Prediction, TaintReference
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Cell, Column, Phrase, Row, Table, Tone, columns
from kubectl_evictplan.report.clock import Clock

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
# Why a pod is deleted without a taint, by the upstream function that decides.
_WORDS_BY_RULE = {
    "DeletePods": "pod-eviction-timeout",
    "gcOrphaned": "node-gone",
    "gcTerminated": "too-many-finished",
    "gcTerminating": "out-of-service",
    "gcUnscheduledTerminating": "never-scheduled",
}


def pod_table(evictions: Sequence[Eviction], *, all_columns: bool = False) -> Table:
    """Return one row per eviction; columns that tell nothing are left out unless all are wanted."""
    why = _Whys(evictions)
    rows = [_narrow_row(entry, why) for entry in evictions]
    if all_columns:
        return Table(_NARROW, rows)
    shown = [at for at in range(len(_NARROW)) if not _is_alike(_NARROW[at].header, at, rows)]
    return Table(
        tuple(_NARROW[at] for at in shown),
        [tuple(row[at] for at in shown) for row in rows],
        notes=why.notes(),
    )


def _is_alike(header: str, at: int, rows: Sequence[Row]) -> bool:
    if header not in _ALIKE or not rows:
        return False
    texts = {cell if isinstance(cell, str) else cell.text for cell in (row[at] for row in rows)}
    return len(texts) == 1 and _ALIKE[header] in (None, *texts)


def _narrow_row(entry: Eviction, why: _Whys) -> Row:
    return (
        words.name(entry.namespace),
        words.name(entry.pod),
        words.name(entry.node),
        _evicted_at(entry, exact=False),
        entry.certainty,
        why.word(entry),
        words.name(entry.controller),
        _gone(entry, exact=False),
        words.name(_SHORT_KINDS.get(kind := entry.owner.partition("/")[0], kind.lower())),
    )


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
    tone: Tone = "certain" if entry.certainty == CERTAIN else "possible"
    return Phrase(words.outcomes(entry.windows, exact=exact), tone)


def _gone(entry: Eviction, *, exact: bool) -> Cell:
    text = words.gone(entry.gone, exact=exact)
    return text if entry.gone.stuck is None else Phrase(words.name(text), "stuck")


class _Whys:
    """The word for each reason in these evictions, and the sentence that tells it once."""

    def __init__(self, evictions: Sequence[Eviction]) -> None:
        self._evictions = evictions
        taints = {entry.taint for entry in evictions if entry.taint is not None}
        short = Counter(map(_last_part, taints))
        self._words = {
            one: words.name(_last_part(one) if short[_last_part(one)] == 1 else words.taint(one))
            for one in taints
        }

    def word(self, entry: Eviction) -> str:
        """Return one word: the end of the taint's key, or what stands for another rule."""
        if entry.taint is not None:
            return self._words[entry.taint]
        rule = entry.because[-1].rule if entry.because else ""
        return words.name(_WORDS_BY_RULE.get(rule, entry.controller))

    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each word, the most frequent first."""
        by_word: dict[str, list[Eviction]] = {}
        for entry in self._evictions:
            by_word.setdefault(self.word(entry), []).append(entry)
        groups = sorted(by_word.items(), key=lambda item: (-len(item[1]), item[0]))
        return tuple(f"WHY {word}: {_explained(group)}." for word, group in groups)


def _last_part(taint: TaintReference) -> str:
    return taint.key.rpartition("/")[2]


def _explained(group: Sequence[Eviction]) -> str:
    first = group[0]
    if first.taint is None:
        return words.name(first.because[-1].what) if first.because else words.UNKNOWN
    tolerances = Counter(words.tolerated(entry.toleration) for entry in group)
    parts = sorted(tolerances.items(), key=lambda item: (-item[1], item[0]))
    how = ", ".join(t if len(parts) == 1 else f"{t} ({number})" for t, number in parts)
    controllers = ", ".join(sorted({words.name(entry.controller) for entry in group}))
    return f"taint {words.name(words.taint(first.taint))}, {how}; deleted by {controllers}"


# -- groups -----------------------------------------------------------------------------------------

_KEY_COLUMNS = {
    "workload": ("NAMESPACE", "WORKLOAD"),
    "node": ("NODE", "ZONE"),
    "namespace": ("NAMESPACE",),
    "zone": ("ZONE",),
}


class _Group:
    """Evictions that share a key."""

    def __init__(self, evictions: Iterable[Eviction]) -> None:
        self.evictions = list(evictions)
        self.pods = {words.pod_key(e) for e in self.evictions}
        certain = {words.pod_key(e) for e in self.evictions if e.certainty == CERTAIN}
        self.possible = len(self.pods) - len(certain)
        self.earliest = min(e.earliest_seconds for e in self.evictions)
        self.stuck = len({words.pod_key(e) for e in self.evictions if e.gone.stuck is not None})

    def figures(self, of: int | None) -> Row:
        """Return pods, possible, stuck, nodes and the hull of the windows."""
        last = max(e.latest_seconds for e in self.evictions)
        pods = str(len(self.pods))
        return (
            pods if of is None else f"{pods} of {max(of, len(self.pods))}",
            str(self.possible),
            str(self.stuck),
            str(len({e.node for e in self.evictions})),
            words.window(self.earliest, last),
        )


def group_table(prediction: Prediction, by: str, rows_max: int | None = None) -> Table:
    """Return one row per ``by``, the most pods first, and the totals.

    Beyond ``rows_max`` rows the rest is one row.
    """
    keys, why = _Keys(prediction, by), _Whys(prediction.evictions)
    members: dict[tuple[str, ...], list[Eviction]] = {}
    for entry in prediction.evictions:
        members.setdefault(keys.of_eviction(entry), []).append(entry)
    groups = {key: _Group(evictions) for key, evictions in members.items()}
    order = sorted(groups, key=lambda key: (-len(groups[key].pods), groups[key].earliest, key))
    shown = order if rows_max is None else order[:rows_max]
    rows = [(*map(words.name, key), *groups[key].figures(keys.pods(key))) for key in shown]
    rest, notes = order[len(shown) :], why.notes()
    if rest:
        others = _Group(e for key in rest for e in members[key])
        rows.append(_sum_row("others", len(rest), by, others, [keys.pods(key) for key in rest]))
        notes = (f"--by {by} shows all {len(order)} {by}s, -o wide every pod.", *notes)
    everything = _Group(prediction.evictions)
    total = _sum_row("TOTAL", len(order), by, everything, [keys.pods(key) for key in order])
    headers = (*_KEY_COLUMNS[by], "PODS", "POSSIBLY", "STUCK", "NODES", "EVICTED-AT")
    shown_columns = [
        at
        for at, header in enumerate(headers)
        if not (header == "POSSIBLY" and everything.possible in (0, len(everything.pods)))
        and not (header == "STUCK" and everything.stuck in (0, len(everything.pods)))
        and not (header == "NODES" and by == "node")
    ]
    leave_out = {"NODES": 1, "STUCK": 2, "POSSIBLY": 3}
    return Table(
        tuple(Column(headers[at], leave_out.get(headers[at], 0)) for at in shown_columns),
        [tuple(row[at] for at in shown_columns) for row in rows],
        total=tuple(total[at] for at in shown_columns),
        notes=notes,
    )


def _sum_row(label: str, number: int, by: str, group: _Group, of: list[int | None]) -> Row:
    known = [pods for pods in of if pods is not None]
    text = words.count(number, by)
    key = (label, text) if len(_KEY_COLUMNS[by]) == 2 else (f"{label} {text}",)
    return (*key, *group.figures(sum(known) if known else None))


class _Keys:
    """Which group an eviction belongs to, and how many pods such a group has at all."""

    def __init__(self, prediction: Prediction, by: str) -> None:
        self._by = by
        self._zones = {report.node: report.zone for report in prediction.nodes}
        self._workloads = {
            (report.namespace, owner): report.workload
            for report in prediction.workloads
            for owner in report.owners
        }
        self._pods: dict[tuple[str, ...], int] = {}
        if by == "workload":
            for report in prediction.workloads:
                self._pods[report.namespace, _short(report.workload)] = report.pods
        elif by == "node":
            pods = {(e.node, e.namespace, e.pod) for e in prediction.evictions}
            pods |= {(k.node, k.namespace, k.pod) for k in prediction.kept}
            for node, number in Counter(node for node, _, _ in pods).items():
                self._pods[node, self._zones.get(node, "")] = number

    def of_eviction(self, entry: Eviction) -> tuple[str, ...]:
        """Return the texts of the key columns."""
        zone = self._zones.get(entry.node, "")
        if self._by == "workload":
            owner = self._workloads.get((entry.namespace, entry.owner), entry.owner)
            return entry.namespace, _short(owner or f"Pod/{entry.pod}")
        if self._by == "node":
            return entry.node, zone
        return (zone,) if self._by == "zone" else (entry.namespace,)

    def pods(self, key: tuple[str, ...]) -> int | None:
        """Return how many pods the group has, evicted or not; None when that is not known."""
        bare = self._by == "workload" and key[1].startswith("pod/")
        return 1 if bare else self._pods.get(key)


def _short(owner: str) -> str:
    kind, _, owner_name = owner.partition("/")
    return f"{_SHORT_KINDS.get(kind, kind.lower())}/{owner_name}"
