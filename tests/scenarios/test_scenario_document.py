"""One file's tree: where its problems stand, and what is left to be read beside them."""

from __future__ import annotations

import msgspec
import pytest

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.scenarios.document import Document
from kubectl_evictplan.sources.yaml_reader import read_documents

TEXT = """\
name: x
items: [1, two]
map: {seconds: 0300}
"""


class File(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    items: list[str]
    gone: str


@pytest.fixture
def document() -> Document:
    (read,) = read_documents(TEXT)
    return Document("f.yaml", read.tree)


def problems_of(document: Document) -> list[str]:
    with pytest.raises(InputError) as raised:
        document.raise_any()
    return [str(problem) for problem in raised.value.problems]


def test_a_problem_stands_at_its_value_else_at_what_should_hold_it(document: Document) -> None:
    document.problem(("map", "minutes"), "is missing")
    document.problem(("items", 1), "is wrong")
    assert problems_of(document) == [
        "f.yaml:2:12: items[1]: is wrong (got 'two')",
        "f.yaml:3:6: map.minutes: is missing",
    ]


def test_a_problem_makes_unsound_what_holds_it_and_nothing_else(document: Document) -> None:
    document.problem(("items", 0), "is wrong")
    assert not document.is_sound(("items", 0)) and not document.is_sound(("items",))
    assert not document.is_sound(())
    assert document.is_sound(("items", 1)) and document.is_sound(("name",))


def test_a_number_is_shown_and_read_as_it_was_written(document: Document) -> None:
    assert document.text(("map", "seconds")) == "0300"
    document.problem(("map", "seconds"), "is odd")
    assert problems_of(document) == ["f.yaml:3:16: map.seconds: is odd (got '0300')"]


def test_a_word_that_cannot_be_parsed_is_a_problem_and_one_that_is_absent_is_none(
    document: Document,
) -> None:
    assert document.parsed(("map", "minutes"), int) is None
    assert document.parsed(("map", "seconds"), int) == 300
    document.raise_any()
    assert document.parsed(("name",), int) is None
    assert problems_of(document)[0].startswith("f.yaml:1:7: name: invalid literal for int()")


def test_a_type_names_wrong_missing_and_unknown_fields_at_once(document: Document) -> None:
    document.check(File)
    assert problems_of(document) == [
        "f.yaml:1:1: required key 'gone' is missing",
        "f.yaml:2:9: items[0]: must be a string, but it is read as a number: quote it (got '1')",
        "f.yaml:3:1: unknown key 'map' (expected one of name, items, gone)",
    ]


def test_a_document_without_problems_raises_nothing(document: Document) -> None:
    document.raise_any()
