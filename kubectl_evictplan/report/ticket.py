"""What a change ticket says, in which order: a prediction as blocks, for Markdown and HTML.

The verdict and the figures first, then what to know, what happens when, the tables, what was not evaluated,
commands, and at the end everything that decided the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from msgspec.structs import replace

from kubectl_evictplan.gates.document import GateResult
from kubectl_evictplan.gates.figures import FIGURES, Facts, told
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.fingerprint import sealed
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Block, Figures, Phrase, Table, Title, Verdict, columns
from kubectl_evictplan.report.charts import charts
from kubectl_evictplan.report.commands_to_run import PlanFile, commands
from kubectl_evictplan.report.content import ASSUMED, details, facts
from kubectl_evictplan.report.drains import drain_tables
from kubectl_evictplan.report.evictions import PODS_MAX, group_table, pod_table
from kubectl_evictplan.report.gantt import gantt
from kubectl_evictplan.report.impact_tables import finding_table, impact_tables, not_evaluated
from kubectl_evictplan.report.stories import stories
from kubectl_evictplan.report.verdict import alerts, all_warnings, verdict
from kubectl_evictplan.report.what_happens import asked, timeline
from kubectl_evictplan.report.words import Clock

_COSTS = {
    "Longest without anybody": "unavailable",
    "Budgets broken": "pdb-broken",
    "Pods that do not come back by themselves": "not-coming-back",
    "Worst finding": "severity",
}
_OF_PREDICTION = "(of the prediction: -o json and a plan made from it hold the same)"


def ticket(
    prediction: Prediction,
    zone: tzinfo | None,
    gates: Sequence[GateResult] = (),
    plan: PlanFile | None = None,
    *,
    by: str = "workload",
    whole: bool = False,
) -> Iterator[Block]:
    """Yield the blocks of a ticket; ``zone`` is that of clock times (None: the system's), ``by`` groups evictions.

    ``plan`` is the one that was written beside it. ``whole``: with every pod, the story of each, and all charts; otherwise what a text has room for.
    """
    clock = Clock(str(prediction.inputs.start.value), zone)
    yield Title(f"Predicted evictions: {'; '.join(asked(prediction)) or 'nothing is done'}")
    loud = alerts(prediction.warnings)
    if loud is not None:
        yield loud
    yield Verdict(tuple(verdict(prediction, clock, complete=loud is None)))
    if gates:
        yield gate_table(gates)
    yield headline(prediction)
    impact = prediction.impact
    if impact is not None and (findings := finding_table(impact)) is not None:
        yield findings
    if whole:
        yield from charts(prediction, clock)
    elif (bars := gantt(prediction, clock)) is not None:
        yield bars
    if (moments := timeline(prediction, clock, wide=False)) is not None:
        yield moments
    if prediction.drains:
        yield from drain_tables(prediction, wide=False)
    if impact is not None:
        yield from impact_tables(impact)
    yield from _tables(prediction, by, whole=whole)
    if (found := all_warnings(prediction.warnings)) is not None:
        yield found
    yield from not_evaluated(impact, prediction.inputs.assumptions)
    yield from commands(prediction, plan)
    yield provenance(prediction, clock, plan)


def gate_table(gates: Sequence[GateResult]) -> Table:
    """Return what was asked with --fail-on and --policy, and the numbers."""
    rows = [
        (
            Phrase("FAILED", "loud") if gate.failed else Phrase("passed", "good"),
            gate.rule,
            "; ".join((*gate.numbers, *gate.unknown)),
            gate.reason or "none",
            gate.origin,
        )
        for gate in sorted(gates, key=lambda gate: not gate.failed)
    ]
    failed = sum(gate.failed for gate in gates)
    title = f"Gates: {failed} of {len(gates)} failed" if failed else "Gates: all passed"
    return Table(columns("RESULT", "FAILS IF", "NUMBERS", "REASON", "FROM"), rows, title)


def headline(prediction: Prediction) -> Table:
    """Return the figures by which changes are compared; a count that is not certain is a range."""
    evicted = prediction.evicted
    groups = prediction.evictions.groups
    first = min((group.shared.earliest_seconds for group in groups), default=None)
    last = max((group.shared.latest_seconds for group in groups), default=None)
    rows = [
        ("Pods evicted", words.between(len(evicted.certain), len(evicted.every))),
        ("of these stuck Terminating", str(len(evicted.all_stuck))),
        ("First possible eviction", "none" if first is None else words.offset(first)),
        ("Last possible eviction", "none" if last is None else words.offset(last)),
        *_costs(prediction),
        ("Workloads hit", str(len(prediction.workloads))),
        ("Nodes affected", str(len(prediction.nodes))),
        (
            "Pods that stay on them",
            str(len({kept.key for kept in prediction.kept} - evicted.every)),
        ),
    ]
    return Table(columns("FIGURE", "VALUE"), rows, "Figures")


def _costs(prediction: Prediction) -> Iterator[tuple[str, str]]:
    """Yield figures of docs/gates.md by the names that rules call them."""
    facts = Facts(prediction)
    for label, name in _COSTS.items():
        figure = FIGURES[name]
        value = figure.value(facts, "")
        yield f"{label} ({name})", told(value, figure)


def _tables(prediction: Prediction, by: str, *, whole: bool) -> Iterator[Block]:
    if prediction.evictions:
        every_pod = whole or by == "pod" or len(prediction.evictions) <= PODS_MAX
        if by != "pod":
            table = group_table(prediction, by, explained=not every_pod)
            yield replace(table, title=f"Evictions by {by}")
        if every_pod:
            pods = replace(pod_table(prediction.evictions), title="Evicted pods")
            told = stories(prediction.evictions) if whole else None
            yield replace(pods, stories=told)
    yield from details(prediction)


def provenance(prediction: Prediction, clock: Clock, plan: PlanFile | None = None) -> Figures:
    """Return everything that decided the answer, and what ties this page to it and to its plan."""
    # What was assumed has a section of its own.
    found = tuple(fact for fact in facts(prediction.inputs, clock) if fact[0] != ASSUMED)
    tie = [("Fingerprint", f"{sealed(prediction).fingerprint} {_OF_PREDICTION}")]
    if plan is not None:
        made = (
            plan.path if plan.applies else f"{plan.path}, made from files: to be read, not applied"
        )
        tie.append(("Plan", f"{plan.fingerprint} ({made})"))
        if plan.cluster:
            tie.append(("Cluster", plan.cluster))
    return Figures("Inputs, with where each comes from", (*found, *tie))
