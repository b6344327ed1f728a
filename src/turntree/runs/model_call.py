"""One model call: retried while that can help, and streamed to followers.

The text of a failed attempt is discarded when the next one starts, and never recorded. This module
must never know a vendor.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Protocol

import anyio

from turntree.core.canonical import Json
from turntree.core.errors import ProviderError
from turntree.core.ids import RunId, SessionId, TurnId
from turntree.core.run import Run
from turntree.core.value import value
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, Provider, ReplyDelta
from turntree.models.retry import find_pause
from turntree.runs.live.stream import Hub, StreamPosition

SILENCE_MAX_S = 300.0
"""A provider that sends nothing for this long counts as gone."""


class ModelRequest(Protocol):
    """What is sent to a model, and what the journal records of it."""

    @property
    def prompt(self) -> Prompt:
        """The model's input."""
        ...

    @property
    def model(self) -> str:
        """The provider's name for the model."""
        ...

    @property
    def provider(self) -> Provider:
        """The provider that runs it."""
        ...

    @property
    def settings(self) -> Mapping[str, Json]:
        """Parameters of the call."""
        ...

    @property
    def request(self) -> Mapping[str, Json]:
        """Data of ``model_call.started``: the model, its parameters and where each came from."""
        ...


@value
class TooLongPrompt:
    """A prompt that was too long for its model, as the provider said."""

    estimated_tokens: int
    sent_tokens: int | None = None
    limit_tokens: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Return what the next request records of it."""
        document: dict[str, Json] = {
            "reason": "too_long",
            "estimated_tokens": self.estimated_tokens,
            "sent_tokens": self.sent_tokens,
            "limit_tokens": self.limit_tokens,
        }
        return {name: value for name, value in document.items() if value is not None}


@value
class PromptInput:
    """What a prompt is assembled from: the state of a run."""

    run: Run
    session: SessionId | None
    parent: TurnId | None
    """The head of the thread that the query follows."""
    started: Mapping[str, Json]
    """Data of ``run.started``; the sender's options are in ``options``."""
    requested: Mapping[str, Json] | None = None
    """The recorded request, if it is being sent again."""
    refused: TooLongPrompt | None = None
    """Why the provider refused the last prompt, if it was too long."""


PublishDelta = Callable[[int, ReplyDelta], None]
"""Takes the number of the attempt, and what arrived."""
Assemble = Callable[[PromptInput], Awaitable[ModelRequest]]


@value
class ModelCallResult:
    """A reply, with the number of attempts and the latency."""

    answer: ModelReply
    attempts: int
    latency_ms: int
    """Duration of the successful attempt."""


@value
class ModelCaller:
    """Calls providers, with retries."""

    hub: Hub
    clock: Callable[[], float]
    """Monotonic seconds."""
    chance: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    silence_max_s: float = SILENCE_MAX_S

    async def ask(self, asked: ModelRequest, run: RunId, at: StreamPosition) -> ModelCallResult:
        """Return the reply to a prompt; ``at`` is the position it will be recorded at.

        Raises:
            ProviderError: The call failed, and a retry would not help.
        """

        def publish(attempt: int, delta: ReplyDelta) -> None:
            self.hub.publish(
                run, at, attempt, delta.kind, delta.text, tool=delta.tool, call_id=delta.call_id
            )

        attempt = 1
        while True:
            begun = self.clock()
            try:
                answer = await self._listen(asked, attempt, publish)
            except ProviderError as failed:
                pause = find_pause(
                    failed.kind, attempt, retry_after_s=failed.retry_after_s, chance=self.chance()
                )
                if pause is None:
                    raise
                await self.sleep(pause)
                attempt += 1
            else:
                return ModelCallResult(answer, attempt, round((self.clock() - begun) * 1000))

    async def _listen(
        self, request: ModelRequest, attempt: int, publish: PublishDelta
    ) -> ModelReply:
        # Closing the stream aborts the HTTP request, also when this task is canceled.
        stream = request.provider.stream(request.model, request.prompt, request.settings)
        async with aclosing(stream):
            while True:
                try:
                    with anyio.fail_after(self.silence_max_s):
                        piece = await anext(stream, None)
                except TimeoutError as error:
                    reason = (
                        f"{request.provider.name} said nothing for {self.silence_max_s:g} seconds"
                    )
                    raise ProviderError(reason, "timeout") from error
                if piece is None:
                    raise ProviderError("the answer ended before it was whole", "broken")
                if isinstance(piece, ModelReply):
                    return piece
                publish(attempt, piece)
