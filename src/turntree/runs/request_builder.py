"""What a model is given for a run: who is asked, with what, and what stands before the thread.

Programs, personas and threads are read here; what becomes of them is ``domain.prompt``'s. The first
request of a run decides for all of them, and every later one is built from what it recorded, by
whichever worker: a config that changes while a turn is taken changes the next turn.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import field, replace
from typing import Any, Final, Protocol

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound, ProviderNotConfigured
from turntree.core.ids import Digest, RunId, SessionId, TurnId
from turntree.core.program import Program
from turntree.core.run import Run, RunEvent
from turntree.core.usage import from_json as call_from_json
from turntree.core.value import value
from turntree.ledger.store_port import LedgerPort
from turntree.ledger.thread_store_port import Threads
from turntree.models.context_window import ContextWindow
from turntree.models.prompt import Prompt, PromptPrefix, assemble, parts_of, thread_room
from turntree.models.provider import Provider
from turntree.models.token_estimate import FACTOR_MIN, learn_factor
from turntree.programs.model_choice import without_provider
from turntree.runs.context_reader import read_view
from turntree.runs.request_resolver import RequestResolver, ResolvedRequest

CONTEXT_TOKENS: Final = 128_000
"""How much a model is taken to read and write at once if its config does not say so."""
ANSWER_TOKENS: Final = 8_192
"""How much of that is kept for an answer whose length nobody bounded."""
FRAMES_MAX: Final = 128
NEARLY_FULL: Final = 0.4
"""From this share of the budget on it matters how far estimates are off."""

BuildProvider = Callable[[Program], Provider]
"""Gives the provider of a program, and may keep it; it raises ``ProviderNotConfigured`` or
``InvalidOperation``."""


class Question(Protocol):
    """A run as far as it got."""

    @property
    def run(self) -> Run:
        """What its facts amount to."""
        ...

    @property
    def session(self) -> SessionId | None:
        """The session it was begun for."""
        ...

    @property
    def parent(self) -> TurnId | None:
        """The head of the thread that the query follows."""
        ...

    @property
    def started(self) -> Mapping[str, Json]:
        """What it began with; what its sender asked for stands in ``options``."""
        ...


@value
class Assembled:
    """What is sent to a model, and what the journal says of it."""

    prompt: Prompt
    model: str
    """What the provider calls the model."""
    provider: Provider
    settings: Mapping[str, Json]
    manifest: Digest
    request: dict[str, Json]
    """The data of the ``model_call.started``."""


@value
class RequestFrame:
    """What all requests of a run share."""

    pinned: ResolvedRequest
    parts: PromptPrefix
    view: ContextWindow
    budget_tokens: int
    """In estimated tokens: how far those are off is taken into account."""
    factor: float = 1.0


@value
class RequestBuilder:
    """Assembles what models are given. Frames are kept while their runs last."""

    pinning: RequestResolver
    ledger: LedgerPort
    threads: Threads
    build_provider: BuildProvider
    together: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Makes one transaction of everything that is read for a run."""
    _frames: OrderedDict[RunId, RequestFrame] = field(
        default_factory=OrderedDict[RunId, RequestFrame]
    )

    async def __call__(self, question: Question) -> Assembled:
        """Return what a model is given next in a run.

        Raises:
            InvalidOperation: Nobody says which model answers, or something that is named does not
                exist.
            ProviderNotConfigured: Nobody answers for the model.
        """
        run = question.run
        frame = self._frames.get(run.id)
        # Told by what was recorded: whoever assembled this before may have died before writing it.
        is_first = not run.requested and not run.steps
        if frame is None:
            async with self.together():
                frame = await self._frame(question, is_first=is_first)
            self._frames[run.id] = frame
            while len(self._frames) > FRAMES_MAX:
                self._frames.popitem(last=False)
        prompt = assemble(
            frame.view, frame.parts, run.query, run.reply, budget_tokens=frame.budget_tokens
        )
        pinned, provider = frame.pinned, self._provider(frame.pinned)
        request = _request(frame, prompt, is_first=is_first)
        return Assembled(
            prompt,
            pinned.model,
            provider,
            pinned.settings,
            pinned.manifest,
            {**request, "provider": provider.name},
        )

    async def _frame(self, question: Question, *, is_first: bool) -> RequestFrame:
        try:
            if not is_first:
                request = find_request(await self.ledger.facts(question.run.id))
                provider = await self.pinning.find_provider(question.started, request)
                frame = await restore_frame(self.pinning, self.threads, question.parent, request)
                return replace(frame, pinned=replace(frame.pinned, provider=provider))
            pinned, objects = await self.pinning.choose(
                question.session, question.parent, question.started
            )
        except NotFound as error:
            raise InvalidOperation(str(error)) from error
        parts, budget = parts_of(pinned.entries, objects), budget_of(pinned)
        room = thread_room(parts, ContextWindow(), 0, round(budget / FACTOR_MIN))
        view = await read_view(self.threads, question.parent, room)
        factor = await self._factor(question.parent, pinned.model, view.cost / budget)
        return RequestFrame(pinned, parts, view, round(budget / factor), factor)

    async def _factor(self, parent: TurnId | None, model: str, full: float) -> float:
        """Return how far estimates are off for a thread, if that may matter.

        It is learnt from the turn before, whose journal every worker can read: what one process
        happens to remember must not decide what a model sees.
        """
        if parent is None or full < NEARLY_FULL:
            return 1.0
        return learn_from(await self.ledger.facts(parent), model)

    def _provider(self, pinned: ResolvedRequest) -> Provider:
        if pinned.provider is None:
            raise ProviderNotConfigured(without_provider(pinned.address))
        return self.build_provider(pinned.provider)


