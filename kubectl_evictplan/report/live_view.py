"""A run as it goes on: a view that redraws itself on a terminal, plain lines elsewhere.

Both listen to the run (``apply.progress.Tell``). What cannot be written any more is dropped: a closed
pipe never stops a run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from kubectl_evictplan.apply.progress import (
    AnyProgress,
    BudgetWaits,
    CheckMade,
    ClockGap,
    LeftAlone,
    LockNoted,
    OperationLeft,
    Paused,
    ServerAway,
    ServerBack,
    Tell,
    WasReadBack,
)
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.report.run_view import NodeView, PodStage, PodView, RunView, Stage
from kubectl_evictplan.report.run_words import line
from kubectl_evictplan.report.words import name, offset, outcomes

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

_REDRAWS_PER_SECOND = 4
# A pod that waits for its budget is asked for every five seconds: that is said once in so long.
_SAME_WAIT_NS = 60 * SECOND_NS
_UNDER_WAY = (PodStage.ASKED, PodStage.BUDGET, PodStage.GOING)
_AT_REST = (Stage.WAITING, Stage.DONE, Stage.TAKEN_BACK, Stage.UNTOUCHED)
# Rows of nodes that are through, or wait, and of pods; what is under way is always shown.
_NODES_MAX, _PODS_MAX = 12, 15
_STYLES = {
    Stage.DONE: "green",
    Stage.STOPPED: "red",
    Stage.TAKEN_BACK: "green",
    Stage.LEFT_ALONE: "yellow",
    PodStage.GONE: "green",
    PodStage.BUDGET: "yellow",
    PodStage.LEFT: "red",
}


class PlainLines:
    """Writes one line for each event that matters, with the server's time."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream: IO[str] | None = stream
        self._waits: dict[int, tuple[tuple[str, ...], int]] = {}

    def __call__(self, event: AnyProgress) -> None:
        """Write the event's line, if it has one."""
        text = timed_line(event)
        if text is None or self._stream is None or self._is_known(event):
            return
        try:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None

    def _is_known(self, event: AnyProgress) -> bool:
        if not isinstance(event, BudgetWaits):
            return False
        number = event.operation.number
        causes, said_ns = self._waits.get(number, ((), 0))
        if causes == event.causes and event.at_ns - said_ns < _SAME_WAIT_NS and said_ns:
            return True
        self._waits[number] = event.causes, event.at_ns
        return False


def timed_line(event: AnyProgress) -> str | None:
    """Return an event's line behind the server's time, to the second and in UTC; None for one without a line."""
    text = line(event)
    if text is None:
        return None
    clock = format_rfc3339(event.at_ns // SECOND_NS * SECOND_NS)[11:19]
    return f"{clock}  {text}"


@contextlib.contextmanager
def following(
    stream: IO[str] | None,
    prediction: Prediction | None,
    *,
    color: bool,
    redraw: bool,
) -> Iterator[Tell]:
    """Give a listener that shows the run on ``stream`` for the length of the block.

    With ``redraw`` it draws itself anew in place and leaves its last state behind, with the lines that
    say more than the state does above it; without, it writes lines. ``prediction`` has the windows of
    evictions.
    """
    if stream is None:
        yield lambda _: None
        return
    if not redraw:
        yield PlainLines(stream)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=stream, no_color=not color, highlight=False, emoji=False, markup=False)
    view = RunView(prediction)
    live = Live(console=console, refresh_per_second=_REDRAWS_PER_SECOND, auto_refresh=False)

    def tell(event: AnyProgress) -> None:
        view.add(event)
        if _says_more(event) and (text := timed_line(event)):
            console.print(Text(text))
        live.update(drawn(view), refresh=True)

    # A terminal that is gone ends the view, never the run.
    with contextlib.suppress(OSError, ValueError):
        live.start()
    try:
        yield tell
    finally:
        with contextlib.suppress(OSError, ValueError):
            live.stop()


def _says_more(event: AnyProgress) -> bool:
    """Whether an event is worth a line beside the view: what failed, waits, or was looked up."""
    if isinstance(event, CheckMade):
        return event.check.verdict != "ok"
    if isinstance(event, LockNoted):
        return event.what != "held"
    return isinstance(
        event,
        ClockGap | LeftAlone | OperationLeft | Paused | ServerAway | ServerBack | WasReadBack,
    )


def drawn(view: RunView) -> Group:
    """Return the view for rich: the nodes, and the pods that are under way."""
    from rich.console import Group

    parts: list[RenderableType] = [_node_table(list(view.nodes.values()))]
    pods = [pod for node in view.nodes.values() for pod in node.pods]
    shown = _shown_pods(pods)
    if shown:
        parts.append(_pod_table(shown))
    return Group(*parts)


def _shown_pods(pods: list[PodView]) -> list[PodView]:
    """Return what is under way, and before it those that were through last."""
    under_way = [pod for pod in pods if pod.stage in _UNDER_WAY]
    through = [pod for pod in pods if pod.stage in (PodStage.GONE, PodStage.LEFT)]
    room = max(_PODS_MAX - len(under_way), 0)
    return [*(through[-room:] if room else ()), *under_way[:_PODS_MAX]]


def _node_table(nodes: list[NodeView]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header in ("NODE", "STATE", "GONE", "NOT IN THE PLAN"):
        table.add_column(header, overflow="fold")
    active = [node for node in nodes if node.stage not in _AT_REST]
    rest = [node for node in nodes if node.stage in _AT_REST]
    shown = {node.name for node in (*active, *rest[: max(_NODES_MAX - len(active), 0)])}
    for node in nodes:
        if node.name in shown:
            gone = f"{node.gone} of {len(node.pods)}" if node.pods else ""
            state = Text(node.stage.value, _STYLES.get(node.stage, ""))
            table.add_row(Text(name(node.name)), state, gone, ", ".join(map(name, node.others)))
    if len(nodes) > len(shown):
        table.add_row(Text(f"and {len(nodes) - len(shown)} more"), "", "", "")
    return table


def _pod_table(pods: list[PodView]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header in ("POD", "STATE", "PREDICTED", "ACTUAL"):
        table.add_column(header, overflow="fold")
    for pod in pods:
        note = f" ({name(pod.note)})" if pod.note else ""
        table.add_row(
            Text(name(pod.key)),
            Text(pod.stage.value + note, _STYLES.get(pod.stage, "")),
            outcomes(pod.predicted) if pod.predicted else "",
            "" if pod.actual_seconds is None else offset(round(pod.actual_seconds, 1)),
        )
    return table
