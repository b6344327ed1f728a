"""Builds the requests of a run: model, parameters, instructions, tools and thread.

This module reads programs, personas and threads; ``models.prompt`` assembles them. The first
request of a run decides for all of them. Every later one is built from what the first recorded, by
whichever worker has the run: a config that changes during a turn affects the next turn.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import Digest, RunId, SessionId, TurnId
from turntree.core.message import ErasedMessage, Message
from turntree.core.program import Program
from turntree.core.run import Run, RunEvent, options_of
from turntree.core.thread import ThreadTurn
from turntree.core.usage import from_json as call_from_json
from turntree.core.value import value
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.models.compacting import plan_compaction
from turntree.models.context_window import BEFORE_WHOLE_MAX, ContextWindow, view_of
from turntree.models.messages import (
    Excerpt,
    PromptShares,
    cost_of_turn,
    excerpt_of,
    list_large,
)
from turntree.models.prompt import (
    RECIPE,
    Prompt,
    PromptPlan,
    PromptPrefix,
    parts_of,
    plan_prompt,
    shares_of,
)
from turntree.models.provider import Provider
from turntree.models.token_estimate import learn_factor
from turntree.programs.model_choice import WindowSize, without_provider
from turntree.runs.model_call import TooLongPrompt
from turntree.runs.request_resolver import RequestResolver, ResolvedRequest

ANSWER_TOKENS: Final = 8_192
"""Tokens reserved for a reply without a ``max_tokens``."""
# One per run in progress; a dropped one is assembled again.
FRAMES_MAX: Final = 128
REFUSED_SHARE: Final = 0.8
"""After a refusal, at most this share of the refused prompt is sent."""
REFUSED_SHARE_UNTOLD: Final = 0.5
"""The same if the provider did not say how long the prompt may be."""
REFUSED_FACTOR_MAX: Final = 4.0
"""A provider that counts more than this for each estimated token is not believed."""
NEARLY_FULL: Final = 0.2
"""Share of the budget from which the error of token estimates is corrected."""
OBJECTS_AT_ONCE: Final = 32
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

    @property
    def refused(self) -> TooLongPrompt | None:
        """Why the provider refused the last prompt, if it was too long."""
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
    window: WindowSize | None = None
    """None if it was decided by an earlier request."""


@dataclass(slots=True)
class PromptAssembler:
    """Assembles the prompts of one run, from a thread and what precedes it.

    The thread is shown the same way in all calls of a run, so its messages are made once. Replays
    and inspections use it too.
    """

    view: ContextWindow
    parts: PromptPrefix
    get_objects: Callable[[Sequence[Digest]], Awaitable[Mapping[Digest, bytes]]]
    _excerpts: dict[Digest, Excerpt] = field(default_factory=dict[Digest, Excerpt])
    _planned: tuple[int, PromptPlan, list[Message]] | None = None

    async def assemble(
        self,
        query: Sequence[Message | ErasedMessage],
        reply: Sequence[Message | ErasedMessage],
        *,
        budget_tokens: int,
    ) -> Prompt:
        """Return the prompt that follows a reply so far.

        Raises:
            NotFound: An object is gone.
        """
        known = self._planned
        if known is None or known[0] != budget_tokens or known[1].query != tuple(query):
            plan = plan_prompt(self.view, self.parts, query, budget_tokens=budget_tokens)
            await self._read(plan.large_objects)
            known = (budget_tokens, plan, plan.show_thread(self._excerpts))
            self._planned = known
        await self._read(list_large(reply))
        return known[1].assemble(known[2], reply, self._excerpts)

    async def _read(self, digests: Iterable[Digest]) -> None:
        unknown = [one for one in dict.fromkeys(digests) if one not in self._excerpts]
        # Not all at once: each may be megabytes, of which the excerpt keeps a few thousand
        # characters.
        for start in range(0, len(unknown), OBJECTS_AT_ONCE):
            objects = await self.get_objects(unknown[start : start + OBJECTS_AT_ONCE])
            self._excerpts |= {digest: excerpt_of(data) for digest, data in objects.items()}


@value
class RequestBuilder:
    """Assembles requests. The frames of runs in progress are cached."""

    pinning: RequestResolver
    ledger: Ledger
    threads: ThreadStore
    build_provider: BuildProvider
    together: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Opens the transaction in which everything for a run is read."""
    _frames: OrderedDict[RunId, tuple[RequestFrame, PromptAssembler]] = field(
        default_factory=OrderedDict[RunId, tuple[RequestFrame, PromptAssembler]]
    )

    async def __call__(self, question: Question) -> BuiltRequest:
        """Return the next request of a run; after a refusal, with less context.

        Raises:
            InvalidOperation: No model is configured, or a program that is named does not exist.
            ProviderNotConfigured: No provider runs the model.
        """
        run = question.run
        # Decided by what was recorded: a worker may have assembled this and crashed before the
        # append.
        is_first = not run.requested and not run.steps
        known = self._frames.get(run.id)
        if known is None or question.refused is not None:
            async with self.together():
                frame = await self._frame(question, is_first=is_first)
            known = frame, PromptAssembler(frame.view, frame.parts, self.ledger.get_objects)
            self._frames[run.id] = known
            while len(self._frames) > FRAMES_MAX:
                self._frames.popitem(last=False)
        frame, assembler = known
        prompt = await assembler.assemble(run.query, run.reply, budget_tokens=frame.budget_tokens)
        if frame.pinned.provider is None:
            raise without_provider(frame.pinned.address)
        pinned, provider = frame.pinned, self.build_provider(frame.pinned.provider)
        request = _request(frame, prompt, is_first=is_first)
        keep = options_of(question.started).get("compact")
        if is_first and isinstance(keep, int):
            shares = shares_of(frame.parts, frame.budget_tokens)
            request["compaction"] = plan_compaction(frame.view, shares, keep)
        if question.refused is not None:
            request["refused"] = question.refused.to_json()
        return BuiltRequest(
            prompt,
            pinned.model,
            provider,
            pinned.settings,
            pinned.manifest,
            {**request, "provider": provider.name},
        )

    def forget(self, run: RunId) -> None:
        """Drop the frame of a run that ended or waits.

        A frame holds the thread that its run continues, in a long session megabytes. Those of the
        last 128 runs took 70 MB in a server that had answered 300 messages.
        """
        self._frames.pop(run, None)

    async def _frame(self, question: Question, *, is_first: bool) -> RequestFrame:
        try:
            if not is_first:
                facts = await self.ledger.facts(question.run.id)
                request = {**find_request(facts), **_newest_budget(facts)}
                provider = await self.pinning.find_provider(question.started, request)
                frame = await restore_frame(self.pinning, self.threads, question.parent, request)
                frame = replace(frame, pinned=replace(frame.pinned, provider=provider))
                return await self._shrink(frame, question)
            pinned, objects = await self.pinning.choose(
                question.session, question.parent, question.started
            )
        except NotFound as error:
            raise InvalidOperation(str(error), hint=error.hint) from error
        parts, budget = parts_of(pinned.entries, objects), budget_of(pinned)
        shares = shares_of(parts, budget)
        view = await read_view(self.threads, question.parent, shares)
        cost = sum(cost_of_turn(entry.turn, shares) for entry in view.turns)
        factor = await self._factor(question.parent, pinned.model, cost / max(1, budget))
        if factor != 1.0:
            budget = round(budget / factor)
            view = await read_view(self.threads, question.parent, shares_of(parts, budget))
        return RequestFrame(pinned, parts, view, budget, factor, pinned.window)

    async def _shrink(self, frame: RequestFrame, question: Question) -> RequestFrame:
        """Return a frame with less context after a refusal, and remember the model's limit."""
        if question.refused is None:
            return frame
        budget, factor = shrink_budget(frame, question.refused)
        if (limit := question.refused.limit_tokens) is not None:
            await self.pinning.remember_limit(frame.pinned.address, limit)
        else:
            await self.pinning.remember_limit(
                frame.pinned.address, round(question.refused.estimated_tokens * frame.factor)
            )
        view = await read_view(self.threads, question.parent, shares_of(frame.parts, budget))
        return replace(frame, view=view, budget_tokens=budget, factor=factor)

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
    """Return what the requests of a run share, from what one of them recorded.

    Raises:
        NotFound: An object or a turn is gone.
        InvalidOperation: The request does not record the budget.
    """
    pinned, objects = await pinning.restore(request)
    parts, budget = parts_of(pinned.entries, objects), request.get("budget_tokens")
    if not isinstance(budget, int):
        raise InvalidOperation("the request does not record its budget of tokens")
    view = await read_view(threads, parent, shares_of(parts, budget))
    factor = request.get("estimate_factor", 1.0)
    return RequestFrame(
        pinned, parts, view, budget, float(factor) if isinstance(factor, int | float) else 1.0
    )


