"""Print one turn: its properties, messages, tool calls, and what can be done next.

Pure, like ``cli.output.text``. It must never query the ledger.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from turntree.cli.command import Paint, Terminal
from turntree.cli.output.annotations import Annotations
from turntree.cli.output.changes import shown_path, shown_size
from turntree.cli.output.parts import (
    Level,
    ToolCall,
    brief_of,
    fold_injected,
    fold_line,
    list_tool_calls,
    words_of,
)
from turntree.cli.output.text import (
    Span,
    asked_by,
    asker,
    cells,
    clean,
    counted,
    cut,
    cut_path,
    digest_spans,
    digits,
    duration,
    late_sentence,
    lay,
    pad,
    title,
    tokens,
    tool_of,
    usage_sentence,
    who,
    wrap,
    wrap_block,
)
from turntree.core.message import (
    ErasedMessage,
    Message,
    is_partial,
)
from turntree.core.revision import MessagePart, ToolPart
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.core.usage import Usage
from turntree.core.value import value
from turntree.resources.resource import ResolvedTurnSnapshot

MARGIN: Final = 9
WIDTH_MAX: Final = 110
LINES_SHOWN_MAX: Final = 16
TOOL_NAME_WIDTH_MAX: Final = 18
NAMES_SHOWN_MAX: Final = 5
# One more than the longest status, "interrupted", so that the answer does not touch it.
STATUS_WIDTH: Final = 12
DIGEST_FRONT: Final = 12
DIGEST_BACK: Final = 4


@value
class TurnView:
    """A turn and all that is shown with it."""

    placed: ThreadTurn
    parent: ThreadTurn | None
    children: tuple[ThreadTurn, ...]
    children_count: int
    legend: Annotations
    holding: tuple[Session, ...]
    """Sessions whose threads ever held it."""
    holding_count: int
    thread_used: Usage
    calls: tuple[dict[str, Any], ...]
    spawned: tuple[str, ...]
    part: ToolPart | MessagePart | None
    pins: tuple[ResolvedTurnSnapshot, ...] = ()
    """The resources with snapshots before and after it."""
    late_ms: int | None = None
    """How long after its beginning its files were first recorded, if some changed meanwhile."""


def draw_turn(shown: TurnView, level: Level, terminal: Terminal) -> Iterator[str]:
    """Yield the lines of a turn."""
    facts = _draw_facts(shown, terminal)
    width = min(terminal.width, WIDTH_MAX)
    if level == "short":
        yield next(facts)
    else:
        yield from facts
        yield ""
    for said in shown.placed.turn.messages:
        yield from _draw_message(said, shown, level, width, terminal)
    if level == "short":
        return
    yield from _draw_tools(list_tool_calls(shown.placed.turn), level, width, terminal)
    yield from _draw_children(shown, width, terminal)


def _draw_facts(shown: TurnView, terminal: Terminal) -> Iterator[str]:
    turn = shown.placed.turn
    header = turn.header
    hexadecimal = turn.digest.removeprefix("sha256:")
    unique = shown.legend.unique[turn.digest]
    address = [
        Span(hexadecimal[:unique], "strong"),
        Span(hexadecimal[unique:DIGEST_FRONT] + terminal.spell("…") + hexadecimal[-DIGEST_BACK:]),
    ]
    outcome: Paint = "good" if header.outcome == "completed" else "bad"
    kind = "" if header.kind == "normal" else f"{header.kind}, "
    yield _fact(
        "turn",
        lay([*address, Span("   " + kind), Span(header.outcome, outcome)], None, terminal),
        terminal,
    )
    used = tokens(shown.thread_used.total)
    depth = f"(thread depth {shown.placed.depth}{f', {used} tokens' if used else ''})"
    parent = "none, it is a root" if shown.parent is None else digits(shown.parent.turn.digest)
    yield _fact("parent", f"{parent}  {depth}", terminal)
    yield _fact("session", _sessions(shown, terminal), terminal)
    by = asked_by(turn, shown.legend.askers)
    yield _fact("by", f"{by}   {_when(turn)}", terminal)
    yield from _draw_model(shown, terminal)
    tags = shown.legend.tags.get(turn.id)
    if tags:
        yield _fact("tags", ", ".join(map(clean, tags)), terminal)
    if shown.spawned:
        yield _fact("spawned", ", ".join(map(clean, shown.spawned)), terminal)
    for pinned in shown.pins:
        place = f"{shown_path(pinned.resource.place)}, {shown_size(pinned.after.size)}"
        yield _fact("files", f"{place}   (turntree files {digits(turn.digest)})", terminal)
    if shown.late_ms is not None:
        yield _fact("late", terminal.paint(late_sentence(shown.late_ms), "warn"), terminal)


def _when(turn: Turn) -> str:
    header = turn.header
    took = duration(header.started_at, header.sealed_at)
    return f"{header.sealed_at[:16].replace('T', ' ')} UTC, {took}"


def _sessions(shown: TurnView, terminal: Terminal) -> str:
    heads = set(shown.legend.labels.get(shown.placed.turn.id, []))
    # Sessions with this head come first: they are what a person would continue.
    ordered = sorted(shown.holding, key=lambda session: (session.label not in heads, session.label))
    names = [
        terminal.paint(clean(session.label), "label")
        + (" (head)" if session.label in heads else "")
        for session in ordered[:NAMES_SHOWN_MAX]
    ]
    rest = shown.holding_count - len(names)
    more = [f"{rest} more"] if rest > 0 else []
    return ", ".join([*names, *more]) or "none holds it"


def _draw_model(shown: TurnView, terminal: Terminal) -> Iterator[str]:
    header = shown.placed.turn.header
    if header.model is None and not shown.calls:
        return
    via = f" via {clean(header.provider)}" if header.provider else ""
    used = shown.legend.used.get(shown.placed.turn.id, Usage())
    calls = f"   {len(shown.calls)} calls" if len(shown.calls) > 1 else ""
    model = clean(header.model or "not recorded")
    sentence = terminal.spell(usage_sentence(used))
    whole = f"{model}{via}   {sentence}{calls}"
    if cells(whole) <= min(terminal.width, WIDTH_MAX) - MARGIN:
        yield _fact("model", whole, terminal)
        return
    yield _fact("model", f"{model}{via}{calls}", terminal)
    yield from (
        _fact("", line, terminal)
        for line in wrap(sentence, min(terminal.width, WIDTH_MAX) - MARGIN)
    )


def _draw_message(
    said: Message | ErasedMessage, shown: TurnView, level: Level, width: int, terminal: Terminal
) -> Iterator[str]:
    if isinstance(said, ErasedMessage):
        yield _fact(
            "erased", f"a message was taken out on request ({digits(said.digest)})", terminal
        )
        return
    blocks = [words_of(part, level) for part in said.parts]
    text = "\n".join(block for block in blocks if block)
    if level != "full":
        # An agent's instructions are pages long and the same in every turn.
        injected, text = fold_injected(said, text)
        hint = f"turntree show {digits(shown.placed.turn.digest)} --full"
        if injected and level != "short":
            yield _fact("system", fold_line(injected, hint, width - MARGIN, terminal), terminal)
    if not text:
        return
    if level == "short":
        line = cut(clean(text), width - MARGIN, ellipsis=terminal.spell("…"))
        yield _fact(_speaker(said, shown), line, terminal, paint="head")
        return
    lines = wrap_block(text, width - MARGIN)
    limit = LINES_SHOWN_MAX if level == "normal" else len(lines)
    first, *rest = lines[:limit]
    yield _fact(_speaker(said, shown), first, terminal, paint="head")
    yield from (" " * MARGIN + line for line in rest)
    if len(lines) > limit:
        hidden = terminal.spell(f"… {counted(len(lines) - limit, 'more line')}: --full")
        yield " " * MARGIN + terminal.paint(hidden, "dim")
    if is_partial(said):
        yield " " * MARGIN + terminal.paint(terminal.spell("… (cut off here)"), "warn")


def _speaker(said: Message, shown: TurnView) -> str:
    turn = shown.placed.turn
    by, person = turn.header.by, asker(turn, shown.legend.askers)
    if tool_of(by):
        # The column is narrow: "Claude" for Claude Code, whose whole name is in the line above.
        if said.role == "assistant":
            return tool_of(by).split()[0]
        if said.role == "user" and said.source == "human":
            return person or "human"
    match said.role, by.kind:
        case ("user", "human") | ("assistant", "agent"):
            return who(by)
        case "assistant", _:
            return "model"
        case "user", _ if said.source is not None:
            return said.source
        case role, _:
            return role


def _draw_tools(
    calls: Sequence[ToolCall], level: Level, width: int, terminal: Terminal
) -> Iterator[str]:
    if not calls or level == "full":
        return
    names = [clean(str(call.use.tool)) for call in calls]
    ellipsis = terminal.spell("…")
    name_width = min(max(map(cells, names)), TOOL_NAME_WIDTH_MAX)
    for call, name in zip(calls, names, strict=True):
        status = "open" if call.result is None else str(call.result.status)
        number = pad(str(call.number), len(str(len(calls))))
        rest = width - MARGIN - cells(number) - name_width - STATUS_WIDTH - 6
        # The file or the command says more than the answer, which is often just "ok".
        args_width = max(rest * 2 // 3, 10)
        args = pad(cut_path(brief_of(call.use), args_width, ellipsis=ellipsis), args_width)
        answer = "" if call.result is None else brief_of(call.result)
        shown = terminal.paint(pad(status, STATUS_WIDTH), "good" if status == "ok" else "bad")
        label = "tools" if call.number == 1 else ""
        short = cut(name, name_width, ellipsis=ellipsis)
        line = f"{number}  {pad(short, name_width)}  {args}  {shown}"
        yield _fact(
            label, line + cut(answer, max(rest - args_width, 8), ellipsis=ellipsis), terminal
        )


def _draw_children(shown: TurnView, width: int, terminal: Terminal) -> Iterator[str]:
    short = digits(shown.placed.turn.digest)
    for place, child in enumerate(shown.children[:NAMES_SHOWN_MAX]):
        unique = shown.legend.unique[child.turn.digest]
        spans = [*digest_spans(child.turn.digest, unique), Span(" "), Span(title(child.turn))]
        line = lay(spans, width - MARGIN, terminal).rstrip()
        yield _fact("children" if place == 0 else "", line, terminal)
    hidden = shown.children_count - min(len(shown.children), NAMES_SHOWN_MAX)
    if hidden:
        yield _fact("", f"{hidden} more", terminal)
    if not shown.children:
        yield _fact("children", "none", terminal)
    yield _fact("next", f"turntree fork {short} LABEL   |   turntree log {short}", terminal)


def _fact(name: str, value: str, terminal: Terminal, *, paint: Paint = "dim") -> str:
    label = cut(name, MARGIN - 1, ellipsis=terminal.spell("…"))
    return (terminal.paint(label, paint) + " " * (MARGIN - cells(label)) + value).rstrip()
