"""A provider that replies by the words of the query, and a toolset that goes with it.

Each word is one round: ``tool`` calls a tool, ``tools`` two at once, ``long`` says more than a
message holds inline, ``wide`` calls a tool with as much, ``risk`` one that may not be repeated,
``ask`` and ``send`` one whose arguments say so. ``busy`` fails twice before it replies, ``broken``
once in the middle of a sentence, ``silence`` for good. Any other word is said with an exclamation
mark. After the last word it says how much was said.

``before_piece`` may wait, count or die between any two pieces of a reply.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from turntree.core.canonical import Json
from turntree.core.errors import Failure
from turntree.core.ids import RunId, TurnId
from turntree.core.message import ErasedMessage, Message, ToolResult, ToolUse
from turntree.core.run import Run
from turntree.core.value import value
from turntree.ledger.thread_store import ThreadStore
from turntree.models.prompt import Prompt, ToolSpec
from turntree.models.provider import ReplyDelta
from turntree.models.providers.scripted import (
    ScriptConfig,
    ScriptedCall,
    ScriptedFailure,
    ScriptedProvider,
    ScriptedReply,
)
from turntree.tools.toolset import ToolContext

MODEL: Final = "scripted-1"
OTHER_MODEL: Final = "scripted-2"
LONG_CHARS: Final = 20_000
STREAMED_CHARS: Final = 200
_PIECE_CHARS: Final = 4


async def _at_once(piece: str) -> None:
    del piece


class EchoProvider(ScriptedProvider):
    """Replies as the query's words ask."""

    def __init__(self, before_piece: Callable[[str], Awaitable[None]] = _at_once) -> None:
        """Call ``before_piece`` before each piece of a text; it may be exchanged later."""
        super().__init__(ScriptConfig(models=(MODEL, OTHER_MODEL)))
        self.before_piece = before_piece
        self.asked = 0
        """Number of requests."""

    def reply_to(self, messages: Sequence[Message]) -> ScriptedReply:
        """Return the reply to the next word."""
        self.asked += 1
        last = max(place for place, said in enumerate(messages) if said.role == "user")
        words = messages[last].text.split()
        replied = messages[last + 1 :]
        done = sum(1 for said in replied if said.role == "assistant")
        usage = {"input": len(messages), "output": 1}
        if done >= len(words):
            return ScriptedReply(text=f"after {len(replied)} messages", usage=usage)
        return _reply_to_word(words[done], done).model_copy(update={"usage": usage})

    def split(self, text: str) -> list[str]:
        """Return the beginning of a text in small pieces: a test may act between any two."""
        shown = text[:STREAMED_CHARS]
        return [shown[at : at + _PIECE_CHARS] for at in range(0, len(shown), _PIECE_CHARS)]

    async def pause(self, delta: ReplyDelta) -> None:
        """Wait before a piece of the text is sent."""
        if delta.kind == "text":
            await self.before_piece(delta.text)


def _reply_to_word(word: str, done: int) -> ScriptedReply:
    def calls(tool: str, *args: dict[str, Any]) -> tuple[ScriptedCall, ...]:
        return tuple(
            ScriptedCall(tool=tool, args=given, call_id=f"call-{done}-{n}")
            for n, given in enumerate(args)
        )

    match word:
        case "tool":
            return ScriptedReply(text="let me see", tools=calls("nod", {"n": 0}))
        case "tools":
            return ScriptedReply(text="let me see", tools=calls("nod", {"n": 0}, {"n": 1}))
        case "wide":
            much = {"n": 0, "words": "w" * LONG_CHARS}
            return ScriptedReply(text="let me see", tools=calls("nod", much))
        case "ask" | "send":
            return ScriptedReply(text="may I", tools=calls("nod", {"n": 0, word: True}))
        case "risk":
            return ScriptedReply(text="I dare", tools=calls("append", {"n": done}))
        case "long":
            return ScriptedReply(text="l" * LONG_CHARS)
        case "silence":
            return ScriptedReply(failures=_failures("refused", 100))
        case "busy":
            return ScriptedReply(text="busy!", failures=_failures("overloaded", 2))
        case "broken":
            return ScriptedReply(text="broken!", failures=_failures("broken", 1, after_words=1))
        case _:
            return ScriptedReply(text=f"{word}!")


def _failures(kind: Failure, times: int, *, after_words: int = 0) -> tuple[ScriptedFailure, ...]:
    return times * (ScriptedFailure(kind=kind, retry_after_s=0.0, after_words=after_words),)


async def _nothing(use: ToolUse) -> None:
    del use


async def _no_more(use: ToolUse, occasion: ToolContext) -> None:
    del use, occasion


@dataclass(slots=True)
class ScriptedTools:
    """``nod`` is idempotent and does nothing; ``append`` is not."""

    before: Callable[[ToolUse], Awaitable[None]] = _nothing
    """Called before a tool does anything."""
    after: Callable[[ToolUse, ToolContext], Awaitable[None]] = _no_more
    """The effect of a tool, and what follows it."""
    timeout_s: float = 10.0
    made: list[tuple[RunId, str]] = field(default_factory=list[tuple[RunId, str]])

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The specifications for the model."""
        shape: dict[str, Json] = {"type": "object"}
        return (
            ToolSpec("nod", "Nods.", shape, is_repeatable=True, timeout_s=self.timeout_s),
            ToolSpec("append", "Writes a line.", shape, timeout_s=self.timeout_s),
        )

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult:
        """Execute a tool call."""
        await self.before(use)
        self.made.append((occasion.run, use.call_id))
        await self.after(use, occasion)
        args = use.args if isinstance(use.args, dict) else {}
        return ToolResult(use.call_id, "ok", {"did": args.get("n")})


class RequestLike(Protocol):
    """What a prompt is assembled from."""

    @property
    def run(self) -> Run:
        """The run so far."""
        ...

    @property
    def parent(self) -> TurnId | None:
        """The head of the thread that the query follows."""
        ...


@value
class PlainRequest:
    """What is sent to the scripted model."""

    prompt: Prompt
    provider: EchoProvider
    request: Mapping[str, Json]
    model: str = MODEL
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])


@value
class PlainAssembly:
    """Sends the complete thread, the query and the reply so far, unchanged."""

    threads: ThreadStore
    provider: EchoProvider
    specs: Sequence[ToolSpec] = ()

    async def __call__(self, question: RequestLike) -> PlainRequest:
        """Return the request to the model."""
        before: list[Message] = []
        if question.parent is not None:
            for placed in await self.threads.list_range(question.parent):
                before += [
                    said for said in placed.turn.messages if not isinstance(said, ErasedMessage)
                ]
        messages = (*before, *question.run.query, *question.run.reply)
        tools: list[Json] = [spec.name for spec in self.specs]
        request: dict[str, Json] = {"model": MODEL, "provider": self.provider.name, "tools": tools}
        return PlainRequest(Prompt((), messages, tuple(self.specs)), self.provider, request)
