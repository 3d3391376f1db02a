"""Strings that try to leave the place where a report puts them, in any of its formats."""

from __future__ import annotations

import random

_PIECES = [
    *(
        "\x1b[31m",
        "\x9b",
        "\u202e",
        "\u2066",
        "\u200b",
        "\u2028",
        "\x85",
        "\ufeff",
        "\ud800",
        "\x00",
        "\r",
    ),
    *(
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        "|",
        "\\|",
        "\\",
        "\\\\",
        "`",
        "``",
        "```",
        "~~~",
        "*",
        "**",
        "_",
        "__",
    ),
    *(
        "[a](javascript:x)",
        "![i](http://x/y)",
        "[x]: http://y",
        "[^1]",
        "<b>",
        "</td>",
        "</table>",
        "<!--",
    ),
    *(
        "-->",
        "<script>alert(1)</script>",
        "</script>",
        "]]>",
        "<![CDATA[",
        "&lt;",
        "&#60;",
        "&",
        "<",
        ">",
    ),
    *(
        '"',
        "'",
        "onload=x",
        "http://evil.example",
        "https://e",
        "www.evil.example",
        "a@b.example",
        "@team",
    ),
    *(
        "#1",
        "GH-1",
        "!1",
        "$1",
        "$x$",
        "~label",
        "%1",
        "^alert",
        ":tada:",
        "%0A::error::x",
        "::error::",
        "%25",
    ),
    *(
        "```mermaid",
        "%%{init: {}}%%",
        "classDef x",
        "click a",
        "section",
        ":crit,",
        ";",
        "#35;",
        "{",
        "}",
    ),
    *(
        "=1+1",
        "+1",
        "-1",
        "@SUM(1)",
        "# h",
        "- i",
        "1. i",
        "> q",
        "---",
        "===",
        "    code",
        "  ",
        " ",
        "e\u0301",
    ),
    *(
        "\u0301",
        "\u0430\u0431",
        "名前",
        "🙂",
        "a",
        "pod-1",
        "kube-system",
        "constructor",
        "__proto__",
    ),
]


def strings(number: int, seed: int = 8) -> list[str]:
    """So many different strings of one to six pieces, the same ones for the same seed."""
    source = random.Random(seed)
    found: dict[str, None] = dict.fromkeys(_PIECES)
    while len(found) < number:
        found["".join(source.choices(_PIECES, k=source.randint(2, 6)))] = None
    return list(found)[:number]
