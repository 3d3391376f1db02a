"""``snapshot``: dumps and manifests as one small file of ours."""

from __future__ import annotations

import sys

import click

from kubectl_evictplan.commands.command import Command, examples
from kubectl_evictplan.commands.file_arguments import refuse_existing, require_files
from kubectl_evictplan.commands.options import debug_option, filename_options
from kubectl_evictplan.display import escape
from kubectl_evictplan.errors import Correction, mistake

_OUTPUT = ("-o", "--output")
_FORMATS = frozenset(("json", "yaml", "yml", "table", "wide", "name", "text", "gz", "json.gz"))


@click.command(
    cls=Command,
    epilog=examples(
        "kubectl evictplan snapshot -f cluster.json -o cluster.snapshot.json.gz",
        "kubectl get nodes,pods,leases -A -o json | kubectl evictplan snapshot -f - -o c.json.gz",
    ),
)
@filename_options[0]
@filename_options[1]
@filename_options[2]
@click.option(*_OUTPUT, required=True, metavar="FILE", help="Where to write it.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@debug_option
def snapshot(
    filenames: tuple[str, ...], recursive: bool, strict: bool, output: str, force: bool
) -> None:
    """Turn dumps and manifests into one small file to predict from.

    It holds only what decides evictions: no environment, no annotations, no secrets.
    """
    from kubectl_evictplan.commands.progress import Progress

    require_files(filenames, recursive=recursive)
    _check_name(output)
    refuse_existing(_OUTPUT, output, "cluster.json.gz", force=force)
    with Progress(sys.stderr) as progress:
        from kubectl_evictplan.sources.files import load_files
        from kubectl_evictplan.sources.snapshot import write_snapshot

        cluster = load_files(
            filenames,
            recursive=recursive,
            strict=strict,
            stdin=sys.stdin.buffer if sys.stdin is not None else None,
            progress=progress.reading,
        )
        write_snapshot(cluster, output, force=force)
    counts = ", ".join(
        f"{len(found)} {noun}" if len(found) == 1 else f"{len(found)} {noun}s"
        for found, noun in ((cluster.nodes, "node"), (cluster.pods, "pod"))
    )
    click.echo(f"snapshot of {counts} written to {escape(output)}")


def _check_name(output: str) -> None:
    """Raise for the name of a format, which would become a file of that name."""
    known = Correction((output,), ("cluster.json.gz",), True, _OUTPUT)
    if output.lower() in _FORMATS:
        message = "-o names the file to write, not a format"
        raise mistake(message, known, got=output)
    if output.lower().endswith((".yaml", ".yml")):
        known = Correction((output,), (f"{output.rpartition('.')[0]}.json.gz",), option=_OUTPUT)
        raise mistake("a snapshot is JSON, never YAML", known, got=output)
