"""Print the summary of an import, as text and JSON. Pure."""

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from turntree.cli.command import Terminal
from turntree.cli.output.stats import dollars
from turntree.cli.output.text import cells, clean, counted, pad, tokens
from turntree.stats.import_summary import SOON_DAYS, ImportSummary
from turntree.stats.spending import SpendingTotal

WIDTH: Final = 72
LINE_MAX: Final = 100
FACT_MARGIN: Final = 10
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def draw_tally(
    tally: ImportSummary, terminal: Terminal, spent: SpendingTotal | None = None
) -> Iterator[str]:
    """Yield the lines of the summary: first what the user can do now, each with its command."""
    rule = ("-" if terminal.is_ascii else "─") * min(WIDTH, terminal.width)
    newest = clean(tally.newest or "SESSION")
    sessions, turns = counted(tally.sessions, "session"), counted(tally.turns, "turn")
    other = "claude-code" if newest.startswith("codex/") else "codex"
    gains = [
        ("find", f"any word in {turns} of {sessions}", "turntree search WORDS"),
        ("read", "what was asked and done, and why", f"turntree log {newest}"),
        ("continue", "a session in another tool", f"turntree handoff {newest} --to {other}"),
        ("take back", "what an agent does to your files from now on", "turntree help revert"),
    ]
    if tally.tokens:
        cost = "what it cost, where a price is known"
        if spent is not None and spent.calls > spent.calls_unpriced:
            more = "more than " if spent.calls_unpriced else ""
            cost = f"{more}{dollars(spent.cost)} at list prices so far"
        gains.insert(2, ("see cost", cost, "turntree stats"))
    yield terminal.paint(rule, "dim")
    yield terminal.paint("what you can do now", "head")
    margin = max(cells(name) for name, _, _ in gains) + 2
    for name, gain, command in gains:
        yield f"{pad(name, margin)}{gain}"
        yield " " * margin + terminal.paint(command, "strong")
    yield ""
    yield terminal.paint("what came home", "head")
    for name, fact in _rows(tally):
        lines = textwrap.wrap(terminal.spell(fact), min(terminal.width, LINE_MAX) - FACT_MARGIN)
        for place, line in enumerate(lines):
            yield pad(name if place == 0 else "", FACT_MARGIN) + line
    yield terminal.paint(rule, "dim")


def _rows(tally: ImportSummary) -> Iterator[tuple[str, str]]:
    yield "sessions", f"{tally.sessions:,} of {counted(tally.transcripts, 'transcript')}"
    yield "turns", f"{tally.turns:,}"
    if tally.sessions_deleted_soon:
        first = (tally.next_deleted_on or "")[:10]
        count = counted(tally.sessions_deleted_soon, "session")
        yield "kept", f"{count} that the tool may delete within {SOON_DAYS} days (first {first})"
    if tally.calls_repaired:
        broke = counted(tally.sessions_repaired, "session")
        calls = counted(tally.calls_repaired, "call")
        yield "repaired", f"{broke} broke off: {calls} without a result got one that says so"
    if tally.tokens:
        yield "tokens", f"{tokens(tally.tokens)}, each model call counted once"
    for origin, more in tally.tokens_repeated.items():
        if more:
            yield (
                "",
                f"{tokens(more)} more are repeats in {origin}'s files; a plain sum counts them",
            )
    after = tally.bytes_after
    yield "before", f"{sized(tally.bytes_before)} of transcripts, as their tools wrote them"
    yield "after", f"{sized(after.total)} in the database, every index included"
    parts = f"records {sized(after.raw)} · turns {sized(after.rest)} · search {sized(after.search)}"
    yield "", parts


def sized(count: int) -> str:
    """Return a number of bytes for people: ``4.2 MB``."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def tally_document(tally: ImportSummary) -> dict[str, Any]:
    """Return the figures as one JSON document."""
    document = asdict(tally)
    document["bytes_after"]["total"] = tally.bytes_after.total
    if tally.newest is not None:
        document["newest"] = clean(tally.newest)
    return document
