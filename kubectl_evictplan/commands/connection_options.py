"""kubectl's connection options, by their own names: which cluster is read, as whom."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kubectl_evictplan.commands.file_arguments import files_beside
from kubectl_evictplan.commands.terminal import say
from kubectl_evictplan.errors import Correction, ProblemsError, mistake
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.live.flags import (
    CHUNK_SIZE_DEFAULT,
    REQUEST_TIMEOUT_DEFAULT_NS,
    ConnectionFlags,
)

if TYPE_CHECKING:
    from kubectl_evictplan.apply.cluster import ClusterApi
    from kubectl_evictplan.commands.terminal import Progress
    from kubectl_evictplan.kube.objects import ClusterSnapshot

_PREFIX = "connection_"
_CHUNK_SIZE_MAX = 1_000_000
# A token stays out of what is shown.
_ITS_TOKEN = '--token "$TOKEN"'  # noqa: S105
_SAME_CLUSTER = (
    *("kubeconfig", "context", "cluster", "user", "server"),
    *("as_user", "as_groups", "as_uid", "as_user_extra"),
    *("certificate_authority", "client_certificate", "client_key"),
    *("insecure_skip_tls_verify", "tls_server_name", "no_exec_auth", "allow_relative_exec"),
)
# kubectl has no such options.
_OURS_ALONE = ("no_exec_auth", "allow_relative_exec")


class ConnectionOption(click.Option):
    """An option that says which live cluster is read, and as whom; has its own place in the help."""


def _option(*names: str, field: str = "", **settings: Any) -> ConnectionOption:
    field = field or names[-1].lstrip("-").replace("-", "_")
    return ConnectionOption([f"{_PREFIX}{field}", *names], **settings)


def _text(*names: str, metavar: str, help: str, field: str = "") -> ConnectionOption:  # noqa: A002
    return _option(*names, field=field, default="", metavar=metavar, help=help)


CONNECTION_OPTIONS = (
    _text("--kubeconfig", metavar="FILE", help="The kubeconfig, alone."),
    _text("--context", metavar="NAME", help="The context of the kubeconfig to use."),
    _text("--cluster", metavar="NAME", help="Its cluster instead of the context's."),
    _text("--user", metavar="NAME", help="Its user instead of the context's."),
    _text("-n", "--namespace", metavar="NAME", help="Read the pods of one namespace only."),
    _option("-A", "--all-namespaces", is_flag=True, help="Read all namespaces, as by default."),
    _text("-s", "--server", metavar="URL", help="The API server's address."),
    _text("--token", metavar="TOKEN", help="Bearer token; a kubeconfig keeps it out of `ps`."),
    _text("--as", field="as_user", metavar="USER", help="Impersonate this user."),
    _option(
        "--as-group", field="as_groups", multiple=True, metavar="GROUP", help="And this group."
    ),
    _text("--as-uid", metavar="UID", help="And this uid."),
    _option(
        "--as-user-extra",
        multiple=True,
        metavar="KEY=VALUE",
        help="And this further fact about them.",
    ),
    _text("--certificate-authority", metavar="FILE", help="Authority of the server's certificate."),
    _text("--client-certificate", metavar="FILE", help="Client certificate."),
    _text("--client-key", metavar="FILE", help="Key of the client certificate."),
    _option(
        "--insecure-skip-tls-verify", is_flag=True, help="Do not check the server's certificate."
    ),
    _text("--tls-server-name", metavar="NAME", help="Name to expect in that certificate."),
    _option("--no-exec-auth", is_flag=True, help="Never run a credential plugin."),
    _option(
        "--allow-relative-exec",
        is_flag=True,
        help="Run one that lies beside a kubeconfig in the working directory.",
    ),
    _option(
        "--request-timeout",
        metavar="DURATION",
        help="How long one answer may take (the whole cluster 4 times as long), 0 is for ever; "
        "default: 30s.",
    ),
    _option(
        "--chunk-size",
        metavar="N",
        help=f"Objects in one answer, 0 for all; default: {CHUNK_SIZE_DEFAULT}.",
    ),
)


def take_connection(values: dict[str, Any]) -> ConnectionFlags:
    """Remove these options from a command's values and return what they say; raises InputError."""
    mine = {
        name.removeprefix(_PREFIX): values.pop(name)
        for name in list(values)
        if name.startswith(_PREFIX)
    }
    if mine.pop("all_namespaces"):
        mine["namespace"] = ""
    timeout, size = mine.pop("request_timeout"), mine.pop("chunk_size")
    return ConnectionFlags(
        **mine, request_timeout_ns=_timeout_ns(timeout), chunk_size=_chunk_size(size)
    )