def shrink_budget(frame: RequestFrame, refused: TooLongPrompt) -> tuple[int, float]:
    """Return the budget after a refusal, in estimated tokens, and the correction of estimates.

    The provider's own count corrects the estimate, and its limit replaces the window. Without them
    half of the refused prompt is sent.
    """
    estimated, factor = max(1, refused.estimated_tokens), frame.factor
    if refused.sent_tokens is not None:
        factor = round(min(REFUSED_FACTOR_MAX, max(1.0, refused.sent_tokens / estimated)), 2)
    if refused.limit_tokens is None:
        return round(estimated * REFUSED_SHARE_UNTOLD), factor
    room = refused.limit_tokens - answer_tokens(frame.pinned.settings, refused.limit_tokens)
    return round(min(estimated * REFUSED_SHARE, room / factor)), factor


async def read_view(
    threads: ThreadStore, head: TurnId | None, shares: PromptShares
) -> ContextWindow:
    """Return the end of a thread, as far back as a prompt with these shares shows it.

    What is shown of it depends only on the thread and the shares, as ``models.context_window``
    requires.

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
        return ContextWindow(tuple(await _read_back(threads, last, 1, shares)), 1)
    at, first_kept = compaction
    (summary,) = [last] if at == last.depth else await threads.list_range(head, low=at, high=at)
    first = at + 1 if first_kept is None else first_kept
    turns = await _read_back(threads, last, first, shares)
    return ContextWindow(tuple(entry for entry in turns if entry.depth != at), first, summary)


async def _read_back(
    threads: ThreadStore, last: ThreadTurn, first: int, shares: PromptShares
) -> Sequence[ThreadTurn]:
    """Return turns from the last one back until no earlier one is shown, or to depth ``first``."""
    turns, page, size = list[ThreadTurn](), [last] if last.depth >= first else [], FIRST_PAGE_TURNS
    low, cost, before = last.depth, 0, 0
    while True:
        turns[:0] = page
        for entry in reversed(page):
            before += cost > shares.thread
            cost += cost_of_turn(entry.turn, shares) if not before else 0
        if low <= first or before >= BEFORE_WHOLE_MAX:
            return turns
        high, low = low - 1, max(first, low - size)
        page = [*await threads.list_range(last.turn.id, low=low, high=high)]
        size *= 2


def find_request(facts: Sequence[RunEvent]) -> Mapping[str, Json]:
    """Return the first request of a run, which records what the later ones share.

    Raises:
        InvalidOperation: There is none.
    """
    for fact in facts:
        if fact.event.kind == "model_call.started" and "manifest" in fact.event.data:
            return fact.event.data
    raise InvalidOperation("the run's journal has no request with a manifest")


def _newest_budget(facts: Sequence[RunEvent]) -> dict[str, Json]:
    """Return the budget of the newest request: a refusal made it smaller."""
    newest = [fact.event.data for fact in facts if fact.event.kind == "model_call.started"][-1]
    return {
        "budget_tokens": newest.get("budget_tokens"),
        "estimate_factor": newest.get("estimate_factor", 1.0),
    }


def budget_of(pinned: ResolvedRequest) -> int:
    """Return the tokens available for a prompt: the context without the reply."""
    return pinned.window.tokens - answer_tokens(pinned.settings, pinned.window.tokens)


def answer_tokens(settings: Mapping[str, Json], window_tokens: int) -> int:
    """Return the tokens of a window that are reserved for the reply."""
    max_tokens = settings.get("max_tokens")
    answer = max_tokens if isinstance(max_tokens, int) else ANSWER_TOKENS
    return min(answer, window_tokens // 2)


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
        "turns_folded": prompt.folded_turns or None,
        "turns_titled": prompt.titled_turns or None,
        "turns_omitted": prompt.left_out,
        "estimated_tokens": prompt.estimated_tokens,
        "budget_tokens": frame.budget_tokens,
    }
    if frame.factor != 1.0:
        document["estimate_factor"] = frame.factor
    if frame.window is not None and is_first:
        document |= {
            "window_tokens": frame.window.tokens,
            "window_source": frame.window.source,
        }
    if is_first:
        document |= {
            **pinned.told,
            "input_refs": _before(frame.view),
            "prompt_recipe": RECIPE,
        }
    return {name: value for name, value in document.items() if value is not None}


def _before(view: ContextWindow) -> list[Json] | None:
    """Return a reference to the thread's last message; the run's own need none."""
    if not view.turns:
        return None
    last = view.turns[-1].turn
    return [f"{last.id}/{len(last.messages) - 1}"]
