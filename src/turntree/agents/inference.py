"""One-off inference for programs: one model call, or one message to a session.

A single model call creates no turn: the request and its usage are recorded in the model's own
stream. A message to a session is queued like any other, and creates a turn.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from turntree.core.canonical import Json, digest_bytes
from turntree.core.errors import InvalidOperation, ProviderNotConfigured
from turntree.core.ids import SessionId
from turntree.core.message import line_of, user
from turntree.core.program import Program
from turntree.core.usage import ModelCall, to_json
from turntree.core.value import value
from turntree.models.prompt import Prompt
from turntree.models.provider import Provider, ReplyDelta
from turntree.programs.model_choice import (
    Choice,
    ResolvedValue,
    choose_model,
    without_provider,
)
from turntree.programs.service import Programs, Spoken
from turntree.runs.answer import Answer, check_outcome
from turntree.runs.follow import RunFollower, RunNotice, TextChunk
from turntree.runs.model_call import ModelCaller
from turntree.runs.service import PostOptions, Runs

BuildProvider = Callable[[Program], Provider]


@value
class Inference:
    """Answers requests of programs with a model or a session. See ``programs.service``."""

    build_provider: BuildProvider
    runs: Runs
    ensure_served: Callable[[], Awaitable[None]]
    """Ensures that a worker serves the message."""
    caller: ModelCaller

    async def ask(
        self, programs: Programs, asked: Program, request: Mapping[str, Json], hear: Spoken
    ) -> Json:
        """Return a model's reply to one message, and record the call in the model's stream.

        An agent uses its own model, or the one that the request or the workspace names.

        Raises:
            ProviderNotConfigured: No provider runs the model.
            ProviderError: There is no reply.
        """
        is_agent = asked.kind == "agent"
        choice = await choose_model(
            programs,
            turn={"model": request.get("model") if is_agent else asked.name},
            agent=asked.name if is_agent else None,
            situation=_text(request.get("situation")),
        )
        model = choice.model
        provider = self._provider(choice)
        text = request.get("message")
        if not isinstance(text, str) or not text.strip():
            raise InvalidOperation("a model is asked something: say a message")
        backend = str(_value(choice.values.get("model_id")) or model.name)
        system = _text(request.get("system"))
        prompt = Prompt(() if system is None else (system,), (user(text),))
        wanted: dict[str, Json] = {**choice.to_json(), "message": digest_bytes(line_of(user(text)))}
        await programs.tell(model.id, "model.inference_requested", right="invoke", more=wanted)
        heard = 0

        def publish(attempt: int, delta: ReplyDelta) -> None:
            nonlocal heard
            if delta.kind == "text":
                # The text of a failed attempt has been shown: a retry starts on a new line.
                hear(f"\n{delta.text}" if 0 < heard < attempt else delta.text)
                heard = attempt

        result = await self.caller.ask_outside_runs(
            _Request(prompt, backend, provider, choice.parameters), publish
        )
        answer = result.answer
        call = ModelCall(answer.model, answer.usage, provider.name, answer.request_id)
        said: dict[str, Json] = {
            "call": to_json(call),
            "finish_reason": answer.finish_reason,
            "latency_ms": result.latency_ms,
        }
        await programs.tell(model.id, "model.inference_completed", right="invoke", more=said)
        return {"text": answer.message.text, **said}

    async def send(
        self, programs: Programs, session: Program, request: Mapping[str, Json], hear: Spoken
    ) -> Json:
        """Send a message to a session, wait for the turn, and return the reply.

        Raises:
            ProviderNotConfigured: The session has no model with a provider.
            TurnFailed: The turn did not complete.
        """
        options: PostOptions = {}
        if (model := _text(request.get("model"))) is not None:
            options["model"] = model
        if (situation := _text(request.get("situation"))) is not None:
            options["situation"] = situation
        # A session's program has the session's own id.
        label = (await self.runs.sessions.ledger.get(SessionId(session.id))).label
        await self.ensure_served()
        await programs.check_right(session, "invoke")
        posted = await self.runs.post(label, str(request["message"]), **options)
        failed = RunNotice("failed", "")

        def heard(one: object) -> None:
            nonlocal failed
            match one:
                case TextChunk(kind="text", text=text):
                    hear(text)
                case RunNotice("failed"):
                    failed = one
                case _:
                    pass

        placed = await RunFollower(self.runs).follow(posted.run, heard)
        check_outcome(placed.turn, failed.reason, failed.hint)
        return {
            "text": Answer(placed).text,
            "turn": placed.turn.id,
            "digest": placed.turn.digest,
            "model": placed.turn.header.model,
        }

    async def list_models(self, provider: Program) -> Json:
        """Return the names of a provider's models.

        Raises:
            ProviderNotConfigured: The provider cannot be built.
            ProviderError: The service did not list them.
        """
        return [*await self._build(provider).list_models()]

    def _provider(self, choice: Choice) -> Provider:
        if choice.provider is None:
            error = without_provider(choice.model.address)
            raise ProviderNotConfigured(f"no provider wired: {error}", hint=error.hint)
        return self._build(choice.provider)

    def _build(self, program: Program) -> Provider:
        try:
            return self.build_provider(program)
        except ProviderNotConfigured as error:
            raise ProviderNotConfigured(f"no provider wired: {error}", hint=error.hint) from error


@value
class _Request:
    """See ``runs.model_call.ModelRequest``."""

    prompt: Prompt
    model: str
    provider: Provider
    settings: Mapping[str, Json]
    request: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Empty: the model's own stream records the request, not a run's."""


def _value(chosen: ResolvedValue | None) -> Any:
    return None if chosen is None else chosen.value


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None
