"""How a turn is shown to a model, whatever became of it.

* Every call is followed by its results, in the order of the calls, in one message; a result that
  nobody asked for is left out. A call that was interrupted says so in its result.
* An erased message stands as ``[erased]``, an erased result as an interrupted one.
* A turn that failed, was canceled or was interrupted is shown as far as it came, and one sentence
  behind it says how it ended: the model must not believe that it finished.
* A compaction stands as its summary, which somebody tells the model.
* A system message in a thread stays in its place: instructions come from the manifest alone, and
  nothing that is said later changes what stands before the thread.
* Who sent a message, when, in which session and with what beside it is not shown: it would part
  forks that share everything else. What a model has to know of that stands in a query's words.
* What only the author of an answer understands stays with it, for that author to read again.

The same functions show a turn while it is taken and ever after, so that the next turn's prompt
begins with the messages of this one's. Parts that stand as objects stay so: whoever sends them
puts them back.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from turntree.core.message import (
    ErasedMessage,
    Message,
    ObjectRef,
    Part,
    Text,
    ToolResult,
    answers_call,
    assistant,
)
from turntree.core.turn import Turn
from turntree.models.portable_thread import ERASED_TEXT, SUMMARY_TEXT

ENDED_TEXT: Final = "[That turn ended before it was finished: {outcome}.]"
LEFT_OUT_TEXT: Final = "[{count} earlier turns are not shown.]"
NATIVE: Final = "vendor"
"""The member of a message's meta that its author is given back."""


def show_turn(turn: Turn) -> list[Message]:
    """Return a sealed turn as a model is shown it."""
    if turn.header.compaction is not None:
        return _summary(turn)
    shown = show_exchange(turn.query, turn.reply)
    if turn.header.outcome != "completed":
        shown.append(told(ENDED_TEXT.format(outcome=turn.header.outcome)))
    return shown


def show_exchange(
    query: Sequence[Message | ErasedMessage], reply: Sequence[Message | ErasedMessage]
) -> list[Message]:
    """Return a query, and as much of its reply as there is, as a model is shown them."""
    asked = (
        told(ERASED_TEXT) if isinstance(said, ErasedMessage) else Message(said.role, said.parts)
        for said in query
    )
    return [said for said in (*asked, *_answered(reply)) if said.parts]


def told(text: str) -> Message:
    """Return words that nobody said, and that the model is told."""
    return Message("user", (Text(text),))


def _summary(turn: Turn) -> list[Message]:
    words = [part for said in turn.reply for part in said.parts if _is_words(part)]
    return [Message("user", (Text(SUMMARY_TEXT), *words))] if words else []


def _is_words(part: Part) -> bool:
    return isinstance(part, Text) or (isinstance(part, ObjectRef) and part.of == "text")


def _answered(reply: Sequence[Message | ErasedMessage]) -> Iterator[Message]:
    results = {part.call_id: part for said in reply for part in said.parts if answers_call(part)}
    lost = 0
    for said in reply:
        if isinstance(said, ErasedMessage):
            # Right after a call without a result it was the result, which is told already.
            if lost:
                lost -= 1
            else:
                yield assistant(ERASED_TEXT)
        elif said.role == "tool":
            # Words beside a tool's results are nobody's answer: whoever asked is told them.
            yield Message("user", tuple(part for part in said.parts if not answers_call(part)))
        else:
            native = (said.meta or {}).get(NATIVE)
            yield Message("assistant", said.parts, meta={NATIVE: native} if native else None)
            calls = [str(use.call_id) for use in said.tool_uses]
            lost = sum(1 for call in calls if call not in results)
            yield Message("tool", tuple(results.get(call, _lost(call)) for call in calls))


def _lost(call_id: str) -> ToolResult:
    return ToolResult(call_id, "interrupted", ERASED_TEXT)
