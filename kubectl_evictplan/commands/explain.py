"""``explain``: what the code of a finding or of a warning means, and what to do about it."""

from __future__ import annotations

import textwrap

import click

from kubectl_evictplan.commands.command import command
from kubectl_evictplan.errors import Correction, mistake
from kubectl_evictplan.scenarios.names import did_you_mean, similar

_WIDTH = 100


@command(
    "kubectl evictplan explain budget-broken",
    "# All of them",
    "kubectl evictplan explain",
)
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Tell what the CODE of a finding or of a warning means, and what to do; without one, list them."""
    from kubectl_evictplan.report.codes import explanations

    known = explanations()
    if code is None:
        width = max(map(len, known))
        for one in known.values():
            click.echo(f"{one.code:{width}}  {one.kind}")
        return
    if code not in known:
        words = ("explain", code)
        if "/" in code:
            help_on_it = Correction(words, ("what-if", "--help"))
            raise mistake(
                "a pod's story is told by `what-if ... --explain NAMESPACE/POD`",
                help_on_it,
                got=code,
            )
        close = similar(code, known)
        instead = Correction(words, ("explain", *close[:1]), len(close) > 1)
        message = f"no finding or warning has this code{did_you_mean(close)}"
        raise mistake(message, instead, got=code)
    one = known[code]
    click.echo(f"{one.code}  ({one.kind})")
    for text in (one.meaning, f"What to do: {one.remedy}"):
        click.echo(textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False))
