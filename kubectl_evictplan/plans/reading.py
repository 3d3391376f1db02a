"""A plan file, read back strictly: exactly what was written, or one line that says what it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kubectl_evictplan.errors import DriftError, InputError, Problem
from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.durations import DURATION_MAX_NS, SECOND_NS
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.plans.document import Evict, Plan
from kubectl_evictplan.plans.fingerprint import fingerprint, plan_text
from kubectl_evictplan.prediction import fingerprint as predictions
from kubectl_evictplan.sources.decoder_messages import syntax_stop, wrong_field

KIND = "Plan"
BYTES_MAX = 1 << 30
_SECONDS_MAX = DURATION_MAX_NS // SECOND_NS


class _Header(msgspec.Struct, rename="camel"):
    kind: object = None
    api_version: object = None


def read_plan(data: bytes, location: str) -> Plan:
    """Return the plan in ``data``; ``location`` is the file's name for messages.

    Raises InputError for what is no plan, is cut, or is one of another version, and DriftError for a plan that is not the one that was made:
    its fingerprint differs, or the file holds what its fingerprint does not cover, be it a space.
    """
    _check_header(data, location)
    try:
        plan = msgspec.json.decode(data, type=Plan)
    except msgspec.ValidationError as error:
        raise _wrong(location, *_told(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(location, error) from None
    found = fingerprint(plan)
    written = plan_text(plan)
    if data != written and (missing := _missing(*map(msgspec.json.decode, (data, written)))):
        raise _wrong(location, "made by another version of this program: make it anew", missing)
    if plan.fingerprint != found:
        message = "was changed after it was made: make it anew"
        raise DriftError(Problem(message, location=location, got=plan.fingerprint, expected=found))
    # A field that comes twice, in a place that nobody reads, and spaces have no part in the fingerprint.
    if data != written:
        is_same = msgspec.json.format(data, indent=-1) == msgspec.json.format(written, indent=-1)
        message = (
            "its spaces or line ends were changed after it was made: make it anew"
            if is_same
            else "holds more than a plan holds, or in another order: it was written by another program"
        )
        raise DriftError(Problem(message, location=location))
    _check_contents(plan, location)
    return plan


def _missing(written: object, whole: object, place: str = "") -> str:
    """Return the first field of ``whole`` that is not in what was written, "" without any."""
    if isinstance(written, dict) and isinstance(whole, dict):
        for name, part in whole.items():
            where = f"{place}.{name}" if place else str(name)
            if name not in written:
                return where
            if isinstance(part, dict | list) and (found := _missing(written[name], part, where)):
                return found
    elif isinstance(written, list) and isinstance(whole, list):
        for one, other in zip(written, whole, strict=False):
            if isinstance(other, dict | list) and (found := _missing(one, other, place)):
                return found
    return ""


def _check_header(data: bytes, location: str) -> None:
    if not data.strip():
        raise _wrong(location, "the file is empty")
    if len(data) > BYTES_MAX:
        raise _wrong(location, f"larger than {BYTES_MAX >> 20} MiB")
    try:
        header = msgspec.json.decode(data, type=_Header)
    except msgspec.ValidationError:
        raise _wrong(location, "not a plan") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(location, error) from None
    if header.kind != KIND:
        raise _wrong(location, f"not a plan: kind must be {KIND}", "kind", header.kind)
    if header.api_version != API_VERSION:
        message = f"not a plan of this version: apiVersion must be {API_VERSION}; make it anew"
        raise _wrong(location, message, "apiVersion", header.api_version)


def _check_contents(plan: Plan, location: str) -> None:
    problems = [
        Problem(message, location=location, field=field) for field, message in _contradictions(plan)
    ]
    if problems:
        raise InputError(problems)


def _contradictions(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what no plan of ours holds, whatever its fingerprint says: (field, message)."""
    numbers = [operation.number for operation in plan.operations]
    if numbers != list(range(1, len(numbers) + 1)):
        yield "operations", "they are not numbered from 1 on"
    offsets = [operation.at_seconds for operation in plan.operations]
    if offsets != sorted(offsets) or not all(map(_is_duration, offsets)):
        yield "operations", "they are not in the order of their times"
    known = {node.name for node in plan.nodes}
    if missing := sorted({one.node for one in plan.operations} - known):
        yield "nodes", f"node {missing[0]!r} of an operation is missing"
    if plan.prediction.fingerprint != predictions.fingerprint(plan.prediction):
        yield "prediction.fingerprint", "it is another prediction's"
    yield from _strange_pods(plan)
    execution = plan.execution
    if execution.parallel < 1:
        yield "execution.parallel", "must be 1 or more"
    if not all(map(_is_duration, (execution.settle_seconds, execution.eviction_timeout_seconds))):
        yield "execution", f"a duration lies below 0 or above {_SECONDS_MAX} seconds"
    yield from _strange_times(plan)
    if not _names_nodes(plan.scenario):
        yield "scenario.spec.events", "not a list of events, each with its nodes"


def _is_duration(seconds: float) -> bool:
    return 0 <= seconds <= _SECONDS_MAX


def _strange_times(plan: Plan) -> Iterator[tuple[str, str]]:
    for field, text in (
        ("createdAt", plan.created_at),
        ("snapshot.takenAt", plan.snapshot.taken_at),
    ):
        try:
            parse_rfc3339_ns(text)
        except ValueError as error:
            yield field, str(error)
    least, most = plan.assume_ready_seconds or (0.0, 0.0)
    if not (_is_duration(least) and (most is None or (_is_duration(most) and least <= most))):
        yield "assumeReadySeconds", f"no range from 0 to at most {_SECONDS_MAX} seconds"


def _names_nodes(scenario: Mapping[str, Any]) -> bool:
    """Whether a scenario has the shape that is gone through before it is read as one."""
    spec = scenario.get("spec", {})
    events = spec.get("events", []) if isinstance(spec, dict) else None
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        return False
    named = [event.get("nodes", []) for event in events]
    return all(
        isinstance(nodes, list) and all(isinstance(node, str) for node in nodes) for nodes in named
    )


def _strange_pods(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield evictions and losses of pods that the plan does not list as they were."""
    listed = {(pod.namespace, pod.pod, pod.node) for pod in plan.pods}
    uids = {(pod.key, pod.uid, pod.node) for pod in plan.pods}
    for one in plan.operations:
        if isinstance(one, Evict) and (one.key, one.uid, one.node) not in uids:
            yield "pods", f"pod {one.key!r} of operation {one.number} is missing, or another one"
    for loss in plan.losses:
        if (loss.namespace, loss.pod, loss.node) not in listed:
            yield "losses", f"pod '{loss.namespace}/{loss.pod}' is none of the plan's"


def _told(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return what a decoder says, and the field that it means."""
    wrong = wrong_field(error)
    if wrong.is_missing:
        return f"{wrong.what}: made by another version of this program: make it anew", wrong.field
    return f"not as a plan has it: {wrong.what}", wrong.field


def _not_json(location: str, error: Exception) -> InputError:
    if syntax_stop(str(error)).is_cut_off:
        return _wrong(location, "the file is cut off: copy it again, or make the plan anew")
    return _wrong(location, "not a plan: no JSON")


def _wrong(location: str, message: str, field: str = "", got: object = None) -> InputError:
    shown = None if got is None else repr(got)
    return InputError(Problem(message, location=location, field=field, got=shown))
