"""Print search results, as text and JSON. Pure, like ``cli.output.text``."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from turntree.cli.command import Paint, Terminal
from turntree.cli.output.text import (
    Span,
    age,
    asker,
    cells,
    clean,
    cut,
    digest_spans,
    lay,
    title,
    tool_of,
    who,
)
from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.search.rank import Snippet
from turntree.search.results import SearchHit, SearchResult

WIDTH_MAX: Final = 120
INDENT: Final = 11
NAMES_SHOWN_MAX: Final = 4
NAME_WIDTH_MAX: Final = 20
TITLE_WIDTH_MIN: Final = 44
MATCH_MARGIN: Final = 8
MARK: Final[Paint] = "mark"
NO_SESSION: Final = "in no session"


def draw_result(
    result: SearchResult,
    unique: Mapping[Digest, int],
    current: str | None,
    now: Timestamp,
    terminal: Terminal,
    askers: Mapping[TurnId, str],
) -> Iterator[str]:
    """Yield the lines of the results: sessions in the order of their best turn."""
    width = min(terminal.width, WIDTH_MAX)
    groups: dict[str, list[SearchHit]] = {}
    for hit in result.hits:
        groups.setdefault(_home(hit, current), []).append(hit)
    for place, (label, hits) in enumerate(groups.items()):
        if place:
            yield ""
        yield terminal.paint(clean(label), "dim" if label == NO_SESSION else "label")
        for hit in hits:
            yield from _draw_hit(hit, label, unique, now, width, terminal, askers)


def _home(hit: SearchHit, current: str | None) -> str:
    """Return the session to show a turn under: the current one if it holds the turn."""
    labels = [holder.label for holder in hit.holders]
    if not labels:
        return NO_SESSION
    return current if current is not None and current in labels else labels[0]


def _draw_hit(
    hit: SearchHit,
    home: str,
    unique: Mapping[Digest, int],
    now: Timestamp,
    width: int,
    terminal: Terminal,
    askers: Mapping[TurnId, str],
) -> Iterator[str]:
    turn = hit.placed.turn
    by, ellipsis = turn.header.by, terminal.spell("…")
    names = [asker(turn, askers), tool_of(by), clean(turn.header.model or "")]
    if not any(names[:2]):
        names[0] = who(by)
    shown = [cut(name, NAME_WIDTH_MAX, ellipsis=ellipsis) for name in names if name]
    shown.append(age(turn.header.sealed_at, now))
    # Without room the model goes first, then the tool; the age stays.
    while len(shown) > 1 and width - cells("  ".join(shown)) < TITLE_WIDTH_MIN:
        del shown[-2]
    right = "  ".join(shown)
    spans = [Span("  "), *digest_spans(turn.digest, unique[turn.digest]), Span(" ")]
    is_title = hit.snippet is not None and clean(hit.snippet.text) == title(turn)
    paint: Paint = "plain" if turn.header.outcome == "completed" else "bad"
    spans += (
        _marked(hit.snippet, paint)
        if is_title and hit.snippet is not None
        else [Span(title(turn), paint)]
    )
    left = lay(spans, max(width - cells(right) - 2, 20), terminal)
    yield f"{left}  {terminal.paint(right, 'dim')}".rstrip()
    if hit.snippet is not None and not is_title:
        said = [Span(f"{hit.snippet.where}: ", "dim")]
        said += _in_view(_marked(hit.snippet), width - INDENT - cells(said[0].text))
        spelt = [Span(terminal.spell(span.text), span.paint) for span in said]
        yield " " * INDENT + lay(spelt, width - INDENT, terminal).rstrip()
    for line in textwrap.wrap(terminal.spell(_why(hit, home)), width - INDENT):
        yield " " * INDENT + terminal.paint(line, "dim")


def _marked(snippet: Snippet, paint: Paint = "plain") -> list[Span]:
    """Return a snippet with its matched words marked."""
    spans: list[Span] = []
    at = 0
    for start, end in snippet.marks:
        spans.append(Span(_shown(snippet.text[at:start]), paint))
        spans.append(Span(_shown(snippet.text[start:end]), MARK))
        at = end
    return [span for span in (*spans, Span(_shown(snippet.text[at:]), paint)) if span.text]


def _in_view(spans: list[Span], width: int) -> list[Span]:
    """Return spans without their beginning if the first match would be cut off otherwise."""
    first = next((place for place, span in enumerate(spans) if span.paint == MARK), None)
    if not first:
        return spans
    before = "".join(span.text for span in spans[:first])
    room = width - cells(spans[first].text) - MATCH_MARGIN
    if cells(before) <= room:
        return spans
    # A few words before the match are enough to read it.
    kept = before[-max(room // 2, 1) :].partition(" ")[2]
    return [Span(f"… {kept}"), *spans[first:]]


def _shown(text: str) -> str:
    """Return part of a line without what a terminal would obey; outer spaces are kept."""
    lead = " " if text[:1] == " " else ""
    tail = " " if text[-1:] == " " and text.strip() else ""
    return f"{lead}{clean(text)}{tail}"


def _why(hit: SearchHit, home: str) -> str:
    """Return why a turn was found, and which other sessions hold it."""
    reasons = [clean(reason) for reason in hit.reasons]
    others = [holder.label for holder in hit.holders if holder.label != home]
    if others:
        more = len(others) - NAMES_SHOWN_MAX
        names = [clean(label) for label in others[:NAMES_SHOWN_MAX]]
        reasons.append("also in " + ", ".join([*names, *([f"{more} more"] if more > 0 else [])]))
    return " · ".join(reasons) or "matches the filters"


def hit_document(hit: SearchHit, unique: Mapping[Digest, int]) -> dict[str, Any]:
    """Return a search result as one JSON document."""
    turn = hit.placed.turn
    header = turn.header
    snippet = hit.snippet
    return {
        "id": turn.id,
        "digest": turn.digest,
        "short": turn.digest.removeprefix("sha256:")[: max(8, unique[turn.digest])],
        "depth": hit.placed.depth,
        "title": turn.title,
        "by": header.by.to_json(),
        "model": header.model,
        "outcome": header.outcome,
        "started_at": header.started_at,
        "sessions": [holder.label for holder in hit.holders],
        "heads": [holder.label for holder in hit.holders if holder.is_head],
        "matched": {said: list(where) for said, where in hit.matched.items()},
        "means_the_same": hit.means_the_same,
        "snippet": None
        if snippet is None
        else {
            "where": snippet.where,
            "message": snippet.message,
            "text": snippet.text,
            "marks": [list(mark) for mark in snippet.marks],
        },
    }
