"""Which cluster, as whom: kubeconfig files merged and chosen from as kubectl does.

Rules of ``k8s.io/client-go/tools/clientcmd`` (loader.go, client_config.go): ``--kubeconfig`` alone,
or the files of KUBECONFIG, or ``~/.kube/config``; of everything that has a name the first file wins,
and so it does for ``current-context``. (The Python client lets the last one win: it would ask another
cluster than kubectl.) Nothing of a file's content is ever quoted: it may be a token.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kubectl_evictplan.errors import Correction, InputError, Problem
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.impersonation import Impersonation, impersonation
from kubectl_evictplan.live.plugin_rules import PluginRules, lies_here, rules_for
from kubectl_evictplan.live.problems import LOOK_AT_CONTEXTS

FILE_BYTES_MAX = 16 << 20
_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}
# Paths in entries are relative to the file that holds them.
_CLUSTER_PATHS = ("certificate-authority",)
_USER_PATHS = ("client-certificate", "client-key", "tokenFile")
_OIDC_PATHS = ("idp-certificate-authority",)
_CREDENTIALS = (
    *("token", "tokenFile", "exec", "auth-provider", "username", "password"),
    *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
)


class NoClusterNamed(InputError):
    """Neither an option nor a kubeconfig names a cluster, and this is no pod."""


class Entry(NamedTuple):
    """What a kubeconfig says under one name, paths made absolute, and the file it stands in."""

    name: str
    values: dict[str, Any]
    path: str
    # The plugin's command as it is written.
    command: str = ""


@dataclass(frozen=True)
class Target:
    """One cluster and one user, settled; ``in_cluster`` when a pod's own account is meant.

    ``cluster`` and ``user`` are the merged kubeconfig entries. ``warnings`` are for the person at the
    terminal: they say nothing of the cluster.
    """

    context: str = ""
    user_name: str = ""
    cluster: Mapping[str, Any] = field(default_factory=dict, repr=False)
    user: Mapping[str, Any] = field(default_factory=dict, repr=False)
    user_file: str = ""
    in_cluster: bool = False
    impersonation: Impersonation = field(default_factory=Impersonation)
    plugin_rules: PluginRules = field(default_factory=PluginRules)
    warnings: tuple[str, ...] = ()

    @property
    def server(self) -> str:
        """The API server's address without a slash at its end; "" for a pod's own cluster."""
        return str(self.cluster.get("server") or "").rstrip("/")

    def named(self) -> str:
        """Return words for messages: the server and the context that led to it."""
        where = self.server or "the cluster of this pod"
        return f"{where} (context {self.context})" if self.context else where


class Kubeconfig:
    """All files in the order of their precedence."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self.current_context = ""
        self.clusters: dict[str, Entry] = {}
        self.contexts: dict[str, Entry] = {}
        self.users: dict[str, Entry] = {}
        self.warnings: list[str] = []

    def add(self, path: str, content: Mapping[str, Any]) -> None:
        """Add a file; what an earlier one named stays."""
        for section, key in _SECTIONS.items():
            known: dict[str, Entry] = getattr(self, section)
            for entry in _entries(path, content, section, key):
                known.setdefault(entry.name, entry)
        current = content.get("current-context")
        if current is not None and not isinstance(current, str):
            raise _wrong(path, "current-context", "must be a string")
        self.current_context = self.current_context or current or ""


