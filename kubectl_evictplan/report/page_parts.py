"""What a page consists of besides its text: escaping, data, scripts and the policy that allows only these.

The page loads nothing and runs nothing but what is in it: its Content-Security-Policy names the hash of each script and
of the style. Data stand in elements that no browser executes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from kubectl_evictplan.display import escape

_PAGE = "page"
_IMPORT = "import { ascending, isString, DisallowedObjectProperties } from 'vega-util';"
_EXPORT = "export { expression as expressionInterpreter };"
_TEXT_COLUMNS_MAX = 2000
# Inside a script element these could end it, or begin a comment.
_JSON_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def escaped(text: str, columns_max: int | None = _TEXT_COLUMNS_MAX) -> str:
    """Return a text that is safe between tags and in quoted attributes."""
    return html.escape(escape(text, max_columns=columns_max))


def json_element(name: str, value: Any) -> str:
    """Return data as JSON in an element of this id."""
    text = msgspec.json.encode(value).decode().translate(_JSON_ESCAPES)
    return f'<script type="application/json" id="{name}">{text}</script>\n'


def packed_element(name: str, value: Any) -> str:
    """Return data as compressed JSON in an element of this id, for what would be megabytes."""
    packed = gzip.compress(msgspec.json.encode(value), 4, mtime=0)
    text = base64.b64encode(packed).decode()
    return f'<script type="application/gzip" id="{name}">{text}</script>\n'


@cache
def style() -> str:
    """Return the style sheet."""
    return _asset("page.css")


@cache
def scripts() -> tuple[str, ...]:
    """Return the scripts in the order in which they run."""
    interpreter = _asset("vega-interpreter.js")
    assert interpreter.count(_IMPORT) == 1
    assert interpreter.count(_EXPORT) == 1
    # Shipped as its authors publish it, a module; inline modules cannot import each other.
    taken = _IMPORT.replace("import", "const").replace("from 'vega-util'", "= vega")
    body = interpreter.replace(_IMPORT, taken).replace(
        _EXPORT, "globalThis.vegaInterpreter = expression;"
    )
    wrapped = f"(() => {{\n{_without_map(body)}\n}})();\n"
    libraries = (_without_map(_asset(name)) for name in ("vega.min.js", "vega-lite.min.js"))
    return (*libraries, wrapped, _asset("page.js"))


def policy() -> str:
    """Return the Content-Security-Policy of a page."""
    allowed = " ".join(f"'{_hash(script)}'" for script in scripts())
    return (
        f"default-src 'none'; script-src {allowed}; style-src '{_hash(style())}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return files(__package__).joinpath(_PAGE, name).read_text("utf-8")


def _without_map(text: str) -> str:
    """Return a script without the address of its source map, which is not there."""
    head, mark, tail = text.rpartition("//# sourceMappingURL=")
    return head if mark and "\n" not in tail.strip() else text
