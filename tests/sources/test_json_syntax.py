"""JSON syntax: every problem with its line and column."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_evictplan.sources import documents

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "d"},
}


def pod_text(**spec: Any) -> str:
    return json.dumps({**POD, "spec": spec})


@pytest.fixture(params=["small", "large"])
def sized(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run once with every object checked and once as if the file were a large dump."""
    if request.param == "large":
        monkeypatch.setattr(documents, "CHECKED_BYTES_MAX", -1)
    return str(request.param)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1,\n "b": [1', "f.json:2:9: unexpected end of the file"),
        ('{"a": 1,\n}', "f.json:2:1: trailing comma"),
        ("{'a': 1}", "f.json:1:2: single quotes"),
        ('{"a": 1 // why\n}', "f.json:1:9: comments are not JSON"),
        ('{"a": 1} {"b": 2}', "f.json:1:10: more than one JSON value"),
    ],
)
def test_syntax_errors_name_place_and_reason(
    problems: Any, sized: str, text: str, expected: str
) -> None:
    (line,) = problems(text, name="f.json")
    assert line.startswith(expected)


def test_json_that_was_cut_anywhere_says_so(problems: Any, sized: str) -> None:
    text = json.dumps(
        {"kind": "List", "items": [{"a": 'x\\y \u00e9 "q"', "b": [1.5e-3, -2, True, None]}]}
    )
    for end in range(1, len(text)):
        (line,) = problems(text[:end], name="f.json")
        assert line.startswith(f"f.json:1:{end + 1}: unexpected end of the file"), text[:end]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_numbers_that_are_none_are_refused(problems: Any, text: str) -> None:
    line = problems(pod_text(x="MARK").replace('"MARK"', text), name="f.json")[0]
    assert "is not JSON" in line or "out of range" in line


def test_duplicate_keys_name_both_lines(problems: Any) -> None:
    text = '{"apiVersion": "v1",\n"kind": "Pod",\n"metadata": {"name": "p",\n"name": "q"}}'
    assert problems(text, name="f.json") == ['f.json:4:1: duplicate key "name", first on line 3']


@pytest.mark.parametrize(
    "members",
    [
        '"items": [{"a": {"b": 1, "b": 2}}]',
        '"items": [], "metadata": {"b": 1, "b": 2}',
        '"items": [{"b": 1}], "items": []',
        # Written as it is, the colon would make up for that of the key that is lost.
        '"items": [{"b": 1, "b": 2, "c": "\\u003c\\u003A"}]',
        '"items": {"b": 1, "b": 2}',
    ],
)
def test_duplicate_keys_are_found_in_items_and_around_them(problems: Any, members: str) -> None:
    text = f'{{"apiVersion": "v1", "kind": "List", {members}}}'
    assert "duplicate key" in problems(text, name="f.json")[0]


def test_equal_keys_of_different_objects_are_fine(load: Any) -> None:
    text = pod_text(containers=[{"name": "a"}, {"name": "a,{", "x": {"name": "}"}}])
    assert load(text, name="f.json").pods


DUPLICATED = '{"apiVersion": "v1", "kind": "Pod", "metadata": {%s}, "spec": {}, "spec": {}}'


def test_a_written_object_in_a_large_file_is_still_checked(
    problems: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "CHECKED_BYTES_MAX", -1)
    text = listed(DUPLICATED % '"name": "p"')
    assert "duplicate key" in problems(text, name="f.json")[0]


def test_stored_objects_of_a_large_dump_are_searched_when_strict_and_said_not_to_be_else(
    load: Any, problems: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = listed(DUPLICATED % '"name": "p", "namespace": "d", "uid": "u"')
    assert "duplicate key" in problems(text, name="f.json")[0]
    monkeypatch.setattr(documents, "CHECKED_BYTES_MAX", 1000)
    text += " " * 1000
    assert [warning.code for warning in load(text, name="f.json").warnings] == ["large-dump"]
    found = problems(text, name="f.json", strict=True)
    assert any('items[0]: duplicate key "spec", first on line 1' in line for line in found)


def test_a_large_dump_with_two_lists_of_items_is_never_half_read(
    problems: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "CHECKED_BYTES_MAX", -1)
    item = json.dumps({**POD, "metadata": {"name": "p", "namespace": "d", "uid": "u"}})
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [{item}], "items": [{item}]}}'
    assert problems(text, name="f.json") == ['f.json: duplicate key "items", first on line 1']


