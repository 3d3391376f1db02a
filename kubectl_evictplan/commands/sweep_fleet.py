"""``sweep fleet``: every node of every cluster whose snapshot lies in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kubectl_evictplan.commands.options import WhatIfOptions
from kubectl_evictplan.commands.sweeping import Sweeping, sweep_command
from kubectl_evictplan.commands.terminal import Progress
from kubectl_evictplan.errors import help_on, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.scenarios.scenario import ControllerSettings
    from kubectl_evictplan.sweeps.document import ClusterRow

_ENDINGS = (".json", ".json.gz", ".yaml", ".yml")


@sweep_command(
    "# Snapshots of many clusters, one file each",
    "kubectl evictplan sweep fleet snapshots",
    "# Computed by an existing engine",
    "kubectl evictplan sweep fleet snapshots --executor dask://scheduler:8786",
)
@click.argument("words", nargs=-1, metavar="DIRECTORY")
def fleet(options: WhatIfOptions, words: tuple[str, ...], **own: Any) -> None:
    """Every node of every cluster fails, one at a time, and the worst cluster comes first.

    Each file of the directory is one cluster: a snapshot, or a list of objects. With --executor the directory is
    read where the work is done.
    """
    if options.filenames:
        raise mistake("a fleet is a directory, without -f", help_on("sweep", "fleet"))
    sweeping = Sweeping(options, own)
    paths = _clusters(words)
    import sys

    from kubectl_evictplan.sweeps.document import Sweep
    from kubectl_evictplan.sweeps.failures import ranked_clusters

    given = sweeping.given
    one = _OneCluster(given.settings, given.horizon_ns, sweeping.back_ns, given.assume_ready_ns)
    with Progress(sys.stderr) as progress:
        rows = list(sweeping.answers(one.row, paths, progress))
    sweeping.show(Sweep("fleet", None, clusters=ranked_clusters(rows)))


class _OneCluster(NamedTuple):
    """What is asked of each cluster. Can be sent to another process."""

    settings: ControllerSettings
    horizon_ns: int | None
    back_ns: int | None
    assume_ready_ns: tuple[int, int] | None

    def row(self, path: str) -> ClusterRow:
        """Read one file and return its worst failure."""
        from kubectl_evictplan.controllers.flags import resolve_configuration
        from kubectl_evictplan.sources.files import load_files
        from kubectl_evictplan.sweeps.failures import Failing
        from kubectl_evictplan.sweeps.second_look import cluster_row

        snapshot = load_files((path,), manifest_version=self.settings.kubernetes_version)
        configuration = resolve_configuration(self.settings, snapshot.control_plane)
        start_ns, ready_ns = snapshot.taken_at_ns, self.assume_ready_ns
        failing = Failing(
            snapshot, configuration, start_ns, self.horizon_ns, self.back_ns, ready_ns
        )
        return cluster_row(Path(path).name, snapshot, failing)


def _clusters(words: tuple[str, ...]) -> list[str]:
    """Return the files of the directory, sorted; raises for anything that is none."""
    if len(words) != 1:
        raise mistake(
            "which directory? one with a file for each cluster", help_on("sweep", "fleet")
        )
    directory = Path(words[0])
    try:
        if not directory.is_dir():
            raise mistake("not a directory", help_on("sweep", "fleet"), location=words[0])
        found = sorted(
            str(path.absolute())
            for path in directory.iterdir()
            if path.is_file() and path.name.endswith(_ENDINGS)
        )
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise mistake(reason, help_on("sweep", "fleet"), location=words[0]) from None
    if not found:
        message = "holds no .json, .json.gz or .yaml file"
        raise mistake(message, help_on("sweep", "fleet"), location=words[0])
    return found
