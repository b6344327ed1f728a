"""Builds the requests of a run: model, parameters, instructions, tools and thread.

This module reads programs, personas and threads; ``models.prompt`` assembles them. The first
request of a run decides for all of them. Every later one is built from what the first recorded, by
whichever worker has the run: a config that changes during a turn affects the next turn.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import field, replace
from typing import Any, Final, Protocol

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import Digest, RunId, SessionId, TurnId
from turntree.core.program import Program
from turntree.core.run import Run, RunEvent
from turntree.core.thread import ThreadTurn
from turntree.core.usage import from_json as call_from_json
from turntree.core.value import value
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.models.context_window import ContextWindow, cost_of, make_view, view_of
from turntree.models.prompt import Prompt, PromptPrefix, assemble, parts_of, thread_room
from turntree.models.provider import Provider
from turntree.models.token_estimate import FACTOR_MIN, learn_factor
from turntree.programs.model_choice import without_provider
from turntree.runs.request_resolver import RequestResolver, ResolvedRequest

CONTEXT_TOKENS: Final = 128_000
"""Context size assumed for a model whose config gives none."""
ANSWER_TOKENS: Final = 8_192
"""Tokens reserved for a reply without a ``max_tokens``."""
# One per run in progress; a dropped one is assembled again.
FRAMES_MAX: Final = 128
NEARLY_FULL: Final = 0.4
"""Share of the budget from which the error of token estimates is corrected."""
FIRST_PAGE_TURNS: Final = 32
"""Turns in the first page of a thread; each further page is twice as long, so a long thread takes
few reads."""

BuildProvider = Callable[[Program], Provider]
"""Returns the provider of a program, perhaps from a cache; raises ``ProviderNotConfigured`` or
``InvalidOperation``."""


class Question(Protocol):
    """The state of a run."""

    @property
    def run(self) -> Run:
        """The fold of its events."""
        ...

    @property
    def session(self) -> SessionId | None:
        """The session it belongs to, if any."""
        ...

    @property
    def parent(self) -> TurnId | None:
        """The head of the thread that the query follows."""
        ...

    @property
    def started(self) -> Mapping[str, Json]:
        """Data of ``run.started``; the sender's options are in ``options``."""
        ...


@value
class BuiltRequest:
    """What is sent to a model, and what the journal records of it."""

    prompt: Prompt
    model: str
    """The provider's name for the model."""
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
    """In estimated tokens, corrected by ``factor``."""
    factor: float = 1.0


