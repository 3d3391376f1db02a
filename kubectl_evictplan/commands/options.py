"""Options that every what-if has, each defined once, and the checks that need no cluster."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kubectl_evictplan.commands.command import Choice, Command, command
from kubectl_evictplan.commands.connection_options import CONNECTION_OPTIONS, take_connection
from kubectl_evictplan.commands.file_arguments import FILENAME
from kubectl_evictplan.commands.node_arguments import SELECTOR
from kubectl_evictplan.commands.typed_words import EXAMPLES
from kubectl_evictplan.errors import Correction, InputError, Problem
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.report import GROUPINGS, OUTPUTS
from kubectl_evictplan.scenarios.names import did_you_mean, similar

if TYPE_CHECKING:
    from kubectl_evictplan.live.flags import ConnectionFlags
    from kubectl_evictplan.scenarios.scenario import ControllerSettings

_Value = TypeVar("_Value")

_MEANT_OUTPUTS = {
    "yml": "yaml",
    **dict.fromkeys(("jsonpath", "jq"), "json"),
    **dict.fromkeys(("tsv", "excel", "xlsx", "spreadsheet"), "csv"),
    **dict.fromkeys(("text", "txt", "human", "plain"), "table"),
    "md": "markdown",
    **dict.fromkeys(("names", "short"), "name"),
    **dict.fromkeys(("long", "full", "custom"), "wide"),
}
_MEANT_GROUPINGS = {
    **dict.fromkeys(("deployment", "owner", "app", "controller"), "workload"),
    **dict.fromkeys(("ns", "project"), "namespace"),
    **dict.fromkeys(("az", "region"), "zone"),
}
_MEANT_COLORS = {
    **dict.fromkeys(("false", "no", "off", "none", "0"), "never"),
    **dict.fromkeys(("true", "yes", "on", "1", "force"), "always"),
}


def option(*names: str, **settings: Any) -> Any:
    """Return a field of a dataclass that holds the value of an option."""
    return field(metadata={"names": names, "settings": settings})


def options_of(kind: type) -> dict[str, click.Option]:
    """Return the options that the fields of a dataclass are, by the fields' names."""
    return {
        known.name: click.Option(
            [known.name, *known.metadata["names"]], **known.metadata["settings"]
        )
        for known in fields(kind)
        if known.metadata
    }


