"""GET from an API server: every request of this program passes here.

What urllib3 would do by itself (repeat, follow redirects, decompress without end) is switched off.
Here reads are repeated a few times, with growing pauses and ``Retry-After`` honoured, each answer
and the whole reading have a deadline that is checked between any two pieces, and an answer of more
than ``ANSWER_BYTES_MAX`` after decompression is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

from kubectl_evictplan import __version__
from kubectl_evictplan.errors import Correction, InputError, Problem, UnreachableError
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.live.credentials import Credentials
from kubectl_evictplan.live.kubeconfig import Target
from kubectl_evictplan.live.problems import bounded, masked, refused, unreachable
from kubectl_evictplan.live.server_clock import ServerClock
from kubectl_evictplan.live.world import World

if TYPE_CHECKING:
    import urllib3

ATTEMPTS_MAX = 5
PAUSE_SECONDS_FIRST = 0.25
PAUSE_SECONDS_MAX = 8.0
RETRY_AFTER_SECONDS_MAX = 60
ANSWER_BYTES_MAX = 64 << 20
# A whole cluster may take so many times as long as one answer.
ANSWERS_PER_READING = 4
_CHUNK_BYTES = 1 << 16
# Credentials that seem to expire at once, as by a clock that is wrong, are not asked for again sooner.
_CREDENTIALS_KEPT_NS = 60 * SECOND_NS
_REPEATED = frozenset({408, 429, 500, 502, 503, 504})

Decoded = TypeVar("Decoded")


class Answer(NamedTuple):
    """A whole answer; names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_json(self) -> bool:
        """Whether it says to be JSON."""
        return "json" in self.headers.get("content-type", "").lower()


class Unusable(Exception):
    """An answer that looks cut or garbled: worth another attempt."""