@pytest.mark.parametrize("last", ["{}", '{"kind": "Pod"}'])
@pytest.mark.parametrize(
    "around", ['"metadata": {}, %s', '%s, "metadata": {}', '%s, "x": [{}, {}]']
)
def test_what_is_wrong_with_an_item_of_a_large_dump_is_told_of_it_whatever_stands_around_the_list(
    problems: Any, monkeypatch: pytest.MonkeyPatch, last: str, around: str
) -> None:
    items = f'"items": [{{}} , {json.dumps(POD)},\n {last} ]'
    text = f'{{"apiVersion": "v1", "kind": "List", {around % items}}}'
    small = problems(text, name="f.json")
    monkeypatch.setattr(documents, "CHECKED_BYTES_MAX", -1)
    assert problems(text, name="f.json") == small


def listed(item: str) -> str:
    return f'{{"apiVersion": "v1", "kind": "List", "items": [{item}]}}'


def test_lines_of_json_need_their_extension(load: Any) -> None:
    lines = "\n".join(
        json.dumps({**POD, "metadata": {"name": name, "namespace": "d"}}) for name in "ab"
    )
    assert [pod.name for pod in load(lines, name="f.ndjson").pods] == ["a", "b"]


@pytest.mark.parametrize("field", ["terminationGracePeriodSeconds", "tolerationSeconds"])
@pytest.mark.parametrize("value", ["9" * 5000, str(2**63), str(-(2**63) - 1)])
def test_integers_outside_int64_name_their_field(problems: Any, field: str, value: str) -> None:
    toleration = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": "MARK"}
    spec = (
        {"terminationGracePeriodSeconds": "MARK"}
        if field == "terminationGracePeriodSeconds"
        else {"tolerations": [toleration]}
    )
    (line,) = problems(pod_text(**spec).replace('"MARK"', value), name="f.json")
    assert field in line
    assert "64 bits" in line
    assert "set_int_max_str_digits" not in line


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**53 + 1, 0])
def test_integers_inside_int64_are_exact(load: Any, value: int) -> None:
    toleration = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": value}
    pod = load(pod_text(tolerations=[toleration]), name="f.json").pods[0]
    assert pod.tolerations[0].toleration_seconds == value


def test_nesting_is_limited(problems: Any, sized: str) -> None:
    text = pod_text(x="MARK").replace('"MARK"', "[" * 300 + "]" * 300)
    assert "nested deeper than 200" in problems(text, name="f.json")[0]


def test_absurd_nesting_is_no_traceback(problems: Any, sized: str) -> None:
    text = pod_text(x="MARK").replace('"MARK"', "[" * 100_000 + "]" * 100_000)
    assert "nested deeper than 200" in problems(text, name="f.json")[0]


def test_a_float_is_no_integer(problems: Any, sized: str) -> None:
    stored = {**POD, "metadata": {**POD["metadata"], "uid": "u"}}
    for pod in (POD, stored):
        text = json.dumps({**pod, "spec": {"terminationGracePeriodSeconds": 1.0}})
        (line,) = problems(text, name="f.json")
        assert "terminationGracePeriodSeconds: must be an integer" in line


def test_minus_zero_is_zero(load: Any) -> None:
    text = pod_text(terminationGracePeriodSeconds="MARK").replace('"MARK"', "-0")
    assert load(text, name="f.json").pods[0].termination_grace_period_seconds == 0


@pytest.mark.parametrize("text", ["[1]", "[]", '[{"kind": "Pod"}]'])
def test_the_top_level_must_be_an_object(problems: Any, sized: str, text: str) -> None:
    assert "expected an object" in problems(text, name="f.json")[0]


@pytest.mark.parametrize("text", ['"a"', "3", "null", "true"])
def test_a_bare_value_is_no_object(problems: Any, text: str) -> None:
    assert problems(text, name="f.json", node=False)


def test_surrogates_are_refused(problems: Any, sized: str) -> None:
    text = pod_text(nodeName="MARK").replace("MARK", "\\ud800")
    assert "not valid Unicode" in problems(text, name="f.json")[0]


def test_brackets_inside_strings_are_no_nesting(load: Any) -> None:
    for text in ("[" * 300, "[" * 300 + "]" * 300, "]" * 300):
        assert load({**POD, "metadata": {**POD["metadata"], "annotations": {"a": text}}}).pods
