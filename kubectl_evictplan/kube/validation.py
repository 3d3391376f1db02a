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
# The rule of label words in short, for people.
LABEL_RULE = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
INT64_MAX = 2**63 - 1
_INTEGER = re.compile(r"[-+]?[0-9]{1,100}", re.ASCII)
_LABEL_PART_MAX = 63
_SUBDOMAIN_MAX = 253


def _pattern_rule(rule: str, pattern: str, *examples: str) -> str:
    """Return a rule as apimachinery's ``RegexError`` words it, double blanks included."""
    quoted = ",  or ".join(f"'{example}'" for example in examples)
    return f"{rule} (e.g. {quoted}, regex used for validation is '{pattern}')"


_QUALIFIED_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED_NAME_RULE = _pattern_rule(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character",
    *(_QUALIFIED_NAME, "MyName", "my.name", "123-abc"),
)
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_LABEL_VALUE_RULE = _pattern_rule(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character",
    *(_LABEL_VALUE, "MyValue", "my_value", "12345"),
)
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL_RULE = _pattern_rule(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character",
    *(_DNS_LABEL, "my-name", "123-abc"),
)
_DNS_SUBDOMAIN_RULE = _pattern_rule(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character",
    *(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*", "example.com"),
)


class FieldMessage(NamedTuple):
    """One violation: the field inside the object, what is wrong, and the value found."""

    field: str
    message: str
    got: str


def validate_qualified_name(value: str) -> list[str]:
    """Return what is wrong with a label key or taint key (``IsQualifiedName``)."""
    *prefixes, name = value.split("/")
    if len(prefixes) > 1:
        suffix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a qualified name {_QUALIFIED_NAME_RULE} {suffix}"]
    messages = []
    for prefix in prefixes:
        wrong = validate_dns_subdomain(prefix) if prefix else ["must be non-empty"]
        messages += [f"prefix part {message}" for message in wrong]
    wrong = [] if name else ["must be non-empty"]
    is_valid = re.fullmatch(_QUALIFIED_NAME, name) is not None
    wrong += _wrong_word(name, _LABEL_PART_MAX, is_valid, _QUALIFIED_NAME_RULE)
    return [*messages, *(f"name part {message}" for message in wrong)]


def validate_label_value(value: str) -> list[str]:
    """Return what is wrong with a label value or taint value (``IsValidLabelValue``)."""
    is_valid = re.fullmatch(_LABEL_VALUE, value) is not None
    return _wrong_word(value, _LABEL_PART_MAX, is_valid, _LABEL_VALUE_RULE)


def validate_dns_label(value: str) -> list[str]:
    """Return what is wrong with a namespace name (``IsDNS1123Label``)."""
    is_valid = re.fullmatch(_DNS_LABEL, value) is not None
    return _wrong_word(value, _LABEL_PART_MAX, is_valid, _DNS_LABEL_RULE)


def validate_dns_subdomain(value: str) -> list[str]:
    """Return what is wrong with the name of a node, pod or workload (``IsDNS1123Subdomain``)."""
    # Checked piece by piece: the one pattern of the message would backtrack on hostile input.
    is_valid = all(re.fullmatch(_DNS_LABEL, label) for label in value.split("."))
    return _wrong_word(value, _SUBDOMAIN_MAX, is_valid, _DNS_SUBDOMAIN_RULE)


def _wrong_word(value: str, length_max: int, is_valid: bool, rule: str) -> list[str]:
    is_long = len(value.encode("utf-8", "surrogatepass")) > length_max
    messages = [f"must be no more than {length_max} characters"] if is_long else []
    return messages if is_valid else [*messages, rule]


def validate_labels(labels: dict[str, str]) -> list[FieldMessage]:
    """Return what is wrong with a map of labels, in the map's order."""
    found = []
    for key, value in labels.items():
        found += _about(key, key, validate_qualified_name(key))
        found += _about(key, value, validate_label_value(value))
    return found


def validate_taints(taints: Iterable[Taint]) -> list[tuple[int, FieldMessage]]:
    """Return what is wrong with a whole ``spec.taints``, with the taint's number.

    The field is "" where the taint as a whole is wrong.
    """
    found = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        wrong = _about("key", taint.key, validate_qualified_name(taint.key))
        wrong += _about("value", taint.value, validate_label_value(taint.value))
        wrong += _validate_effect(taint.effect, required=True)
        if (taint.key, taint.effect) in seen:
            wrong += _about("", f"{taint.key}:{taint.effect}", [DUPLICATE_TAINT])
        seen.add((taint.key, taint.effect))
        found += [(index, message) for message in wrong]
    return found


def validate_toleration(
    toleration: Toleration, *, comparison_operators: bool = False
) -> list[FieldMessage]:
    """Return what is wrong with one toleration.

    ``comparison_operators`` says that the API server knows ``Lt`` and ``Gt`` (1.35+, with gate).
    """
    found = []
    if toleration.key:
        found += _about("key", toleration.key, validate_qualified_name(toleration.key))
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
    wrong = []
    if operator in ("", "Equal"):
        wrong = validate_label_value(value)
    elif operator == "Exists":
        wrong = ["value must be empty when `operator` is 'Exists'"] if value else []
    elif operator in NUMERIC_OPERATORS and comparison_operators:
        if parse_int64(value, canonical=True) is None:
            wrong = ["value must be a decimal integer within 64 bits, without '+' or leading zeros"]
    else:
        supported = OPERATORS + (NUMERIC_OPERATORS if comparison_operators else ())
        return _about("operator", operator, [f"supported values: {_quoted(supported)}"])
    return _about("value", value, wrong)


def _validate_effect(effect: str, *, required: bool) -> list[FieldMessage]:
    """Return what is wrong with a taint's (required) or a toleration's (optional) effect."""
    if effect in EFFECTS or (not effect and not required):
        return []
    rule = "supported values:" if effect else "required: one of"
    return _about("effect", effect, [f"{rule} {_quoted(EFFECTS)}"])


def parse_int64(text: str, *, canonical: bool = False) -> int | None:
    """Return Go's ``ParseInt(text, 10, 64)``, or None; ``canonical``: only in its one spelling."""
    number = int(text) if _INTEGER.fullmatch(text) else INT64_MAX + 1
    is_spelled_so = not canonical or text == str(number)
    return number if is_spelled_so and -INT64_MAX - 1 <= number <= INT64_MAX else None


def _about(field: str, got: str, messages: Iterable[str]) -> list[FieldMessage]:
    return [FieldMessage(field, message, got) for message in messages]


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)
