"""Options that every what-if has, each defined once, and the checks that need no cluster."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubectl_evictplan.commands.messages import NO_LIVE_CLUSTER
from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.report import GROUPINGS, OUTPUTS

if TYPE_CHECKING:
    from kubectl_evictplan.scenarios.scenario import ControllerSettings

_Callback = TypeVar("_Callback", bound=Callable[..., Any])


@dataclass(frozen=True)
class WhatIfOptions:
    """The common options as typed; ``given`` turns their texts into values."""

    filenames: tuple[str, ...]
    recursive: bool
    output: str
    horizon: str | None
    start: str | None
    kubernetes_version: str
    controller_flags: tuple[str, ...]
    monitor_phase: str | None
    explain: str | None
    save_scenario: str | None
    force: bool
    by: str | None
    time_zone: str
    no_headers: bool
    color: str
    strict: bool

    def given(self) -> Given:
        """Return what was said about time and the controller; InputError names every problem."""
        from kubectl_evictplan.kube.durations import parse_bounded_duration_ns
        from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
        from kubectl_evictplan.scenarios.scenario import ControllerSettings

        problems: list[Problem] = []
        horizon_ns = _parsed("--horizon", self.horizon, parse_bounded_duration_ns, problems)
        if horizon_ns == 0:
            problems.append(_flag_problem("--horizon", "must be longer than 0", self.horizon))
        start_ns = _parsed("--start", self.start, parse_rfc3339_ns, problems)
        phase_ns = _parsed(
            "--monitor-phase", self.monitor_phase, parse_bounded_duration_ns, problems
        )
        flags = _controller_flags(self.controller_flags, problems)
        self._check_version(problems)
        zone = _time_zone(self.time_zone, problems)
        if problems:
            raise InputError(problems)
        settings = ControllerSettings(self.kubernetes_version, phase_ns, flags)
        return Given(settings, horizon_ns, start_ns, zone)

    def _check_version(self, problems: list[Problem]) -> None:
        """Note an unknown release under the flag's own name, together with other wrong flags."""
        if not self.kubernetes_version:
            return
        from kubectl_evictplan.controllers.releases import release_profile

        try:
            release_profile(self.kubernetes_version)
        except InputError as error:
            problems += [
                Problem(p.message, location="--kubernetes-version", got=p.got, expected=p.expected)
                for p in error.problems
            ]

    def require_files(self) -> None:
        """Raise when there is nothing to read the cluster from."""
        require_files(self.filenames)


@dataclass(frozen=True)
class Given:
    """What the command line says about time and the controller; None where it says nothing.

    ``zone`` None is the system's own time zone.
    """

    settings: ControllerSettings
    horizon_ns: int | None
    start_ns: int | None
    zone: tzinfo | None

    def over(self, settings: ControllerSettings) -> ControllerSettings:
        """Return a scenario file's settings with those of the command line on top."""
        from kubectl_evictplan.scenarios.scenario import ControllerSettings

        mine = self.settings
        phase_ns = mine.monitor_phase_ns
        return ControllerSettings(
            kubernetes_version=mine.kubernetes_version or settings.kubernetes_version,
            monitor_phase_ns=settings.monitor_phase_ns if phase_ns is None else phase_ns,
            flags={**settings.flags, **mine.flags},
        )


debug_option = click.option(
    "--debug", is_flag=True, expose_value=False, help="On an internal error, keep the details."
)

filename_options = (
    click.option(
        "-f",
        "--filename",
        "filenames",
        multiple=True,
        metavar="FILE",
        help="Cluster state: our snapshot, `kubectl get -o json|yaml`, manifests; - for stdin.",
    ),
    click.option(
        "-R", "--recursive", is_flag=True, help="Read the directories given with -f recursively."
    ),
    click.option("--strict", is_flag=True, help="Make warnings about the input errors."),
)

