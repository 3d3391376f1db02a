"""Ask an API server: every request of this program passes here.

What urllib3 would do by itself (repeat, follow redirects, decompress without end) is switched off.
Here what changes nothing is repeated a few times, with growing pauses and ``Retry-After`` honoured;
a mutation is sent once. Each answer and the whole reading have a deadline that is checked between
any two pieces, and an answer of more than ``ANSWER_BYTES_MAX`` after decompression is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from kubectl_evictplan import __version__
from kubectl_evictplan.errors import (
    Correction,
    InputError,
    NoAnswerError,
    Problem,
    ProblemsError,
    UnreachableError,
)
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.live.answers import Answer, Decoded, Unusable, retry_after_seconds
from kubectl_evictplan.live.credentials import Credentials
from kubectl_evictplan.live.failures import Failed, Silent, failure_of
from kubectl_evictplan.live.kubeconfig import Target
from kubectl_evictplan.live.pools import Written, open_pool
from kubectl_evictplan.live.problems import (
    LOOK_AT_CLUSTER,
    bounded,
    masked,
    refused,
    unreachable,
)
from kubectl_evictplan.live.server_clock import ServerClock
from kubectl_evictplan.world import World

if TYPE_CHECKING:
    import urllib3

ATTEMPTS_MAX = 5
PAUSE_SECONDS_FIRST = 0.25
PAUSE_SECONDS_MAX = 8.0
RETRY_AFTER_SECONDS_MAX = 60
ANSWER_BYTES_MAX = 64 << 20
# A whole cluster may take so many times as long as one answer.
ANSWERS_PER_READING = 4
# What a mutation waits for its answer where nothing else is said.
MUTATION_SECONDS = 30.0
# A server that has just started refuses everybody until it has read who may do what.
NEWBORN_SECONDS = 15.0
_CHUNK_BYTES = 1 << 16
# Credentials that seem to expire at once, as by a clock that is wrong, are not asked for again sooner.
_CREDENTIALS_KEPT_NS = 60 * SECOND_NS
_REPEATED = frozenset({408, 429, 500, 502, 503, 504})
# Answers of whoever stands before a server that is away, or of one that goes.
_AWAY = frozenset({502, 503, 504})
_NO_RIGHT = frozenset({401, 403})


class Sent(NamedTuple):
    """What became of a request that was sent once.

    Without an ``answer`` there is none that is whole; ``failure`` says why, and only when nothing was
    ``written`` is it certain that it was not executed.
    """

    answer: Answer | None
    written: bool
    failure: str = ""
    status: int = 0


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
                raise Failed("the answer is damaged (gzip)") from None
            chunk = inflate.unconsumed_tail

    def whole(self) -> bytes:
        """Return everything; Failed when the end is missing."""
        inflate = self._inflate
        while inflate is not None and not inflate.eof:
            rest = inflate.decompress(b"", _CHUNK_BYTES)
            if not rest:
                raise Failed("the answer was cut")
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
        self._environ = environ
        self._world = world
        self._user_agent = f"kubectl-evictplan/{__version__}"
        self._request_seconds = request_timeout_ns / SECOND_NS if request_timeout_ns else None
        self._silence_seconds_max: float | None = None
        self._written = Written()
        self._last_status = 0
        self._newborn_until: float | None = None
        self._has_connection = False
        self.begin_reading()
        self.login()

    @property
    def is_newborn(self) -> bool:
        """Whether the server was away a moment ago: what it refuses now it may have to learn yet."""
        until = self._newborn_until
        return until is not None and self._world.monotonic() < until

    @property
    def server(self) -> str:
        """The server's address, as asked."""
        return self._credentials.server

    @property
    def credentials(self) -> Credentials:
        """What the last login gave."""
        return self._credentials

    def begin_reading(self) -> None:
        """Give what is read from now on the whole time of a reading."""
        seconds = self._request_seconds
        self._deadline = (
            self._world.monotonic() + ANSWERS_PER_READING * seconds if seconds else None
        )

    def ask_briefly(self, seconds: float | None) -> None:
        """Wait at most so long for a piece of what is read, and ask a silent server once; None: as ever."""
        self._silence_seconds_max = seconds

    def _begin_mutation(self, seconds_max: float | None) -> None:
        """Give what is sent next the time of one answer, and never for ever."""
        seconds = self._request_seconds or MUTATION_SECONDS
        seconds = seconds if seconds_max is None else min(seconds, seconds_max)
        self._deadline = self._world.monotonic() + seconds

    def reconnect(self) -> None:
        """Ask over a new connection from now on."""
        self._pool.clear()
        self._has_connection = False

    def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = "application/json",
        review: bytes | None = None,
        decode: Callable[[Answer], Decoded],
    ) -> Decoded:
        """Return the decoded answer; ``review`` is posted: a question that changes nothing either.

        ``decode`` is given any answer but 401 and what is repeated, which is 403 as well while the
        server ``is_newborn``; it raises Unusable for one that is to be asked for again. Raises
        NoAnswerError when nothing usable comes in time, AccessError when the server does not know the
        user, InputError when an answer is too large.
        """
        whole_path = path + (f"?{urlencode(query)}" if query else "")
        asked = f"{'GET' if review is None else 'POST'} {path}"
        has_logged_in_again = False
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = self._ask(whole_path, accept, review)
                if answer.status == 401 and not has_logged_in_again:
                    has_logged_in_again = True
                    self.login()
                    continue
                if answer.status in _NO_RIGHT and self.is_newborn:
                    raise Failed(f"answered {answer.status}, by a server that has just started")
                if answer.status == 401:
                    raise self._unauthorized(asked)
                return decode(answer)
            except (Failed, Unusable) as failed:
                self._pause(asked, attempt, failed)

    def send(
        self,
        method: str,
        path: str,
        content_type: str,
        body: bytes,
        seconds_max: float | None = None,
    ) -> Sent:
        """Send a mutation, once, whatever comes back; it has the time of one answer, or ``seconds_max``.

        Raises AccessError or InputError when a login that is due gives nothing: nothing was sent.
        """
        headers = self._headers("application/json")
        headers["Content-Type"] = content_type
        before = self._written.requests
        self._last_status = 0
        self._begin_mutation(seconds_max)
        try:
            answer = self._exchange(method, path, headers, body)
        except (Failed, ProblemsError) as failed:
            is_written = self._written.requests > before
            self.reconnect()
            return Sent(None, is_written, self.explain(_words(failed)), self._last_status)
        return Sent(answer, written=True, status=answer.status)

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

    def not_of_an_api_server(self, path: str, said: str) -> UnreachableError:
        """Return the error for an answer to a GET that no API server gives."""
        message = f"GET {path}: this is no answer of an API server"
        return unreachable(message, location=self.where(), got=self.explain(said))

    def where(self) -> str:
        """Return the server and the context, for messages."""
        return self.target.named() if self.target.server else self.server

    def server_now_ns(self) -> int:
        """What the server's clock says now, as nearly as is known."""
        return self._world.wall_ns() + self.clock.offset_ns()

    def login(self) -> None:
        """Log in (anew); raises AccessError or InputError when that is not possible."""
        self._credentials = Credentials(self.target, self._environ)
        self._fresh_until_ns = self._world.wall_ns() + _CREDENTIALS_KEPT_NS
        self._pool = open_pool(self._credentials, self.target, self._environ, self._written)
        self._has_connection = False

    def _headers(self, accept: str) -> Any:
        import urllib3

        expires_ns = self._credentials.expires_ns
        now_ns = self._world.wall_ns()
        if expires_ns is not None and now_ns >= max(expires_ns, self._fresh_until_ns):
            self.login()
        headers = urllib3.HTTPHeaderDict(
            {"Accept": accept, "Accept-Encoding": "gzip", "User-Agent": self._user_agent}
        )
        if authorization := self._credentials.authorization():
            headers["Authorization"] = authorization
        for name, value in self.target.impersonation.headers():
            headers.add(name, value)
        return headers

    def _ask(self, path: str, accept: str, review: bytes | None) -> Answer:
        """Return one answer; Failed when there is none that could be the last word."""
        headers = self._headers(accept)
        if review is not None:
            headers["Content-Type"] = "application/json"
        method, silence = "GET" if review is None else "POST", self._silence_seconds_max
        answer = self._exchange(method, path, headers, review, silence)
        if 300 <= answer.status < 400:
            raise self._redirected(answer.headers)
        if answer.status in _REPEATED:
            message = f"answered {answer.status} {_reason(answer.status)}".rstrip()
            raise Failed(message, retry_after_seconds(answer))
        return answer

    def _exchange(
        self, method: str, path: str, headers: Any, body: bytes | None, silence: float | None = None
    ) -> Answer:
        """Send one request; return whatever answer comes whole. Failed when none does.

        Notes when the server was away: no connection or a lost one, also between two requests.
        """
        import urllib3

        world = self._world
        deadline = self._answer_deadline()
        started = world.monotonic()
        seconds = world.read_seconds_max
        if silence is not None:
            seconds = min(seconds, silence)
        if deadline is not None:
            seconds = max(min(seconds, deadline - started), 0.001)
        self.requests += 1
        sent_ns = world.wall_ns()
        had_connection, self._has_connection = self._has_connection, False
        connections = self._written.connections
        response = None
        try:
            response = self._pool.urlopen(
                method, self.server + path, headers=headers, body=body,
                preload_content=False, decode_content=False, redirect=False, retries=False,
                timeout=urllib3.Timeout(seconds, connect=seconds),
            )  # fmt: skip
            self._last_status = response.status
            found = {name.lower(): value for name, value in response.headers.items()}
            self.clock.note(found.get("date", ""), sent_ns, world.wall_ns())
            received = self._body(response, found, deadline)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            self._note_away()
            raise failure_of(error, self.where()) from None
        finally:
            if response is not None:
                response.release_conn() if response.closed else response.close()
        if response.status in _AWAY or (had_connection and self._written.connections > connections):
            self._note_away()
        self._has_connection = found.get("connection", "").lower() != "close"
        return Answer(response.status, found, received)

    def _note_away(self) -> None:
        self._newborn_until = self._world.monotonic() + NEWBORN_SECONDS

    def _answer_deadline(self) -> float | None:
        """Return when an answer that is asked for now has to be there."""
        limits = [self._deadline]
        if self._request_seconds:
            limits.append(self._world.monotonic() + self._request_seconds)
        return min((limit for limit in limits if limit is not None), default=None)

    def _body(
        self, response: urllib3.BaseHTTPResponse, headers: Mapping[str, str], deadline: float | None
    ) -> bytes:
        encoding = headers.get("content-encoding", "").lower()
        if encoding not in ("", "identity", "gzip"):
            raise Failed(f"answered in an encoding that was not asked for ({encoding[:20]})")
        body = _Body(is_gzip=encoding == "gzip")
        received = 0
        while True:
            if deadline is not None and self._world.monotonic() >= deadline:
                raise Failed("the answer took too long")
            chunk = response.read1(_CHUNK_BYTES, decode_content=False)
            if not chunk:
                break
            received += len(chunk)
            body.add(chunk)
        promised = headers.get("content-length", "")
        if promised.isdecimal() and received != int(promised):
            raise Failed("the answer was cut")
        return body.whole()

    def _pause(self, request: str, attempt: int, failed: Exception) -> None:
        """Sleep until the next attempt; NoAnswerError when there is to be none."""
        world = self._world
        asked = getattr(failed, "retry_after_seconds", None)
        if asked is not None and asked > RETRY_AFTER_SECONDS_MAX:
            message = f"{failed} and wants to be asked again only after {asked:.0f} s"
            raise self._gone(request, message)
        growing = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_FIRST * 2 ** (attempt - 1))
        pause = growing * world.chance() if asked is None else asked + world.chance()
        if isinstance(failed, Silent) and self._silence_seconds_max is not None:
            raise self._gone(request, str(failed))
        if attempt >= ATTEMPTS_MAX:
            raise self._gone(request, f"{failed} ({attempt} attempts)")
        if self._deadline is not None and world.monotonic() + pause >= self._deadline:
            limit = ANSWERS_PER_READING * (self._request_seconds or 0)
            longer = f"{2 * (self._request_seconds or 0):g}s"
            message = f"{request}: not done within {limit:g} s, last: {failed}"
            correction = Correction((), ("--request-timeout", longer))
            raise NoAnswerError(Problem(message, location=self.where(), correction=correction))
        world.sleep(pause)

    def _gone(self, request: str, message: str) -> NoAnswerError:
        look = Correction((), (), first=LOOK_AT_CLUSTER)
        problem = Problem(f"{request}: {message}", location=self.where(), correction=look)
        return NoAnswerError(problem)

    def _redirected(self, headers: Mapping[str, str]) -> UnreachableError:
        place = urlsplit(headers.get("location", ""))
        to = f" to {place.scheme}://{place.hostname}" if place.hostname else ""
        message = f"answers with a redirect{to}, which is not followed: is it an API server?"
        return unreachable(message, location=self.where())

    def _unauthorized(self, asked: str) -> Exception:
        who = f"user {self.target.user_name}" if self.target.user_name else "the user"
        message = f"{asked}: the server does not accept the credentials of {who}: log in again"
        return refused(message, location=self.where())


def _words(error: Exception) -> str:
    return error.problems[0].message if isinstance(error, ProblemsError) else str(error)


def _too_large() -> InputError:
    message = (
        f"an answer is larger than {ANSWER_BYTES_MAX >> 20} MiB: ask for fewer objects at once"
    )
    correction = Correction((), ("--chunk-size", "100"))
    return InputError(Problem(message, location="--chunk-size", correction=correction))


def _reason(status: int) -> str:
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
