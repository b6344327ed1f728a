"""One model call: it is made again as long as that helps, and told word by word while it lasts.

Words that were on their way when an attempt failed are taken back by the next one; nothing of them
is recorded. It must never know a vendor.
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
from turntree.models.provider import ModelReply, Provider
from turntree.models.retry import find_pause
from turntree.runs.live import StreamPosition
from turntree.runs.live_hub import LiveHub

SILENCE_MAX_S = 300.0
"""A provider that says nothing for so long has gone."""


class ModelRequest(Protocol):
    """What is sent to a model, and what the journal says of it."""

    @property
    def prompt(self) -> Prompt:
        """What the model is given."""
        ...

    @property
    def model(self) -> str:
        """What the provider calls the model."""
        ...

    @property
    def provider(self) -> Provider:
        """Who answers for it."""
        ...

    @property
    def settings(self) -> Mapping[str, Json]:
        """With which parameters."""
        ...

    @property
    def request(self) -> Mapping[str, Json]:
        """What stands in the ``model_call.started``: who is asked what, and who decided that."""
        ...


@value
class PromptInput:
    """What a prompt is assembled from: a run as far as it got."""

    run: Run
    session: SessionId | None
    parent: TurnId | None
    """The head of the thread that the query follows."""
    started: Mapping[str, Json]
    """What the run began with; what its sender asked for stands in ``options``."""
    requested: Mapping[str, Json] | None = None
    """The request as it was recorded, if it is this one that is sent again."""


Assemble = Callable[[PromptInput], Awaitable[ModelRequest]]


@value
class ModelCallResult:
    """An answer, and what it took to get it."""

    answer: ModelReply
    attempts: int
    latency_ms: int
    """From the beginning of the attempt that succeeded to its end."""


@value
class ModelCaller:
    """Asks providers, patiently."""

    hub: LiveHub
    clock: Callable[[], float]
    """Seconds that only ever go forward."""
    chance: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    silence_max_s: float = SILENCE_MAX_S

    async def ask(self, asked: ModelRequest, run: RunId, at: StreamPosition) -> ModelCallResult:
        """Return the answer to a prompt; ``at`` is the place it will be recorded at.

        Raises:
            ProviderError: There is none, and asking again would not help.
        """
        attempt = 1
        while True:
            begun = self.clock()
            try:
                answer = await self._listen(asked, run, at, attempt)
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
        self, asked: ModelRequest, run: RunId, at: StreamPosition, attempt: int
    ) -> ModelReply:
        # Closing the stream ends the request, also when this task is canceled.
        stream = asked.provider.stream(asked.model, asked.prompt, asked.settings)
        async with aclosing(stream):
            while True:
                try:
                    with anyio.fail_after(self.silence_max_s):
                        piece = await anext(stream, None)
                except TimeoutError as error:
                    said = f"{asked.provider.name} said nothing for {self.silence_max_s:g} seconds"
                    raise ProviderError(said, "timeout") from error
                if piece is None:
                    raise ProviderError("the answer ended before it was whole", "broken")
                if isinstance(piece, ModelReply):
                    return piece
                self.hub.publish(
                    run, at, attempt, piece.kind, piece.text,
                    tool=piece.tool, call_id=piece.call_id,
                )  # fmt: skip
