"""Print the causes of a turn: a tree with one line per step, or a document.

Pure, like ``cli.output.text``. It must never query the ledger.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, assert_never

from turntree.cli.command import Terminal
from turntree.cli.output.parts import ToolCall, brief_of, list_tool_calls
from turntree.cli.output.text import (
    Span,
    actor,
    age,
    asked_by,
    asker,
    cells,
    clean,
    counted,
    cut,
    digits,
    lay,
    title,
    tool_of,
)
from turntree.core.ids import Timestamp, TurnId
from turntree.core.message import (
    ErasedMessage,
    Message,
    ObjectRef,
    ToolResult,
    ToolUse,
    answers_call,
    calls_tool,
)
from turntree.core.revision import MessagePart, Part
from turntree.core.session import Session, SessionMove
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.ledger.graph.causes import MESSAGE, Cause, Explanation

if TYPE_CHECKING:
    from turntree.conversations.conversation import Conversation
    from turntree.conversations.post import Post

WIDTH_MAX: Final = 140
TOOLS_SHOWN_MAX: Final = 6
DEEPER: Final = 2
"""Factor by which the hint goes further than what was asked for."""
TITLE_MIN: Final = 12
_MOVED: Final[Mapping[str, str]] = {
    "fork": "was forked there",
    "rewind": "was rewound there",
    "reset": "was moved there",
    "undo": "was put back there",
    "import": "followed its tool there",
    "handoff": "followed there a tool that it was checked out for",
}
"""How a session's head came to a turn other than by recording it."""


@value
class WhyLine:
    """One line: a title, which is cut to fit, and the text around it."""

    before: Sequence[Span]
    title: str = ""
    after: Sequence[Span] = ()


@value
class WhyOutput:
    """The causes of a turn, and the limits of the search."""

    revision: str
    explained: Explanation
    now: Timestamp
    depth: int
    limit: int
    part: ToolCall | Message | ErasedMessage | None = None
    place: Part | None = None
    session: Session | None = None
    """The session with this head, if it was asked for by name."""
    move: SessionMove | None = None
    askers: Mapping[TurnId, str] = field(default_factory=dict[TurnId, str])
    """The people whose tools recorded the turns."""
    question: "tuple[Conversation, Post] | None" = None
    """The post of a conversation that the turn answers."""


def draw_why(told: WhyOutput, terminal: Terminal) -> Iterator[str]:
    """Yield the tree of causes, newest first."""
    placed, causes = told.explained.placed, told.explained.causes
    margin = ""
    if told.part is not None:
        yield _lay("", _part_line(told.part, told.place), terminal)
        yield _lay(
            _last(terminal), WhyLine([Span("in "), *_digest(placed)], title(placed.turn)), terminal
        )
        margin = "   "
    else:
        yield _lay("", WhyLine(_digest(placed), title(placed.turn)), terminal)
    facts = list(_facts(told))
    if not causes and told.explained.bound is None:
        facts.append(WhyLine([Span("nothing came before it", "dim")]))
    yield from _branch(facts, causes, margin, told, terminal)


def end_of(told: WhyOutput) -> str | None:
    """Return where the walk was stopped and how to continue; None if it is complete."""
    match told.explained.bound:
        case "depth":
            steps = counted(told.depth, "step")
            return f"stopped at {steps}; --depth {told.depth * DEEPER} goes further"
        case "limit":
            steps = counted(told.limit, "step")
            return f"stopped after {steps} in all; --limit {told.limit * DEEPER} shows more"
        case None:
            return None
        case _:
            assert_never(told.explained.bound)


