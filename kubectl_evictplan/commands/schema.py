"""``schema``: the JSON Schemas of our own files, generated from the types that read and write."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import click

from kubectl_evictplan.commands.command import Choice, command

# By name: the module, and in it the document's type or the function that returns the schema.
_HOMES = {
    "prediction": ("prediction.document", "Prediction"),
    "scenario": ("scenarios.schema", "scenario_schema"),
    "plan": ("plans.document", "Plan"),
    "ledger": ("plans.ledger_document", "Ledger"),
    "policy": ("gates.policy", "policy_schema"),
    "diff": ("prediction.difference_document", "PredictionDiff"),
    "sweep": ("sweeps.document", "Sweep"),
    "findings": ("report.findings_document", "FindingsDocument"),
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@command("kubectl evictplan schema scenario > scenario.schema.json")
@click.argument("name", type=Choice(*_HOMES))
def schema(name: str) -> None:
    """Print the JSON Schema of a file of ours."""
    from kubectl_evictplan.kube.api_version import API_VERSION

    found = _schema(name)
    title = f"{API_VERSION} {name.capitalize()}"
    click.echo(json.dumps({"$schema": DIALECT, "title": title, **found}, indent=2))


def _schema(name: str) -> dict[str, Any]:
    import msgspec

    module, attribute = _HOMES[name]
    home = getattr(import_module(f"kubectl_evictplan.{module}"), attribute)
    found: dict[str, Any] = msgspec.json.schema(home) if isinstance(home, type) else home()
    return found
