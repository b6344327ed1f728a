"""Print the summary of an import, as text and JSON. Pure."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from turntree.cli.command import Terminal
from turntree.cli.output.text import clean, table, tokens
from turntree.stats.import_summary import SOON_DAYS, ImportSummary

WIDTH: Final = 72
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def draw_tally(tally: ImportSummary, terminal: Terminal) -> Iterator[str]:
    """Yield the lines of the summary; figures without information are left out."""
    rule = ("-" if terminal.is_ascii else "─") * min(WIDTH, terminal.width)
    yield terminal.paint(rule, "dim")
    yield terminal.paint("what came home", "head")
    for line in table(_rows(tally)):
        yield terminal.spell(line)
    yield terminal.paint(rule, "dim")


def _rows(tally: ImportSummary) -> Iterator[tuple[str, str]]:
    yield "sessions", f"{tally.sessions:,} of {_many(tally.transcripts, 'transcript')}"
    yield "turns", f"{tally.turns:,}"
    after = tally.bytes_after
    yield "before", f"{sized(tally.bytes_before)} of transcripts, as their tools wrote them"
    yield "after", f"{sized(after.total)} in the database, every index included"
    parts = f"records {sized(after.raw)} · turns {sized(after.rest)} · search {sized(after.search)}"
    yield "", parts
    if tally.tokens:
        yield "tokens", f"{tokens(tally.tokens)}, each model call counted once"
    for origin, more in tally.tokens_repeated.items():
        if more:
            yield (
                "",
                f"{tokens(more)} more stand in {origin}'s lines again: a plain sum counts them",
            )
    if tally.calls_repaired:
        broke = _many(tally.sessions_repaired, "session")
        calls = _many(tally.calls_repaired, "call")
        yield "repaired", f"{broke} broke off: {calls} without a result got one that says so"
    if tally.sessions_deleted_soon:
        first = (tally.next_deleted_on or "")[:10]
        count = _many(tally.sessions_deleted_soon, "session")
        yield "kept", f"{count} that the tool may delete within {SOON_DAYS} days (first {first})"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


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
