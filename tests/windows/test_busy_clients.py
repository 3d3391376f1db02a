"""Until when a client is busy, whoever asks it one thing after the other."""

from __future__ import annotations

import pytest

from kubectl_evictplan.controllers.client_limits import ClientLimit
from kubectl_evictplan.windows.clients.buckets import Arrivals, line
from kubectl_evictplan.windows.clients.busy import BusyClient

LIMIT = ClientLimit(20, 30)


def test_what_goes_through_at_once_takes_no_time() -> None:
    client = BusyClient(LIMIT, [Arrivals(10, 10, 20), Arrivals(12, 12, 10)])
    assert client.never_waits
    assert client.within(0, 100) == client.after(0, 100) == client.longest == 0


def test_whoever_begins_with_all_that_comes_is_through_with_it() -> None:
    client = BusyClient(LIMIT, [Arrivals(10, 10, 130)])
    assert client.within(10, 10) == pytest.approx(5)
    assert client.within(12, 12) == pytest.approx(3)
    assert client.within(15, 30) == 0
    assert client.after(5, 12) == pytest.approx(3)
    assert client.after(5, 20) == 0


def test_what_may_come_at_any_time_may_come_when_somebody_else_begins() -> None:
    client = BusyClient(LIMIT, [Arrivals(0, 10, 130), Arrivals(10, 10, 20)])
    assert client.within(10, 10) == pytest.approx(6)


def test_what_comes_while_it_is_busy_makes_it_busy_for_longer() -> None:
    client = BusyClient(LIMIT, [Arrivals(10, 10, 130), Arrivals(14, 14, 60)])
    assert client.within(10, 10) == pytest.approx(8)
    later = BusyClient(LIMIT, [Arrivals(10, 10, 130), Arrivals(16, 16, 30)])
    assert later.within(10, 10) == pytest.approx(5)


def test_what_comes_in_a_line_makes_it_busy_only_as_it_comes() -> None:
    apart = BusyClient(LIMIT, [line(0, 1000, 50, 1, 0.1).in_requests(130)])
    at_once = BusyClient(LIMIT, [Arrivals(0, 1000, 50 * 130)])
    # Each takes 6.5 s of the 10 s until the next one: less what goes at once, more what comes meanwhile.
    assert apart.longest == pytest.approx((130 - 30) / (20 - 13))
    assert at_once.longest == pytest.approx((50 * 130 - 30) / 20)


def test_a_line_faster_than_the_client_ends_when_all_are_through() -> None:
    fast = BusyClient(LIMIT, [line(0, 1000, 50, 1, 1).in_requests(100)])
    assert fast.longest == pytest.approx((50 * 100 - 30) / 20)
