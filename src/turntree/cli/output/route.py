"""Print a route, as text and JSON. Pure, like ``cli.output.text``."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from turntree.cli.command import Terminal
from turntree.cli.output.text import clean, cut, digits, table
from turntree.core.ids import Digest
from turntree.routing.route import Candidate, Route

MATCHED_SHOWN_MAX = 6


def draw_route(route: Route, head: Digest | None, terminal: Terminal) -> Iterator[str]:
    """Yield where a message would go, in one line."""
    at = f"after {digits(head)}" if head is not None else "as its first turn"
    if route.label is None:
        yield terminal.spell(f"a fork {at}")
    else:
        suffix = "   (begins)" if route.begins else ""
        label = terminal.paint(clean(route.label), "label")
        yield terminal.spell(f"{label} {at}{suffix}")


def draw_explained(route: Route, terminal: Terminal) -> Iterator[str]:
    """Yield how the route was found, and what else was considered."""
    for step in route.steps:
        yield terminal.spell(f"  {clean(step)}")
    if not route.candidates:
        return
    yield ""
    head = ("score", "words", "meaning", "thread", "turn", "what it says", "matched")
    for line in table([head, *(_row(one) for one in route.candidates)]):
        yield terminal.spell(cut(line, terminal.width))


def _row(one: Candidate) -> tuple[str, ...]:
    more = len(one.matched) - MATCHED_SHOWN_MAX
    words = " ".join(one.matched[:MATCHED_SHOWN_MAX]) + (f" +{more}" if more > 0 else "")
    return (
        f"{one.score:.3f}", f"{one.words:.2f}", f"{one.likeness:.2f}",
        clean(one.label or "-"), digits(one.digest), cut(clean(one.title), 40), clean(words),
    )  # fmt: skip


def route_document(route: Route) -> dict[str, Any]:
    """Return a route as a JSON document."""
    kind = type(route.target).__name__.removeprefix("To").lower()
    return {
        "target": {"kind": kind, **asdict(route.target)},
        "head": route.head,
        "thread_key": route.thread_key,
        "session": route.session,
        "label": route.label,
        "begins": route.begins,
        "steps": list(route.steps),
        "candidates": [{**asdict(one), "matched": list(one.matched)} for one in route.candidates],
    }
