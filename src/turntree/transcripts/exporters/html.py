"""Export a thread as one HTML page, light or dark as the reader's screen is.

Pure. All content is escaped, text is rendered as Markdown without HTML and images, and the page
loads nothing from the network: its content security policy forbids that as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from markdown_it import MarkdownIt

from turntree.core.ids import Digest, TurnId
from turntree.core.message import Media, Reasoning, Text, ToolResult, ToolUse
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.models.portable_thread import note_of, text_of
from turntree.transcripts.exporters.markdown import (
    arguments_text,
    byline,
    call_summary,
    digits,
    fold_summary,
    headline,
    moment,
    segments_of,
    speaker,
    told_of,
)
from turntree.transcripts.exporters.shared import find_data

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@value
class PageAdditions:
    """HTML that a caller adds to a page; it has to be escaped already."""

    head: str = ""
    turns: Mapping[TurnId, str] = field(default_factory=dict[TurnId, str])
    """What comes after the messages of a turn."""
    end: str = ""
    """What comes after the thread."""


def to_html(
    thread: Sequence[ThreadTurn],
    objects: Mapping[Digest, bytes],
    askers: Mapping[TurnId, str] | None = None,
    additions: PageAdditions | None = None,
) -> str:
    """Return a thread as a page; ``askers`` are the people who used the tools of turns.

    Raises:
        InvalidOperation: A part is an object whose bytes are not in ``objects``.
    """
    title = escape(headline(thread[0].turn))
    style = files("turntree.transcripts.exporters").joinpath("page.css").read_text(encoding="utf-8")
    more = additions or PageAdditions()
    body = "\n".join(
        _turn(placed, objects, askers or {}, more.turns.get(placed.turn.id, ""))
        for placed in thread
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n{more.head}'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{title}</h1><p>{escape(byline(thread))}</p></header>\n"
        f"<main>\n{body}\n</main>\n{more.end}</body>\n</html>\n"
    )


def _turn(
    placed: ThreadTurn, objects: Mapping[Digest, bytes], askers: Mapping[TurnId, str], more: str
) -> str:
    turn = placed.turn
    outcome = turn.header.outcome
    badge = "" if outcome == "completed" else f' <span class="bad">{escape(outcome)}</span>'
    place = (
        f'<a class="place" href="#{digits(turn)}">{placed.depth}</a> '
        f"<code>{digits(turn)}</code> <time>{moment(turn)}</time>{badge}"
    )
    said = "\n".join(_messages(placed, objects, askers))
    return f'<section id="{digits(turn)}">\n<p class="turn">{place}</p>\n{said}\n{more}</section>'


def _messages(
    placed: ThreadTurn, objects: Mapping[Digest, bytes], askers: Mapping[TurnId, str]
) -> Iterator[str]:
    before: tuple[str, str] | None = None
    for said, part in told_of(placed, objects):
        now = ("summary" if said.is_summary else said.role, speaker(said, placed.turn, askers))
        if now != before:
            yield "" if before is None else "</article>"
            yield f'<article class="{now[0]}"><h2>{escape(now[1])}</h2>'
        before = now
        if isinstance(part, Text) and said.role != "assistant":
            for one in segments_of(said, part.text):
                yield _injected(one.text) if one.is_injected else _part(Text(one.text))
            continue
        yield _part(part)
    if before is not None:
        yield "</article>"


def _injected(text: str) -> str:
    return (
        f'<details class="thought"><summary>{escape(fold_summary(text))}</summary>'
        f"<pre>{escape(text)}</pre></details>"
    )


def _part(part: Any) -> str:
    match part:
        case Text(text):
            return f'<div class="words">{_words().render(text)}</div>'
        case Reasoning(text):
            inside = f'<div class="words">{_words().render(text)}</div>'
            return f'<details class="thought"><summary>reasoning</summary>{inside}</details>'
        case Media() as media:
            data = find_data(media.url) if media.kind == "image" else None
            if data is None:
                return f"<p>{escape(note_of(media))}</p>"
            return f'<img alt="{escape(media.name or "image")}" src="{escape(media.url or "")}">'
        case (ToolUse() as use, ToolResult() as result):
            return _call(use, result)
        case _:
            raise AssertionError(f"{part} was handed over")


def _call(use: ToolUse, result: ToolResult) -> str:
    asked = arguments_text(use.args)
    first = escape(call_summary(use))
    kind = "ok" if result.status == "ok" else "bad"
    return (
        f'<details class="call"><summary><code>{escape(use.tool)}</code> <span>{first}</span> '
        f'<b class="{kind}">{escape(result.status)}</b></summary>'
        f"<pre>{escape(asked)}</pre><pre>{escape(text_of(result.output))}</pre></details>"
    )


@cache
def _words() -> MarkdownIt:
    # An image would be loaded from any address in the text; the address stays readable as a link.
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
