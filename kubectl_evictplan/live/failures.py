"""Requests without a whole answer: what happened to them, and whether another attempt is worth it."""

from __future__ import annotations

import errno
import socket
import ssl

from kubectl_evictplan.live.problems import unreachable


class Failed(Exception):
    """One attempt that failed; ``retry_after_seconds`` when the server said when to come again."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Silent(Failed):
    """Nothing came for as long as was waited."""


def failure_of(error: Exception, where: str) -> Exception:
    """Return what a failure of urllib3 means: most are worth another attempt."""
    import urllib3.exceptions as wrong

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            message = f"the server's certificate is not trusted: {cause.verify_message}"
            return unreachable(message, location=where)
        if isinstance(cause, ssl.SSLError) and "alert" in str(cause).lower():
            message = f"the server ends the TLS handshake ({cause.reason or 'alert'})"
            return Failed(message.lower())
        # urllib3 hands on what happened as an argument, a reason or a cause.
        within = [*cause.args, getattr(cause, "reason", None), cause.__cause__]
        cause = next((one for one in within if isinstance(one, BaseException)), None)
    if isinstance(error, wrong.ConnectTimeoutError | wrong.NewConnectionError):
        kind = Silent if isinstance(error.__cause__, TimeoutError) else Failed
        return kind(_connect_words(error))
    if isinstance(error, wrong.ReadTimeoutError):
        return Silent("no answer in time")
    if isinstance(error, wrong.ProxyError):
        return Failed("the proxy gives no connection")
    if isinstance(error, wrong.SSLError):
        return Failed("no TLS connection")
    if isinstance(error, wrong.LocationValueError | wrong.URLSchemeUnknown):
        return unreachable("the server's address is none", location=where)
    return Failed("the connection broke off")


def _connect_words(error: Exception) -> str:
    cause = error.__cause__
    if isinstance(cause, socket.gaierror):
        return "its name is not known"
    if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED:
        return "connection refused"
    return "no connection"
