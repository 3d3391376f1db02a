"""What the documentation names exists: files, modules, functions, classes, knobs, rules."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from pathlib import Path

import pytest

from kubectl_evictplan.sources.reading import GET_COMMAND

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "kubectl_evictplan"
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in REPOSITORY.glob("docs/*.md"))]

_CODE = re.compile(r"`([^`\n]+)`")
# docs/fidelity.md, windows/, kube/taints.reconcile_no_schedule
_PATH = re.compile(r"\.?[a-z_]+(?:/[A-Za-z_]+)*(?:/|/[\w.]+|\.py)")
# NodeLifecycle.monitor_tick, node_health.try_update_node_health, sources.yaml_reader
_MEMBER = re.compile(r"(\w+)\.(_?[a-z][a-z0-9_]*)")
_NO_PATHS = ("namespace/name", "region/zone")
# NodeLifecycle, TaintEviction.process_pod_on_node
_CLASS = re.compile(r"[A-Z][a-z]\w*[A-Z]\w*(?:\.\w+)?")
# In other pages such names are upstream's.
CODE_PAGES = [f"docs/{name}.md" for name in ("architecture", "parts", "windows")]
_IDENTIFIER = re.compile(r"_?[a-z]+(?:_[a-z0-9]+)+")


def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text("utf-8")


def names_in(page: str) -> list[str]:
    return sorted(set(_CODE.findall(re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL))))


@cache
def members() -> dict[str, set[str]]:
    """What modules (by path and by name), packages and classes contain."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        module = path.relative_to(PACKAGE).with_suffix("").as_posix()
        for name in {module, path.stem}:
            found.setdefault(name, {"py"}).update(_defined(tree.body))
        found.setdefault(path.parent.name, set()).add(path.stem)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(_defined(node.body))
    return found


def _defined(body: list[ast.stmt]) -> set[str]:
    names = set()
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


def exists(path: str) -> bool:
    module, _, member = path.partition(".")
    return (
        path in _NO_PATHS
        or (REPOSITORY / path).exists()
        or (PACKAGE / path).exists()
        or (module in members() and (not member or member.split(".")[0] in members()[module]))
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_folder_that_a_page_names_exists(page: str) -> None:
    assert [name for name in names_in(page) if _PATH.fullmatch(name) and not exists(name)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_function_and_field_that_a_page_names_exists(page: str) -> None:
    missing = [
        match[0]
        for match in filter(None, map(_MEMBER.fullmatch, names_in(page)))
        if (match[1] in members() or match[1][0].isupper())
        and match[2] not in members().get(match[1], ())
    ]

    assert missing == []


def test_every_identifier_that_a_page_names_is_one_of_the_code() -> None:
    paths = [
        path
        for folder in ("kubectl_evictplan", "tests")
        for path in REPOSITORY.glob(f"{folder}/**/*.py")
    ]
    words = {word for path in paths for word in re.findall(r"\w+", path.read_text("utf-8"))}

    assert [
        (page, name)
        for page in PAGES
        for name in names_in(page)
        if _IDENTIFIER.fullmatch(name) and name not in words
    ] == []


@pytest.mark.parametrize(
    "page", ["docs/warnings.md", *(f"docs/{p}.md" for p in ("fidelity", "upstream", "windows"))]
)
def test_every_rule_that_a_page_refers_to_is_told(page: str) -> None:
    told = re.findall(r"^(\d+)\. ", text_of("docs/fidelity.md"), flags=re.MULTILINE)
    lists = re.findall(r"\brules? (\d+(?:(?:, | and )\d+)*)", text_of(page))
    numbers = {number for found in lists for number in re.findall(r"\d+", found)}

    assert told == [str(number + 1) for number in range(len(told))]
    assert numbers
    assert numbers <= set(told)


@pytest.mark.parametrize("page", CODE_PAGES)
def test_every_class_that_a_page_about_the_code_names_is_one_of_the_code(page: str) -> None:
    defined = {name for names in members().values() for name in names} | set(members())
    defined |= set(dir(builtins))
    named = {name.split(".")[0] for name in names_in(page) if _CLASS.fullmatch(name)}
    assert named
    assert sorted(named - defined) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_page_and_a_heading_that_exist(page: str) -> None:
    here = REPOSITORY / page
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        file, _, heading = link.partition("#")
        target = here.parent / file if file else here
        if "://" not in link and not (
            target.exists() and (not heading or heading in headings(target))
        ):
            lost.append(link)
    assert lost == []


def headings(page: Path) -> set[str]:
    """The anchors that a page has on GitHub."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_imports_go_down_in_the_order_that_is_checked() -> None:
    layers = re.search(r"^layers =\n((?: +.+\n)+)", text_of("setup.cfg"), re.MULTILINE)
    shown = re.search(r"^completion > [^`]+", text_of("docs/architecture.md"), re.MULTILINE)
    assert layers and shown
    assert [name.strip() for name in shown[0].split(">")] == [
        line.strip() for line in layers[1].splitlines()
    ]


def test_the_readme_makes_its_input_as_the_hints_say() -> None:
    assert f"    {GET_COMMAND} > cluster.json\n" in text_of("README.md")


def test_every_word_of_the_glossary_stands_there_once() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", text_of("docs/glossary.md"), re.MULTILINE)
    words = [word.strip() for row in rows if row not in ("Word", "---") for word in row.split(",")]
    assert len(words) > 70
    assert sorted(words) == sorted(set(words))


def test_the_words_of_each_table_of_the_glossary_are_in_order() -> None:
    for section in text_of("docs/glossary.md").split("\n## ")[1:]:
        rows = re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)[2:]
        assert rows == sorted(rows, key=str.lower)
