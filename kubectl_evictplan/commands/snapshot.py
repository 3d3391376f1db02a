"""``snapshot``: the live cluster, or dumps and manifests, as one small file of ours."""

from __future__ import annotations

import secrets
import sys
from typing import Any

import click

from kubectl_evictplan.commands.command import command
from kubectl_evictplan.commands.connection_options import CONNECTION_OPTIONS, take_connection
from kubectl_evictplan.commands.file_arguments import check_files, refuse_existing
from kubectl_evictplan.commands.observing import observed, second_look
from kubectl_evictplan.commands.options import COMMON_OPTIONS
from kubectl_evictplan.commands.run import load
from kubectl_evictplan.commands.terminal import Progress
from kubectl_evictplan.display import escape
from kubectl_evictplan.errors import Correction, mistake

_OUTPUT = ("-o", "--output")
_COMMON = ("filenames", "recursive", "strict", "observe", "observe_from")
_FORMATS = frozenset(("json", "yaml", "yml", "table", "wide", "name", "text", "gz", "json.gz"))


@command(
    "# The cluster of the current context",
    "kubectl evictplan snapshot -o cluster.json.gz",
    "# To show to others",
    "kubectl evictplan snapshot -o cluster.json.gz --redact --context prod",
    "# A dump",
    "kubectl evictplan snapshot -f cluster.json -o cluster.snapshot.json.gz",
    "kubectl get nodes,pods,leases -A -o json | kubectl evictplan snapshot -f - -o c.json.gz",
    params=[
        *(COMMON_OPTIONS[name] for name in _COMMON),
        *CONNECTION_OPTIONS,
    ],
)
@click.option(*_OUTPUT, required=True, metavar="FILE", help="Where to write it.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--redact", is_flag=True, help="Replace all names; predictions stay the same.")
def snapshot(
    filenames: tuple[str, ...],
    recursive: bool,
    strict: bool,
    observe: str | None,
    observe_from: str | None,
    output: str,
    force: bool,
    redact: bool,
    **connection: Any,
) -> None:
    """Write a cluster into one small file to predict from.

    It holds only what decides evictions: no environment, no annotations, no secrets.
    """
    check_files(filenames, recursive=recursive)
    flags = take_connection(connection)
    look = second_look(observe, observe_from, filenames, flags)
    _check_name(output)
    refuse_existing(_OUTPUT, output, "cluster.json.gz", force=force)
    with Progress(sys.stderr) as progress:
        from kubectl_evictplan.sources.snapshot import write_snapshot

        cluster = load(filenames, recursive, strict, progress, flags)
        if look is not None:
            cluster = observed(cluster, *look(progress))
        if redact:
            from kubectl_evictplan.sources.redaction import redact as redacted

            # Nobody keeps the key: what a pseudonym stands for is known only to whoever took it.
            cluster = redacted(cluster, secrets.token_bytes(32))
        write_snapshot(cluster, output, force=force)
    nodes, pods = len(cluster.nodes), len(cluster.pods)
    counts = f"{nodes} node{'s' * (nodes != 1)}, {pods} pod{'s' * (pods != 1)}"
    click.echo(f"snapshot of {counts} written to {escape(output)}")
    for record in cluster.reading.lists if cluster.reading else ():
        if record.not_evaluated:
            click.echo(f"not evaluated: {record.kind}, {escape(record.not_evaluated)}")


def _check_name(output: str) -> None:
    """Raise for the name of a format, which would become a file of that name."""
    name = output.lower()
    if name in _FORMATS:
        known = Correction((output,), ("cluster.json.gz",), True, _OUTPUT)
        raise mistake("-o names the file to write, not a format", known, got=output)
    if name.endswith((".yaml", ".yml")):
        known = Correction((output,), (f"{output.rpartition('.')[0]}.json.gz",), option=_OUTPUT)
        raise mistake("a snapshot is JSON, never YAML", known, got=output)
