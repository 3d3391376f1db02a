"""docs/examples is what the program says today, to the byte; `make docs` writes it anew."""

from __future__ import annotations

import re
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "docs" / "examples"


def _loaded() -> ModuleType:
    spec = util.spec_from_file_location("examples", REPOSITORY / ".ci" / "examples.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


EXAMPLES = _loaded()
CONTENTS = dict(EXAMPLES.contents())


@pytest.mark.parametrize("name", CONTENTS)
def test_an_example_is_what_the_program_says_today(name: str) -> None:
    assert EXAMPLES.made(CONTENTS[name]) == (FOLDER / name).read_text("utf-8"), "run make docs"


def test_the_index_names_every_example() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")

    assert text == EXAMPLES.index()
    written = {path.name for path in FOLDER.iterdir()} - {"README.md", "policy.yaml"}
    assert set(re.findall(r"\]\(([^/)]+)\)", text)) == written == set(CONTENTS)
