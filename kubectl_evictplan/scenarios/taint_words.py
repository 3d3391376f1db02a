"""One taint in the words of ``kubectl taint``: what is added, what is removed.

Upstream: ``parseTaint`` and ``validateTaintEffect`` of kubectl's pkg/cmd/taint.
"""

from __future__ import annotations

import re

import msgspec

from kubectl_evictplan.errors import WrongWord
from kubectl_evictplan.kube.objects import EFFECTS, NO_EXECUTE, Taint
from kubectl_evictplan.kube.validation import (
    LABEL_RULE,
    validate_label_value,
    validate_qualified_name,
)
from kubectl_evictplan.scenarios.names import similar

EFFECTS_RULE = "NoExecute evicts; NoSchedule and PreferNoSchedule do not"


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

    WrongWord for anything else, also when the effect is missing.
    """
    taint = _taint_or_problem(text)
    if isinstance(taint, Taint) and taint.effect:
        return taint
    message = _no_effect(text) if isinstance(taint, Taint) else taint
    raise WrongWord(message, text, [likely_taint(text)])


def parse_taint_removal(text: str) -> TaintRemoval:
    """Return what ``key``, ``key:Effect`` or ``key=value:Effect`` (value ignored) removes.

    The trailing '-' of the command line is already gone.
    """
    taint = _taint_or_problem(text)
    if isinstance(taint, Taint):
        return TaintRemoval(taint.key, taint.effect)
    key, _, effect = likely_taint(text).partition(":")
    likely = f"{key.partition('=')[0]}{':' + effect if ':' in text else ''}-"
    raise WrongWord(taint, f"{text}-", [likely])


def likely_taint(text: str) -> str:
    """Return the taint that a mistyped one probably means; NoExecute where no effect is named."""
    words = [word.strip() for word in re.split("[:=,]+", text)]
    effects = {word: similar(word, EFFECTS)[:1] for word in words}
    effect = next((near[0] for near in effects.values() if near), NO_EXECUTE)
    key, *values = [word for word in words if not effects[word]] or [""]
    domain, slash, name = key.rpartition("/")
    key, values = domain + slash + _cleaned(name), [_cleaned(word) for word in values]
    likely = f"{key or 'maint'}{'=' if values else ''}{''.join(values[:1])}:{effect}"
    return likely if isinstance(_taint_or_problem(likely), Taint) else f"maint:{effect}"


def _cleaned(word: str) -> str:
    return re.sub("[^A-Za-z0-9_.]+", "-", word).strip("-_.")


def _taint_or_problem(text: str) -> Taint | str:
    """Return kubectl's ``parseTaint``, effect "" when there is no colon; or what is wrong."""
    before, colon, effect = text.partition(":")
    key, equals, value = before.partition("=")
    if any(character.isspace() for character in text):
        return f"a taint is one word, without blanks: {text!r}"
    if ":" in effect or (colon and "=" in value):
        return f"a taint is written KEY=VALUE:EFFECT, not {text!r}"
    if (equals and not colon) or (colon and not effect):
        return _no_effect(text)
    if colon and effect not in EFFECTS:
        return f"{effect!r} is not an effect: {EFFECTS_RULE}"
    if not key:
        return f"taint {text!r} has no key"
    if validate_qualified_name(key):
        return f"the key of taint {text!r} must be {LABEL_RULE}; a domain and '/' may precede it"
    if validate_label_value(value):
        return f"the value of taint {text!r} must be {LABEL_RULE}"
    return Taint(key=key, effect=effect, value=value)


def _no_effect(text: str) -> str:
    return f"the effect of taint {text!r} is missing: {EFFECTS_RULE}"
