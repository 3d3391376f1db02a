"""Whether this machine's clock and the API server's agree well enough to change anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubectl_evictplan.commands.terminal import say
from kubectl_evictplan.errors import Correction, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.apply.cluster import ClusterApi


def answered_offset_ns(api: ClusterApi) -> int:
    """Return the time of a server that has answered less this machine's."""
    from kubectl_evictplan.world import World

    return api.now_ns() - World().wall_ns()


def clock_offset_ns(api: ClusterApi) -> int:
    """Return the server's time less this machine's.

    Raises AccessError and UnreachableError where the server does not say who asks.
    """
    # Until a server has answered, its time is only this machine's.
    api.identity()
    return answered_offset_ns(api)


def check_clocks(api: ClusterApi, *, accept_skew: bool) -> None:
    """Return when the clocks agree, or that they do not is accepted; warn about what is noticeable.

    Raises InputError beyond ``OFFSET_REFUSED_NS``. Everything counts by the server's time: what is wrong then
    may be that, and with it the age of a plan and whether a lock has expired.
    """
    from kubectl_evictplan.live.server_clock import (
        OFFSET_REFUSED_NS,
        OFFSET_SAID_NS,
        offset_words,
    )

    offset_ns = clock_offset_ns(api)
    if abs(offset_ns) > OFFSET_REFUSED_NS and not accept_skew:
        message = f"{offset_words(offset_ns)}: set the one that is wrong; nothing was changed"
        raise mistake(message, Correction((), ("--accept-skew",)), expected="at most 60s")
    if abs(offset_ns) > OFFSET_SAID_NS:
        say(f"warning: {offset_words(offset_ns)}: the latter is used")
