"""Write the worked examples of docs/examples: reports on a recorded cluster, by the program itself.

    python .ci/examples.py

The table below is all there is to say; tests hold the files against it, byte by byte.
"""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kubectl_evictplan import cli

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "docs" / "examples"
CLUSTER = "fixtures/clusters/kubeadm-15-nodes-1.29.json"
POLICY = "docs/examples/policy.yaml"


class Example(NamedTuple):
    """One question: the words after ``what-if``, why it is asked, and which files answer it."""

    name: str
    words: str
    about: str
    outputs: tuple[str, ...] = ("markdown", "html")


EXAMPLES = (
    Example(
        "taint-maintenance",
        "taint node worker-b1 worker-b2 maintenance=true:NoExecute",
        "Two nodes are tainted for maintenance: which pods go at once, which stay, what is lost.",
    ),
    Example(
        "node-failure",
        "fail node worker-b3",
        "One kubelet falls silent: how long nobody notices, when pods are replaced, what stays stuck.",
        ("markdown", "html", "findings", "csv"),
    ),
    Example(
        "zone-failure",
        "fail zone eu-1b",
        "A whole zone falls silent: slower tainting, Services without anybody, a broken budget.",
    ),
    Example(
        "hanging-drain",
        "drain worker-b4 --ignore-daemonsets --delete-emptydir-data",
        "A drain that never ends, because a budget allows nothing.",
    ),
    Example(
        "gated-taint",
        f"taint node worker-b1 worker-b2 maintenance=true:NoExecute --policy {POLICY}",
        "The same maintenance under a policy of the repository: a pipeline stops here, with exit code 1.",
        ("github", "junit"),
    ),
)
_ENDINGS = {
    "markdown": "md",
    "html": "html",
    "findings": "findings.json",
    "junit": "junit.xml",
    "csv": "csv",
}


def command(example: Example, output: str) -> list[str]:
    """Return the words of one command line, as they are typed in the repository's folder."""
    return ["what-if", *shlex.split(example.words), "-f", CLUSTER, "-o", output]


def contents() -> Iterator[tuple[str, list[str]]]:
    """Yield the name of every file with the words of the command that makes it."""
    for example in EXAMPLES:
        for output in example.outputs:
            yield (
                f"{example.name}.{_ENDINGS.get(output, f'{output}.txt')}",
                command(example, output),
            )


def made(words: list[str]) -> str:
    """Return what a command writes; only a gate may fail."""
    text, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(REPOSITORY),
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(errors),
    ):
        code = cli.run(words, program="kubectl-evictplan")
    assert code in (0, 1), errors.getvalue()
    return text.getvalue()


def index() -> str:
    """Return the page that tells of the examples."""
    lines = [
        "# Worked examples",
        "",
        "What the program says of a recorded cluster of 15 nodes in three zones",
        f"([`{CLUSTER}`](../../{CLUSTER})). `make docs` writes these files anew.",
    ]
    for example in EXAMPLES:
        lines += ["", f"## {example.name}", "", example.about, ""]
        for output in example.outputs:
            file = f"{example.name}.{_ENDINGS.get(output, f'{output}.txt')}"
            line = shlex.join(["kubectl", "evictplan", *command(example, output)])
            lines.append(f"- [{file}]({file}): `{line}`")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write every file."""
    for name, words in contents():
        (FOLDER / name).write_text(made(words), encoding="utf-8")
    (FOLDER / "README.md").write_text(index(), encoding="utf-8")


if __name__ == "__main__":
    main()
