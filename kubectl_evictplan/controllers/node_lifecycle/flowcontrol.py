"""Token buckets of client-go's ``flowcontrol``, as the node lifecycle controller uses them.

Upstream: ``NewTokenBucketRateLimiter`` over golang.org/x/time/rate, burst 1, ``TryAccept`` =
``AllowN(now, 1)``; ``NewFakeNeverRateLimiter``. Rates are float32 on the way in and float64 inside:
0.01 refills in 100.000002235 s, not in 100 s.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from kubectl_evictplan.kube.durations import SECOND_NS


@lru_cache(maxsize=1000)  # a few rates and shares, asked for at every tick
def float32(value: float) -> float:
    """Round to the nearest IEEE 754 single precision number (Go's ``float32(x)``)."""
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded


class TokenBucketRateLimiter:
    """One token of burst, refilled at ``qps`` per second.

    A bucket without a rate accepts once and never again; with ``rate_zero_accepts``, always: up to
    Kubernetes 1.23 x/time divides by the rate, and on amd64 the infinite wait becomes a negative one.
    """

    __slots__ = ("_last_ns", "_limit", "_tokens", "_unlimited", "qps")

    def __init__(self, qps: float, *, rate_zero_accepts: bool = False) -> None:
        self.qps = float32(qps)
        self._limit = max(self.qps, 0.0)
        self._unlimited = rate_zero_accepts and self._limit == 0
        self._tokens = 1.0
        self._last_ns: int | None = None

    def fill(self, level: float, now_ns: int) -> None:
        """Hold so much of a token now, whatever it held before."""
        self._tokens, self._last_ns = level, now_ns

    def level_at(self, now_ns: int) -> float:
        """How much of a token it holds: what it does from now on depends on nothing else."""
        if self._last_ns is None or self._unlimited:
            return 1.0
        elapsed = (now_ns - self._last_ns) / SECOND_NS
        return min(1.0, self._tokens + elapsed * self._limit)

    def just_used(self, now_ns: int, share: float = 1.0) -> TokenBucketRateLimiter:
        """Another one of the same rate, whose token was taken now, or that lacks more of one."""
        other = TokenBucketRateLimiter(self.qps, rate_zero_accepts=self._unlimited)
        other.spend(share, now_ns)
        return other

    def try_accept(self, now_ns: int) -> bool:
        """Take a token if there is one; a refusal changes nothing."""
        tokens = self.level_at(now_ns) - 1.0
        if tokens < 0 and (self._limit == 0 or int(-tokens / self._limit * SECOND_NS) > 0):
            return False
        self._tokens = tokens
        self._last_ns = now_ns
        return True

    def spend(self, share: float, now_ns: int) -> None:
        """Lack that share of a token now, if there is one: all of it (1.0) as if it had just been taken, more as if later ones were as well."""
        if self.try_accept(now_ns):
            self._tokens += 1.0 - share

    def ready_at_ns(self, now_ns: int) -> int | None:
        """A lower bound, tight to 2 ns, of when ``try_accept`` can succeed; None is never."""
        missing = 1.0 - self.level_at(now_ns)
        if missing <= 0:
            return now_ns
        if self._limit == 0:
            return None
        return max(now_ns, now_ns + int(missing / self._limit * SECOND_NS) - 2)


@lru_cache(maxsize=100)
def refill_ns(qps: float) -> int:
    """How long after its token was taken a bucket of that rate has another one, to the nanosecond; 0 where it never has."""
    spent = TokenBucketRateLimiter(qps).just_used(0)
    ready_ns = spent.ready_at_ns(0)
    if ready_ns is None:
        return 0
    while not spent.try_accept(ready_ns):
        ready_ns += 1
    return ready_ns


class NeverRateLimiter:
    """Refuses always, and claims a rate of 1 (upstream's fake), which ``SwapLimiter(1)`` believes."""

    __slots__ = ()
    qps = 1.0

    def just_used(self, now_ns: int, share: float = 1.0) -> None:
        """It has no token that could have been taken."""

    def try_accept(self, now_ns: int) -> bool:
        """Refuse."""
        return False

    def spend(self, share: float, now_ns: int) -> None:
        """It has none."""

    def ready_at_ns(self, now_ns: int) -> int | None:
        """Never."""
        return None


RateLimiter = TokenBucketRateLimiter | NeverRateLimiter
