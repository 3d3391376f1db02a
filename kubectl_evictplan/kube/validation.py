"""The API server's syntax rules for names, labels, taints and tolerations, in its own words.

Upstream: pkg/apis/core/validation. Every function returns what is wrong as a list, empty when
the value is valid, and never raises: whether a violation is an error (hand-written manifests) or a
warning (objects that a server stored long ago) is the caller's decision. Lengths count UTF-8 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kubectl_evictplan.kube.objects import EFFECTS, NO_EXECUTE, Taint, Toleration

OPERATORS = ("Equal", "Exists")
NUMERIC_OPERATORS = ("Lt", "Gt")

DUPLICATE_TAINT = "taints must be unique by key and effect pair"
_INT64_MAX = 2**63 - 1
_LABEL_PART_MAX = 63
_SUBDOMAIN_MAX = 253

_QUALIFIED_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
# The rule of label words in short, for people.
LABEL_RULE = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
_CANONICAL_INTEGER = "0|-?[1-9][0-9]*"

_QUALIFIED_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)
_DNS_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character"
)
_DNS_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)


class FieldMessage(NamedTuple):
    """One violation: the field inside the object, what is wrong, and the value found."""

    field: str
    message: str
    got: str


def validate_qualified_name(value: str) -> list[str]:
    """Return what is wrong with a label key or taint key (``IsQualifiedName``)."""
    parts = value.split("/")
    messages = []
    if len(parts) > 2:
        rule = _pattern_rule(_QUALIFIED_NAME_RULE, _QUALIFIED_NAME, "MyName", "my.name", "123-abc")
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a qualified name {rule}{suffix}"]
    if len(parts) == 2:
        if not parts[0]:
            messages.append("prefix part must be non-empty")
        else:
            messages += [f"prefix part {text}" for text in validate_dns_subdomain(parts[0])]
    name = parts[-1]
    if not name:
        messages.append("name part must be non-empty")
    elif _length(name) > _LABEL_PART_MAX:
        messages.append(f"name part must be no more than {_LABEL_PART_MAX} characters")
    if not re.fullmatch(_QUALIFIED_NAME, name):
        rule = _pattern_rule(_QUALIFIED_NAME_RULE, _QUALIFIED_NAME, "MyName", "my.name", "123-abc")
        messages.append(f"name part {rule}")
    return messages


def validate_label_value(value: str) -> list[str]:
    """Return what is wrong with a label value or taint value (``IsValidLabelValue``)."""
    messages = []
    if _length(value) > _LABEL_PART_MAX:
        messages.append(f"must be no more than {_LABEL_PART_MAX} characters")
    if not re.fullmatch(_LABEL_VALUE, value):
        messages.append(
            _pattern_rule(_LABEL_VALUE_RULE, _LABEL_VALUE, "MyValue", "my_value", "12345")
        )
    return messages


def validate_labels(labels: dict[str, str]) -> list[FieldMessage]:
    """Return what is wrong with a map of labels, in the map's order."""
    found = []
    for key, value in labels.items():
        found += [FieldMessage(key, message, key) for message in validate_qualified_name(key)]
        found += [FieldMessage(key, message, value) for message in validate_label_value(value)]
    return found


def validate_dns_label(value: str) -> list[str]:
    """Return what is wrong with a namespace name (``IsDNS1123Label``)."""
    messages = []
    if _length(value) > _LABEL_PART_MAX:
        messages.append(f"must be no more than {_LABEL_PART_MAX} characters")
    if not re.fullmatch(_DNS_LABEL, value):
        messages.append(_pattern_rule(_DNS_LABEL_RULE, _DNS_LABEL, "my-name", "123-abc"))
    return messages


def validate_dns_subdomain(value: str) -> list[str]:
    """Return what is wrong with the name of a node, pod or workload (``IsDNS1123Subdomain``)."""
    messages = []
    if _length(value) > _SUBDOMAIN_MAX:
        messages.append(f"must be no more than {_SUBDOMAIN_MAX} characters")
    # Checked piece by piece: the one pattern of the message would backtrack on hostile input.
    if not all(re.fullmatch(_DNS_LABEL, label) for label in value.split(".")):
        messages.append(_pattern_rule(_DNS_SUBDOMAIN_RULE, _DNS_SUBDOMAIN, "example.com"))
    return messages


