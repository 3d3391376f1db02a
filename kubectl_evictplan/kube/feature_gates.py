"""What a list of feature gates switches: ``--feature-gates`` of any component."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# They set every gate of their stage that is not set by its own name.
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"
_TRUTH = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


def parse_boolean(text: str) -> bool:
    """Read a boolean as Go does (``strconv.ParseBool``); ``ValueError`` for anything else."""
    value = _TRUTH.get(text.strip().lower())
    if value is None:
        raise ValueError("must be true or false")
    return value


def listed_gates(text: str) -> Iterator[tuple[str, str]]:
    """(name, value as it is written) of each gate of a list such as ``SomeGate=true,Other=false``."""
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        yield name.strip(), value.strip()


def is_on(name: str, gates: Mapping[str, bool], every: str, *, default: bool) -> bool:
    """Whether a gate is on, which is set by its name, or with ``every`` one of its stage."""
    return gates.get(name, gates.get(every, default))


def may_be_on(name: str, text: str) -> bool:
    """Whether a list switches on a gate of which the stage is not known; values that cannot be read switch nothing."""
    gates = {}
    for gate, value in listed_gates(text):
        try:
            gates[gate] = parse_boolean(value)
        except ValueError:
            continue
    return any(is_on(name, gates, every, default=False) for every in (ALL_ALPHA, ALL_BETA))
