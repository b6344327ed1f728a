"""How a turn is shown to a model, whatever its outcome.

* Every tool call is followed by its results, in the order of the calls, in one message; a result
  without a call is left out. The result of an interrupted call says so.
* An erased message is shown as ``[erased]``, an erased result as an interrupted one.
* A turn that failed, was canceled or was interrupted is shown as far as it got, and one sentence
  after it says how it ended: the model must not believe that it finished.
* A compaction is shown as its summary, in a user message: the model did not write it in this
  thread.
* A system message in a thread stays in its position. Instructions come from the manifest alone, and
  nothing later changes what precedes the thread.
* The sender, time, session and context of a message are not shown: they would give two forks that
  share everything else different prompts. If a model has to know them, the query says so.
* What only the author of a reply understands stays with the reply, for that author to read again.

The same functions show a turn in progress and a sealed one, so that the next turn's prompt begins
with the messages of this one. Parts stored as objects stay references; the provider loads them.

What does not fit is shortened or folded. A prompt grows with every tool call, and a provider
serves from its cache only what begins like the prompt before, so nothing that was shown once
changes at the next call. A long result is shortened when it first appears. When a reply outgrows
its room, all but its newest steps are folded at once, far enough that the next eight calls or more
fit without another fold. Every notice names the address of what is left out, which ``ledger.read``
takes. An address counts turns and calls along the thread, so it is the same in every fork. Costs
are found without reading objects; excerpts hold the beginnings and ends of those that are shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from turntree.core.canonical import Json, as_text
from turntree.core.ids import Digest
from turntree.core.message import (
    ErasedMessage,
    Message,
    ObjectRef,
    Part,
    Reasoning,
    Role,
    Text,
    ToolResult,
    ToolUse,
    answers_call,
    calls_tool,
)
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.models.token_estimate import (
    BYTES_PER_TOKEN,
    MESSAGE_TOKENS,
    PART_TOKENS,
    estimate_messages,
    estimate_part,
    estimate_text,
    estimate_value,
)

ERASED_TEXT: Final = "[erased]"
SUMMARY_TEXT: Final = "What was said before this point, in short:\n\n"
ENDED_TEXT: Final = "[That turn ended before it was finished: {outcome}.]"
COVERED_TEXT: Final = "[That covers turns 1 to {last}; the number of a turn is its address.]"
COVERED_LINE_TOKENS: Final = 22
LEFT_OUT_TEXT: Final = "[{count} earlier turns are not shown.]"
TITLES_TEXT: Final = "[Earlier turns, each by its address and its title:]"
NATIVE: Final = "vendor"
"""The member of a message's meta that goes back to its author."""
EXCERPT_CHARS: Final = 24_000
"""Characters kept from each end of a text that is stored as an object."""
STEP_TOKENS_MIN: Final = 120
STEP_TOKENS_MAX: Final = 8_000
"""Limits of what one step, a model's calls and their results, takes of a prompt."""
_RESULT_TOKENS_MIN: Final = 48
_FOLDED_TEXT_TOKENS: Final = 24
_FOLDED_ARGS_TOKENS: Final = 16
_FOLDED_RESULT_TOKENS: Final = 40
_FOLDED_QUERY_TOKENS: Final = 80
_FOLDED_ANSWER_TOKENS: Final = 120
_NOTICE_TOKENS: Final = 48
TITLE_TOKENS: Final = 24
TITLE_LINE_TOKENS: Final = TITLE_TOKENS + 8
FOLDED_TURN_TOKENS: Final = _FOLDED_QUERY_TOKENS + _FOLDED_ANSWER_TOKENS + _NOTICE_TOKENS
"""Most tokens that a folded turn takes."""
_TITLE_CHARS_MAX: Final = 120
_CHARS_PER_TOKEN: Final = 4
_CUT_TEXT: Final = "\n[... about {count:,} tokens are not shown; address {address} ...]\n"
_LINE_TEXT: Final = "[{status}, about {count:,} tokens: {start} ...; address {address}]"
_STEPS_TEXT: Final = (
    "[Tool calls 1 to {count} of this turn are not shown; addresses {depth}/1 to {depth}/{count}]"
)
_FOLDED_TEXT: Final = "[This turn is folded{calls}; address {depth}]"