async def restore_frame(
    pinning: RequestResolver, threads: Threads, parent: TurnId | None, request: Mapping[str, Json]
) -> RequestFrame:
    """Return what the requests of a run share, as the first of them recorded it.

    Raises:
        NotFound: An object or a turn is gone.
        InvalidOperation: It recorded too little.
    """
    pinned, objects = await pinning.restore(request)
    parts, budget = parts_of(pinned.entries, objects), request.get("budget_tokens")
    if not isinstance(budget, int):
        raise InvalidOperation("the request does not say how much room there was")
    view = await read_view(threads, parent, thread_room(parts, ContextWindow(), 0, budget))
    factor = request.get("estimate_factor", 1.0)
    return RequestFrame(
        pinned, parts, view, budget, float(factor) if isinstance(factor, int | float) else 1.0
    )


def find_request(facts: Sequence[RunEvent]) -> Mapping[str, Json]:
    """Return the first request of a run, which says everything that the later ones share.

    Raises:
        InvalidOperation: There is none.
    """
    for fact in facts:
        if fact.event.kind == "model_call.started" and "manifest" in fact.event.data:
            return fact.event.data
    raise InvalidOperation("nobody recorded what this run asks with")


def budget_of(pinned: ResolvedRequest) -> int:
    """Return how many tokens a model may be given: what it can read, without its answer."""
    context = pinned.context_tokens or CONTEXT_TOKENS
    asked = pinned.settings.get("max_tokens")
    answer = asked if isinstance(asked, int) else ANSWER_TOKENS
    return context - min(answer, context // 2)


def learn_from(facts: Sequence[RunEvent], model: str) -> float:
    """Return how far estimates were off in a run, as its journal tells it; 1 if it does not."""
    pairs: list[tuple[int, int]] = []
    before, estimated = 1.0, 0
    for fact in facts:
        data: dict[str, Any] = dict(fact.event.data)
        if fact.event.kind == "model_call.started" and data.get("model") == model:
            estimated = data.get("estimated_tokens", 0)
            before = data.get("estimate_factor", before)
        elif fact.event.kind == "model_call.finished" and "call" in data and estimated:
            pairs.append((estimated, call_from_json(data["call"]).usage.context))
            estimated = 0
    return learn_factor(before, pairs)


def _request(frame: RequestFrame, prompt: Prompt, *, is_first: bool) -> dict[str, Json]:
    pinned = frame.pinned
    document: dict[str, Json] = {
        "model": pinned.model,
        "params": dict(pinned.settings),
        "manifest": pinned.manifest,
        "prompt": prompt.digest,
        "tools": [one.name for one in prompt.tools],
        "turns": prompt.thread_turns,
        "turns_omitted": prompt.left_out,
        "estimated_tokens": prompt.estimated_tokens,
        "budget_tokens": frame.budget_tokens,
    }
    if frame.factor != 1.0:
        document["estimate_factor"] = frame.factor
    if is_first:
        document |= {**pinned.told, "input_refs": _before(frame.view)}
    return {name: value for name, value in document.items() if value is not None}


def _before(view: ContextWindow) -> list[Json] | None:
    """Return the last message of the thread; what the run itself holds needs no reference."""
    if not view.turns:
        return None
    last = view.turns[-1].turn
    return [f"{last.id}/{len(last.messages) - 1}"]
