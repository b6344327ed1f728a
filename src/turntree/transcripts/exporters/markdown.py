"""Export a thread as Markdown for people: a heading per turn, tool calls folded.

Pure. User messages are quoted, so that they cannot look like our headings; tool input and output
are in fences longer than any inside.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from turntree.core.canonical import Json
from turntree.core.ids import Digest
from turntree.core.message import Media, Reasoning, Text, ToolResult, ToolUse
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.models.portable_thread import PortableMessage, hand_over, note_of, text_of
from turntree.transcripts.exporters.shared import find_data

TITLE_CHARS_MAX: Final = 80
DIGITS: Final = 8
_TICKS: Final = re.compile(r"`{3,}")


def to_markdown(thread: Sequence[ThreadTurn], objects: Mapping[Digest, bytes]) -> str:
    """Return a thread as a document.

    Raises:
        InvalidOperation: A part is an object whose bytes are not in ``objects``.
    """
    blocks = [f"# {headline(thread[0].turn)}", f"*{byline(thread)}*"]
    for placed in thread:
        blocks += _turn(placed, objects)
    return "\n\n".join(blocks) + "\n"


def headline(turn: Turn) -> str:
    """Return a turn's title, on one line."""
    words = " ".join(turn.title.split())
    return words if len(words) <= TITLE_CHARS_MAX else f"{words[: TITLE_CHARS_MAX - 1]}…"


def byline(thread: Sequence[ThreadTurn]) -> str:
    """Return a thread's length, its dates and its last digest."""
    first, last = thread[0].turn, thread[-1].turn
    days = sorted({first.header.started_at[:10], last.header.sealed_at[:10]})
    count = f"{len(thread)} turn{'s' if len(thread) > 1 else ''}"
    return f"{count}, {' to '.join(days)}, ending in {digits(last)}"


def digits(turn: Turn) -> str:
    """Return the first digits of a turn's digest."""
    return turn.digest.removeprefix("sha256:")[:DIGITS]


def moment(turn: Turn) -> str:
    """Return when a turn began, to the minute."""
    return f"{turn.header.started_at[:10]} {turn.header.started_at[11:16]}"


def told_of(
    placed: ThreadTurn, objects: Mapping[Digest, bytes]
) -> Iterator[tuple[PortableMessage, Any]]:
    """Yield each part of a turn with its message; a call comes with its result."""
    told = hand_over([placed], objects)
    for place, said in enumerate(told):
        answers = told[place + 1].parts if place + 1 < len(told) else ()
        results = {part.call_id: part for part in answers if isinstance(part, ToolResult)}
        for part in said.parts:
            if isinstance(part, ToolUse):
                yield said, (part, results[part.call_id])
            elif not isinstance(part, ToolResult):
                yield said, part


def arguments_text(args: Json) -> str:
    """Return a tool's arguments for display: a single text as it is, else JSON."""
    if isinstance(args, Mapping) and len(args) == 1:
        (value,) = args.values()
        if isinstance(value, str):
            return value
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, indent=2)


def speaker(said: PortableMessage, turn: Turn) -> str:
    """Return the name of a message's author."""
    match said.role:
        case "assistant":
            return said.model or "assistant"
        case "system":
            return "instructions"
        case _:
            return "summary" if said.is_summary else turn.header.by.id
    raise AssertionError(said.role)


def _turn(placed: ThreadTurn, objects: Mapping[Digest, bytes]) -> Iterator[str]:
    turn = placed.turn
    yield f"## {placed.depth}. {headline(turn)}"
    marks = [f"`{digits(turn)}`", moment(turn)]
    if turn.header.outcome != "completed":
        marks.append(f"**{turn.header.outcome}**")
    yield " · ".join(marks)
    before: PortableMessage | None = None
    for said, part in told_of(placed, objects):
        if before is None or speaker(before, turn) != speaker(said, turn):
            yield f"**{speaker(said, turn)}**"
        before = said
        yield _part(said, part)


def _part(said: PortableMessage, part: Any) -> str:
    match part:
        case Text(text):
            return text if said.role == "assistant" else _quoted(text)
        case Reasoning(text):
            return _folded("Reasoning", _quoted(text))
        case Media() as media:
            data = find_data(media.url)
            return note_of(media) if data is None else f"![{media.kind}]({media.url})"
        case (ToolUse() as use, ToolResult() as result):
            status = "" if result.status == "ok" else f" ({result.status})"
            inside = f"{_fenced(arguments_text(use.args))}\n\n{_fenced(text_of(result.output))}"
            return _folded(f"<code>{escape(use.tool)}</code>{status}", inside)
        case _:
            raise AssertionError(f"{part} was handed over")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _folded(summary: str, inside: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{inside}\n\n</details>"


def _fenced(text: str) -> str:
    longest = max((len(run) for run in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"
