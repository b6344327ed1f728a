"""A provider that replies by the words of the query, and a toolset that goes with it.

Each word is one round: ``tool`` calls a tool, ``tools`` two at once, ``long`` says more than a
message holds inline, ``wide`` calls a tool with as much, ``risk`` one that may not be repeated,
``ask`` and ``send`` one whose arguments say so. ``busy`` fails twice before it replies, ``broken``
once in the middle of a sentence, ``silence`` for good. Any other word is said with an exclamation
mark. After the last word it says how much was said.

``before_piece`` may wait, count or die between any two pieces of a reply.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from turntree.core.canonical import Json
from turntree.core.errors import ProviderError
from turntree.core.ids import RunId, TurnId
from turntree.core.message import ErasedMessage, Message, ToolResult, ToolUse, assistant
from turntree.core.run import Run
from turntree.core.usage import Usage
from turntree.core.value import value
from turntree.ledger.thread_store import ThreadStore
from turntree.models.prompt import Prompt, ToolSpec
from turntree.models.provider import ModelReply, ReplyDelta
from turntree.tools.toolset import ToolContext

MODEL: Final = "scripted-1"
LONG_SIGNS: Final = 20_000
_PIECE_SIGNS: Final = 4


async def _at_once(piece: str) -> None:
    del piece


@dataclass(slots=True)
class EchoProvider:
    """Replies as the query's words ask. See ``models.provider``."""

    name: str = "scripted"
    before_piece: Callable[[str], Awaitable[None]] = _at_once
    asked: int = 0
    """Number of requests."""
    _failures: Counter[str] = field(default_factory=Counter[str])

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Yield the reply in pieces, and the complete reply last."""
        del settings
        self.asked += 1
        word, said = _next(prompt)
        place = f"{len(prompt.messages)} {word}"
        if word == "silence":
            raise ProviderError("it does not want to", "refused")
        if word == "busy" and self._failures[place] < 2:  # noqa: PLR2004
            self._failures[place] += 1
            raise ProviderError("too many others", "overloaded", retry_after_s=0.0)
        text = said.text[:LONG_SIGNS]
        for begin in range(0, len(text[:200]), _PIECE_SIGNS):
            piece = text[begin : begin + _PIECE_SIGNS]
            await self.before_piece(piece)
            yield ReplyDelta("text", piece)
            if word == "broken" and self._failures[place] < 1:
                self._failures[place] += 1
                raise ProviderError("the line went dead", "broken", retry_after_s=0.0)
        del self._failures[place]
        yield ModelReply(said, Usage(len(prompt.messages), 1), model, "stop", None)

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        """Return the complete reply at once."""
        async for piece in self.stream(model, prompt, settings):
            if isinstance(piece, ModelReply):
                return piece
        raise ProviderError("it said nothing", "broken")

    async def list_models(self) -> list[str]:
        """Return its only model."""
        return [MODEL]

    async def aclose(self) -> None:
        """Do nothing."""


def _next(prompt: Prompt) -> tuple[str, Message]:
    """Return the next word to reply to, and the reply."""
    last = max(place for place, said in enumerate(prompt.messages) if said.role == "user")
    words = prompt.messages[last].text.split()
    replied = prompt.messages[last + 1 :]
    done = sum(1 for said in replied if said.role == "assistant")
    if done >= len(words):
        return "", assistant(f"after {len(replied)} messages")
    match words[done]:
        case "tool" | "tools" as word:
            count = 1 if word == "tool" else 2
            uses = [ToolUse(f"call-{done}-{n}", "nod", {"n": n}) for n in range(count)]
            return word, assistant("let me see", *uses)
        case "wide":
            much: Json = {"n": 0, "words": "w" * LONG_SIGNS}
            return "wide", assistant("let me see", ToolUse(f"call-{done}-0", "nod", much))
        case "ask" | "send" as word:
            return word, assistant("may I", ToolUse(f"call-{done}-0", "nod", {"n": 0, word: True}))
        case "risk":
            return "risk", assistant("I dare", ToolUse(f"call-{done}-0", "append", {"n": done}))
        case "long":
            return "long", assistant("l" * LONG_SIGNS)
        case word:
            return word, assistant(f"{word}!")


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