_WHAT_IF_OPTIONS = (
    *filename_options,
    click.option(
        "-o",
        "--output",
        type=click.Choice(OUTPUTS),
        default="table",
        show_default=True,
        help="Output format.",
    ),
    click.option(
        "--horizon",
        metavar="DURATION",
        help="Look this far ahead, such as 30m; default: to the end, at most 24h.",
    ),
    click.option(
        "--start",
        metavar="TIME",
        help="When it begins (RFC 3339); default: when the files were made.",
    ),
    click.option(
        "--kubernetes-version",
        default="",
        metavar="VERSION",
        help="Release whose behaviour and defaults apply, such as 1.29; default: detected.",
    ),
    click.option(
        "--controller-flag",
        "controller_flags",
        multiple=True,
        metavar="NAME=VALUE",
        help="A kube-controller-manager flag by its own name; repeatable.",
    ),
    click.option(
        "--monitor-phase",
        metavar="DURATION",
        help="From the start to the first node monitor tick; leave out when unknown.",
    ),
    click.option("--explain", metavar="NS/POD", help="Tell the story of one pod."),
    click.option(
        "--save-scenario", metavar="FILE", help="Also write what was asked as a scenario file."
    ),
    click.option("--force", is_flag=True, help="Let --save-scenario replace a file."),
    click.option(
        "--by",
        type=click.Choice(GROUPINGS),
        help="Rows of the table; default: as suits their number.",
    ),
    click.option(
        "--time-zone",
        default="UTC",
        metavar="ZONE",
        show_default=True,
        help="Zone of clock times: UTC, local or a name such as Europe/Berlin.",
    ),
    click.option("--no-headers", is_flag=True, help="Print the eviction rows alone."),
    click.option(
        "--color",
        type=click.Choice(("auto", "always", "never")),
        default="auto",
        show_default=True,
        help="Colour in tables.",
    ),
    debug_option,
)


def what_if_options(callback: _Callback) -> _Callback:
    """Add the common options; the callback gets them as one ``WhatIfOptions`` called options."""
    names = WhatIfOptions.__dataclass_fields__

    @functools.wraps(callback)
    def collected(**values: Any) -> Any:
        common = {name: values.pop(name) for name in names}
        return callback(options=WhatIfOptions(**common), **values)

    command: Any = collected
    for option in reversed(_WHAT_IF_OPTIONS):
        command = option(command)
    result: _Callback = command
    return result


def require_files(filenames: tuple[str, ...]) -> None:
    """Raise when no file is named, or one that says more about the shell than about the file."""
    if not filenames:
        raise InputError(Problem(NO_LIVE_CLUSTER))
    problems = []
    for name in filenames:
        if not name:
            problems.append(Problem("the file name is empty", location="--filename"))
        elif _is_pipe(name):
            # `-f <(kubectl ...)`: such a pipe can be read only once, and may never end.
            message = "not a regular file but a pipe: pipe the command into this one and use `-f -`"
            problems.append(Problem(message, location=name))
    if problems:
        raise InputError(problems)


def _is_pipe(name: str) -> bool:
    try:
        return Path(name).is_fifo()
    except (OSError, ValueError):
        return False


def _parsed(
    flag: str,
    text: str | None,
    parse: Callable[[str], int | None],
    problems: list[Problem],
) -> int | None:
    """Return the parsed text, or None after noting what is wrong with it."""
    if text is None:
        return None
    try:
        value = parse(text)
    except ValueError as error:
        problems.append(_flag_problem(flag, str(error), text))
        return None
    if value is None:
        problems.append(_flag_problem(flag, "the zero time is not a start", text))
    return value


def _time_zone(text: str, problems: list[Problem]) -> tzinfo | None:
    """Return the zone; None for the system's own, or after noting that there is no such zone."""
    if text.lower() in ("utc", "z"):
        return UTC
    if text.lower() == "local":
        return None
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        near = {zone.lower(): zone for zone in available_timezones()}
        close = difflib.get_close_matches(text.lower(), near, n=1)
        hint = f"; did you mean {near[close[0]]}?" if close else ""
        expected = "UTC, local or a name such as Europe/Berlin"
        message = f"no such time zone{hint}"
        problems.append(Problem(message, location="--time-zone", got=repr(text), expected=expected))
        return None


def _flag_problem(flag: str, message: str, text: str | None) -> Problem:
    return Problem(message, location=flag, got=None if text is None else repr(text))


def _controller_flags(texts: tuple[str, ...], problems: list[Problem]) -> dict[str, str]:
    """Return NAME=VALUE pairs; names with dashes in front are fine, contradictions are not."""
    flags: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.lstrip("-")
        if not equals or not name:
            problems.append(_flag_problem("--controller-flag", "expected NAME=VALUE", text))
        elif flags.setdefault(name, value) != value:
            message = f"{name} is given twice, with different values"
            problems.append(_flag_problem("--controller-flag", message, text))
    return flags
