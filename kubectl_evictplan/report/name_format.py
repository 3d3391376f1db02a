"""``-o name``: ``pod/NAME`` per pod that may be evicted, as ``kubectl get -o name`` prints it.

One line per pod, certain and possible alike, in the order of first eviction, a pod that is evicted
twice once. As with kubectl the namespace is not part of the line, so that the lines can be handed
to ``xargs kubectl -n NAMESPACE``; whoever predicts for several namespaces at once wants
``-o json``. What cannot be in a Kubernetes name is escaped: a line is always one word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubectl_evictplan.display import escape
from kubectl_evictplan.prediction.document import Prediction

# Blanks, quotes and backslashes would make xargs see another word than the one printed.
_NOT_ONE_WORD = re.compile(r"[^A-Za-z0-9._:-]")


def render_names(prediction: Prediction) -> Iterator[str]:
    """Yield one line per pod that some admissible timing evicts."""
    seen: set[tuple[str, str]] = set()
    for eviction in prediction.evictions:
        key = (eviction.namespace, eviction.pod)
        if key not in seen:
            seen.add(key)
            yield f"pod/{_one_word(eviction.pod)}\n"


def _one_word(name: str) -> str:
    return "".join(
        f"\\x{ord(c):02x}" if c.isascii() and _NOT_ONE_WORD.match(c) else escape(c, ascii_only=True)
        for c in name
    )