def connection_words(connection: ConnectionFlags, *, kubectl: bool = False) -> str:
    """Return the options, for a shell, that lead a command to the same cluster as the same user; no token.

    ``kubectl``: those that kubectl has too.
    """
    names = {"as_user": "as", "as_groups": "as-group"}
    words: list[str] = []
    for field in _SAME_CLUSTER:
        if kubectl and field in _OURS_ALONE:
            continue
        option, value = f"--{names.get(field, field.replace('_', '-'))}", getattr(connection, field)
        for one in value if isinstance(value, tuple) else (value,) if value else ():
            words += [option] if one is True else [option, one]
    token = [_ITS_TOKEN] if connection.token else []
    return " ".join([*map(shlex.quote, words), *token])


def load_live(connection: ConnectionFlags, progress: Progress, *, strict: bool) -> ClusterSnapshot:
    """Return the live cluster; what is odd about the connection goes to standard error."""
    from kubectl_evictplan.live.kubeconfig import NoClusterNamed
    from kubectl_evictplan.live.reader import read_cluster

    try:
        with asking_same_cluster(connection):
            return read_cluster(
                connection, os.environ, strict=strict, progress=progress.listing, warn=_warn
            )
    except NoClusterNamed as error:
        if _takes_files():
            # Files are the other way, and perhaps one lies here.
            (problem,) = error.problems
            problem.message += ", and no file is named with -f"
            if beside := files_beside():
                problem.correction = Correction((), ("-f", beside[0]), example=True)
        raise


@contextmanager
def asking_same_cluster(connection: ConnectionFlags) -> Iterator[None]:
    """Let what is to be asked of kubectl about a problem be asked about the cluster that the options name."""
    try:
        yield
    except ProblemsError as error:
        for problem in error.problems:
            if problem.correction and problem.correction.first:
                first = _about_the_same(problem.correction.first, connection)
                problem.correction = problem.correction._replace(first=first)
        raise


@contextmanager
def changeable_cluster(connection: ConnectionFlags) -> Iterator[ClusterApi]:
    """Connect to the cluster that ``apply`` changes."""
    from kubectl_evictplan.live.mutations import cluster_api

    with asking_same_cluster(connection), cluster_api(connection, os.environ) as api:
        yield api


def _takes_files() -> bool:
    """Whether the command that runs has ``-f``: ``apply`` changes live clusters only."""
    context = click.get_current_context(silent=True)
    return context is None or any("-f" in param.opts for param in context.command.params)


def _about_the_same(commands: str, connection: ConnectionFlags) -> str:
    """Return commands of kubectl with the options that led to the cluster."""
    named = [
        f" --{option} {shlex.quote(value)}"
        for option in ("kubeconfig", "context", "cluster", "user", "server")
        if (value := getattr(connection, option))
    ]
    parts = commands.split(" && ")
    return " && ".join(
        part
        + "".join(
            one
            for one in named
            if one not in part and ("config" not in part or "--kubeconfig" in one)
        )
        for part in parts
    )


def _warn(text: str) -> None:
    say(f"warning: {text}")


def _timeout_ns(text: str | None) -> int:
    if text is None:
        return REQUEST_TIMEOUT_DEFAULT_NS
    if text == "0":
        return 0
    from kubectl_evictplan.commands.likely import likely_duration
    from kubectl_evictplan.kube.durations import parse_bounded_duration_ns

    try:
        return parse_bounded_duration_ns(text)
    except ValueError as error:
        likely = likely_duration(text, SECOND_NS)
        option = ("--request-timeout",)
        known = Correction((text,), (likely or "30s",), not likely, option)
        raise mistake(str(error), known, location=option[0], got=repr(text)) from None


def _chunk_size(text: str | None) -> int:
    if text is None:
        return CHUNK_SIZE_DEFAULT
    if text.isascii() and text.isdecimal() and len(text) < 9 and int(text) <= _CHUNK_SIZE_MAX:
        return int(text)
    known = Correction((text,), (str(CHUNK_SIZE_DEFAULT),), True, ("--chunk-size",))
    expected = f"a number from 0 to {_CHUNK_SIZE_MAX}"
    raise mistake(
        "not a number of objects", known, got=repr(text), expected=expected, location="--chunk-size"
    )