@dataclass(frozen=True, eq=False, repr=False)
class WhatIfOptions:
    """The common options as typed, in the order of the help, and the command with its words.

    ``given`` turns their texts into values.
    """

    title: str
    connection: ConnectionFlags
    filenames: tuple[str, ...] = option(
        *FILENAME,
        multiple=True,
        metavar="FILE",
        help="Cluster state: our snapshot, `kubectl get -o json|yaml`, manifests, must-gather or "
        "cluster-info dump, archives of them; - for stdin.",
    )
    recursive: bool = option(
        "-R", "--recursive", is_flag=True, help="Read the directories given with -f recursively."
    )
    strict: bool = option("--strict", is_flag=True, help="Make warnings about the input errors.")
    observe: str | None = option(
        "--observe",
        metavar="DURATION",
        help="Look at the leases of the live cluster again after so long, such as 20s: narrows windows.",
    )
    observe_from: str | None = option(
        "--observe-from",
        metavar="FILE",
        help="A second look at the leases, listed some seconds after -f: narrows windows.",
    )
    output: str = option(
        "-o",
        "--output",
        type=Choice(*OUTPUTS, meant=_MEANT_OUTPUTS),
        default="table",
        show_default=True,
        help="Output format.",
    )
    horizon: str | None = option(
        "--horizon",
        metavar="DURATION",
        help="Look this far ahead, such as 30m; default: to the end, at most 24h.",
    )
    start: str | None = option(
        "--start",
        metavar="TIME",
        help="When it begins (RFC 3339); default: when the files were made.",
    )
    kubernetes_version: str | None = option(
        "--kubernetes-version",
        metavar="VERSION",
        help="Release whose behaviour and defaults apply, such as 1.29; default: detected.",
    )
    controller_flags: tuple[str, ...] = option(
        "--controller-flag",
        multiple=True,
        metavar="NAME=VALUE",
        help="A kube-controller-manager flag by its own name; repeatable.",
    )
    monitor_phase: str | None = option(
        "--monitor-phase",
        metavar="DURATION",
        help="From the start to the first node monitor tick; leave out when unknown.",
    )
    explain: str | None = option(
        "--explain", metavar="NS/POD", help="Tell the story of one pod; data holds that pod alone."
    )
    save_scenario: str | None = option(
        "--save-scenario", metavar="FILE", help="Also write what was asked as a scenario file."
    )
    # None: the command's --force is another one.
    force: bool | None = option(
        "--force", is_flag=True, help="Let --save-scenario and --out replace a file."
    )
    out: str | None = option(
        "--out", metavar="FILE", help="Also write a plan that `apply FILE` carries out exactly."
    )
    until_ready: bool = option(
        "--until-ready",
        is_flag=True,
        help="Of the plan: replacements are Ready before the next node.",
    )
    abort_if: tuple[str, ...] = option(
        "--abort-if",
        multiple=True,
        metavar="EXPR",
        help="Of the plan: stop when this holds, such as 'evicted > 20'; repeatable.",
    )
    assume_ready: str | None = option(
        "--assume-ready",
        metavar="DURATION[..DURATION]",
        help="How long a replacement takes to be Ready; a range: anything between. "
        "Default: as long as its owner's pods took, where they tell; in drains, and else, 30s.",
    )
    fail_on: tuple[str, ...] = option(
        "--fail-on",
        multiple=True,
        metavar="EXPR",
        help="Exit with 1 if this may hold, such as 'evictions > 20' or 'unavailable(shop/web) > 30s'; repeatable.",
    )
    policies: tuple[str, ...] = option(
        "--policy",
        multiple=True,
        metavar="FILE",
        help="Rules like those of --fail-on, from a file (kind Policy); repeatable.",
    )
    quorums: tuple[str, ...] = option(
        "--quorum",
        multiple=True,
        metavar="NS/NAME",
        help="An owner whose pods decide by majority; repeatable. Known: etcd, label evictplan.dev/quorum.",
    )
    by: str | None = option(
        "--by",
        type=Choice(*GROUPINGS, meant=_MEANT_GROUPINGS),
        help="Rows of the table; default: as suits their number.",
    )
    time_zone: str = option(
        "--time-zone",
        default="UTC",
        metavar="ZONE",
        show_default=True,
        help="Zone of clock times: UTC, local or a name such as Europe/Berlin.",
    )
    no_headers: bool = option("--no-headers", is_flag=True, help="Print the eviction rows alone.")
    color: str = option(
        "--color",
        type=Choice("auto", "always", "never", meant=_MEANT_COLORS),
        default="auto",
        show_default=True,
        help="Colour in tables.",
    )

    # What is done with the question instead of answering it: ``apply`` carries it out.
    instead: Callable[..., None] | None = None

    def given(self) -> Given:
        """Return what was said about time and the controller; InputError names every problem."""
        from kubectl_evictplan.kube.durations import parse_bounded_duration_ns
        from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
        from kubectl_evictplan.scenarios.scenario import ControllerSettings

        problems: list[Problem] = []

        def duration_ns(flag: str, text: str | None) -> int | None:
            return parsed(flag, text, parse_bounded_duration_ns, _likely_duration, problems)

        def likely_start(text: str) -> str:
            from kubectl_evictplan.commands.likely import likely_instant

            return likely_instant(text, time.time_ns())

        horizon_ns = duration_ns("--horizon", self.horizon)
        if horizon_ns == 0:
            problems.append(_wrong_value("--horizon", "must be longer than 0", self.horizon or ""))
        start_ns = parsed("--start", self.start, parse_rfc3339_ns, likely_start, problems)
        phase_ns = duration_ns("--monitor-phase", self.monitor_phase)
        flags = _controller_flags(self.controller_flags, problems)
        version = self.kubernetes_version or ""
        if self.kubernetes_version is not None:
            _check_version(version, problems)
        zone = named_time_zone(self.time_zone, problems)
        ready_ns = parsed("--assume-ready", self.assume_ready, _range_ns, _likely_range, problems)
        if problems:
            raise InputError(problems)
        settings = ControllerSettings(version, phase_ns, flags)
        return Given(settings, horizon_ns, start_ns, zone, ready_ns)


