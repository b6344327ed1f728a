"""Follows a run: its recorded events, and the text that is being streamed.

The ledger is authoritative; streamed text is only a preview. A follower gets everything in the
order in which it happened, and may start at any time: in the middle of a run, or after it. This
module must never write, and never know who is listening.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

from turntree.core import usage
from turntree.core.canonical import digest_bytes
from turntree.core.errors import Hint
from turntree.core.ids import RunId, Timestamp, TurnId, unix_ms
from turntree.core.message import Message, ObjectRef, ToolResult, ToolUse, line_of
from turntree.core.run import RunEvent
from turntree.core.thread import ThreadTurn
from turntree.core.usage import ModelCall
from turntree.core.value import value
from turntree.ledger.turns import restore_turns
from turntree.runs.answer import read_failure
from turntree.runs.live.stream import LiveChunk, StreamPosition, position_after
from turntree.runs.service import Runs

WordKind = Literal["text", "reasoning", "tool"]


@value
class RunStarted:
    """A run started with this query, or a message joined it."""

    run: RunId
    query: tuple[Message, ...]


@value
class TextChunk:
    """Some text of a reply that will be recorded at position ``seq``."""

    seq: int
    kind: WordKind
    text: str
    tool: str | None = None


@value
class TextDiscarded:
    """The reply for position ``seq`` starts again: discard the text received so far."""

    seq: int


@value
class ModelReplied:
    """A model replied."""

    seq: int
    message: Message
    call: ModelCall | None


@value
class ToolCallStarted:
    """A tool call started."""

    use: ToolUse | ObjectRef


@value
class ToolCallFinished:
    """A tool call ended, with a result or without one."""

    use: ToolUse | ObjectRef
    result: ToolResult | ObjectRef
    took_ms: int | None
    """None if its start was not recorded."""


@value
class RunNotice:
    """The run was parked, unparked or interrupted, or it failed."""

    kind: Literal["parked", "unparked", "interrupted", "failed"]
    reason: str
    hint: Hint | None = None


@value
class TurnSealed:
    """The turn is sealed."""

    placed: ThreadTurn
    calls: tuple[ModelCall, ...]


Heard = (
    RunStarted
    | TextChunk
    | TextDiscarded
    | ModelReplied
    | ToolCallStarted
    | ToolCallFinished
    | RunNotice
    | TurnSealed
)


@value
class RunFollower:
    """Reports runs to a callback."""

    runs: Runs

    async def follow(self, run: RunId, hear: Callable[[Heard], None]) -> ThreadTurn:
        """Report a run until its turn is sealed; return the turn.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """
        async with aclosing(self.watch(run)) as news:
            async for _, heard in news:
                hear(heard)
        return await self.runs.threads.get_turn(TurnId(run))

    async def watch(
        self, run: RunId, *, after: StreamPosition | None = None
    ) -> AsyncGenerator[tuple[StreamPosition, Heard], None]:
        """Yield what happens in a run until its turn is sealed, each with a position.

        A caller that was cut off resumes after the last position it got.

        Raises:
            NotFound: There is no such run, or it is hidden.
            InvalidOperation: The run has no such position.
        """
        journal, sealed = _Journal(run), dict[str, Message]()
        position = after or StreamPosition()
        if position.seq > 0:
            # What came before explains what follows: the result of a tool does not repeat its call.
            for fact in (await self.runs.ledger.facts(run))[: position.seq]:
                sealed = sealed or await self.find_sealed(run, fact)
                journal.read(fact, sealed)
        async with aclosing(self.runs.follow(run, after=after)) as news:
            async for one in news:
                before, position = position, position_after(one)
                if isinstance(one, LiveChunk):
                    yield position, _words(one)
                    continue
                sealed = sealed or await self.find_sealed(run, one)
                told = journal.read(one, sealed)
                for number, heard in enumerate(told, start=1):
                    # A caller that gets no further than the first has to get this event again.
                    yield (position if number == len(told) else before), heard
        yield (
            position,
            TurnSealed(await self.runs.threads.get_turn(TurnId(run)), tuple(journal.calls)),
        )

    async def find_sealed(self, run: RunId, fact: RunEvent) -> dict[str, Message]:
        """Return the messages of a run's turn by digest, if sealing has moved them there."""
        if fact.message is not None or "message" not in fact.event.data:
            return {}
        placed = await self.runs.threads.get_turn(TurnId(run))
        # What was too large for a message is an object; a reader wants the words.
        (whole,) = await restore_turns(self.runs.ledger, [placed])
        return {
            digest_bytes(line_of(stored)): restored
            for stored, restored in zip(placed.turn.messages, whole.turn.messages, strict=True)
            if isinstance(stored, Message) and isinstance(restored, Message)
        }

    async def recount(self, run: RunId, hear: Callable[[Heard], None]) -> None:
        """Report what is recorded of an unsealed run, without waiting for more."""
        journal = _Journal(run)
        for fact in await self.runs.ledger.facts(run):
            for heard in journal.read(fact, {}):
                hear(heard)


