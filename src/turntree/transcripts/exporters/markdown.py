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
from turntree.core.ids import Digest, TurnId
from turntree.core.message import Media, Reasoning, Text, ToolResult, ToolUse
from turntree.core.message_context import TextSegment, split_injected
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.models.portable_thread import PortableMessage, hand_over, note_of, text_of
from turntree.transcripts.display import summarize_call, tool_title
from turntree.transcripts.exporters.shared import find_data

TITLE_CHARS_MAX: Final = 80
SUMMARY_CHARS_MAX: Final = 100
DIGITS: Final = 8
_TICKS: Final = re.compile(r"`{3,}")


def to_markdown(
    thread: Sequence[ThreadTurn],
    objects: Mapping[Digest, bytes],
    askers: Mapping[TurnId, str] | None = None,
) -> str:
    """Return a thread as a document; ``askers`` are the people who used the tools of turns.

    Raises:
        InvalidOperation: A part is an object whose bytes are not in ``objects``.
    """
    blocks = [f"# {headline(thread[0].turn)}", f"*{byline(thread)}*"]
    for placed in thread:
        blocks += _turn(placed, objects, askers or {})
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
    by = dict.fromkeys(one.turn.header.by for one in thread)
    tools = [tool_title(one.id) for one in by if one.kind == "agent" and one.on_behalf_of is None]
    used = f", with {' and '.join(dict.fromkeys(tools))}" if tools else ""
    return f"{count}, {' to '.join(days)}{used}, ending in {digits(last)}"


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


def segments_of(said: PortableMessage, text: str) -> list[TextSegment]:
    """Return the pieces of a text; instructions are injected as a whole."""
    if said.role == "system":
        return [TextSegment(text, is_injected=True)]
    return split_injected(text)


def fold_summary(text: str) -> str:
    """Return one line for text that a tool put into a message."""
    lines = len(text.splitlines())
    first = " ".join(text.split())[:SUMMARY_CHARS_MAX]
    return f"system text, {lines} line{'s' if lines != 1 else ''}: {first}"


def call_summary(use: ToolUse) -> str:
    """Return one line for a tool call: its command, its file, its question."""
    return " ".join(summarize_call(use.args).split())[:SUMMARY_CHARS_MAX]


def arguments_text(args: Json) -> str:
    """Return a tool's arguments for display: a single text as it is, else JSON."""
    if isinstance(args, Mapping) and len(args) == 1:
        (value,) = args.values()
        if isinstance(value, str):
            return value
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, indent=2)


def speaker(said: PortableMessage, turn: Turn, askers: Mapping[TurnId, str]) -> str:
    """Return the name of a message's author: a person, a model, or what is not a person's."""
    by = turn.header.by
    match said.role:
        case "assistant":
            return said.model or "assistant"
        case "system":
            return "instructions"
        case _:
            if said.is_summary:
                return "summary"
            # An imported turn is by the tool, and the tool did not ask.
            is_tool = by.kind == "agent" and by.on_behalf_of is None
            return askers.get(turn.id, "user") if is_tool else by.id
    raise AssertionError(said.role)


def _turn(
    placed: ThreadTurn, objects: Mapping[Digest, bytes], askers: Mapping[TurnId, str]
) -> Iterator[str]:
    turn = placed.turn
    yield f"## {placed.depth}. {headline(turn)}"
    marks = [f"`{digits(turn)}`", moment(turn)]
    if turn.header.outcome != "completed":
        marks.append(f"**{turn.header.outcome}**")
    yield " · ".join(marks)
    before: PortableMessage | None = None
    for said, part in told_of(placed, objects):
        name = speaker(said, turn, askers)
        if before is None or speaker(before, turn, askers) != name:
            yield f"**{name}**"
        before = said
        yield _part(said, part)


def _part(said: PortableMessage, part: Any) -> str:
    match part:
        case Text(text):
            if said.role == "assistant":
                return text
            return "\n\n".join(
                _folded(escape(fold_summary(one.text)), _quoted(one.text))
                if one.is_injected
                else _quoted(one.text)
                for one in segments_of(said, text)
            )
        case Reasoning(text):
            return _folded("Reasoning", _quoted(text))
        case Media() as media:
            data = find_data(media.url)
            return note_of(media) if data is None else f"![{media.kind}]({media.url})"
        case (ToolUse() as use, ToolResult() as result):
            status = "" if result.status == "ok" else f" ({result.status})"
            inside = f"{_fenced(arguments_text(use.args))}\n\n{_fenced(text_of(result.output))}"
            about = escape(call_summary(use))
            return _folded(f"<code>{escape(use.tool)}</code> {about}{status}", inside)
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
