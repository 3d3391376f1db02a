"""What a zone's queue is told, in seconds, and what replays of it find."""

from __future__ import annotations

from collections.abc import Iterator

from building.builders import ns
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import QueueOperation, Told
from kubectl_evictplan.controllers.releases import release_profile
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.windows.budget import Budget
from kubectl_evictplan.windows.line_replay import LineReplay
from kubectl_evictplan.windows.line_replays import Replays
from kubectl_evictplan.windows.line_windows import Spread, WaitWindow, wait_windows
from kubectl_evictplan.windows.places_in_line import InLine, Order, Placed
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.zone_lines import LineHistory, LineRules, Wait, ZoneLine

LAG = 0.105
# What the windows of lines that differ by nothing but the lag of the passes are taken with.
LAGS_ONLY = Spread(base_ns=0, per_token_ns=ns(LAG), gap_ns=ns(12), end_ns=ns(1000))


def by_name(one: InLine) -> str:
    return one.name


def in_order(*names: str) -> Order:
    """Nodes that one tick queues stand in this order."""
    return lambda one: str(names.index(one.name))


class Line:
    """One zone's line: the monitor ticks every ``step`` seconds from 0 on."""

    def __init__(
        self, release: str = "1.29.6", *, rate: float = 0.1, step: float = 5, **rules: bool
    ) -> None:
        self.told: list[QueueOperation] = []
        self.rules = LineRules(
            profile=release_profile(release),
            taint_mode=True,
            rate_qps=rate,
            end_ns=ns(1000),
            period_ns=ns(step),
            timing=Timing(),
            lag_ns=0,
            **rules,
        )

    def tell(self, at: float, told: Told, *names: str, qps: float = 0.0) -> None:
        """Tell it of each of the nodes, or of the zone itself."""
        for name in names or ("",):
            self.told.append(QueueOperation(ns(at), told, "z", name, qps))

    def status(self, at: float, status: str | None, *names: str) -> None:
        """Their Ready status changes."""
        for name in names:
            self.told.append(QueueOperation(ns(at), Told.STATUS, "z", name, status=status))

    def silent(self, at: float, *names: str) -> None:
        """A tick finds that they are silent: Ready becomes Unknown and they have to be tainted."""
        self.status(at, "Unknown", *names)
        self.tell(at, Told.MARK, *names)

    def returns(self, at: float, tick: float, name: str) -> None:
        """Its kubelet posts Ready, and that tick takes it out of the line."""
        self.status(at, "True", name)
        self.tell(tick, Told.REACHABLE, name)

    def replay(self, order: Order = by_name) -> LineHistory:
        line = ZoneLine(self.told)
        return LineReplay(
            self.told, self.rules, line.leaving, Placed(order), line.seen_late_ns(self.rules)
        ).run()

    def served(self, order: Order = by_name) -> dict[str, list[float]]:
        """When each node is served, to the millisecond; a wait that ends unserved leaves nothing."""
        history = self.replay(order)
        return {name: list(_services(history, waits)) for name, waits in history.waits.items()}

    def tokens(self, order: Order = by_name) -> list[float]:
        """When tokens are spent."""
        return [round(at_ns / 1e9, 3) for at_ns in self.replay(order).tokens_ns]

    def waits(self, known: Replays, spread: Spread = LAGS_ONLY) -> dict[str, list[WaitWindow]]:
        """Every wait, over passes without lag and with all of it."""
        line = ZoneLine(self.told)
        replayed = [(line, replace(self.rules, lag_ns=lag_ns)) for lag_ns in (0, ns(LAG))]
        return wait_windows(replayed, spread, 0, set(), known)

    def windows(self, spread: Spread = LAGS_ONLY) -> dict[str, list[tuple[tuple[Span, ...], bool]]]:
        """(spans in seconds, certain) of every wait, over passes without lag and with all of it."""
        return {
            name: [(tuple(map(_seconds, wait.spans)), wait.certain) for wait in waits]
            for name, waits in self.waits(Replays(Budget()), spread).items()
        }


def _services(history: LineHistory, waits: object) -> Iterator[float]:
    assert isinstance(waits, list)
    for wait in waits:
        assert isinstance(wait, Wait)
        if wait.served:
            yield round(history.tokens_ns[wait.last_token] / 1e9, 3)


def _seconds(span: Span) -> tuple[float, float]:
    return round(span[0] / 1e9, 3), round(span[1] / 1e9, 3)
