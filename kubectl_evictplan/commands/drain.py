"""``what-if drain``: the words and flags of ``kubectl drain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubectl_evictplan.commands.node_arguments import NodeArguments, likely_selector, node_name
from kubectl_evictplan.commands.options import (
    WhatIfOptions,
    parsed,
    selector_option,
    settle_option,
    what_if_command,
)
from kubectl_evictplan.commands.run import what_if_events
from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.durations import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubectl_evictplan.commands.run import Events
    from kubectl_evictplan.kube.objects import ClusterSnapshot

_Value = TypeVar("_Value")


@what_if_command(
    "kubectl evictplan what-if drain n1 --ignore-daemonsets -f cluster.json",
    "# Which budgets hold it up, and would it be done in five minutes?",
    "kubectl evictplan what-if drain n1 n2 --timeout 5m -o wide -f cluster.json",
    "# If replacements need between 10 s and 2 min to be ready",
    "kubectl evictplan what-if drain -l pool=blue --assume-ready 10s..2m -f cluster.json",
)
@click.argument("words", nargs=-1, metavar="NODE...")
@selector_option
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of DaemonSets alone.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also evict pods that use emptyDir.")
@click.option("--force", is_flag=True, help="Also evict pods without a controller.")
@click.option(
    "--grace-period",
    metavar="SECONDS",
    help="What each pod gets to end; default, and if negative: its own.",
)
@click.option(
    "--timeout", metavar="DURATION", help="Give each node up after this long; 0 (default): never."
)
@click.option(
    "--skip-wait-for-delete-timeout",
    metavar="SECONDS",
    help="Do not wait for pods whose deletion timestamp is older.",
)
@click.option("--disable-eviction", is_flag=True, help="Delete instead: budgets are passed over.")
@click.option(
    "--parallel", metavar="N", help="Pods of a node under way at once; 0 (kubectl's): all of them."
)
@settle_option
@click.option("--pod-selector", metavar="SELECTOR", help="Only pods whose labels match.")
def drain(
    options: WhatIfOptions, words: tuple[str, ...], selector: str, **flags: str | bool | None
) -> None:
    """Nodes are drained, one after the other, as by `kubectl drain`."""
    arguments = NodeArguments(words, selector)
    arguments.check()
    values = _values(flags)

    def events(snapshot: ClusterSnapshot) -> Events:
        from kubectl_evictplan.scenarios.actions.drain import Drain

        found = [node.name for node in arguments.nodes(snapshot)]
        # A selector's nodes come in the server's order, which is that of their names.
        names = tuple(dict.fromkeys(map(node_name, words) if words else found))
        return [Drain(at_ns=0, origin=options.title, nodes=names, **values)], []

    what_if_events(options, events)


def _values(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a drain that kubectl's flags say; InputError names every wrong one."""
    from kubectl_evictplan.commands.likely import likely_seconds
    from kubectl_evictplan.kube.durations import parse_bounded_duration_ns

    problems: list[Problem] = []

    def value(name: str, parse: Callable[[str], _Value], likely: Callable[[str], str]) -> Any:
        return parsed(f"--{name}", flags.pop(name.replace("-", "_")), parse, likely, problems)

    grace_seconds = value("grace-period", _seconds, likely_seconds)
    timeout_ns = value("timeout", parse_bounded_duration_ns, _likely_timeout)
    skip_seconds = value("skip-wait-for-delete-timeout", _seconds, likely_seconds)
    pod_selector = value("pod-selector", _checked_selector, likely_selector)
    parallel = value("parallel", _count, lambda _: "10")
    settle_ns = value("settle", parse_bounded_duration_ns, _likely_timeout)
    if problems:
        raise InputError(problems)
    return {
        # kubectl takes everything below 0 for "the pod's own".
        "grace_period_seconds": max(-1, -1 if grace_seconds is None else grace_seconds),
        "timeout_ns": timeout_ns or 0,
        "skip_wait_for_delete_timeout_seconds": max(0, skip_seconds or 0),
        "pod_selector": pod_selector or "",
        "parallel": parallel or 0,
        "settle_ns": settle_ns or 0,
        **flags,
    }


def _checked_selector(text: str) -> str:
    from kubectl_evictplan.kube.selectors import parse_label_selector

    return parse_label_selector(text).text


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise ValueError("not a number of pods")
    return int(text)


def _seconds(text: str) -> int:
    """Return a whole number of seconds as pflag's ``IntVar`` reads it, in decimal."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("kubectl takes whole seconds, without a unit")
    if len(digits.lstrip("0")) > 9:
        raise ValueError("must be less than 1000000000 seconds")
    return int(text)


def _likely_timeout(text: str) -> str:
    from kubectl_evictplan.commands.likely import likely_duration

    return likely_duration(text, SECOND_NS)
