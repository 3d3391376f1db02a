"""``version``: which program this is, and what it runs on."""

from __future__ import annotations

import json
import platform

import click

from kubectl_evictplan import __version__
from kubectl_evictplan.commands.command import Choice, command


@command("kubectl evictplan version -o json")
@click.option("-o", "--output", type=Choice("json"), help="Print JSON instead of text.")
def version(output: str | None) -> None:
    """Print the version of this program."""
    if output == "json":
        facts = {
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(terse=True),
        }
        click.echo(json.dumps(facts, indent=2))
    else:
        click.echo(f"kubectl-evictplan {__version__}")
