"""One model call: attempts, pauses, silence, and words that are never doubled."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

import anyio
import pytest

from turntree.core.canonical import Json
from turntree.core.errors import ProviderError
from turntree.core.ids import RunId
from turntree.core.message import assistant, user
from turntree.core.usage import Usage
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, ReplyDelta
from turntree.runs.live.hub import LiveHub
from turntree.runs.live.stream import PartialMessage, StreamPosition
from turntree.runs.model_call import ModelCaller, ModelCallResult
from turntree.testing.scripted.provider import EchoProvider, PlainRequest

pytestmark = pytest.mark.anyio

RUN = RunId("run")
AT = StreamPosition(2, 1)


@dataclass
class Asked:
    """A model call with everything around it in sight."""

    hub: LiveHub = field(default_factory=LiveHub)
    pauses: list[float] = field(default_factory=list)
    now: float = 0.0

    async def ask(
        self, text: str, provider: EchoProvider | None = None, silence_max_s: float = 60.0
    ) -> ModelCallResult:
        """Ask for an answer to some words."""
        request = PlainRequest(
            Prompt((), (user(text),)), provider or EchoProvider(), {"model": "scripted-1"}
        )
        asking = ModelCaller(self.hub, self.clock, lambda: 0.5, self.sleep, silence_max_s)
        return await asking.ask(request, RUN, AT)

    def clock(self) -> float:
        """Go a quarter of a second forward at every look."""
        self.now += 0.25
        return self.now

    async def sleep(self, pause_s: float) -> None:
        """Note a pause instead of making it."""
        self.pauses.append(pause_s)


async def test_an_answer_comes_with_its_latency() -> None:
    answered = await Asked().ask("hello")
    assert answered.answer.message == assistant("hello!")
    assert (answered.attempts, answered.latency_ms) == (1, 250)


async def test_text_is_streamed_while_it_arrives() -> None:
    asked = Asked()
    await asked.ask("hello")
    assert "".join(live.text for live in asked.hub.pieces(RUN, StreamPosition())) == "hello!"


async def test_overloaded_provider_is_retried_after_requested_delay() -> None:
    asked = Asked()
    answered = await asked.ask("busy")
    assert answered.attempts == 3
    # They said at once; chance adds a quarter of a second.
    assert asked.pauses == [0.25, 0.25]


async def test_broken_stream_is_discarded() -> None:
    asked = Asked()
    answered = await asked.ask("broken")
    assert answered.attempts == 2
    partial = PartialMessage()
    for live in asked.hub.pieces(RUN, StreamPosition()):
        partial = partial.read(live)
    assert partial.text == "broken!"


async def test_provider_refusal_is_not_retried() -> None:
    provider = EchoProvider()
    with pytest.raises(ProviderError, match="this request fails"):
        await Asked().ask("silence", provider)
    assert provider.asked == 1


async def test_a_silent_stream_is_given_up() -> None:
    async def say_nothing(piece: str) -> None:
        del piece
        await anyio.sleep_forever()

    asked = Asked()
    with pytest.raises(ProviderError, match="said nothing for") as failed:
        await asked.ask("hello", EchoProvider(before_piece=say_nothing), silence_max_s=0.01)
    assert failed.value.kind == "timeout"
    assert len(asked.pauses) == 2


class Unfinished(EchoProvider):
    """Stops in the middle, without a word of excuse."""

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        del model, prompt, settings
        self.asked += 1
        yield ReplyDelta("text", "fo")
        if self.asked == 2:
            yield ModelReply(assistant("four"), Usage(1, 1), "scripted-1")


async def test_a_stream_without_an_end_is_broken() -> None:
    answered = await Asked().ask("hello", Unfinished())
    assert (answered.attempts, answered.answer.message.text) == (2, "four")