def validate_taint(taint: Taint) -> list[FieldMessage]:
    """Return what is wrong with one taint of ``spec.taints``."""
    found = [
        FieldMessage("key", message, taint.key) for message in validate_qualified_name(taint.key)
    ]
    found += [
        FieldMessage("value", message, taint.value) for message in validate_label_value(taint.value)
    ]
    return found + _validate_effect(taint.effect, required=True)


def validate_taints(taints: Iterable[Taint]) -> list[tuple[int, FieldMessage]]:
    """Return what is wrong with a whole ``spec.taints``, with the taint's number.

    The field is "" where the taint as a whole is wrong.
    """
    found = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        found += [(index, message) for message in validate_taint(taint)]
        if (taint.key, taint.effect) in seen:
            found.append((index, FieldMessage("", DUPLICATE_TAINT, f"{taint.key}:{taint.effect}")))
        seen.add((taint.key, taint.effect))
    return found


def validate_toleration(
    toleration: Toleration, *, comparison_operators: bool = False
) -> list[FieldMessage]:
    """Return what is wrong with one toleration.

    ``comparison_operators`` says that the API server knows ``Lt`` and ``Gt`` (1.35+, with gate).
    """
    found = []
    if toleration.key:
        found += [
            FieldMessage("key", message, toleration.key)
            for message in validate_qualified_name(toleration.key)
        ]
    elif toleration.operator != "Exists":
        message = (
            'operator must be Exists when `key` is empty, which means "match all values and all '
            'keys"'
        )
        found.append(FieldMessage("operator", message, toleration.operator))
    if toleration.toleration_seconds is not None and toleration.effect != NO_EXECUTE:
        message = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        found.append(FieldMessage("effect", message, toleration.effect))
    found += _validate_operator(toleration, comparison_operators)
    return found + _validate_effect(toleration.effect, required=False)


def validate_tolerations(
    tolerations: Iterable[Toleration], *, comparison_operators: bool = False
) -> list[tuple[int, FieldMessage]]:
    """Return what is wrong with ``spec.tolerations``; duplicates are allowed, order counts."""
    return [
        (index, message)
        for index, toleration in enumerate(tolerations)
        for message in validate_toleration(toleration, comparison_operators=comparison_operators)
    ]


def _validate_operator(toleration: Toleration, comparison_operators: bool) -> list[FieldMessage]:
    """Return what is wrong with the operator and, given the operator, with the value."""
    operator, value = toleration.operator, toleration.value
    if operator in ("", "Equal"):
        return [FieldMessage("value", message, value) for message in validate_label_value(value)]
    if operator == "Exists":
        if not value:
            return []
        return [FieldMessage("value", "value must be empty when `operator` is 'Exists'", value)]
    if operator in NUMERIC_OPERATORS and comparison_operators:
        if is_canonical_integer(value):
            return []
        message = "value must be a decimal integer within 64 bits, without '+' or leading zeros"
        return [FieldMessage("value", message, value)]
    supported = OPERATORS + (NUMERIC_OPERATORS if comparison_operators else ())
    return [FieldMessage("operator", f"supported values: {_quoted(supported)}", operator)]


def _validate_effect(effect: str, *, required: bool) -> list[FieldMessage]:
    """Return what is wrong with a taint's (required) or a toleration's (optional) effect."""
    if effect in EFFECTS or (not effect and not required):
        return []
    if not effect:
        return [FieldMessage("effect", f"required: one of {_quoted(EFFECTS)}", effect)]
    return [FieldMessage("effect", f"supported values: {_quoted(EFFECTS)}", effect)]


def is_canonical_integer(value: str) -> bool:
    """Tell whether ``Lt`` and ``Gt`` can compare the value: decimal int64 in its one spelling."""
    if len(value) > 20 or not re.fullmatch(_CANONICAL_INTEGER, value):
        return False
    return -_INT64_MAX - 1 <= int(value) <= _INT64_MAX


def _pattern_rule(rule: str, pattern: str, *examples: str) -> str:
    """Return a rule as apimachinery's ``RegexError`` words it, double blanks included."""
    quoted = ",  or ".join(f"'{example}'" for example in examples)
    return f"{rule} (e.g. {quoted}, regex used for validation is '{pattern}')"


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def _length(value: str) -> int:
    return len(value.encode("utf-8", "surrogatepass"))