def find_paths(flag: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files to read; those of KUBECONFIG may be missing."""
    if flag:
        return (flag,)
    listed = environ.get("KUBECONFIG", "")
    if listed:
        return tuple(dict.fromkeys(path for path in listed.split(os.pathsep) if path))
    home = environ.get("HOME") or environ.get("USERPROFILE")
    return (str(Path(home, ".kube", "config")),) if home else ()


def load_kubeconfig(flag: str, environ: Mapping[str, str]) -> Kubeconfig:
    """Read and merge the files; InputError names the file, never its content."""
    paths = find_paths(flag, environ)
    merged = Kubeconfig(paths)
    found = [path for path in paths if Path(path).exists()]
    if flag and not found:
        raise InputError(
            Problem(
                "no such kubeconfig file",
                location=flag,
                correction=Correction(("--kubeconfig", flag), ()),
            )
        )
    for path in found:
        merged.add(path, _read(path))
        merged.warnings += _file_warnings(path)
    missing = [path for path in paths if path not in found]
    if missing and environ.get("KUBECONFIG") and not flag:
        merged.warnings.append(f"KUBECONFIG names files that do not exist: {', '.join(missing)}")
    return merged


def in_context(name: str, flags: ConnectionFlags, environ: Mapping[str, str]) -> ConnectionFlags:
    """Return the options with this context, where they name no cluster and kubeconfig has it and another current one."""
    if not name or flags.context or flags.cluster or flags.server:
        return flags
    config = load_kubeconfig(flags.kubeconfig, environ)
    if name == config.current_context or name not in config.contexts:
        return flags
    return flags._replace(context=name)


def resolve(flags: ConnectionFlags, environ: Mapping[str, str], *, is_pod: bool = False) -> Target:
    """Return the cluster and user that kubectl would take; InputError says what is missing.

    ``is_pod``: a service account is mounted here, to be used when no kubeconfig names a cluster.
    """
    config = load_kubeconfig(flags.kubeconfig, environ)
    name = flags.context or config.current_context
    context: Mapping[str, Any] = {}
    if name:
        context = _entry(config, "contexts", name, flags.context and "--context").values
    cluster_name = flags.cluster or _text(context.get("cluster"))
    user_name = flags.user or _text(context.get("user"))
    cluster = user = None
    if cluster_name:
        cluster = _entry(config, "clusters", cluster_name, flags.cluster and "--cluster", name)
    if user_name:
        user = _entry(config, "users", user_name, flags.user and "--user", name)
    settings = _cluster_with(flags, dict(cluster.values) if cluster else {})
    if not settings.get("server"):
        if is_pod and not (flags.context or flags.cluster or flags.kubeconfig):
            return Target(in_cluster=True, impersonation=impersonation(flags, {}))
        raise _no_server(config, cluster, flags)
    if not _is_address(settings["server"]):
        message = "the server's address is none: it is to be https://HOST:PORT"
        if not flags.server:
            raise _wrong(cluster.path if cluster else "", "", message)
        options = ("--server", "-s")
        example = Correction((flags.server,), ("https://127.0.0.1:6443",), True, options)
        raise InputError(Problem(message, example, location="--server"))
    credentials = _user_with(flags, dict(user.values) if user else {})
    rules = PluginRules()
    if user and runs_plugin(credentials):
        rules = rules_for(flags, environ, command=user.command, kubeconfig=user.path)
    return Target(
        context=name,
        user_name=user_name,
        cluster=settings,
        user=credentials,
        user_file=user.path if user else "",
        impersonation=impersonation(flags, user.values if user else {}),
        plugin_rules=rules,
        warnings=(
            *config.warnings,
            *_connection_warnings(settings),
            *(_plugin_warnings(user, rules, environ) if user else ()),
        ),
    )


def _is_address(server: object) -> bool:
    """Tell whether a server can be asked there."""
    try:
        address = urlsplit(str(server))
        return address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        return False


def has_credentials(user: Mapping[str, Any]) -> bool:
    """Tell whether the entry says how to log in; without any word the user is anonymous."""
    return any(user.get(key) for key in _CREDENTIALS)


def runs_plugin(user: Mapping[str, Any]) -> bool:
    """Tell whether a program gives the credential: a token stands above it."""
    return isinstance(user.get("exec"), dict) and not (user.get("token") or user.get("tokenFile"))


def write_tokens(path: str, user_name: str, tokens: Mapping[str, str]) -> None:
    """Put an identity provider's new tokens into the entry of that user; whole or not at all.

    The file is written anew, as kubectl does it: comments are lost. A file that cannot be written stays
    as it is.
    """
    import yaml

    content = _read(path)
    for item in content.get("users") or ():
        if item.get("name") == user_name:
            item["user"]["auth-provider"]["config"].update(tokens)
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            yaml.safe_dump(content, stream, sort_keys=False)
        temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)


def _read(path: str) -> dict[str, Any]:
    import yaml

    try:
        with Path(path).open("rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise _wrong(path, "", "is not a regular file")
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise _wrong(path, "", f"kubeconfig: {reason}") from None
    if len(data) > FILE_BYTES_MAX:
        raise _wrong(path, "", "is too large for a kubeconfig")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content = yaml.load(data.decode("utf-8-sig"), Loader=loader)  # noqa: S506 - a safe one
    except UnicodeDecodeError:
        raise _wrong(path, "", "is not a kubeconfig: it is not UTF-8") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # Its own text quotes what stands there.
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        raise _wrong(place, "", "is not a kubeconfig: it is not valid YAML") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _wrong(path, "", "is not a kubeconfig: it is no map with clusters and users")
    if content.get("kind", "Config") != "Config":
        raise _wrong(path, "kind", "is not a kubeconfig: kind is not Config")
    return content


def _entries(path: str, content: Mapping[str, Any], section: str, key: str) -> list[Entry]:
    listed = content.get(section)
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise _wrong(path, section, "must be a list")
    found = []
    for index, item in enumerate(listed):
        place = f"{section}[{index}]"
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise _wrong(path, place, "must be a map with a name")
        values = item.get(key)
        if values is None:
            values = {}
        if not isinstance(values, dict):
            raise _wrong(path, f"{place}.{key}", "must be a map")
        plugin = values.get("exec")
        command = _text(plugin.get("command")) if isinstance(plugin, dict) else ""
        found.append(Entry(item["name"], _with_absolute_paths(path, values), path, command))
    return found


def _with_absolute_paths(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with their paths as seen from the file (``ResolveLocalPaths``)."""
    base = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 - as written, unresolved
    made = dict(values)
    for key in (*_CLUSTER_PATHS, *_USER_PATHS):
        if isinstance(made.get(key), str) and made[key]:
            made[key] = os.path.join(base, made[key])  # noqa: PTH118
    provider = made.get("auth-provider")
    if isinstance(provider, dict) and isinstance(provider.get("config"), dict):
        settings = dict(provider["config"])
        for key in _OIDC_PATHS:
            if isinstance(settings.get(key), str) and settings[key]:
                settings[key] = os.path.join(base, settings[key])  # noqa: PTH118
        made["auth-provider"] = {**provider, "config": settings}
    plugin = made.get("exec")
    if isinstance(plugin, dict) and isinstance(command := plugin.get("command"), str):
        # A bare name is looked up on PATH; whatever has a separator lies beside the file.
        if os.sep in command:
            command = os.path.join(base, command)  # noqa: PTH118
        made["exec"] = {**plugin, "command": command}
    return made


def _entry(config: Kubeconfig, section: str, name: str, option: str, context: str = "") -> Entry:
    """Return the entry of that name; InputError says which ones there are."""
    known: dict[str, Entry] = getattr(config, section)
    if name in known:
        return known[name]
    if not any(Path(path).exists() for path in config.paths):
        raise _no_kubeconfig()
    noun = _SECTIONS[section]
    files = ", ".join(config.paths) or "kubeconfig"
    close = difflib.get_close_matches(name[:100], known, n=1)
    likely = close or sorted(known)[:1]
    shown = f"; did you mean {close[0]}?" if close else ""
    correction = Correction((), (), first=LOOK_AT_CONTEXTS)
    if option:
        message = f"no {noun} of that name in {files}{shown}"
        if likely:
            correction = Correction((name,), (likely[0],), not close, (option,))
        raise InputError(Problem(message, location=option, got=repr(name), correction=correction))
    where = "current-context" if section == "contexts" else f"context {context}"
    if section == "contexts" and likely:
        correction = Correction((), ("--context", likely[0]), not close)
    message = f"{where} names {noun} {name}, which is in none of the files{shown}"
    raise InputError(Problem(message, location=files, correction=correction))


def _no_server(config: Kubeconfig, cluster: Entry | None, flags: ConnectionFlags) -> InputError:
    if cluster is not None:
        message = f"cluster {cluster.name} has no server"
        correction = Correction((), (), first=LOOK_AT_CONTEXTS)
        return InputError(Problem(message, location=cluster.path, correction=correction))
    files = ", ".join(config.paths)
    if config.contexts:
        message = "no context is chosen: there is no current-context"
        correction = Correction((), ("--context", min(config.contexts)), example=True)
        return InputError(Problem(message, location=files, correction=correction))
    if flags.kubeconfig:
        correction = Correction(("--kubeconfig", flags.kubeconfig), ())
        return InputError(Problem("names no cluster", correction, location=files))
    if any(Path(path).exists() for path in config.paths):
        return _none_named(f"{files} names none")
    return _no_kubeconfig()


def _no_kubeconfig() -> NoClusterNamed:
    return _none_named("there is no kubeconfig")


def _none_named(why: str) -> NoClusterNamed:
    correction = Correction((), ("--kubeconfig", "FILE"), example=True)
    return NoClusterNamed(Problem(f"no cluster is given: {why}", correction))


def _cluster_with(flags: ConnectionFlags, cluster: dict[str, Any]) -> dict[str, Any]:
    """Return the entry with what the options say instead (``getCluster``)."""
    if flags.server:
        cluster["server"] = flags.server
        # A name for another server's certificate means nothing for this one.
        cluster.pop("tls-server-name", None)
    if flags.tls_server_name:
        cluster["tls-server-name"] = flags.tls_server_name
    if flags.insecure_skip_tls_verify or flags.certificate_authority:
        for key in ("certificate-authority", "certificate-authority-data"):
            cluster.pop(key, None)
        cluster["insecure-skip-tls-verify"] = flags.insecure_skip_tls_verify
        if flags.certificate_authority:
            cluster["certificate-authority"] = flags.certificate_authority
    server = cluster.get("server")
    if isinstance(server, str) and server and "://" not in server:
        cluster["server"] = f"https://{server}"
    return cluster


def _user_with(flags: ConnectionFlags, user: dict[str, Any]) -> dict[str, Any]:
    """Return the entry with what the options say instead (``getAuthInfo``)."""
    if flags.token:
        for key in _CREDENTIALS[:6]:
            user.pop(key, None)
        user["token"] = flags.token
    if flags.client_certificate or flags.client_key:
        for name, value in (
            ("client-certificate", flags.client_certificate),
            ("client-key", flags.client_key),
        ):
            if value:
                user.pop(f"{name}-data", None)
                user[name] = value
    return user


def _connection_warnings(cluster: Mapping[str, Any]) -> list[str]:
    found = []
    if str(cluster.get("server", "")).startswith("http://"):
        found.append("the server is reached without TLS: anybody on the way can read the answers")
    elif cluster.get("insecure-skip-tls-verify"):
        found.append("insecure-skip-tls-verify: the server's certificate is not checked")
    return found


def _plugin_warnings(user: Entry, rules: PluginRules, environ: Mapping[str, str]) -> list[str]:
    """Say that a file lying here runs a program: a folder of somebody else's may hold such a trap."""
    found = [rules.policy.warning] if rules.policy.warning else []
    plugin = user.values.get("exec")
    if not isinstance(plugin, dict) or rules.is_forbidden or rules.relative:
        return found
    if lies_here(user.path, environ):
        command = plugin.get("command")
        found.append(f"kubeconfig {user.path} in the working directory runs {command} to log in")
    return found


def _file_warnings(path: str) -> list[str]:
    """Say that others can read the file; it may hold a token."""
    if os.name != "posix":
        return []
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return []
    if mode & stat.S_IROTH:
        return [f"kubeconfig {path} can be read by everybody: chmod 600 {path}"]
    return []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _wrong(location: str, field_name: str, message: str) -> InputError:
    correction = Correction((), (), first=LOOK_AT_CONTEXTS)
    problem = Problem(message, location=location, field=field_name, correction=correction)
    return InputError(problem)
