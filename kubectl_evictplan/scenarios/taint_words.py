"""One taint in the words of ``kubectl taint``: what is added, what is removed.

Upstream: ``parseTaint`` and ``validateTaintEffect`` of kubectl's pkg/cmd/taint, with their messages.
"""

from __future__ import annotations

import msgspec

from kubectl_evictplan.kube.objects import EFFECTS, Taint
from kubectl_evictplan.kube.validation import validate_label_value, validate_qualified_name


class TaintRemoval(msgspec.Struct, frozen=True):
    """``key-`` or ``key:Effect-``; effect "" removes every effect of the key."""

    key: str
    effect: str = ""

    def __str__(self) -> str:
        return f"{self.key}:{self.effect}" if self.effect else self.key

    def removes(self, key: str, effect: str) -> bool:
        """Tell whether the taint with that key and effect goes."""
        return key == self.key and self.effect in ("", effect)


def parse_taint(text: str) -> Taint:
    """Return the taint of ``key=value:Effect``, ``key:Effect`` or ``key=:Effect``.

    ValueError has kubectl's message; a missing effect is one.
    """
    taint = _parse_taint_words(text)
    if not taint.effect:
        raise ValueError(f"invalid taint spec: {text}")
    return taint


def parse_taint_removal(text: str) -> TaintRemoval:
    """Return what ``key``, ``key:Effect`` or ``key=value:Effect`` (value ignored) removes.

    The trailing '-' of the command line is already gone. ValueError has kubectl's message.
    """
    taint = _parse_taint_words(text)
    return TaintRemoval(taint.key, taint.effect)


def _parse_taint_words(text: str) -> Taint:
    """Return kubectl's ``parseTaint``: effect "" when the text has no colon."""
    parts = text.split(":")
    if len(parts) > 2:
        raise ValueError(f"invalid taint spec: {text}")
    key, value, effect = parts[0], "", ""
    if len(parts) == 2:
        effect = parts[1]
        if effect not in EFFECTS:
            raise ValueError(f"invalid taint effect: {effect}, unsupported taint effect")
        words = parts[0].split("=")
        if len(words) > 2:
            raise ValueError(f"invalid taint spec: {text}")
        key = words[0]
        if len(words) == 2:
            value = words[1]
            if messages := validate_label_value(value):
                raise ValueError(f"invalid taint spec: {text}, {'; '.join(messages)}")
    if messages := validate_qualified_name(key):
        raise ValueError(f"invalid taint spec: {text}, {'; '.join(messages)}")
    return Taint(key=key, effect=effect, value=value)
