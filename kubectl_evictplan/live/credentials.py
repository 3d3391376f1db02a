"""Credentials and certificates of one target, as request headers and a TLS context.

The ``kubernetes`` client's configuration loader does what is easy to get subtly wrong (token files,
OIDC and its refreshing, base64, a pod's own account). Three things are done before it sees the
entry, because it does them wrong: exec plugins (``exec_plugin``), paths and precedence
(``kubeconfig``), and the check of an identity provider's certificate, which it leaves out when none
is given.
"""

from __future__ import annotations

import base64
import shutil
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubectl_evictplan.errors import AccessError, InputError
from kubectl_evictplan.live.exec_plugin import ExecCredential, run_plugin
from kubectl_evictplan.live.kubeconfig import Target, has_credentials, runs_plugin, write_tokens
from kubectl_evictplan.live.problems import bounded, masked, refused

if TYPE_CHECKING:
    from kubernetes.client import Configuration

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECRET_KEYS = (
    "token",
    "password",
    "client-key-data",
    "id-token",
    "refresh-token",
    "client-secret",
)
_REFRESHED = ("id-token", "refresh-token")
_NO_AUTHORITY = "the certificate authority of the cluster cannot be read"
# Removed from kubectl in 1.26; only oidc is left of them.
_PROVIDERS = ("oidc", "gcp")


def is_pod(environ: Mapping[str, str]) -> bool:
    """Tell whether a service account is mounted here (``inClusterClientConfig.Possible``)."""
    return bool(
        environ.get("KUBERNETES_SERVICE_HOST")
        and environ.get("KUBERNETES_SERVICE_PORT")
        and (SERVICE_ACCOUNT / "token").is_file()
    )


