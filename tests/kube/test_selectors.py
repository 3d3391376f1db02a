"""Label selectors mean what they mean to kubectl, and are refused when kubectl refuses them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_evictplan.kube.selectors import parse_label_selector

LABELS = {"env": "prod", "tier": "db", "size": "10", "empty": "", "in": "x", "a.b/c": "1"}


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "env", "!nope", "! nope", "env=prod", "env==prod", "env = prod", "env!=dev"),
        *("nope!=dev", "env in (prod)", "env in (dev, prod)", "env notin (dev)", "nope notin (x)"),
        *("empty=", "empty in (,)", "empty in (a,,b)", "env=prod,tier=db", "size>9", "size<11"),
        *(
            "in",
            "in=x",
            "in in (x)",
            "a.b/c=1",
            "env in (prod),tier",
            "size > 09",
            "env,tier",
        ),
        *("empty in ()", "\tenv=prod\n", "env\0=dev", "empty in (a,)"),
    ],
)
def test_selects(text: str) -> None:
    assert parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "nope",
            "!env",
            "env=dev",
            "env!=prod",
            "env in (dev)",
            "env notin (prod)",
            "nope in (x)",
        ),
        *("env=", "size>10", "size<10", "nope>1", "env>1", "env=prod,tier=web", "ENV"),
        *("env in (,)", "empty notin (,)", "env in (Prod)"),
    ],
)
def test_does_not_select(text: str) -> None:
    assert not parse_label_selector(text).matches(LABELS)


REFUSED = [
    *("a==b==c", "a in (", "!", "a in ()", "a in x", "a in (x", "a,", ",a", "a b", "(a)", "a=b c"),
    *("!a=b", "!!a", "a>", "a>x", "a>1.5", "a=(b)", "a=b,,c=d", "-a", "a/b/c", "/a", "a=-b", "a="),
    *(
        "a in (x y)",
        "a notin",
        "a=$",
        "\u0430\u0301=b",
        "a=" + "x" * 64,
        "x" * 64,
        "a>99999999999999999999",
    ),
    *(
        "a===b",
        "a=!b",
        "=b",
        "a in (=)",
        "a in (x,(y))",
        "a!b",
        "a in (in)",
        "a=in",
        "a<+5",
        "a>-5",
    ),
]

# Look wrong, but kubectl takes them.
ACCEPTED = ("a=", "a in (in)", "a=in", "a in ()")


@pytest.mark.parametrize("text", [text for text in REFUSED if text not in ACCEPTED])
def test_refuses_with_what_was_found_and_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|invalid label|operators"):
        parse_label_selector(text)


def test_an_error_names_the_column() -> None:
    with pytest.raises(ValueError, match=r"^column 5: found '==', expected"):
        parse_label_selector("a==b==c")
    with pytest.raises(ValueError, match=r"^column 7: found '', expected"):
        parse_label_selector("a in (")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("text", REFUSED)
def test_kubectl_gives_the_same_verdict(text: str) -> None:
    command = ["kubectl", "drain", "n", "--server=http://127.0.0.1:1", f"--pod-selector={text}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    refused_by_kubectl = "must be a valid label selector" in run.stderr
    try:
        parse_label_selector(text)
    except ValueError:
        assert refused_by_kubectl, run.stderr
    else:
        assert not refused_by_kubectl, run.stderr


@given(st.text(alphabet="ab1=!(),<> in-/.\t\0", max_size=14))
def test_any_text_is_a_selector_or_a_value_error(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except ValueError:
        return
    assert selector.matches({}) in (True, False)


_words = st.text(alphabet="abcXYZ019", min_size=1, max_size=5)


@given(
    st.dictionaries(_words, _words, max_size=4), _words, st.lists(_words, min_size=1, max_size=3)
)
def test_in_and_notin_are_opposites(labels: dict[str, str], key: str, values: list[str]) -> None:
    listed = ",".join(values)
    selected = parse_label_selector(f"{key} in ({listed})").matches(labels)
    assert selected == (labels.get(key) in values)
    assert selected != parse_label_selector(f"{key} notin ({listed})").matches(labels)
