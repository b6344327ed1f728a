"""Print a few turns as a conversation: messages, with the tool calls in between.

Pure, like ``cli.output.text``. It must never query the ledger.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from turntree.cli.command import Paint, Terminal
from turntree.cli.output.log_line import short_label
from turntree.cli.output.parts import (
    ToolCall,
    brief_of,
    fold_injected,
    fold_line,
    list_tool_calls,
)
from turntree.cli.output.session import stand
from turntree.cli.output.text import cells, clean, counted, cut, cut_path, digits, wrap, wrap_block
from turntree.core.ids import TurnId
from turntree.core.message import ErasedMessage, Message
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn

LINES_SHOWN_MAX: Final = 12
ARGS_WIDTH_MAX: Final = 60
TOOL_WIDTH_MAX: Final = 32
INDENT: Final = "   "


def draw_tail(
    session: Session, turns: Sequence[ThreadTurn], reasons: Mapping[TurnId, str], terminal: Terminal
) -> Iterator[str]:
    """Yield a session's head, and its last turns with the failed ones beside it."""
    label = terminal.paint(clean(session.label), "strong")
    if not turns:
        yield f"{label}, nothing was said yet; /help lists what a slash does"
        return
    hidden = min(placed.depth for placed in turns) - 1
    more = f"   ({hidden} earlier: /log {session.depth})" if hidden > 0 else ""
    yield f"{label}, {stand(session)}{terminal.paint(more, 'dim')}"
    for placed in turns:
        yield from draw_talk(
            placed.turn, terminal, label=session.label, reason=reasons.get(placed.turn.id)
        )


def draw_talk(
    turn: Turn, terminal: Terminal, *, label: str, reason: str | None = None
) -> Iterator[str]:
    """Yield the messages of a turn, long texts cut, and its outcome if it did not end well."""
    name = f"{short_label(clean(label), terminal.spell('…'))}>"
    prompt = terminal.paint(name, "label")
    for said in turn.query:
        hint = f"turntree show {digits(turn.digest)} --full"
        if isinstance(said, Message):
            injected, text = fold_injected(said, said.text)
            if injected:
                yield "  " + fold_line(injected, hint, terminal.width - 2, terminal)
            lines = _cut_lines(text, hint, terminal, prompt=cells(name) + 1)
        else:
            lines = _erased(said, terminal)
        yield from (f"{prompt if n == 0 else INDENT} {line}" for n, line in enumerate(lines))
    calls = {call.use.call_id: call for call in list_tool_calls(turn)}
    for said in turn.reply:
        if isinstance(said, ErasedMessage):
            yield from _erased(said, terminal)
        elif said.role == "assistant":
            yield from _cut_lines(said.text, f"turntree show {digits(turn.digest)}", terminal)
            yield from (_call(calls[use.call_id], terminal) for use in said.tool_uses)
    if turn.header.outcome != "completed":
        why = "" if reason is None else f": {clean(reason)}"
        for line in wrap(f"({turn.header.outcome}{why})", terminal.width):
            yield terminal.paint(line, "bad")


def _call(call: ToolCall, terminal: Terminal) -> str:
    status = "open" if call.result is None else str(call.result.status)
    arrow = terminal.paint(terminal.spell("  → "), "note")
    ellipsis = terminal.spell("…")
    tool = cut(clean(str(call.use.tool)), TOOL_WIDTH_MAX, ellipsis=ellipsis)
    room = terminal.width - cells(f"  → {tool}  {status}")
    args = cut_path(brief_of(call.use), min(room, ARGS_WIDTH_MAX), ellipsis=ellipsis)
    paint: Paint = "good" if status == "ok" else "bad"
    name = terminal.paint(tool, "strong")
    return f"{arrow}{name} {args}".rstrip() + f" {terminal.paint(status, paint)}"


def _erased(said: ErasedMessage, terminal: Terminal) -> list[str]:
    return [terminal.paint(f"(a message was taken out: {digits(said.digest)})", "dim")]


def _cut_lines(text: str, hint: str, terminal: Terminal, *, prompt: int = 0) -> list[str]:
    """Return the first lines of a text, and the command that shows the rest.

    ``prompt`` is what stands before the first line; the others are indented then.
    """
    if not text:
        return []
    width = terminal.width - (len(INDENT) + 1 if prompt else 0)
    lines = wrap_block(text, width, first=terminal.width - prompt)
    if len(lines) > LINES_SHOWN_MAX:
        left = counted(len(lines) - LINES_SHOWN_MAX, "more line")
        hidden = terminal.spell(f"… {left}: {hint}")
        lines = [*lines[:LINES_SHOWN_MAX], terminal.paint(hidden, "dim")]
    return lines
