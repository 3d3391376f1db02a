"""``-o findings``: what a pipeline needs of a prediction, in one small document."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kubectl_evictplan.gates.document import GateResult
from kubectl_evictplan.gates.figures import FIGURES, Facts, Known
from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.fingerprint import sealed
from kubectl_evictplan.prediction.impact_document import Finding
from kubectl_evictplan.prediction.records import Record


class FigureValue(Record):
    """A figure of docs/gates.md over the whole prediction.

    At least and at most, in things or in seconds; ``most`` null: without end. Both null where it is not
    known: ``unknown`` says why.
    """

    least: float | None
    most: float | None
    unknown: str = ""


class FindingsDocument(Record):
    """What is to know about one prediction, without its rows.

    ``fingerprint`` is that of the prediction, ``gates_failed`` how many of the ``gates`` failed. ``findings`` and ``not_evaluated``
    are null where what the change costs was not evaluated.
    """

    fingerprint: str
    source_digest: str
    tool_version: str
    verdict: tuple[str, ...]
    figures: dict[str, FigureValue]
    gates_failed: int
    gates: tuple[GateResult, ...]
    findings: tuple[Finding, ...] | None
    not_evaluated: tuple[str, ...] | None
    warnings: tuple[Warning, ...]
    api_version: str = API_VERSION
    kind: str = "Findings"


def findings_document(
    prediction: Prediction, gates: Sequence[GateResult], verdict: Sequence[str]
) -> FindingsDocument:
    """Return the document; ``verdict`` are the sentences of the answer."""
    impact = prediction.impact
    facts = Facts(prediction)
    return FindingsDocument(
        sealed(prediction).fingerprint,
        prediction.inputs.source_digest,
        prediction.inputs.tool_version,
        tuple(verdict),
        {name: _figure(name, facts) for name in FIGURES},
        sum(gate.failed for gate in gates),
        tuple(gates),
        None if impact is None else tuple(impact.findings),
        None if impact is None else tuple(impact.not_evaluated),
        tuple(prediction.warnings),
    )


def _figure(name: str, facts: Facts) -> FigureValue:
    value = FIGURES[name].value(facts, "")
    if not isinstance(value, Known):
        return FigureValue(None, None, value.why)
    return FigureValue(value.least, None if math.isinf(value.most) else value.most)