@value
class Excerpt:
    """The beginning and the end of a text that is stored as an object."""

    head: str
    tail: str


Excerpts = Mapping[Digest, Excerpt]


@value
class PromptShares:
    """How the room of a prompt, without instructions and tools, is divided.

    Every share follows from the room alone. So all turns of a thread, and all its forks, are shown
    alike as long as the model and its instructions stay the same.
    """

    room: int

    @property
    def thread(self) -> int:
        """The most tokens that the thread may take: what a reply and a short query leave."""
        return self.room - self.reply - self.short_query

    @property
    def short_query(self) -> int:
        """Tokens that are reserved for a query."""
        return self.room // 8

    @property
    def reply(self) -> int:
        """Tokens that a turn's reply may take before its older steps are folded."""
        return self.room * 3 // 8

    @property
    def query(self) -> int:
        """Tokens that a long query may take even if the thread is long."""
        return self.room // 4

    @property
    def text(self) -> int:
        """Tokens of a text that a model wrote."""
        return max(STEP_TOKENS_MIN, self.room // 8)

    @property
    def step(self) -> int:
        """Tokens of a step's calls and results."""
        return min(STEP_TOKENS_MAX, max(STEP_TOKENS_MIN, self.room // 36))


@value
class FoldPoint:
    """Where a reply is folded: steps before ``shown`` are left out, those before ``whole`` are
    folded to a line for each call, and the rest is whole."""

    shown: int = 0
    whole: int = 0


def excerpt_of(data: bytes) -> Excerpt:
    """Return the excerpt of a part that is stored as an object."""
    document = orjson.loads(data)
    inner: Any = next(
        (document[name] for name in ("text", "output", "args") if name in document), document
    )
    text = as_text(inner)
    return Excerpt(text[:EXCERPT_CHARS], text[-EXCERPT_CHARS:])


def list_large(messages: Sequence[Message | ErasedMessage]) -> Iterator[Digest]:
    """Yield the objects of parts that may have to be shortened."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, ObjectRef) and part.of in ("text", "tool_result", "tool_use"):
                yield part.object


def shorten(text: str, tokens: int, address: str, *, size: int | None = None) -> str:
    """Return a text within some tokens: whole, or its beginning and end and where the rest is.

    ``size`` is the number of tokens of the whole text, if ``text`` is only a part of it.
    """
    if size is None:
        # Counting the tokens of a text that is far too long would take longer than shortening it.
        size = len(text) // _CHARS_PER_TOKEN if len(text) > 8 * tokens else estimate_text(text)
        if size <= tokens:
            return text
    chars = max(0, tokens - estimate_text(_CUT_TEXT)) * _CHARS_PER_TOKEN
    while True:
        head, tail = text[: chars * 2 // 3], text[len(text) - chars // 3 :]
        kept = estimate_text(head) + estimate_text(tail)
        cut = _CUT_TEXT.format(count=max(1, size - kept), address=address)
        if chars < 2 * _CHARS_PER_TOKEN or kept + estimate_text(cut) <= tokens:
            return f"{head}{cut}{tail}".strip()
        chars = chars * 7 // 8


def fold_reply(costs: Sequence[tuple[int, int]], room: int) -> FoldPoint:
    """Return where a reply is folded, given the whole and the folded cost of each step.

    It is found by going through the steps as they came, so that it stays the same from one call to
    the next until the room is full.
    """
    at, total = FoldPoint(), 0
    for end, (whole, _) in enumerate(costs, 1):
        total += whole
        if total <= room:
            continue
        first, kept = end - 1, costs[end - 1][0]
        while first > at.whole and kept + costs[first - 1][0] <= room // 6:
            first -= 1
            kept += costs[first][0]
        shown, folded = first, 0
        while shown > at.shown and folded + costs[shown - 1][1] <= room // 8:
            shown -= 1
            folded += costs[shown][1]
        at = FoldPoint(shown, first)
        total = kept + folded + (_NOTICE_TOKENS if shown else 0)
    return at


@dataclass(slots=True)
class StepView:
    """A step of a reply with its costs, and the messages that showed it so far."""

    step: list[Message]
    number: int
    """The number of its first call in the turn."""
    calls: int
    cost: int
    folded_cost: int
    whole: list[Message] | None = None
    folded: list[Message] | None = None


@value
class FoldedExchange:
    """A query and its reply, as they are shown."""

    messages: list[Message]
    cost: int


def show_folded_exchange(
    query: Sequence[Message | ErasedMessage],
    reply: Sequence[Message | ErasedMessage],
    depth: int,
    shares: PromptShares,
    excerpts: Excerpts,
    *,
    query_tokens: int | None = None,
    reply_tokens: int | None = None,
    known: list[StepView] | None = None,
) -> FoldedExchange:
    """Return the messages that show a turn within its shares; more room may be given.

    ``known`` holds the steps as an earlier call of the same turn showed them, and is brought up to
    date: only what is new has to be measured and shortened.
    """
    asked = show_exchange(query, ())
    query_room = max(shares.query, query_tokens or 0)
    asked_cost = estimate_messages(asked)
    if asked_cost > query_room:
        asked = _shorten_query(asked, query_room, str(depth), excerpts)
        asked_cost = query_room
    views = _view_steps(reply, shares, [] if known is None else known)
    at = fold_reply(
        [(view.cost, view.folded_cost) for view in views], max(shares.reply, reply_tokens or 0)
    )
    messages, cost = [*asked], asked_cost
    if at.shown:
        gone = sum(view.calls for view in views[: at.shown])
        notice = _STEPS_TEXT.format(count=gone, depth=depth)
        # Part of the query, which stays the last thing that the user said.
        before = messages.pop() if messages else Message("user", ())
        messages.append(replace(before, parts=(*before.parts, Text(f"\n\n{notice}"))))
        cost += _NOTICE_TOKENS
    for view in views[at.shown : at.whole]:
        if view.folded is None:
            view.folded = _show_line_step(view.step, depth, view.number, excerpts)
        messages += view.folded
        cost += view.folded_cost
    for view in views[at.whole :]:
        if view.whole is None:
            view.whole = _show_step(view.step, depth, view.number, shares, excerpts)
        messages += view.whole
        cost += view.cost
    return FoldedExchange(messages, cost)


def show_whole_turn(
    turn: Turn, depth: int, shares: PromptShares, excerpts: Excerpts
) -> list[Message]:
    """Return the messages that show a sealed turn as its own last call saw it."""
    if turn.header.compaction is not None:
        return show_turn(turn)
    messages = show_folded_exchange(turn.query, turn.reply, depth, shares, excerpts).messages
    if turn.header.outcome != "completed":
        messages.append(told(ENDED_TEXT.format(outcome=turn.header.outcome)))
    return messages


def cost_of_turn(turn: Turn, shares: PromptShares) -> int:
    """Return the estimated tokens of a turn shown whole, without reading objects."""
    asked_cost = min(shares.query, estimate_messages(show_exchange(turn.query, ())))
    steps = list(_steps(show_exchange((), turn.reply)))
    costs = [(_step_cost(step, shares), _folded_step_cost(step, shares)) for step in steps]
    at = fold_reply(costs, shares.reply)
    # An unsuccessful outcome is shown as one sentence.
    ending = 0 if turn.header.outcome == "completed" else 4 * MESSAGE_TOKENS
    return (
        asked_cost
        + (_NOTICE_TOKENS if at.shown else 0)
        + sum(folded for _, folded in costs[at.shown : at.whole])
        + sum(whole for whole, _ in costs[at.whole :])
        + ending
    )


def show_folded_turn(turn: Turn, depth: int, excerpts: Excerpts) -> list[Message]:
    """Return a turn as its query and its last answer, both shortened."""
    address = str(depth)
    words = " ".join(_text_of(message, excerpts) for message in turn.query)
    count = sum(len(message.tool_uses) for message in turn.reply if isinstance(message, Message))
    calls = f", with {count:,} tool calls" if count else ""
    note = _FOLDED_TEXT.format(calls=calls, depth=depth)
    asked = told(f"{shorten(words, _FOLDED_QUERY_TOKENS, address)}\n{note}")
    answers = [
        text
        for message in turn.reply
        if isinstance(message, Message)
        and message.role == "assistant"
        and (text := _text_of(message, excerpts).strip())
    ]
    if not answers:
        return [asked]
    return [
        asked,
        Message("assistant", (Text(shorten(answers[-1], _FOLDED_ANSWER_TOKENS, address)),)),
    ]


def title_line(turn: Turn, depth: int) -> str:
    """Return a turn as one line: its address and its title."""
    title = " ".join(turn.title.split())[:_TITLE_CHARS_MAX]
    while estimate_text(title) > TITLE_TOKENS:
        title = title[: len(title) * 3 // 4]
    return f"{depth}: {title}"


def _steps(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield the steps of a reply: an assistant's message and what followed it."""
    step: list[Message] = []
    for message in messages:
        if message.role == "assistant" and step:
            yield step
            step = []
        step.append(message)
    if step:
        yield step


def _view_steps(
    reply: Sequence[Message | ErasedMessage], shares: PromptShares, known: list[StepView]
) -> list[StepView]:
    """Return the steps of a reply; those that ``known`` has already are taken from there."""
    views: list[StepView] = []
    number = 1
    for place, step in enumerate(_steps(show_exchange((), reply))):
        view = known[place] if place < len(known) else None
        # Compared rather than trusted: a call that was in progress has results now, and a message
        # may have been erased. Equal steps consist of the same parts, so that comparing is cheap.
        if view is None or view.number != number or view.step != step:
            costs = _step_cost(step, shares), _folded_step_cost(step, shares)
            view = StepView(step, number, _count_calls(step), *costs)
        views.append(view)
        number += view.calls
    known[:] = views
    return views


def _count_calls(step: Sequence[Message]) -> int:
    return sum(len(message.tool_uses) for message in step)


def _step_cost(step: Sequence[Message], shares: PromptShares) -> int:
    room = shares.step // max(1, _count_calls(step))
    return sum(
        MESSAGE_TOKENS
        + sum(min(estimate_part(part), _limit(part, room, shares)) for part in message.parts)
        for message in step
    )


def _limit(part: Part, room: int, shares: PromptShares) -> int:
    """Return the most tokens that a part takes; ``room`` is the share of one call."""
    if answers_call(part):
        return max(_RESULT_TOKENS_MIN, room * 3 // 4) + PART_TOKENS
    if calls_tool(part):
        return max(_RESULT_TOKENS_MIN, room // 4) + PART_TOKENS
    return shares.text + PART_TOKENS


def _folded_step_cost(step: Sequence[Message], shares: PromptShares) -> int:
    calls = _count_calls(step)
    each = _FOLDED_ARGS_TOKENS + _FOLDED_RESULT_TOKENS + 3 * PART_TOKENS
    folded = 2 * MESSAGE_TOKENS + _FOLDED_TEXT_TOKENS + calls * each
    return min(folded, _step_cost(step, shares)) if not calls else folded


def _shorten_query(
    messages: Sequence[Message], room: int, address: str, excerpts: Excerpts
) -> list[Message]:
    """Return a long query with its texts shortened; what is small stays whole."""
    long_parts = sum(1 for m in messages for part in m.parts if _is_text(part))
    rest = sum(estimate_part(part) for m in messages for part in m.parts if not _is_text(part))
    share = max(_RESULT_TOKENS_MIN, (room - rest) // max(1, long_parts) - 2 * MESSAGE_TOKENS)
    return [
        replace(
            message,
            parts=tuple(
                _shorten_part(part, share, address, excerpts) if _is_text(part) else part
                for part in message.parts
            ),
        )
        for message in messages
    ]


def _show_step(
    step: Sequence[Message],
    depth: int,
    number: int,
    shares: PromptShares,
    excerpts: Excerpts,
) -> list[Message]:
    room = shares.step // max(1, _count_calls(step))
    numbers = _numbers(step, number)
    shown: list[Message] = []
    for message in step:
        said = message
        # Reasoning is signed, so it cannot be shortened. Its vendor's notes count the parts, so
        # they go with it.
        if any(_is_too_long(part, shares) for part in said.parts):
            kept = tuple(part for part in said.parts if not isinstance(part, Reasoning))
            said = Message(said.role, kept)
        parts = tuple(
            _shorten_part(
                part,
                _limit(part, room, shares) - PART_TOKENS,
                _address(part, depth, numbers),
                excerpts,
            )
            for part in said.parts
        )
        if parts:
            shown.append(replace(said, parts=parts))
    return shown


def _is_too_long(part: Part, shares: PromptShares) -> bool:
    return isinstance(part, Reasoning) and estimate_part(part) > shares.text + PART_TOKENS


def _show_line_step(
    step: Sequence[Message], depth: int, number: int, excerpts: Excerpts
) -> list[Message]:
    """Return a step with a line for each result, without reasoning and what else is long."""
    numbers = _numbers(step, number)
    shown: list[Message] = []
    for message in step:
        parts: list[Part] = []
        for part in message.parts:
            address = _address(part, depth, numbers)
            if answers_call(part):
                parts.append(_line_of(part, address, excerpts))
            elif calls_tool(part):
                parts.append(
                    _shorten_part(part, _FOLDED_ARGS_TOKENS, address, excerpts, plain=True)
                )
            elif _is_text(part):
                parts.append(
                    _shorten_part(part, _FOLDED_TEXT_TOKENS, address, excerpts, plain=True)
                )
        if parts:
            shown.append(Message(message.role, tuple(parts)))
    return shown


def _numbers(step: Sequence[Message], first: int) -> dict[str, int]:
    ids = [str(use.call_id) for message in step for use in message.tool_uses]
    return {id: first + place for place, id in enumerate(ids)}


def _address(part: Part, depth: int, numbers: Mapping[str, int]) -> str:
    number = numbers.get(str(part.call_id)) if calls_tool(part) or answers_call(part) else None
    return str(depth) if number is None else f"{depth}/{number}"


def _is_text(part: Part) -> bool:
    return isinstance(part, Text) or (isinstance(part, ObjectRef) and part.of == "text")


def _line_of(part: ToolResult | ObjectRef, address: str, excerpts: Excerpts) -> ToolResult:
    call_id, status = str(part.call_id), part.status or "ok"
    if isinstance(part, ObjectRef):
        found = excerpts.get(part.object)
        text, count = "" if found is None else found.head, part.size // BYTES_PER_TOKEN
    else:
        text = as_text(part.output)
        count = estimate_value(part.output)
        if count <= _FOLDED_RESULT_TOKENS // 2:
            return part
    start = _plain_start(text, _FOLDED_RESULT_TOKENS // 3)
    line = _LINE_TEXT.format(status=status, count=count, start=start, address=address)
    return ToolResult(call_id, status, line)


def _plain_start(text: str, tokens: int) -> str:
    start = " ".join(text[: tokens * 8].split())
    while estimate_text(start) > tokens:
        start = start[: len(start) * 3 // 4]
    return start


def _shorten_part(
    part: Part, tokens: int, address: str, excerpts: Excerpts, *, plain: bool = False
) -> Part:
    """Return a part within some tokens; ``plain`` keeps only its beginning."""

    def fit(text: str, size: int | None = None) -> str:
        if not plain:
            return shorten(text, tokens, address, size=size)
        return (
            text
            if size is None and estimate_text(text) <= tokens
            else f"{_plain_start(text, tokens)} ..."
        )

    match part:
        case Text(text):
            return Text(fit(text))
        case ToolResult(call_id, status, output):
            if estimate_value(output) <= tokens:
                return part
            text = as_text(output)
            return ToolResult(call_id, status, fit(text))
        case ToolUse(call_id, tool, args):
            return (
                part
                if estimate_value(args) <= tokens
                else ToolUse(call_id, tool, _short_args(args, tokens))
            )
        case ObjectRef(of=of, size=size) if size // BYTES_PER_TOKEN > tokens:
            found = excerpts.get(part.object)
            return part if found is None else _part_from(part, of, fit, found, size)
        case _:
            return part


def _part_from(part: ObjectRef, of: str, fit: Any, found: Excerpt, size: int) -> Part:
    text = found.head if len(found.head) < EXCERPT_CHARS else f"{found.head}\n{found.tail}"
    match of:
        case "text":
            return Text(fit(text, size // BYTES_PER_TOKEN))
        case "tool_result":
            return ToolResult(
                str(part.call_id), part.status or "ok", fit(text, size // BYTES_PER_TOKEN)
            )
        case "tool_use":
            return ToolUse(str(part.call_id), str(part.tool), {"...": _plain_start(text, 64)})
        case _:
            return part


def _short_args(args: Json, tokens: int) -> dict[str, Json]:
    """Return arguments whose long members are cut; a model's call stays an object."""
    if not isinstance(args, Mapping):
        return {"...": _plain_start(as_text(args), tokens)}
    share = max(4, tokens // max(1, len(args)) - 4)
    return {
        name: one if estimate_value(one) <= share else f"{_plain_start(as_text(one), share)} ..."
        for name, one in args.items()
    }


def _text_of(message: Message | ErasedMessage, excerpts: Excerpts) -> str:
    words = [
        part.text
        if isinstance(part, Text)
        else excerpts[part.object].head
        if part.object in excerpts
        else part.excerpt or ""
        for part in message.parts
        if isinstance(part, Text) or (isinstance(part, ObjectRef) and part.of == "text")
    ]
    return "".join(words)


def show_turn(turn: Turn) -> list[Message]:
    """Return the messages that show a sealed turn to a model."""
    if turn.header.compaction is not None:
        words = [
            part
            for message in turn.reply
            for part in message.parts
            if isinstance(part, Text) or (isinstance(part, ObjectRef) and part.of == "text")
        ]
        return [Message("user", (Text(SUMMARY_TEXT), *words))] if words else []
    messages = show_exchange(turn.query, turn.reply)
    if turn.header.outcome != "completed":
        messages.append(told(ENDED_TEXT.format(outcome=turn.header.outcome)))
    return messages


def show_exchange(
    query: Sequence[Message | ErasedMessage], reply: Sequence[Message | ErasedMessage]
) -> list[Message]:
    """Return the messages that show a query, and its reply so far, to a model."""
    asked = (
        told(ERASED_TEXT)
        if isinstance(message, ErasedMessage)
        else Message(message.role, message.parts)
        for message in query
    )
    answered = (
        Message(message.role, message.parts, meta=_native(message))
        for message in settle(reply, "assistant")
    )
    return [message for message in (*asked, *answered) if message.parts]


def settle(messages: Sequence[Message | ErasedMessage], erased_role: Role) -> Iterator[Message]:
    """Yield messages in which each call is followed by its result, and each result has a call.

    This is the one rule for what a model reads of a reply: prompts, handoffs and exports all use
    it, so that a thread looks the same through each of them. Vendors refuse a request that breaks
    it. The results of a message's calls are one message, in the order of the calls.
    """
    results = {part.call_id: part for said in messages for part in said.parts if answers_call(part)}
    lost = 0
    for message in messages:
        if isinstance(message, ErasedMessage):
            # After a call without a result it was the result, which is already shown as erased.
            if lost:
                lost -= 1
            else:
                yield Message(erased_role, (Text(ERASED_TEXT),))
        elif message.role == "tool":
            # Text beside a tool's results is not part of the model's reply: show it as a user's.
            rest = tuple(part for part in message.parts if not answers_call(part))
            if rest:
                yield replace(message, role="user", parts=rest, meta=None)
        else:
            own = tuple(part for part in message.parts if not answers_call(part))
            yield message if len(own) == len(message.parts) else replace(message, parts=own)
            calls = [str(use.call_id) for use in message.tool_uses]
            lost = sum(1 for call in calls if call not in results)
            if calls:
                answers = tuple(
                    results.get(call, ToolResult(call, "interrupted", ERASED_TEXT))
                    for call in calls
                )
                yield Message("tool", answers, at=message.at)


def told(text: str) -> Message:
    """Return a user message that Turntree itself adds, such as a notice."""
    return Message("user", (Text(text),))


def _native(message: Message) -> dict[str, Json] | None:
    """Return what goes back to the author of a reply; the rest of its metadata stays here."""
    native = (message.meta or {}).get(NATIVE) if message.role == "assistant" else None
    return {NATIVE: native} if native else None
