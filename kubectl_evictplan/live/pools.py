"""Connections to one API server: TLS, proxies, and whether a request has begun to be written.

A request that failed before its first byte was written was not executed; after it, nobody here can
know. The connections themselves keep count, because the errors that urllib3 raises do not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kubectl_evictplan.errors import Correction, InputError, Problem
from kubectl_evictplan.live.credentials import Credentials
from kubectl_evictplan.live.kubeconfig import Target

if TYPE_CHECKING:
    import urllib3


class Written:
    """How many requests had their first byte handed to a connection, and how many of those were made."""

    def __init__(self) -> None:
        self.requests = 0
        self.connections = 0


def open_pool(
    credentials: Credentials, target: Target, environ: Mapping[str, str], written: Written
) -> urllib3.PoolManager:
    """Return connections that are made when needed; ``written`` counts what is sent over them.

    Raises InputError for proxies that are not supported.
    """
    import urllib3

    settings: dict[str, Any] = {"maxsize": 2, "retries": False}
    if credentials.tls_context is not None:
        settings["ssl_context"] = credentials.tls_context
        if name := target.cluster.get("tls-server-name"):
            settings |= {"server_hostname": str(name), "assert_hostname": str(name)}
        if credentials.tls_context.verify_mode == 0:
            settings |= {"cert_reqs": "CERT_NONE", "assert_hostname": False}
            # Said once, in our own words.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    proxy = _proxy(credentials.server, target, environ)
    if not proxy:
        return _counting(urllib3.PoolManager(**settings), written)
    if proxy.startswith("socks"):
        message = "proxies of SOCKS are not supported: use one of HTTP"
        raise InputError(Problem(message, location="proxy-url", correction=Correction((), ())))
    address = urlsplit(proxy)
    headers = {}
    if address.username:
        login = f"{address.username}:{address.password or ''}"
        headers = dict(urllib3.make_headers(proxy_basic_auth=login))
    manager = urllib3.ProxyManager(proxy, proxy_headers=headers, **settings)
    return _counting(manager, written)


def _counting(manager: urllib3.PoolManager, written: Written) -> urllib3.PoolManager:
    """Return the manager, its connections counting the requests that they begin to write."""
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    class Counting(HTTPConnection):
        def connect(self) -> None:
            written.connections += 1
            super().connect()

        def endheaders(self, *arguments: Any, **named: Any) -> None:
            # Else it would be made while writing. What a tunnel needs is no request.
            if self.sock is None:
                self.connect()
            written.requests += 1
            super().endheaders(*arguments, **named)

    class CountingTls(Counting, HTTPSConnection):
        pass

    class Pool(HTTPConnectionPool):
        ConnectionCls = Counting

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = CountingTls

    manager.pool_classes_by_scheme = {"http": Pool, "https": TlsPool}
    return manager


def _proxy(server: str, target: Target, environ: Mapping[str, str]) -> str:
    """Return the proxy's address: proxy-url, else the environment's, as Go's clients do."""
    if url := target.cluster.get("proxy-url"):
        return str(url)
    address = urlsplit(server)
    name = f"{address.scheme}_proxy"
    proxy = environ.get(name) or environ.get(name.upper()) or ""
    host = address.hostname or ""
    if not proxy or host == "localhost" or host.startswith("127.") or host == "::1":
        return ""
    listed = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return "" if _is_reached_directly(host, listed) else proxy


def _is_reached_directly(host: str, listed: str) -> bool:
    """Tell whether NO_PROXY names the host: by name, domain, address or network."""
    import ipaddress

    for entry in (entry.strip().lower() for entry in listed.split(",")):
        if entry == "*" or (entry and (host == entry or host.endswith(f".{entry.lstrip('.')}"))):
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False
