"""Who waits in a replay of a line, and which tokens are spent meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubectl_evictplan.windows.spans import NEVER_NS
from kubectl_evictplan.windows.zone_lines import Wait


class WaitsInLine(msgspec.Struct, eq=False):
    """All waits of one replay, and its tokens.

    ``numbers``: for how many nodes each one stands, where nobody ever leaves the line (see ``ZoneLine.is_plain``).
    """

    numbers: Mapping[str, int] = {}
    tokens_ns: list[int] = []
    # The waits that are not over, and all of them.
    open: dict[str, Wait] = {}
    of: dict[str, list[Wait]] = {}
    # The first and the last token that was spent on nodes which a tick at an instant put in line.
    spent_on: dict[int, tuple[int, int]] = {}
    # Tokens that were spent for nothing on a node that stands for several.
    wasted: set[int] = set()
    _left: dict[str, int] = {}

    def begin(self, name: str, since_ns: int, leaves_ns: int, placed_ns: int | None = None) -> None:
        """The node waits from now on, for what it could have waited since then; ``placed_ns``: when a tick put it in line, if not then."""
        if name not in self.open:
            token, placed_ns = len(self.tokens_ns), since_ns if placed_ns is None else placed_ns
            wait = self.open[name] = Wait(since_ns, placed_ns, leaves_ns, token, token - 1)
            self.of.setdefault(name, []).append(wait)

    def end(self, name: str, useless_ns: int) -> None:
        """The node waits no more; from that instant on a token buys no taint."""
        wait = self.open.pop(name, None)
        if wait is not None:
            wait.last_token = len(self.tokens_ns) - 1
            wait.useless_ns = useless_ns
        elif waits := self.of.get(name):
            # It was served in time; how late it could have been is known now.
            waits[-1].useless_ns = min(waits[-1].useless_ns, useless_ns)

    def end_all(self, useless_ns: int) -> None:
        """Nobody waits any more."""
        for name in list(self.open):
            self.end(name, useless_ns)

    def left_of(self, name: str) -> int:
        """How many are yet to be served of those for whom a node stands."""
        return self._left.get(name, self.numbers.get(name, 1))

    def serve(self, name: str) -> None:
        """The newest token is spent on the node, or on one of those for whom it stands."""
        wait = self.open.get(name)
        if wait is None:
            return
        token, left = len(self.tokens_ns) - 1, self.left_of(name)
        self._note_spent(wait, token)
        if left > 1:
            self._left[name] = left - 1
        else:
            del self.open[name]
            wait.last_token, wait.served = token, True

    def waste(self) -> None:
        """The newest token is spent for nothing on a node that stands for several."""
        self.wasted.add(len(self.tokens_ns) - 1)

    def serve_the_rest(self, tokens: int) -> None:
        """So many tokens, the newest ones, were spent on those who wait, first in, first out; nobody waits any more.

        Where each tick puts all in line anew it is all the same who is served, and tokens may be wasted in between.
        """
        token = len(self.tokens_ns) - tokens
        for name, wait in sorted(self.open.items(), key=lambda each: each[1].placed_ns):
            left = self.left_of(name)
            number = min(tokens, left)
            wait.served = number == left
            if number:
                self._note_spent(wait, token)
                self._note_spent(wait, token + number - 1)
            token, tokens = token + number, tokens - number
        self.end_all(NEVER_NS)

    def _note_spent(self, wait: Wait, token: int) -> None:
        first, _ = self.spent_on.get(wait.placed_ns, (token, token))
        self.spent_on[wait.placed_ns] = first, token