class Given(NamedTuple):
    """What the command line says about time and the controller; None where it says nothing.

    ``zone`` None is the system's own time zone.
    """

    settings: ControllerSettings
    horizon_ns: int | None
    start_ns: int | None
    zone: tzinfo | None
    # The least and the most that a replacement takes to be Ready.
    assume_ready_ns: tuple[int, int] | None


COMMON_OPTIONS = options_of(WhatIfOptions)


class WhatIfCommand(Command):
    """A command that gets the common options as one ``WhatIfOptions`` called ``options``."""

    # Common options that the command has no use for: None in ``options``.
    left_out: frozenset[str] = frozenset()

    def __init__(self, *args: Any, params: Sequence[click.Parameter] = (), **settings: Any) -> None:
        # A flag of kubectl's own wins: --force of `kubectl drain`.
        own = {name for param in params for name in param.opts}
        self._common = {
            name: option
            for name, option in COMMON_OPTIONS.items()
            if name not in self.left_out and not own & {*option.opts}
        }
        every = [*params, *self._common.values(), *CONNECTION_OPTIONS]
        super().__init__(*args, params=every, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        title = shlex.join([self.name or "", *ctx.params.get("words", ())])
        common: dict[str, Any] = dict.fromkeys(COMMON_OPTIONS)
        common |= {name: ctx.params.pop(name) for name in self._common}
        ctx.params["options"] = WhatIfOptions(title, take_connection(ctx.params), **common)
        return super().invoke(ctx)


selector_option = click.option(
    *SELECTOR, default="", help="Nodes whose labels match, as in kubectl."
)


settle_option = click.option(
    "--settle", metavar="DURATION", help="The pause after each node before the next, such as 2m."
)


def node_options(callback: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose nodes without naming them."""
    every = click.option("--all", "all_nodes", is_flag=True, help="Every node.")
    return selector_option(every(callback))


def what_if_command(*examples: str) -> Callable[[Callable[..., None]], click.Command]:
    """Return what makes a what-if of a function."""
    return command(*examples, cls=WhatIfCommand)


def parsed(
    flag: str,
    text: str | None,
    parse: Callable[[str], _Value | None],
    likely: Callable[[str], str],
    problems: list[Problem],
) -> _Value | None:
    """Return the meaning of a flag's text; None without one, or after noting what is wrong with it."""
    try:
        value = None if text is None else parse(text)
    except ValueError as error:
        assert text is not None
        problems.append(_wrong_value(flag, str(error), text, likely(text)))
        return None
    if value is None and text is not None:
        problems.append(_wrong_value(flag, "the zero time is not a start", text))
    return value


def _check_version(text: str, problems: list[Problem]) -> None:
    """Note an unknown release under the flag's own name, together with other wrong flags."""
    from kubectl_evictplan.commands.likely import likely_release
    from kubectl_evictplan.controllers.releases import PATCH_MAX, known_minors, release_profile

    try:
        release_profile(text)
    except InputError:
        flag, oldest, newest = "--kubernetes-version", known_minors()[0], known_minors()[-1]
        likely = likely_release(text, known_minors(), PATCH_MAX)
        known = Correction((text,), (likely or f"1.{newest}",), not likely, (flag,))
        expected = f"1.{oldest} to 1.{newest}, such as 1.29 or 1.29.6"
        problems.append(_flag_problem(flag, "unknown Kubernetes release", text, known, expected))


def _range_ns(text: str) -> tuple[int, int]:
    """Return the least and the most of ``30s`` or ``10s..2m``."""
    from kubectl_evictplan.kube.durations import parse_bounded_duration_ns

    least, _, most = text.partition("..")
    least_ns, most_ns = (parse_bounded_duration_ns(part) for part in (least, most or least))
    if ".." in text and not most:
        raise ValueError("a range has two ends, such as 10s..2m")
    if least_ns > most_ns:
        raise ValueError("the range ends before it begins")
    return least_ns, most_ns


def _likely_duration(text: str) -> str:
    """Return the duration that is probably meant, or ""."""
    from kubectl_evictplan.commands.likely import likely_duration  # only mistakes pay for it

    return likely_duration(text)


def _likely_range(text: str) -> str:
    """Return the duration or the range that is probably meant, or ""."""
    from kubectl_evictplan.commands.likely import likely_duration

    ends = [likely_duration(part, SECOND_NS) for part in re.split(r"\.\.+|-|~|to", text) if part]
    if not all(ends) or len(ends) > 2:
        return ""
    return "..".join(sorted(ends, key=_range_ns))


def named_time_zone(text: str, problems: list[Problem]) -> tzinfo | None:
    """Return the zone; None for the system's own, or after noting that there is no such zone."""
    if text.lower() in ("utc", "z"):
        return UTC
    if text.lower() == "local":
        return None
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        close = similar(text, available_timezones())
        known = Correction((text,), (*close, "local")[:1], len(close) != 1, ("--time-zone",))
        message = f"no such time zone{did_you_mean(close)}"
        expected = "UTC, local or a name such as Europe/Berlin"
        problems.append(_flag_problem("--time-zone", message, text, known, expected))
        return None


def _wrong_value(flag: str, message: str, text: str, likely: str = "") -> Problem:
    """Return the problem of a flag's value, which is ``likely`` or anything else."""
    # A number without a unit, and a time without a date, can be meant in several ways.
    example = not likely or text.replace(":", "").isdecimal()
    known = Correction((text,), (likely or EXAMPLES[flag],), example, (flag,))
    expected = "date, time and zone, such as 2030-01-01T02:00:00Z" if flag == "--start" else ""
    return _flag_problem(flag, message, text, known, expected)


def _flag_problem(
    flag: str, message: str, text: str, known: Correction, expected: str = ""
) -> Problem:
    return Problem(message, known, location=flag, got=repr(text), expected=expected)


def _controller_flags(texts: tuple[str, ...], problems: list[Problem]) -> dict[str, str]:
    """Return NAME=VALUE pairs; names with dashes in front are fine, contradictions are not."""
    from kubectl_evictplan.controllers.flags import flag_problem

    flags: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        # Upstream's own parser takes underscores for dashes.
        name = name.lstrip("-").replace("_", "-")
        if not equals or not name:
            problems.append(_wrong_value("--controller-flag", "expected NAME=VALUE", text))
        elif problem := flag_problem(name, value):
            problem.correction = _likely_flag(name, value, text, problem.correction)
            problems.append(problem)
        elif flags.setdefault(name, value) != value:
            message = f"{name} is given twice, with different values"
            known = Correction(("--controller-flag", text), ())
            problems.append(_flag_problem("--controller-flag", message, text, known))
    return flags


def _likely_flag(name: str, value: str, typed: str, known: Correction | None) -> Correction | None:
    """Return the correction of a flag as typed, with the value that is probably meant."""
    from kubectl_evictplan.commands.likely import likely_duration
    from kubectl_evictplan.controllers.flags import FLAG_DEFAULTS, flag_problem

    if known is not None:
        words = (typed if word == f"{name}={value}" else word for word in known.typed)
        option = ("--controller-flag",) if len(known.typed) == 1 else ()
        return known._replace(typed=tuple(words), option=option)
    known = Correction((typed,), (f"{name}={FLAG_DEFAULTS[name]}",), True, ("--controller-flag",))
    first, *others = value.split(",")
    if others and all("=" in other for other in others):
        more = [word for other in others for word in ("--controller-flag", other)]
        return known._replace(instead=(f"{name}={first}", *more), example=False)
    meant = [{"yes": "true", "on": "true", "no": "false", "off": "false"}.get(value.lower(), "")]
    meant.append(likely_duration(value, SECOND_NS))
    number = value.replace(",", ".").rstrip("% ")
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", number):
        meant += ([] if "%" in value else [number]) + [f"{float(number) / 100:g}"]
    for other in filter(None, meant):
        if flag_problem(name, other) is None:
            return known._replace(instead=(f"{name}={other}",), example=value.isdecimal())
    return known