@dataclass(slots=True)
class _Journal:
    """What a follower has read of a run so far."""

    run: RunId
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    uses: dict[str, ToolUse | ObjectRef] = field(default_factory=dict[str, ToolUse | ObjectRef])
    begun: dict[str, Timestamp] = field(default_factory=dict[str, Timestamp])

    def read(self, fact: RunEvent, sealed: Mapping[str, Message]) -> Sequence[Heard]:
        """Return the notices that one more event gives."""
        data: Mapping[str, Any] = fact.event.data
        message = fact.message or sealed.get(str(data.get("message")))
        match fact.event.kind:
            case "run.started":
                return [RunStarted(self.run, () if message is None else (message,))]
            case "message.appended" if message is not None:
                return [RunStarted(self.run, (message,))]
            case "model_call.finished" | "route.chosen":
                return self._answer(fact, message)
            case "tool_call.started":
                call_id = str(data["call_id"])
                self.begun[call_id] = fact.event.at
                use = self.uses.get(call_id)
                return [] if use is None else [ToolCallStarted(use)]
            case "tool_call.finished":
                return self._result(fact, message)
            case "run.interrupted" if message is not None:
                return [
                    ModelReplied(fact.event.seq, message, None),
                    *_told("run.interrupted", data),
                ]
            case kind:
                return _told(kind, data)

    def _answer(self, fact: RunEvent, message: Message | None) -> Sequence[Heard]:
        data: Mapping[str, Any] = fact.event.data
        call = usage.from_json(data["call"]) if "call" in data else None
        if call is not None:
            self.calls.append(call)
        if message is None:
            return []
        self.uses |= {str(use.call_id): use for use in message.tool_uses}
        return [ModelReplied(fact.event.seq, message, call)]

    def _result(self, fact: RunEvent, message: Message | None) -> Sequence[Heard]:
        call_id = str(fact.event.data["call_id"])
        use = self.uses.get(call_id)
        results = () if message is None else message.tool_results
        result = next((part for part in results if part.call_id == call_id), None)
        if use is None or result is None:
            return []
        begun = self.begun.get(call_id)
        took = None if begun is None else unix_ms(fact.event.at) - unix_ms(begun)
        return [ToolCallFinished(use, result, took)]


def _words(live: LiveChunk) -> TextChunk | TextDiscarded:
    if live.kind == "restart":
        return TextDiscarded(live.position.seq)
    return TextChunk(live.position.seq, live.kind, live.text, live.tool)


def _told(kind: str, data: Mapping[str, Any]) -> Sequence[Heard]:
    reason = str(data.get("reason", ""))
    match kind:
        case "run.parked":
            return [RunNotice("parked", reason)]
        case "run.unparked":
            return [RunNotice("unparked", reason)]
        case "run.interrupted" if not data.get("affects"):
            return [RunNotice("interrupted", reason)]
        case "run.failed":
            return [RunNotice("failed", *read_failure(data))]
        case _:
            return []