def _facts(told: WhyOutput) -> Iterator[WhyLine]:
    """Yield what is known about the turn: who moved there, who asked, which tools it used."""
    turn = told.explained.placed.turn
    header = turn.header
    if told.session is not None and told.move is not None and told.move.kind in _MOVED:
        moved = f" {_MOVED[told.move.kind]} by {_name(told.move.by)}, {_ago(told.move.at, told)}"
        yield WhyLine([Span(clean(told.session.label), "label"), Span(moved)])
    model = f"; {clean(header.model)} answered" if header.model else ""
    person, tool = asker(turn, told.askers), tool_of(header.by)
    asked = (
        f"{person or 'the user'} asked {tool} for it"
        if tool
        else f"{actor(header.by)} asked for it"
    )
    yield WhyLine([Span(f"{asked}, {_ago(header.sealed_at, told)}{model}")])
    if told.question is not None:
        from turntree.conversations.mentions import plain_text

        conversation, post = told.question
        words = plain_text(post.content or "").split("\n", 1)[0]
        of = f" of {clean(conversation.name)}"
        yield WhyLine([Span("it answers "), Span(f"post {post.seq}", "label"), Span(of)], words)
    tools = [clean(str(call.use.tool)) for call in list_tool_calls(turn)]
    if tools:
        calls = counted(len(tools), "tool call")
        shown = ", ".join(tools[:TOOLS_SHOWN_MAX]) + (", …" if len(tools) > TOOLS_SHOWN_MAX else "")
        yield WhyLine([Span(f"it made {calls}: {shown}")])


def _branch(
    facts: Sequence[WhyLine],
    causes: Sequence[Cause],
    margin: str,
    told: WhyOutput,
    terminal: Terminal,
) -> Iterator[str]:
    lines: list[tuple[WhyLine, Cause | None]] = [
        *((line, None) for line in facts),
        *((_cause_line(cause, told, is_first=bool(facts)), cause) for cause in causes),
    ]
    for place, (line, cause) in enumerate(lines):
        is_last = place == len(lines) - 1
        yield _lay(margin + (_last(terminal) if is_last else _tee(terminal)), line, terminal)
        if cause is not None:
            below = margin + ("   " if is_last else _bar(terminal))
            yield from _branch((), cause.causes, below, told, terminal)


def _cause_line(cause: Cause, told: WhyOutput, *, is_first: bool) -> WhyLine:
    it = "it" if is_first else "which"
    began = [Span(f"{it} began "), Span(clean(cause.session or ""), "label")]
    match cause.how:
        case "follows":
            return _lead([Span(f"{it} follows ")], cause, _by(cause, told))
        case "forked":
            by = f" by {_name(cause.by or '')}, {_ago(cause.at, told)}"
            return _lead([*began, Span(", forked from ")], cause, by)
        case "spawned":
            tool = f"{clean(cause.tool or 'unknown')} ({clean(cause.call_id or '')})"
            return _lead([*began, Span(f", spawned by the tool call {tool} of ")], cause, "")
        case "retries":
            return _lead([Span(f"{it} tries again ")], cause, _by(cause, told))
        case "derives":
            return _lead([Span(f"{it} was derived from ")], cause, _by(cause, told))
        case "started" if cause.event == MESSAGE:
            by = f" of {_name(cause.by)}" if cause.by else ""
            return WhyLine([Span(f"{it} was started by a message{by}, {_ago(cause.at, told)}")])
        case "started":
            return _lead([Span(f"{it} was started by the event ")], cause, "")
        case "summarizes":
            turns = counted(cause.turns, "turn")
            return _lead([Span(f"{it} summarises {turns}, up to ")], cause, "")
        case _:
            assert_never(cause.how)


def _lead(words: list[Span], cause: Cause, after: str) -> WhyLine:
    """Return the line that introduces a cause."""
    if cause.placed is None:
        return WhyLine([*words, Span(clean(cause.node.id))])
    end = after + (" (told above)" if cause.seen else "")
    return WhyLine([*words, *_digest(cause.placed)], title(cause.placed.turn), [Span(end, "dim")])


def _lay(margin: str, line: WhyLine, terminal: Terminal) -> str:
    """Return a line that fits, by cutting the title."""
    width = min(terminal.width, WIDTH_MAX)
    before = [Span(margin, "dim"), *_spell(line.before, terminal)]
    after = _spell(line.after, terminal)
    taken = sum(cells(span.text) for span in (*before, *after))
    shown = cut(line.title, max(width - taken, TITLE_MIN), ellipsis=terminal.spell("…"))
    return lay([*before, Span(shown), *after], width, terminal).rstrip()


