"""``what-if scenario``: a timed script of events from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.file_arguments import STDIN, check_files
from kubectl_evictplan.commands.options import Given, WhatIfOptions, what_if_command
from kubectl_evictplan.commands.run import what_if
from kubectl_evictplan.commands.written_files import read_written
from kubectl_evictplan.errors import help_on, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.commands.run import Planned
    from kubectl_evictplan.kube.objects import ClusterSnapshot

EXAMPLE = (
    "apiVersion: evictplan.dev/v1alpha1",
    "kind: Scenario",
    "spec:",
    "  events:",
    "  - {at: 0s, action: kubelet-stop, nodes: [n1]}",
    "  - {at: 10m, action: kubelet-start, nodes: [n1]}",
    "  - {at: 15m, action: pod-delete, pods: [shop/web-0]}",
    '  - {at: 20m, action: taint, nodes: [n2], taint: "maint=yes:NoExecute"}',
)


@what_if_command(
    "kubectl evictplan what-if scenario outage.yaml -f cluster.json",
    "# where outage.yaml is (`kubectl evictplan schema scenario` has every action)",
    *EXAMPLE,
    "# Write one to start from",
    "kubectl evictplan what-if fail zone eu-1a -f cluster.json --save-scenario outage.yaml",
)
@click.argument("file", metavar="FILE")
def scenario(options: WhatIfOptions, file: str) -> None:
    """A timed script of many events, from a YAML or JSON file.

    What the command line says about time and the controller wins over the file.
    """
    check_files(options.filenames, recursive=options.recursive)
    if file == STDIN and STDIN in options.filenames:
        raise mistake("standard input can be the scenario or the cluster, not both")
    if file in options.filenames:
        message = "the scenario and the cluster are two files"
        raise mistake(message, help_on("what-if", "scenario"), got=file)
    text = read_written(file, "scenario")

    def plan(snapshot: ClusterSnapshot, given: Given) -> Planned:
        from kubectl_evictplan.scenarios.files import load_scenario

        version = given.settings.kubernetes_version
        loaded = load_scenario(
            text, file, snapshot, start_ns=given.start_ns, kubernetes_version=version
        )
        return loaded.scenario, loaded.settings.under(given.settings), loaded.warnings

    what_if(options, plan)
