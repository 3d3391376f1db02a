"""Read the one document of a file that people write."""

from __future__ import annotations

from kubectl_evictplan.errors import Problem
from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.objects import Warning as FileWarning
from kubectl_evictplan.scenarios.document import Document
from kubectl_evictplan.sources.marked_tree import Place
from kubectl_evictplan.sources.yaml_reader import YamlProblem, read_documents


def read_document(text: str, location: str, kind: str) -> tuple[Document, list[FileWarning]]:
    """Return the one document, which holds a map; empty ones around it are skipped.

    Raises at once for what cannot be parsed; notes duplicate keys and the like.
    """
    found = [read for read in read_documents(text) if read.problems or read.tree is not None]
    document = Document(location, found[0].tree if found else None)
    wrong = [problem for read in found for problem in read.problems]
    wrong += [
        YamlProblem("a second document: write one per file", extra.place) for extra in found[1:]
    ]
    if not found:
        wrong.append(YamlProblem("the file is empty", Place(1, 1)))
    elif document.tree is not None and not isinstance(document.tree, dict):
        message = f"not a {kind}: expected a map with apiVersion, kind and spec"
        wrong.append(YamlProblem(message, found[0].place))
    for message, place, got in wrong:
        document.note(place, Problem(message, location=f"{location}:{place}", got=got or None))
    if not isinstance(document.tree, dict):
        document.raise_any()
    warnings = found[0].warnings
    return document, [FileWarning(code, f"{location}: {message}") for code, message in warnings]


def check_header(document: Document, expected: str, otherwise: str) -> None:
    """Note another version; raise for another kind altogether: its fields would only add noise.

    ``otherwise`` says where something else belongs.
    """
    kind, version = document.tree.get("kind"), document.tree.get("apiVersion")
    if isinstance(kind, str) and kind != expected:
        other = Document(document.location, document.tree)
        message = f"not a {expected.lower()}: kind must be {expected}; {otherwise}"
        other.problem(("kind",), message)
        other.raise_any()
    if isinstance(version, str) and version != API_VERSION:
        message = f"not a {expected.lower()} of this version: apiVersion must be {API_VERSION}"
        document.problem(("apiVersion",), message)
