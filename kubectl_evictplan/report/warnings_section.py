"""Warnings, grouped by code: what is unknown, assumed, not evaluated or surprising."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.report.layout import Layout

_MESSAGES_MAX = {False: 3, True: 1000}
_OBJECTS_MAX = {False: 3, True: 20}
# A hostile or generated message must not bury the others.
_MESSAGE_COLUMNS_MAX = 1000
_OBJECT_COLUMNS_MAX = 120


def render_warnings(warnings: tuple[Warning, ...], layout: Layout) -> Iterator[str]:
    """Yield each code once, with its messages and the first objects of each."""
    if not warnings:
        return
    yield "\n" + layout.title(f"Warnings: {len(warnings)}")
    by_code: dict[str, dict[str, list[str]]] = {}
    for warning in warnings:
        messages = by_code.setdefault(warning.code, {})
        messages.setdefault(warning.message, []).extend(warning.objects)
    for code, messages in by_code.items():
        yield layout.heading(layout.name(code), "warning")
        yield from _messages(messages, layout)


def _messages(messages: dict[str, list[str]], layout: Layout) -> Iterator[str]:
    limit = _MESSAGES_MAX[layout.wide]
    for message, objects in list(messages.items())[:limit]:
        text = layout.text(message, _MESSAGE_COLUMNS_MAX)
        yield from layout.prose(text, "  ", hanging="  ")
        if objects:
            yield from layout.prose(_objects(objects, layout), "    ", hanging="    ")
    if len(messages) > limit:
        yield f"  and {len(messages) - limit} more of this kind (see -o wide)\n"


def _objects(objects: list[str], layout: Layout) -> str:
    limit = _OBJECTS_MAX[layout.wide]
    distinct = list(dict.fromkeys(objects))
    text = ", ".join(layout.text(name, _OBJECT_COLUMNS_MAX) for name in distinct[:limit])
    more = len(distinct) - limit
    return f"{text} and {more} more" if more > 0 else text
