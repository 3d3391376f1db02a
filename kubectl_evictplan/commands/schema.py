"""``schema``: the JSON Schemas of our own files, generated from the types that read and write."""

from __future__ import annotations

import json
from typing import Any

import click

from kubectl_evictplan.commands.command import Choice, Command, examples
from kubectl_evictplan.commands.options import debug_option

NAMES = ("prediction", "scenario")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@click.command(
    cls=Command,
    epilog=examples(
        "kubectl evictplan schema scenario > scenario.schema.json",
    ),
)
@click.argument("name", type=Choice(*NAMES))
@debug_option
def schema(name: str) -> None:
    """Print the JSON Schema of a Prediction or a Scenario."""
    click.echo(json.dumps(schema_of(name), indent=2))


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema as a document of its own."""
    import msgspec

    from kubectl_evictplan.kube.api_version import API_VERSION
    from kubectl_evictplan.prediction.document import Prediction

    if name == "scenario":
        from kubectl_evictplan.scenarios.schema import scenario_schema

        found = scenario_schema()
    else:
        found = msgspec.json.schema(Prediction)
    title = f"{API_VERSION} {name.capitalize()}"
    return {"$schema": DIALECT, "title": title, **found}
