"""``schema``: the JSON Schemas of our own files, generated from the types that read and write."""

from __future__ import annotations

import json

import click

from kubectl_evictplan.commands.command import Choice, command

NAMES = ("prediction", "scenario", "diff")
# Kinds that are not called like their schema.
TITLES = {"diff": "PredictionDiff"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@command("kubectl evictplan schema scenario > scenario.schema.json")
@click.argument("name", type=Choice(*NAMES))
def schema(name: str) -> None:
    """Print the JSON Schema of a Prediction, a Scenario or a comparison."""
    import msgspec

    from kubectl_evictplan.kube.api_version import API_VERSION
    from kubectl_evictplan.prediction.difference_document import PredictionDiff
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.scenarios.schema import scenario_schema

    documents = {"prediction": Prediction, "diff": PredictionDiff}
    found = scenario_schema() if name == "scenario" else msgspec.json.schema(documents[name])
    title = f"{API_VERSION} {TITLES.get(name, name.capitalize())}"
    click.echo(json.dumps({"$schema": DIALECT, "title": title, **found}, indent=2))
