"""``schema``: the JSON Schemas of our own files, generated from the types that read and write."""

from __future__ import annotations

import json
from typing import Any

import click

from kubectl_evictplan.commands.command import Choice, command

NAMES = ("prediction", "scenario", "plan", "ledger")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@command("kubectl evictplan schema scenario > scenario.schema.json")
@click.argument("name", type=Choice(*NAMES))
def schema(name: str) -> None:
    """Print the JSON Schema of a file of ours."""
    from kubectl_evictplan.kube.api_version import API_VERSION

    found = _schema(name)
    title = f"{API_VERSION} {name.capitalize()}"
    click.echo(json.dumps({"$schema": DIALECT, "title": title, **found}, indent=2))


def _schema(name: str) -> dict[str, Any]:
    import msgspec

    from kubectl_evictplan.plans.document import Plan
    from kubectl_evictplan.plans.ledger_document import Ledger
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.scenarios.schema import scenario_schema

    if name == "scenario":
        return scenario_schema()
    documents = {"ledger": Ledger, "plan": Plan, "prediction": Prediction}
    return msgspec.json.schema(documents[name])
