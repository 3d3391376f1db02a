"""``-o json``, ``-o yaml`` and ``-o name``: exact data, readable by every reader alike."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest
import yaml
from building.builders import encoded
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from report.builders import eviction, inputs, kept, one_of_each, prediction
from ruamel.yaml import YAML

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import Prediction, Sourced
from kubectl_evictplan.prediction.fingerprint import fingerprint, sealed
from kubectl_evictplan.report import render

# What the versions of YAML, or a reader in a hurry, take for something other than a string.
AMBIGUOUS = [
    "yes",
    "No",
    "on",
    "OFF",
    "y",
    "N",
    "true",
    "~",
    "null",
    "Null",
    ".inf",
    ".nan",
    "1:30",
    "0o14",
    "012",
    "1_000",
    "1e3",
    "1.0e+3",
    "0x1f",
    "2026-11-20",
    "2026-11-20T22:00:00Z",
    "=",
    "<<",
    "-",
    "?",
    ":",
    "#",
    "&",
    "*",
    "!",
    "|",
    ">",
    "@",
    "`",
    "%",
    "{}",
    "[]",
    "a:b",
    "a:",
    "'x'",
    '"x"',
    "\\",
    ".",
    "..",
    "1.29",
    "+1",
    "-1",
]
AMBIGUOUS += ["", " ", " a", "a ", "a  b", "a #b", "a: b", "- a", "a\nb", "a\r\nb", "\ta", "\x00"]
AMBIGUOUS += ["\x7f", "\x85", "\u2028", "\ufeff", "\ufffe", "é", "界", "\U0001f600", "x" * 3000]

STRINGS = st.sampled_from(AMBIGUOUS) | st.text(max_size=30)


def text_of(value: Prediction, output: str, **options: Any) -> str:
    return "".join(render(value, output, **options))


def with_strings(one: str, two: str = "x") -> Prediction:
    return prediction(
        inputs=inputs(flags={one: Sourced(two, one), "z": Sourced([one, {two: one}, [], {}], "")}),
        evictions=(eviction(one, namespace=two),),
        warnings=(Warning(two, one, (one, two)),),
    )


def read_yaml(text: str) -> list[Any]:
    return [yaml.safe_load(text), YAML(typ="safe", pure=True).load(text)]


def test_json_keys_stand_in_the_order_of_the_document() -> None:
    document = json.loads(text_of(one_of_each(), "json"))
    assert list(document) == [
        *("apiVersion", "kind", "fingerprint", "inputs", "evictions", "kept", "cancelled"),
        *("nodes", "zones", "drains", "workloads", "joint", "warnings", "impact"),
    ]
    assert document["apiVersion"] == "evictplan.dev/v1alpha1"
    assert document["kind"] == "Prediction"
    assert list(document["evictions"][0])[:10] == [
        *("namespace", "pod", "uid", "node", "certainty"),
        *("offsetSeconds", "earliestSeconds", "latestSeconds", "windows", "time"),
    ]


@pytest.mark.parametrize("value", [one_of_each(), prediction()], ids=["full", "empty"])
def test_json_streamed_is_json_written_at_once(value: Prediction) -> None:
    text = text_of(value, "json")
    assert text == msgspec.json.format(text.encode(), indent=2).decode() + "\n"


def test_json_reads_back_into_the_same_prediction() -> None:
    text = text_of(one_of_each(), "json")
    assert msgspec.json.decode(text, type=Prediction) == sealed(one_of_each())


def test_flags_are_sorted_whatever_order_they_came_in() -> None:
    one = {"a": Sourced("1", "given"), "b": Sourced("2", "given")}
    two = dict(reversed(one.items()))
    for output in ("json", "yaml", "table", "wide"):
        texts = {text_of(prediction(inputs=inputs(flags=flags)), output) for flags in (one, two)}
        assert len(texts) == 1


@given(STRINGS, STRINGS)
def test_json_on_a_terminal_is_printable_ascii_and_the_same_data(one: str, two: str) -> None:
    raw = text_of(with_strings(one, two), "json")
    shown = text_of(with_strings(one, two), "json", ascii_only=True)
    assert shown.isascii()
    assert shown.replace("\n", "").isprintable()
    assert json.loads(shown) == json.loads(raw)


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    for output in ("json", "yaml"):
        text = text_of(with_strings("a\ud800b"), output)
        document = yaml.safe_load(text) if output == "yaml" else json.loads(text)
        assert document["evictions"][0]["pod"] == "a\ufffdb"
        assert "a\ufffdb" in document["inputs"]["flags"]


def test_not_a_number_is_null() -> None:
    value = prediction(evictions=(eviction(at=float("nan")), eviction(at=float("inf"))))
    for document in (json.loads(text_of(value, "json")), *read_yaml(text_of(value, "yaml"))):
        assert [entry["offsetSeconds"] for entry in document["evictions"]] == [None, None]


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_yaml_strings_stay_strings_in_every_reader(text: str) -> None:
    expected = json.loads(text_of(with_strings(text), "json"))
    for document in read_yaml(text_of(with_strings(text), "yaml")):
        assert document == expected


@given(STRINGS, STRINGS)
def test_yaml_is_the_same_document_as_json(one: str, two: str) -> None:
    expected = json.loads(text_of(with_strings(one, two), "json"))
    text = text_of(with_strings(one, two), "yaml")
    assert text.isascii()
    for document in read_yaml(text):
        assert document == expected


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_yaml_numbers_are_the_numbers_of_json(number: float) -> None:
    value = prediction(inputs=inputs(horizon=Sourced(number, "given")))
    for document in read_yaml(text_of(value, "yaml")):
        read = document["inputs"]["horizon"]["value"]
        assert read == number
        assert type(read) is type(number)


def test_names_are_kubectls_and_each_pod_stands_once() -> None:
    value = prediction(
        evictions=(
            eviction("b"),
            eviction("a", certainty="possible"),
            eviction("b", uid="second"),
            eviction("a", namespace="other"),
        )
    )
    assert text_of(value, "name") == "pod/b\npod/a\npod/a\n"


@given(st.text())
def test_a_name_is_one_word_for_xargs(name: str) -> None:
    text = text_of(prediction(evictions=(eviction(name),)), "name")
    assert text.startswith("pod/")
    assert text.endswith("\n")
    assert len(text.split()) == 1
    assert text[:-1].isascii()
    assert not set("'\"") & set(text)


def test_an_unknown_format_is_refused_with_the_list_of_formats() -> None:
    with pytest.raises(InputError, match="one of table, wide, json, yaml, name") as caught:
        render(prediction(), "bogus")
    assert "unable to match a printer" in str(caught.value)


@pytest.mark.parametrize("output", ["json", "yaml", "name"])
def test_explain_limits_data_to_the_pod(output: str) -> None:
    text = text_of(one_of_each(), output, explain="default/db-0")
    assert "db-0" in text
    assert "web-9" not in text
    assert "ds-1" not in text


@pytest.mark.parametrize("rows", [0, 1, 1001])
def test_a_fingerprint_counts_the_bytes_of_the_document_that_is_encoded_at_once(rows: int) -> None:
    value = prediction(kept=tuple(kept(f"web-{index}") for index in range(rows)))
    canonical = encoded(value)
    assert fingerprint(value) == f"sha256:{hashlib.sha256(canonical).hexdigest()}"


def test_a_fingerprint_counts_of_an_eviction_the_names_and_a_digest_of_the_rest() -> None:
    row, value = eviction("web-1"), prediction(evictions=(eviction("web-1"),))
    links = [replace(link, object="") for link in row.because[2:]]
    rest = replace(row, namespace="", pod="", uid="", owner="", because=(*row.because[:2], *links))
    digest = hashlib.sha256(encoded((rest, [2, 3]))).hexdigest()
    names = row.namespace, row.pod, row.uid, row.owner

    canonical = encoded(value).replace(encoded(row), encoded((*names, digest)))
    assert digest.encode() in canonical
    assert fingerprint(value) == f"sha256:{hashlib.sha256(canonical).hexdigest()}"


@pytest.mark.parametrize("rows", [50, 51])
def test_rows_that_are_written_together_look_as_each_by_itself(rows: int) -> None:
    names = [f"web-{index}" for index in range(rows)]
    value = prediction(evictions=tuple(map(eviction, names)))
    text = "".join(render(value, "json"))
    assert text == msgspec.json.format(text.encode(), indent=2).decode() + "\n"
    assert [row["pod"] for row in json.loads(text)["evictions"]] == names
