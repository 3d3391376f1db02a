"""YAML as kubectl reads it, with guards, and the table of scalars."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_evictplan.sources.yaml_reader import plain_scalar, read_documents

HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: d}\n"


# What `kubectl annotate --local -f x.yaml -o json` makes of each, v1.32.
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", False), ("on", True), ("y", True), ("N", False), ("Off", False), ("True", True),
        ("0644", 420), ("0o644", 420), ("0x1F", 31), ("0b11", 3), ("1_000", 1000), ("-0x1F", -31),
        ("1e3", 1000.0), ("08", 8.0), (".5", 0.5), ("1.", 1.0), ("+5", 5),
        ("12:30", "12:30"), ("2026-11-01", "2026-11-01"), ("2026-11-01T10:00:00Z",) * 2,
        ("~", None), ("Null", None), ("null", None), ("", None),
        ("nO", "nO"), ("-", "-"), (".", "."), ("1.2.3", "1.2.3"), ("0x", "0x"), ("e3", "e3"),
    ],
)  # fmt: skip
def test_plain_scalars_are_what_kubectl_makes_of_them(text: str, value: Any) -> None:
    assert plain_scalar(text) == value
    assert type(plain_scalar(text)) is type(value) or isinstance(plain_scalar(text), type(value))


def test_special_floats_are_floats() -> None:
    assert plain_scalar("-.inf") == -math.inf
    assert math.isnan(plain_scalar(".NaN"))


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_plain_decimals_are_exact_and_unmarked(value: int) -> None:
    assert type(plain_scalar(str(value))) is int
    assert plain_scalar(str(value)) == value


@given(st.text(max_size=30))
def test_no_scalar_escapes_the_resolver(text: str) -> None:
    plain_scalar(text)


def syntax(text: str) -> list[str]:
    return [
        f"{problem.place}: {problem.message}"
        for document in read_documents(text)
        for problem in document.problems
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: b\n\tc: d", "2:1: "),
        ("a: 'x", "1:6: "),
        ("a: [1, 2", "2:1: "),
        ("a: *nothing", "1:4: undefined alias"),
        ("a:\n  b: 1\n c: 2", "3:"),
    ],
)
def test_syntax_errors_name_line_and_column(text: str, found: str) -> None:
    assert syntax(text)[0].startswith(found)


def test_billion_laughs_are_counted_not_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert "absurd size" in syntax("\n".join(lines))[0]


def test_a_large_scalar_may_not_be_multiplied() -> None:
    text = "a: &a " + "x" * 1_000_000 + "\nb: [" + ", ".join(["*a"] * 20) + "]"
    assert "absurd size" in syntax(text)[0]


def test_an_alias_to_itself_is_refused() -> None:
    assert syntax("a: &a {b: *a}") == ["1:11: alias refers to itself"]


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system", "!foo", "!!binary", "!!set", "!!timestamp"]
)
def test_tags_are_refused(tag: str) -> None:
    (document,) = read_documents(f"a: {tag} x")
    assert document.problems[0].message == "this tag is not accepted"
    assert document.problems[0].got == tag


def test_the_tags_that_json_has_are_accepted() -> None:
    (document,) = read_documents("a: !!str 5\nb: !!int '3'\nc: !!bool yes\nd: ! 7")
    assert document.tree == {"a": "5", "b": 3, "c": True, "d": "7"}


def test_duplicate_keys_name_both_lines() -> None:
    assert syntax("a: 1\nb: 2\na: 3")[0].startswith('3:1: duplicate key "a", first on line 1')


def test_duplicate_anchors_are_a_warning() -> None:
    (document,) = read_documents("a: &x 1\nb: &x 2\nc: *x")
    assert document.tree["c"] == 2
    assert document.warnings[0][0] == "duplicate-anchor"


def test_merge_keys_are_merged_and_written_keys_win() -> None:
    text = "base: &b {k: 1, j: 3}\nother: &o {j: 4, i: 5}\nuse: {<<: [*b, *o], k: 2}"
    (document,) = read_documents(text)
    assert document.tree["use"] == {"k": 2, "j": 3, "i": 5}


@pytest.mark.parametrize("text", ["a: {<<: 3}", "a: {<<: [1]}"])
def test_merging_anything_but_maps_is_refused(text: str) -> None:
    assert "<< must refer to a mapping" in syntax(text)[0]


@pytest.mark.parametrize(
    "text", ["0300", "0o300", "0x12c", "3_00", "1:30", "3e2", "300.0", '"300"', "yes", "+300"]
)
def test_integers_are_plain_decimals(problems: Any, text: str) -> None:
    pod = HEAD + f"spec: {{tolerations: [{{effect: NoExecute, tolerationSeconds: {text}}}]}}\n"
    (line,) = problems(pod)
    assert line.startswith("f.yaml:4:61: Pod d/p: spec.tolerations[0].tolerationSeconds: ")
    assert "plain decimal" in line


@pytest.mark.parametrize("text", ["yes", "no", "on", "off", "y", "n", "1e3", "123", "0x1", "true"])
def test_words_and_numbers_that_should_be_strings_must_be_quoted(problems: Any, text: str) -> None:
    (line,) = problems(HEAD + f"spec:\n  tolerations:\n  - {{key: a, value: {text}}}\n")
    assert line.startswith("f.yaml:6:21: Pod d/p: spec.tolerations[0].value: ")
    assert "quote it" in line


def test_null_is_absent_and_a_date_is_its_text(load: Any) -> None:
    text = (
        HEAD
        + "spec: {nodeName: n1, tolerations: [{key: a, value: ~}, {key: b, value: 2024-01-01}]}\n"
    )
    tolerations = load(text).pods[0].tolerations
    assert [t.value for t in tolerations[:2]] == ["", "2024-01-01"]


@pytest.mark.parametrize("key", ["1", "true", "? [x]\n", "~"])
def test_keys_must_be_strings(key: str) -> None:
    assert "key must be a string" in syntax(f"{key}: x")[0]


def test_empty_documents_between_others_are_skipped(load: Any) -> None:
    other = HEAD.replace("name: p", "name: q")
    snapshot = load(f"---\n---\n{HEAD}---\n# nothing\n---\n{other}")
    assert [pod.name for pod in snapshot.pods] == ["p", "q"]


def test_a_version_directive_is_a_warning(codes: Any) -> None:
    assert "yaml-directive" in codes("%YAML 1.1\n---\n" + HEAD)


def test_a_tag_directive_is_refused() -> None:
    assert "%TAG" in syntax("%TAG ! tag:x,2000:\n---\na: 1")[0]


def test_many_keys_and_long_lines_take_linear_time() -> None:
    started = time.process_time()
    text = "\n".join(f"k{i}: v" for i in range(20_000)) + "\nlong: " + "x" * 1_000_000
    (document,) = read_documents(text)
    assert len(document.tree) == 20_001
    assert time.process_time() - started < 5


def test_escapes_are_data_and_surrogates_are_refused() -> None:
    (document,) = read_documents('a: "\\e[31m\\t"')
    assert document.tree == {"a": "\x1b[31m\t"}
    assert syntax('a: "\\ud800"')


@pytest.mark.parametrize(
    "text", ["a: {{ .Values.x }}", "{{- if .Values.x }}\na: 1\n{{- end }}", "{{ x }}\na: 1"]
)
def test_templates_are_recognised(text: str) -> None:
    assert "unrendered template" in syntax(text)[0]


def test_depth_is_limited() -> None:
    assert "nested deeper than 200" in syntax("a: " + "[" * 5000)[0]


@pytest.mark.parametrize("separator", ["\r", "\x85", "\u2028", "\u2029"])
def test_odd_line_ends_are_refused_not_folded(separator: str) -> None:
    assert "line separator" in syntax(f'a: "x{separator}y"')[0]


def test_crlf_is_fine() -> None:
    (document,) = read_documents("a: 1\r\nb: 2\r\n")
    assert document.tree == {"a": 1, "b": 2}


def test_control_characters_name_their_place() -> None:
    assert syntax("a: 1\nb: \x00")[0].startswith("2:4: ")


@given(st.text(alphabet="ab:{}[]-*&!<>|'\"\n #%,?~01", max_size=60))
def test_any_text_gives_documents_or_problems_never_an_exception(text: str) -> None:
    for document in read_documents(text):
        assert document.tree is None or document.number
