"""What one node run tells of one node: Ready, decisions, taints, and what it leaves in line."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import pairwise

import msgspec

from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.simulation.playback import NodePlayback
from kubectl_evictplan.windows.spans import NEVER_NS, Span


class NodeRecord(msgspec.Struct):
    """One node in one node run; instants are offsets."""

    # Ready as it is written, by anybody.
    ready: list[tuple[int, str]] = []
    # What a tick found: the Ready status to taint for ("" without taint manager), or "True".
    decisions: list[tuple[int, str]] = []
    # When the controller wrote a NoExecute taint although nobody was served: swaps, removals.
    taints: set[int] = set()
    # Ticks that take the node out of line at their end, because all zones are down: a pass inside them may
    # still taint it, and what they took for its taints does not show that.
    taken_back: set[int] = set()
    # What it leaves in line when it gets ready (1.19.0-8, 1.20.0-4) may have it tainted before a tick puts it there again.
    leaves_entries: bool = False
    # Taints that come and go, as ``taint_change`` tells them: what, value, instant. Not those that the
    # controller writes where it serves nodes: when these come is for ``PodFates`` to say.
    changes: list[tuple[str, str, int]] = []
    # Without taint manager: its pods were deleted before the start.
    evicted_before: bool = False

    @property
    def identity(self) -> Hashable:
        """Equal for records that say the same."""
        told = (*self.ready,), (*self.decisions,), (*self.changes,)
        taken = frozenset(self.taints), frozenset(self.taken_back)
        return told, taken, self.leaves_entries, self.evicted_before

    def wanted_spans(self, stops: list[int]) -> list[Span]:
        """From when to when the node is to be tainted; the end of a process ends it as well."""
        spans: list[Span] = []
        since: int | None = None
        # Of equal instants in the order of decisions: a new process finds nodes reachable first.
        changes = [(at_ns, TRUE) for at_ns in stops] + self.decisions
        if self.leaves_entries:
            first_ns = min((at_ns for at_ns, _ in self.decisions), default=NEVER_NS)
            changes += [
                change for change in self.ready if change[0] > first_ns and change[1] != TRUE
            ]
        for at_ns, status in sorted(changes, key=lambda change: change[0]):
            if status == TRUE and since is not None:
                # A pass may fall inside the very tick that, zones being what they are, wants it no more.
                spans.append((since, at_ns + 1 if at_ns in self.taken_back else at_ns))
                since = None
            elif status != TRUE and since is None:
                since = at_ns
        return [*spans, (since, NEVER_NS)] if since is not None else spans

    def ends_of_countdowns(self, *, by_exchange: bool) -> Iterator[int]:
        """Places of the decisions that may end countdowns of pods: to take the taints off; ``by_exchange``, also to exchange one for another."""
        before = TRUE
        for place, (_, status) in enumerate(self.decisions):
            if status == TRUE or (by_exchange and before != TRUE):
                yield place
            before = status

    def taint_changes_ns(self) -> Iterator[int]:
        """When Ready changes between False and Unknown while the node is wanted: a pass writes the taint that fits."""
        for at_ns, status in self.ready:
            before = next((was for ns, was in reversed(self.decisions) if ns < at_ns), TRUE)
            if TRUE not in (status, before) and status != before:
                yield at_ns

    @property
    def newest_decision(self) -> str | None:
        """What the newest tick that decided anything found; None before."""
        return self.decisions[-1][1] if self.decisions else None

    @property
    def decided_ns(self) -> int:
        """When that was; before the start where nothing was decided."""
        return self.decisions[-1][0] if self.decisions else -1

    def may_untaint(self, at_ns: int) -> bool:
        """Whether a tick that finds the node reachable may have a taint to take off."""
        if self.newest_decision != TRUE or at_ns in self.taints or self.leaves_entries:
            return True
        return self.decided_ns in self.taken_back

    def is_steady(self) -> bool:
        """Whether the node is wanted tainted once at most, for one reason, and never again not."""
        return not self.taints and len(self.decisions) <= 1

    def decided_twice_ns(self) -> set[int]:
        """Ticks that write the node's taints twice, as the first one of a new process may."""
        return {one[0] for one, other in pairwise(self.decisions) if one[0] == other[0]}

    def playback(self, served_ns: tuple[int, ...], *, at_once: bool = False) -> NodePlayback:
        """What happens to the node when it is served at these instants; ``at_once``: see ``NodePlayback``."""
        unknown_ns = tuple(at_ns for at_ns, status in self.ready if status == "Unknown")
        decisions = tuple(self.decisions)
        return NodePlayback(unknown_ns, decisions, served_ns, at_once, self.evicted_before)


NOTHING = NodeRecord()