def _digest(placed: ThreadTurn) -> list[Span]:
    return [Span(digits(placed.turn.digest), "strong"), Span(" ")]


def _by(cause: Cause, told: WhyOutput) -> str:
    if cause.placed is None:
        return ""
    turn = cause.placed.turn
    return f" · {asked_by(turn, told.askers)}, {_ago(turn.header.sealed_at, told)}"


def _name(by: str) -> str:
    """Return the name of who moved a session, without the kind that a reflog stores."""
    return clean(by.partition(":")[2] or by)


def _ago(moment: Timestamp | None, told: WhyOutput) -> str:
    if moment is None:
        return "at some time"
    passed = age(moment, told.now)
    return "just now" if passed == "now" else f"{passed} ago"


def _part_line(part: ToolCall | Message | ErasedMessage, place: Part | None) -> WhyLine:
    match part:
        case ToolCall(number, use, result):
            answered = "without an answer" if result is None else f"answered {result.status}"
            called = [Span(f"tool call {number}: {clean(str(use.tool))} ", "strong")]
            return WhyLine(called, brief_of(use), [Span(f", {answered}")])
        case Message(role=role):
            number = place.n if isinstance(place, MessagePart) else 0
            said = clean(part.text) or ", ".join(_doing(part)) or "no words"
            return WhyLine([Span(f"message {number}, by the {role}: ", "strong")], said)
        case ErasedMessage():
            return WhyLine([Span("an erased message", "strong")])
        case _:
            assert_never(part)


def _doing(message: Message) -> Iterator[str]:
    """Yield what a message without text does."""
    for part in message.parts:
        if isinstance(part, ToolUse | ObjectRef) and calls_tool(part):
            yield f"calls {clean(str(part.tool))}"
        elif isinstance(part, ToolResult | ObjectRef) and answers_call(part):
            yield f"answers {clean(str(part.call_id))}"


def _spell(spans: Sequence[Span], terminal: Terminal) -> list[Span]:
    return [Span(terminal.spell(span.text), span.paint) for span in spans]


def _tee(terminal: Terminal) -> str:
    return "|- " if terminal.is_ascii else "├─ "


def _last(terminal: Terminal) -> str:
    return "`- " if terminal.is_ascii else "└─ "


def _bar(terminal: Terminal) -> str:
    return "|  " if terminal.is_ascii else "│  "


def why_document(told: WhyOutput) -> dict[str, Any]:
    """Return the tree of causes in JSON."""
    explained = told.explained
    recording = explained.recording
    return {
        "revision": told.revision,
        **_turn_document(explained.placed),
        "part": None if told.place is None else str(told.place).lstrip(":"),
        "recorded_in": None if recording is None else recording.label,
        "by": explained.placed.turn.header.by.to_json(),
        "answers": None
        if told.question is None
        else {
            "conversation": told.question[0].name,
            "post": told.question[1].seq,
        },
        "tools": [call.use.tool for call in list_tool_calls(explained.placed.turn)],
        "causes": [_cause_document(cause) for cause in explained.causes],
        "stopped_by": explained.bound,
    }


def _turn_document(placed: ThreadTurn) -> dict[str, Any]:
    turn = placed.turn
    return {"id": turn.id, "digest": turn.digest, "title": turn.title}


def _cause_document(cause: Cause) -> dict[str, Any]:
    turn = {} if cause.placed is None else _turn_document(cause.placed)
    told = {
        "session": cause.session, "event": cause.event, "by": cause.by, "at": cause.at,
        "call_id": cause.call_id, "tool": cause.tool, "task": cause.task,
    }  # fmt: skip
    return {
        "how": cause.how,
        "edge": cause.edge,
        "kind": cause.node.kind,
        "id": cause.node.id,
        **turn,
        **{name: value for name, value in told.items() if value is not None},
        **({"turns": cause.turns} if cause.how == "summarizes" else {}),
        "causes": [_cause_document(behind) for behind in cause.causes],
    }
