"""``schema``: the JSON Schemas of our own files, generated from the types that read and write."""

from __future__ import annotations

import json

import click

from kubectl_evictplan.commands.command import Choice, command

NAMES = ("prediction", "scenario")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@command("kubectl evictplan schema scenario > scenario.schema.json")
@click.argument("name", type=Choice(*NAMES))
def schema(name: str) -> None:
    """Print the JSON Schema of a Prediction or a Scenario."""
    import msgspec

    from kubectl_evictplan.kube.api_version import API_VERSION
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.scenarios.schema import scenario_schema

    found = scenario_schema() if name == "scenario" else msgspec.json.schema(Prediction)
    title = f"{API_VERSION} {name.capitalize()}"
    click.echo(json.dumps({"$schema": DIALECT, "title": title, **found}, indent=2))
