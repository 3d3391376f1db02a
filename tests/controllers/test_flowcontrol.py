"""Token buckets: instants in seconds, as the flags speak of nodes per second."""

from __future__ import annotations

import pytest
from building.builders import ns

from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import (
    NeverRateLimiter,
    TokenBucketRateLimiter,
    float32,
    refill_ns,
)

CENTURY_NS = 100 * 365 * 86_400 * 1_000_000_000


def test_a_new_bucket_holds_one_token() -> None:
    bucket = TokenBucketRateLimiter(0.1)
    assert bucket.try_accept(0)
    assert not bucket.try_accept(0)


def test_a_tenth_per_second_gives_the_next_token_just_before_ten_seconds() -> None:
    # 0.1 as float32 is a little more than 0.1.
    bucket = TokenBucketRateLimiter(0.1)
    bucket.try_accept(0)
    assert not bucket.try_accept(9_999_999_840)
    assert bucket.try_accept(9_999_999_851)


def test_a_hundredth_per_second_needs_a_little_more_than_a_hundred_seconds() -> None:
    bucket = TokenBucketRateLimiter(0.01)
    bucket.try_accept(0)
    assert not bucket.try_accept(ns(100))
    assert bucket.try_accept(100_000_002_236)


def test_a_refusal_costs_nothing() -> None:
    bucket = TokenBucketRateLimiter(1)
    bucket.try_accept(0)
    assert not any(bucket.try_accept(at) for at in range(0, ns(1) - 1, ns(0.1)))
    assert bucket.try_accept(ns(1))


@pytest.mark.parametrize(("rate", "always"), [(0.1, False), (0.01, False), (0, False), (0, True)])
def test_one_that_was_just_used_refills_at_the_same_rate(rate: float, *, always: bool) -> None:
    bucket = TokenBucketRateLimiter(rate, rate_zero_accepts=always)
    used = bucket.just_used(ns(7))
    assert bucket.level_at(ns(7)) == 1
    bucket.try_accept(ns(7))
    for after in (0, 3, 10, 100, 3600):
        assert used.level_at(ns(7 + after)) == bucket.level_at(ns(7 + after))


def test_idle_time_saves_no_more_than_one_token() -> None:
    bucket = TokenBucketRateLimiter(1)
    bucket.try_accept(0)
    assert bucket.try_accept(ns(3600))
    assert not bucket.try_accept(ns(3600.9))


def test_when_the_next_token_comes_is_known_to_two_nanoseconds() -> None:
    for rate in (0.1, 0.01, 0.25, 0.3, 1, 20):
        bucket = TokenBucketRateLimiter(rate)
        assert bucket.ready_at_ns(5) == 5
        bucket.try_accept(5)
        ready_ns = bucket.ready_at_ns(5)
        assert ready_ns is not None
        assert not bucket.try_accept(ready_ns - 2)
        assert bucket.try_accept(ready_ns + 3)


def test_a_bucket_without_a_rate_accepts_once() -> None:
    bucket = TokenBucketRateLimiter(0)
    assert bucket.try_accept(0)
    assert bucket.ready_at_ns(0) is None
    assert not bucket.try_accept(CENTURY_NS)


def test_up_to_1_23_a_bucket_without_a_rate_accepts_always() -> None:
    bucket = TokenBucketRateLimiter(0, rate_zero_accepts=True)
    assert all(bucket.try_accept(0) for _ in range(100))
    assert bucket.ready_at_ns(7) == 7


def test_with_a_rate_the_old_limiter_is_like_the_new_one() -> None:
    bucket = TokenBucketRateLimiter(1, rate_zero_accepts=True)
    assert bucket.try_accept(0)
    assert not bucket.try_accept(1)


def test_the_never_limiter_refuses_and_claims_a_rate_of_one() -> None:
    never = NeverRateLimiter()
    assert not never.try_accept(CENTURY_NS)
    assert never.ready_at_ns(0) is None
    assert never.qps == 1.0


@pytest.mark.parametrize(("count", "size", "reached"), [(11, 20, True), (33, 60, True)])
def test_quotients_are_compared_in_single_precision(count: int, size: int, reached: bool) -> None:
    assert (float32(count / size) >= float32(0.55)) is reached
    assert count / size < 0.55000001


@pytest.mark.parametrize("qps", [0.01, 0.1, 0.3, 0.5, 1, 3])
def test_a_bucket_has_another_token_so_long_after_the_one_before(qps: float) -> None:
    again_ns = refill_ns(qps)
    bucket = TokenBucketRateLimiter(qps)
    assert bucket.try_accept(0)
    assert not bucket.try_accept(again_ns - 1)
    assert bucket.try_accept(again_ns)


def test_rates_are_single_precision_so_tokens_do_not_come_at_whole_seconds() -> None:
    assert refill_ns(0.1) == 9_999_999_850
    assert refill_ns(0) == 0
