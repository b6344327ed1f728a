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
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from turntree.core.canonical import Json
from turntree.core.message import (
    ErasedMessage,
    Message,
    ObjectRef,
    Role,
    Text,
    ToolResult,
    answers_call,
)
from turntree.core.turn import Turn

ERASED_TEXT: Final = "[erased]"
SUMMARY_TEXT: Final = "What was said before this point, in short:\n\n"
ENDED_TEXT: Final = "[That turn ended before it was finished: {outcome}.]"
LEFT_OUT_TEXT: Final = "[{count} earlier turns are not shown.]"
TITLES_TEXT: Final = "[Earlier turns, each by its address and its title:]"
NATIVE: Final = "vendor"
"""The member of a message's meta that goes back to its author."""


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