@value
class RequestBuilder:
    """Assembles requests. The frames of the newest runs are cached."""

    pinning: RequestResolver
    ledger: Ledger
    threads: ThreadStore
    build_provider: BuildProvider
    together: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Opens the transaction in which everything for a run is read."""
    _frames: OrderedDict[RunId, RequestFrame] = field(
        default_factory=OrderedDict[RunId, RequestFrame]
    )

    async def __call__(self, question: Question) -> BuiltRequest:
        """Return the next request of a run.

        Raises:
            InvalidOperation: No model is configured, or a program that is named does not exist.
            ProviderNotConfigured: No provider runs the model.
        """
        run = question.run
        frame = self._frames.get(run.id)
        # Decided by what was recorded: a worker may have assembled this and crashed before the
        # append.
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
        if frame.pinned.provider is None:
            raise without_provider(frame.pinned.address)
        pinned, provider = frame.pinned, self.build_provider(frame.pinned.provider)
        request = _request(frame, prompt, is_first=is_first)
        return BuiltRequest(
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
            raise InvalidOperation(str(error), hint=error.hint) from error
        parts, budget = parts_of(pinned.entries, objects), budget_of(pinned)
        room = thread_room(parts, ContextWindow(), 0, round(budget / FACTOR_MIN))
        view = await read_view(self.threads, question.parent, room)
        factor = await self._factor(question.parent, pinned.model, view.cost / budget)
        return RequestFrame(pinned, parts, view, round(budget / factor), factor)

    async def _factor(self, parent: TurnId | None, model: str, full: float) -> float:
        """Return the correction of token estimates for a thread; 1 while there is ample room.

        It is learned from the previous turn, whose journal every worker can read: what one process
        happens to remember must not decide what a model sees.
        """
        if parent is None or full < NEARLY_FULL:
            return 1.0
        return learn_from(await self.ledger.facts(parent), model)


async def restore_frame(
    pinning: RequestResolver,
    threads: ThreadStore,
    parent: TurnId | None,
    request: Mapping[str, Json],
) -> RequestFrame:
    """Return what the requests of a run share, from what the first of them recorded.

    Raises:
        NotFound: An object or a turn is gone.
        InvalidOperation: The request does not record the budget.
    """
    pinned, objects = await pinning.restore(request)
    parts, budget = parts_of(pinned.entries, objects), request.get("budget_tokens")
    if not isinstance(budget, int):
        raise InvalidOperation("the request does not record its budget of tokens")
    view = await read_view(threads, parent, thread_room(parts, ContextWindow(), 0, budget))
    factor = request.get("estimate_factor", 1.0)
    return RequestFrame(
        pinned, parts, view, budget, float(factor) if isinstance(factor, int | float) else 1.0
    )


async def read_view(threads: ThreadStore, head: TurnId | None, room_tokens: int) -> ContextWindow:
    """Return the end of a thread, as far back as fits into ``room_tokens``, and little more.

    What is read depends only on the thread and the room, as ``models.context_window`` requires.

    Raises:
        NotFound: No such turn.
    """
    if head is None:
        return ContextWindow()
    last = await threads.get_turn(head)
    if last.depth <= FIRST_PAGE_TURNS:
        # A short thread takes one read, which also shows whether it was compacted.
        earlier = (
            () if last.depth == 1 else await threads.list_range(head, low=1, high=last.depth - 1)
        )
        return view_of([*earlier, last])
    compaction = await threads.find_compaction(head)
    if compaction is None:
        return make_view(await _read_back(threads, last, 1, room_tokens), first=1)
    at, first_kept = compaction
    (summary,) = [last] if at == last.depth else await threads.list_range(head, low=at, high=at)
    first = at + 1 if first_kept is None else first_kept
    turns = await _read_back(threads, last, first, room_tokens)
    return make_view([entry for entry in turns if entry.depth != at], first=first, summary=summary)


async def _read_back(
    threads: ThreadStore, last: ThreadTurn, first: int, room_tokens: int
) -> Sequence[ThreadTurn]:
    """Return turns from the last one back until they no longer fit, or to depth ``first``."""
    turns = [last] if last.depth >= first else []
    cost, size = sum(cost_of(entry.turn) for entry in turns), FIRST_PAGE_TURNS
    low = last.depth
    while low > first and cost <= room_tokens:
        high, low = low - 1, max(first, low - size)
        page = await threads.list_range(last.turn.id, low=low, high=high)
        turns[:0] = page
        cost += sum(cost_of(entry.turn) for entry in page)
        size *= 2
    return turns


def find_request(facts: Sequence[RunEvent]) -> Mapping[str, Json]:
    """Return the first request of a run, which records what the later ones share.

    Raises:
        InvalidOperation: There is none.
    """
    for fact in facts:
        if fact.event.kind == "model_call.started" and "manifest" in fact.event.data:
            return fact.event.data
    raise InvalidOperation("the run's journal has no request with a manifest")


def budget_of(pinned: ResolvedRequest) -> int:
    """Return the tokens available for a prompt: the context without the reply."""
    context = pinned.context_tokens or CONTEXT_TOKENS
    max_tokens = pinned.settings.get("max_tokens")
    answer = max_tokens if isinstance(max_tokens, int) else ANSWER_TOKENS
    return context - min(answer, context // 2)


def learn_from(facts: Sequence[RunEvent], model: str) -> float:
    """Return the correction of token estimates that a run's journal suggests; 1 without data."""
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
        "tools": [tool.name for tool in prompt.tools],
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
    """Return a reference to the thread's last message; the run's own need none."""
    if not view.turns:
        return None
    last = view.turns[-1].turn
    return [f"{last.id}/{len(last.messages) - 1}"]