class _Failed(Exception):
    """One attempt that failed; ``retry_after_seconds`` when the server said when to come again."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class _Body:
    """The bytes of one answer, decompressed piece by piece and never beyond the limit."""

    def __init__(self, *, is_gzip: bool) -> None:
        self._bytes = bytearray()
        self._inflate = zlib.decompressobj(31) if is_gzip else None

    def add(self, chunk: bytes) -> None:
        """Append a piece as it was received."""
        inflate = self._inflate
        if inflate is None:
            self._append(chunk)
        while inflate is not None and chunk and not inflate.eof:
            try:
                self._append(inflate.decompress(chunk, _CHUNK_BYTES))
            except zlib.error:
                raise _Failed("the answer is damaged (gzip)") from None
            chunk = inflate.unconsumed_tail

    def whole(self) -> bytes:
        """Return everything; _Failed when the end is missing."""
        inflate = self._inflate
        while inflate is not None and not inflate.eof:
            rest = inflate.decompress(b"", _CHUNK_BYTES)
            if not rest:
                raise _Failed("the answer was cut")
            self._append(rest)
        return bytes(self._bytes)

    def _append(self, data: bytes) -> None:
        self._bytes += data
        if len(self._bytes) > ANSWER_BYTES_MAX:
            raise _too_large()


class Transport:
    """Asks one API server as one user."""

    def __init__(
        self,
        target: Target,
        environ: Mapping[str, str],
        *,
        request_timeout_ns: int,
        world: World,
    ) -> None:
        self.target = target
        self.clock = ServerClock()
        self.requests = 0
        self.bytes_received = 0
        self._environ = environ
        self._world = world
        self._user_agent = f"kubectl-evictplan/{__version__}"
        self._request_seconds = request_timeout_ns / SECOND_NS if request_timeout_ns else None
        self._deadline: float | None = None
        if self._request_seconds is not None:
            self._deadline = world.monotonic() + ANSWERS_PER_READING * self._request_seconds
        self._login()

    @property
    def server(self) -> str:
        """The server's address, as asked."""
        return self._credentials.server

    def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = "application/json",
        decode: Callable[[Answer], Decoded],
    ) -> Decoded:
        """Return the decoded answer.

        ``decode`` is given any answer but 401 and what is repeated; it raises Unusable for one that
        is to be asked for again. Raises UnreachableError when nothing usable comes in time,
        AccessError when the server does not know the user, InputError when an answer is too large.
        """
        url = self.server + path + (f"?{urlencode(query)}" if query else "")
        has_logged_in_again = False
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = self._ask(url, accept)
                if answer.status != 401:
                    return decode(answer)
                if has_logged_in_again:
                    raise self._unauthorized(path)
                has_logged_in_again = True
                self._login()
            except (_Failed, Unusable) as failed:
                self._pause(path, attempt, failed)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown."""
        return self._credentials.secrets

    def seconds_left(self) -> float | None:
        """Return how long the whole reading may still take; None is for ever."""
        return None if self._deadline is None else self._deadline - self._world.monotonic()

    def explain(self, message: str) -> str:
        """Return what a server said, fit to be shown."""
        return bounded(masked(message, self._credentials.secrets))

    def where(self) -> str:
        """Return the server and the context, for messages."""
        return self.target.named() if self.target.server else self.server

    def _login(self) -> None:
        self._credentials = Credentials(self.target, self._environ)
        self._fresh_until_ns = self._world.wall_ns() + _CREDENTIALS_KEPT_NS
        self._pool = _pool(self._credentials, self.target, self._environ)

    def _headers(self, accept: str) -> Any:
        import urllib3

        expires_ns = self._credentials.expires_ns
        now_ns = self._world.wall_ns()
        if expires_ns is not None and now_ns >= max(expires_ns, self._fresh_until_ns):
            self._login()
        headers = urllib3.HTTPHeaderDict(
            {"Accept": accept, "Accept-Encoding": "gzip", "User-Agent": self._user_agent}
        )
        if authorization := self._credentials.authorization():
            headers["Authorization"] = authorization
        for name, value in self.target.impersonation.headers():
            headers.add(name, value)
        return headers

    def _ask(self, url: str, accept: str) -> Answer:
        """Return one answer; _Failed when there is none that could be the last word."""
        import urllib3

        world = self._world
        headers = self._headers(accept)
        started = world.monotonic()
        limits = [
            self._deadline,
            started + self._request_seconds if self._request_seconds else None,
        ]
        deadline = min((limit for limit in limits if limit is not None), default=None)
        seconds = world.read_seconds_max
        if deadline is not None:
            seconds = max(min(seconds, deadline - started), 0.001)
        self.requests += 1
        sent_ns = world.wall_ns()
        response = None
        try:
            response = self._pool.urlopen(
                "GET", url, headers=headers, preload_content=False, decode_content=False,
                redirect=False, retries=False, timeout=urllib3.Timeout(seconds, connect=seconds),
            )  # fmt: skip
            found = {name.lower(): value for name, value in response.headers.items()}
            self.clock.note(found.get("date", ""), sent_ns, world.wall_ns())
            body = self._body(response, found, deadline)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._transport_problem(error) from None
        finally:
            if response is not None:
                response.release_conn() if response.closed else response.close()
        answer = Answer(response.status, found, body)
        if 300 <= answer.status < 400:
            raise self._redirected(found)
        if answer.status in _REPEATED:
            message = f"answered {answer.status} {_reason(answer.status)}".rstrip()
            raise _Failed(message, _retry_after(found))
        return answer

    def _body(
        self, response: urllib3.BaseHTTPResponse, headers: Mapping[str, str], deadline: float | None
    ) -> bytes:
        encoding = headers.get("content-encoding", "").lower()
        if encoding not in ("", "identity", "gzip"):
            raise _Failed(f"answered in an encoding that was not asked for ({encoding[:20]})")
        body = _Body(is_gzip=encoding == "gzip")
        received = 0
        while True:
            if deadline is not None and self._world.monotonic() >= deadline:
                raise _Failed("the answer took too long")
            chunk = response.read1(_CHUNK_BYTES, decode_content=False)
            if not chunk:
                break
            received += len(chunk)
            body.add(chunk)
        self.bytes_received += received
        promised = headers.get("content-length", "")
        if promised.isdecimal() and received != int(promised):
            raise _Failed("the answer was cut")
        return body.whole()

    def _pause(self, path: str, attempt: int, failed: Exception) -> None:
        """Sleep until the next attempt; UnreachableError when there is to be none."""
        world = self._world
        asked = getattr(failed, "retry_after_seconds", None)
        if asked is not None and asked > RETRY_AFTER_SECONDS_MAX:
            message = f"{failed} and wants to be asked again only after {asked:.0f} s"
            raise self._gone(path, message)
        growing = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_FIRST * 2 ** (attempt - 1))
        pause = growing * world.chance() if asked is None else asked + world.chance()
        if attempt >= ATTEMPTS_MAX:
            raise self._gone(path, f"{failed} ({attempt} attempts)")
        if self._deadline is not None and world.monotonic() + pause >= self._deadline:
            limit = ANSWERS_PER_READING * (self._request_seconds or 0)
            longer = f"{2 * (self._request_seconds or 0):g}s"
            message = f"GET {path}: not done within {limit:g} s, last: {failed}"
            correction = Correction((), ("--request-timeout", longer))
            raise UnreachableError(Problem(message, location=self.where(), correction=correction))
        world.sleep(pause)

    def _gone(self, path: str, message: str) -> UnreachableError:
        return unreachable(f"GET {path}: {message}", location=self.where())

    def _transport_problem(self, error: Exception) -> Exception:
        """Return what a failure of urllib3 means: most are worth another attempt."""
        import ssl

        import urllib3.exceptions as wrong

        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                message = f"the server's certificate is not trusted: {cause.verify_message}"
                return unreachable(message, location=self.where())
            if isinstance(cause, ssl.SSLError) and "alert" in str(cause).lower():
                message = f"the server ends the TLS handshake ({cause.reason or 'alert'})"
                return _Failed(message.lower())
            # urllib3 hands on what happened as an argument, a reason or a cause.
            within = [*cause.args, getattr(cause, "reason", None), cause.__cause__]
            cause = next((one for one in within if isinstance(one, BaseException)), None)
        if isinstance(error, wrong.ConnectTimeoutError | wrong.NewConnectionError):
            return _Failed(_connect_words(error))
        if isinstance(error, wrong.ReadTimeoutError):
            return _Failed("no answer in time")
        if isinstance(error, wrong.ProxyError):
            return _Failed("the proxy gives no connection")
        if isinstance(error, wrong.SSLError):
            return _Failed("no TLS connection")
        if isinstance(error, wrong.LocationValueError | wrong.URLSchemeUnknown):
            return unreachable("the server's address is none", location=self.where())
        return _Failed("the connection broke off")

    def _redirected(self, headers: Mapping[str, str]) -> UnreachableError:
        place = urlsplit(headers.get("location", ""))
        to = f" to {place.scheme}://{place.hostname}" if place.hostname else ""
        message = f"answers with a redirect{to}, which is not followed: is it an API server?"
        return unreachable(message, location=self.where())

    def _unauthorized(self, path: str) -> Exception:
        who = f"user {self.target.user_name}" if self.target.user_name else "the user"
        message = f"GET {path}: the server does not accept the credentials of {who}: log in again"
        return refused(message, location=self.where())


def _pool(
    credentials: Credentials, target: Target, environ: Mapping[str, str]
) -> urllib3.PoolManager:
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
        return urllib3.PoolManager(**settings)
    if proxy.startswith("socks"):
        message = "proxies of SOCKS are not supported: use one of HTTP"
        raise InputError(Problem(message, location="proxy-url", correction=Correction((), ())))
    address = urlsplit(proxy)
    headers = {}
    if address.username:
        login = f"{address.username}:{address.password or ''}"
        headers = dict(urllib3.make_headers(proxy_basic_auth=login))
    return urllib3.ProxyManager(proxy, proxy_headers=headers, **settings)


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


def _too_large() -> InputError:
    message = (
        f"an answer is larger than {ANSWER_BYTES_MAX >> 20} MiB: ask for fewer objects at once"
    )
    correction = Correction((), ("--chunk-size", "100"))
    return InputError(Problem(message, location="--chunk-size", correction=correction))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait; the header's other form, a date, is not used by API servers."""
    text = headers.get("retry-after", "").strip()
    return float(text[:9]) if text.isascii() and text.isdecimal() else None


def _reason(status: int) -> str:
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _connect_words(error: Exception) -> str:
    import errno
    import socket

    cause = error.__cause__
    if isinstance(cause, socket.gaierror):
        return "its name is not known"
    if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED:
        return "connection refused"
    return "no connection"
