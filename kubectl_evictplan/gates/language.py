"""The language of ``--fail-on``: comparisons of figures, joined by and, or, not.

    evictions > 20
    unavailable(shop/frontend) > 30s or pdb-broken
    severity >= high and not (last-eviction > 10m)

A rule is parsed once, into the types below; ``figures`` says which names there are and what they are compared
with. Nothing is ever evaluated as code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from lark import Lark, Token, UnexpectedInput

LENGTH_MAX = 1000

_GRAMMAR = r"""
?start: alternatives
?alternatives: together ("or" together)*
?together: single ("and" single)*
?single: "not" single -> negated | "(" alternatives ")" | comparison
comparison: NAME [ARGUMENT] [OPERATOR VALUE]
OPERATOR: /[<>=!]+/
ARGUMENT: /\([^()]+\)/
NAME: /[a-z][a-z0-9]*(-[a-z0-9]+)*/
VALUE: /[^\s()<>=!]+/
%ignore /\s+/
"""
# What may stand where something else does, as people say it.
_SAID = {
    "NAME": "a figure",
    "VALUE": "a value",
    "OPERATOR": "one of > >= < <= == !=",
    "ARGUMENT": "(NAMESPACE/NAME)",
    "RPAR": ")",
    "AND": "and",
    "OR": "or",
}
_OPERATORS = (">", ">=", "<", "<=", "==", "!=")
_OPERATORS_MEANT = {"=": "==", "=>": ">=", "=<": "<=", "<>": "!=", "===": "=="}


class Comparison(NamedTuple):
    """``figure(argument) operator value`` as written; ``operator`` and ``value`` are "" for a figure alone."""

    figure: str
    argument: str
    operator: str
    value: str


class Not(NamedTuple):
    """The opposite of a rule."""

    rule: Rule


class All(NamedTuple):
    """Every one of the rules."""

    rules: tuple[Rule, ...]


class Either(NamedTuple):
    """At least one of the rules."""

    rules: tuple[Rule, ...]


Rule = Comparison | Not | All | Either


def parse(text: str, check: Callable[[Comparison], None]) -> Rule:
    """Return what a rule says, each comparison checked; ValueError says in one line what is wrong with it."""
    from lark import UnexpectedInput

    if len(text) > LENGTH_MAX:
        raise ValueError(f"a rule has at most {LENGTH_MAX} characters")
    if not text.strip():
        raise ValueError("the rule is empty")
    text = " ".join(text.split())
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise ValueError(_said(text, error)) from None
    except RecursionError:
        raise ValueError("too many brackets") from None
    return _rule(tree, check)


@cache
def _parser() -> Lark:
    from lark import Lark

    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=True)


def _rule(tree: Any, check: Callable[[Comparison], None]) -> Rule:
    match tree.data:
        case "comparison":
            name, argument, operator, value = map(_text, tree.children)
            if operator and operator not in _OPERATORS:
                meant = (
                    f": write {_OPERATORS_MEANT[operator]}" if operator in _OPERATORS_MEANT else ""
                )
                raise ValueError(f"{operator!r} is no comparison{meant}")
            found = Comparison(name, argument.strip("()").strip(), operator, value)
            check(found)
            return found
        case "negated":
            return Not(_rule(tree.children[0], check))
        case "together":
            return All(tuple(_rule(child, check) for child in tree.children))
        case _:
            return Either(tuple(_rule(child, check) for child in tree.children))


def _text(token: Token | None) -> str:
    return "" if token is None else str(token)


def _said(text: str, error: UnexpectedInput) -> str:
    """Return where the rule ends to make sense, and what could stand there."""
    from lark import UnexpectedToken

    accepted: set[str] = set()
    at = error.column - 1
    if isinstance(error, UnexpectedToken):
        accepted = set(error.accepts)
        at = len(text) if error.token.type == "$END" else at
    rest = text[at:].split(maxsplit=1)
    said = [words for name, words in _SAID.items() if name in accepted]
    wanted = f": expected {', '.join(said)}" if said else ""
    where = (
        f"{rest[0]!r} (character {at + 1}) does not belong there" if rest else "it ends too soon"
    )
    return f"{where}{wanted}"