class Credentials:
    """What one login gave; made anew to refresh it."""

    def __init__(self, target: Target, environ: Mapping[str, str]) -> None:
        """Log in; AccessError or InputError say why that is not possible."""
        self.target = target
        self.expires_ns: int | None = None
        self.secrets = _secrets(target)
        # Keys that stand inside a kubeconfig must become files to be loaded; they are gone after it.
        folder = tempfile.mkdtemp(prefix="kubectl-evictplan-")
        try:
            self._load(environ, folder)
        except (AccessError, InputError):
            raise
        except Exception as error:  # noqa: BLE001 - the loader raises whatever it stumbles over
            said = bounded(masked(str(error), self.secrets))
            raise refused(f"{self._entry()} cannot be used: {said}") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def authorization(self) -> str:
        """Return the Authorization header; "" for clients known by certificate, or not at all."""
        # By way of the settings, because releases of the client name the key differently.
        found = self._configuration.auth_settings().get("BearerToken") or {}
        value = str(found.get("value") or "").strip()
        if not value.isprintable() or not value.isascii():
            raise refused(f"{self._entry()} holds a token that is none")
        return value

    @property
    def is_anonymous(self) -> bool:
        """Whether requests name nobody: no token and no client certificate."""
        return not (self.authorization() or self._configuration.cert_file)

    @property
    def has_own_authority(self) -> bool:
        """Whether the cluster names who signs its certificates, rather than this machine's store."""
        return bool(self._configuration.ssl_ca_cert)

    def _load(self, environ: Mapping[str, str], folder: str) -> None:
        from kubernetes.client import Configuration

        self._configuration: Configuration = Configuration()
        if self.target.in_cluster:
            self._load_service_account(environ)
        else:
            self._load_entry(environ, folder)
        self.server = str(self._configuration.host).rstrip("/")
        is_tls = self.server.startswith("https://")
        self.tls_context = self._tls_context() if is_tls else None

    def _load_service_account(self, environ: Mapping[str, str]) -> None:
        from kubernetes.config.incluster_config import InClusterConfigLoader

        token, authority = str(SERVICE_ACCOUNT / "token"), str(SERVICE_ACCOUNT / "ca.crt")
        loader = InClusterConfigLoader(token, authority, environ=environ)
        loader.load_and_set(self._configuration)

    def _load_entry(self, environ: Mapping[str, str], folder: str) -> None:
        from kubernetes.config.kube_config import KubeConfigLoader

        user = dict(self.target.user)
        rules, plugin = self.target.plugin_rules, user.pop("exec", None)
        if runs_plugin(self.target.user) and not (rules.is_forbidden and has_credentials(user)):
            given = run_plugin(plugin, self.target.cluster, environ, rules)
            self.expires_ns = given.expires_ns
            self.secrets += given.secrets()
            user |= _as_entry(given)
        provider: dict[str, Any] = {}
        if isinstance(user.get("auth-provider"), dict):
            user["auth-provider"] = provider = self._provider(user["auth-provider"])
        cluster = {"server": self.target.server, **self.target.cluster}
        authority = str(cluster.get("certificate-authority") or "")
        if authority and not (
            cluster.get("certificate-authority-data") or Path(authority).exists()
        ):
            raise refused(f"{_NO_AUTHORITY}: there is no file {authority}")
        config = {
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            # An entry without a word would be taken for none.
            "users": [{"name": "u", "user": user or {"anonymous": True}}],
        }
        loader = KubeConfigLoader(
            config, active_context="c", config_base_path="", temp_file_path=folder
        )
        before = dict(provider.get("config", ()))
        loader.load_and_set(self._configuration)
        self._keep_tokens(before, provider.get("config", {}))
        if has_credentials(self.target.user) and self.is_anonymous:
            raise refused(f"{self._entry()} gives no credential: log in again")

    def _keep_tokens(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Write refreshed tokens back, as kubectl does: the old refresh token may not work again."""
        changed = {key: after[key] for key in _REFRESHED if after.get(key) != before.get(key)}
        self.secrets += tuple(str(value) for value in changed.values())
        if changed:
            write_tokens(self.target.user_file, self.target.user_name, changed)

    def _provider(self, provider: Mapping[str, Any]) -> dict[str, Any]:
        name, settings = provider.get("name"), dict(provider.get("config") or {})
        # Nothing would ask whether the program behind cmd-path may be run.
        if name not in _PROVIDERS or "cmd-path" in settings:
            message = f"auth-provider {name} is gone since kubectl 1.26: use its exec plugin"
            raise refused(f"{self._entry()}: {message}")
        if not any(settings.get(f"idp-certificate-authority{end}") for end in ("", "-data")):
            import certifi

            # Without one the client would not check the identity provider's certificate at all.
            settings["idp-certificate-authority"] = certifi.where()
        return {**provider, "config": settings}

    def _tls_context(self) -> ssl.SSLContext:
        configuration = self._configuration
        try:
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
        except (ssl.SSLError, OSError):
            raise refused(_NO_AUTHORITY) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Python 3.13 asks for extensions that many clusters' own authorities do not have.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if configuration.cert_file:
            try:
                context.load_cert_chain(configuration.cert_file, configuration.key_file)
            except (ssl.SSLError, OSError):
                message = "the client certificate and its key cannot be read or do not fit"
                raise refused(f"{self._entry()}: {message}") from None
        return context

    def _entry(self) -> str:
        if self.target.in_cluster:
            return "the service account of this pod"
        return f"user {self.target.user_name}" if self.target.user_name else "the user"


def _as_entry(given: ExecCredential) -> dict[str, str]:
    entry = {"token": given.token} if given.token else {}
    for name, text in (("certificate", given.certificate), ("key", given.key)):
        if text:
            entry[f"client-{name}-data"] = base64.b64encode(text.encode()).decode()
    return entry


def _secrets(target: Target) -> tuple[str, ...]:
    """Return every value of the user's entry that must not be seen."""
    user = target.user
    provider = user.get("auth-provider")
    settings = provider.get("config") if isinstance(provider, dict) else None
    places = [user, settings if isinstance(settings, dict) else {}]
    found = [str(place[key]) for place in places for key in _SECRET_KEYS if place.get(key)]
    plugin = user.get("exec")
    for item in (plugin.get("env") or ()) if isinstance(plugin, dict) else ():
        if isinstance(item, dict) and item.get("value"):
            found.append(str(item["value"]))
    return tuple(found)
