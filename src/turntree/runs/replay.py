"""Replays a turn from its journal, without calling a model or a tool.

The same runner drives the turn again, with a model and tools that give the recorded replies and
results. What it writes stays in memory. If the same turn comes out, the journal explains it
completely. To ask again live, see ``rerun``.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import anyio
import orjson

from turntree.core.canonical import Json, digest_bytes
from turntree.core.errors import Hint, InvalidOperation, ProviderError
from turntree.core.ids import Digest, RunId, Timestamp, TurnId
from turntree.core.message import (
    Message,
    ObjectRef,
    ToolResult,
    ToolUse,
    part_from_json,
)
from turntree.core.redaction import Redactor
from turntree.core.run import Run, RunEvent
from turntree.core.thread import ThreadTurn
from turntree.core.turn import SealedTurn, Turn
from turntree.core.value import Facet, value
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.models.prompt import RECIPE, Prompt, ToolSpec
from turntree.models.provider import ModelReply, ReplyDelta
from turntree.runs.attempt import Attempt
from turntree.runs.inbox_store import InboxStore
from turntree.runs.live.hub import LiveHub
from turntree.runs.model_call import ModelCaller, PromptInput
from turntree.runs.model_context import ModelContexts
from turntree.runs.recorded_calls import RecordedCall, list_taped_calls, with_words
from turntree.runs.request_builder import BuiltRequest, PromptAssembler, RequestFrame
from turntree.runs.run_files import NoFiles
from turntree.runs.runner import Runner
from turntree.runs.tool_calls import ToolCaller
from turntree.tools.toolset import ToolContext

NEVER_S: Final = 3600.0
"""Timeout of a replayed tool, which waits for the results recorded before its own."""
_FIRST: Final = ("run.started", "message.appended")


@value
class ReplayResult:
    """A turn, and the turn that its replay produced."""

    original: Turn
    turn: Turn
    prompts: tuple[bool, ...]
    """For each model call, whether its prompt has the recorded digest.

    Calls whose prompts an earlier version assembled in another way are left out.
    """

    @property
    def is_same(self) -> bool:
        """Whether both turns have the same digest."""
        return self.original.digest == self.turn.digest


@value
class Replayer(Facet):
    """Replays turns from their journals."""

    contexts: ModelContexts
    ledger: Ledger
    threads: ThreadStore

    async def replay(self, turn: TurnId) -> ReplayResult:
        """Return the result of replaying a turn; nothing leaves the process.

        Raises:
            NotFound: No such turn.
            InvalidOperation: The turn was imported, or one of its messages has been erased.
        """
        thread_turn = await self.threads.get_turn(turn)
        facts = await self.ledger.facts(turn)
        taped = list_taped_calls(facts, thread_turn.turn)
        if not taped:
            raise InvalidOperation(
                "the turn was recorded by another tool, so it has no events to replay",
                hint=Hint("turn.rerun", {"revision": turn}),
            )
        whole = with_words(facts, thread_turn.turn)
        frame = await self.contexts.restore(thread_turn, taped[0].request)
        # A refused request has no reply to give again; the shorter one that followed it has.
        answered = [call for call in taped if not call.is_refused]
        tape = _RecordedTools(self.ledger, thread_turn, whole, answered, frame)
        sealed = await tape.play()
        return ReplayResult(thread_turn.turn, sealed.turn, tuple(tape.prompts))


class _TapeEnded(BaseException):
    """Nothing more was recorded. Not an ``Exception``, which would become a tool's result."""


@dataclass(slots=True)
class _RecordedTools:
    """A journal that stands in for the model, its tools, the inbox and the ledger."""

    ledger: Ledger
    placed: ThreadTurn
    facts: Sequence[RunEvent]
    calls: Sequence[RecordedCall]
    frame: RequestFrame
    name: str = ""
    prompts: list[bool] = field(default_factory=list[bool])
    sealed: SealedTurn | None = None
    _kept: dict[Digest, bytes] = field(default_factory=dict[Digest, bytes])
    _arrived: dict[str, anyio.Event] = field(default_factory=dict[str, anyio.Event])

    async def play(self) -> SealedTurn:
        """Drive the turn again and return it."""
        first = [fact for fact in self.facts if fact.event.kind in _FIRST]
        calling = ToolCaller((self,), redactor=Redactor(is_on=False))
        asking = ModelCaller(LiveHub(), clock=lambda: 0.0, chance=lambda: 0.0, sleep=_at_once)
        # A runner uses only those methods of an inbox and a ledger that this class defines.
        here = cast("Ledger", self)
        runner = Runner(
            here, self._assemble, asking, calling, asking.hub, files=_RecordedFiles(self)
        )
        run = Run.replay(RunId(self.placed.turn.id), first)
        attempt = Attempt(
            cast("InboxStore", self), here, self._moment, 1, [*first], run, stamps=False
        )
        try:
            await runner.drive(attempt)
        except _TapeEnded:
            await self._close(runner, attempt)
        assert self.sealed is not None, "a run ends in a turn"
        return self.sealed

    async def _close(self, runner: Runner, attempt: Attempt) -> None:
        """End the run as the journal says it ended: canceled, failed or crashed."""
        for fact in self.facts:
            data: dict[str, Any] = dict(fact.event.data)
            if fact.event.kind == "run.failed":
                hint = Hint.from_json(data.get("hint"))
                await runner.fail(attempt, data["reason"], data.get("error"), hint)
                await runner.drive(attempt)
                return
            if fact.event.kind == "run.interrupted" and not data.get("affects"):
                await runner.interrupt(
                    attempt, data["reason"], by=None, discard=False, said=fact.message
                )
                return
        await runner.interrupt(attempt, "crash", by=None, discard=False)

    def _moment(self, run: RunId, seq: int) -> Timestamp:
        del run, seq
        return self.placed.turn.header.sealed_at

    async def _assemble(self, question: PromptInput) -> BuiltRequest:
        run, frame = question.run, self.frame
        if run.steps >= len(self.calls):
            raise _TapeEnded
        taped = self.calls[run.steps]
        budget = taped.request.get("budget_tokens")
        assembler = PromptAssembler(frame.view, frame.parts, self.get_objects)
        prompt = await assembler.assemble(
            run.query,
            run.reply,
            budget_tokens=budget if isinstance(budget, int) else frame.budget_tokens,
        )
        if taped.recipe == RECIPE:
            self.prompts.append(prompt.digest == taped.input)
        answerer = _RecordedModel(self, taped)
        pinned = frame.pinned
        return BuiltRequest(
            prompt, pinned.model, answerer, pinned.settings, pinned.manifest, dict(taped.request)
        )

    @property
    def specs(self) -> list[ToolSpec]:
        """Every tool that was called, whether or not it had been offered to the model."""
        names = dict.fromkeys(use.tool for message in self._said() for use in message.tool_uses)
        return [ToolSpec(name, "", {}, timeout_s=NEVER_S) for name in names if name is not None]

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult:
        """Return the recorded result, after the results that were recorded before it."""
        del occasion
        order = [part.call_id for part in self._results()]
        if use.call_id not in order:
            await self._after([id for id in order if id in self._open(use.call_id)])
            raise _TapeEnded
        index = order.index(use.call_id)
        await self._after(order[:index])
        return await self._whole(self._results()[index])

    async def append_facts(self, facts: Sequence[RunEvent], *, epoch: int) -> bool:
        """Store nothing; mark the tool results among the events as arrived."""
        del epoch
        for fact in facts:
            if fact.event.kind == "tool_call.finished":
                self._event(str(fact.event.data["call_id"])).set()
        return True

    async def put_object(self, data: bytes) -> Digest:
        """Store an object in memory."""
        digest = digest_bytes(data)
        self._kept[digest] = data
        return digest

    async def get_object(self, digest: Digest) -> bytes:
        """Return an object from memory or from the ledger."""
        return (await self.get_objects([digest]))[digest]

    async def get_objects(self, digests: Sequence[Digest]) -> dict[Digest, bytes]:
        """Return several objects, as far as possible from memory."""
        kept = {digest: self._kept[digest] for digest in digests if digest in self._kept}
        return kept | await self.ledger.get_objects([one for one in digests if one not in kept])

    async def seal(self, sealed: SealedTurn, parent: TurnId | None, **told: object) -> None:
        """Store the turn in memory."""
        del parent, told
        self.sealed = sealed

    def find_result(self, call_id: str) -> Message | None:
        """Return the recorded message of a tool result."""
        return next(
            (
                message
                for message in self._said()
                if any(part.call_id == call_id for part in message.tool_results)
            ),
            None,
        )

    def _results(self) -> list[ToolResult | ObjectRef]:
        return [part for message in self._said() for part in message.tool_results]

    def _said(self) -> list[Message]:
        return [fact.message for fact in self.facts if fact.message is not None]

    def _open(self, call_id: str) -> set[str | None]:
        """Return the ids of the calls in the same message as a call."""
        for message in self._said():
            together = {use.call_id for use in message.tool_uses}
            if call_id in together:
                return together
        return set()

    async def _after(self, call_ids: Sequence[str | None]) -> None:
        for call_id in call_ids:
            await self._event(str(call_id)).wait()

    def _event(self, call_id: str) -> anyio.Event:
        return self._arrived.setdefault(call_id, anyio.Event())

    async def _whole(self, part: ToolResult | ObjectRef) -> ToolResult:
        if isinstance(part, ToolResult):
            return part
        part_read = part_from_json(orjson.loads(await self.ledger.get_object(part.object)))
        assert isinstance(part_read, ToolResult), "a tool result is offloaded as a tool result"
        return part_read


@value
class _RecordedFiles(NoFiles):
    """Gives the recorded message of each result, with the files that it names."""

    tape: _RecordedTools

    async def describe(self, attempt: Attempt, result: ToolResult, *, is_last: bool) -> Message:
        """Return the recorded message."""
        recorded = self.tape.find_result(result.call_id)
        return recorded or await NoFiles.describe(self, attempt, result, is_last=is_last)


@value
class _RecordedModel:
    """Gives the recorded reply. Implements ``Provider``."""

    tape: _RecordedTools
    taped: RecordedCall

    @property
    def name(self) -> str:
        """The provider that was asked; a gateway's reply names the vendor."""
        call = self.taped.call
        return str(self.taped.request.get("provider") or (call and call.provider) or "")

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Yield the recorded reply."""
        del prompt, settings
        response, call = self.taped.response, self.taped.call
        if response is None or call is None:
            raise _TapeEnded
        message = next(fact.message for fact in self.tape.facts if fact.event is response)
        assert message is not None, "an answer has words"
        data: dict[str, Any] = dict(response.data)
        yield ModelReply(
            message,
            call.usage,
            call.model or model,
            data.get("finish_reason"),
            data.get("request_id"),
            call.provider,
        )

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        """Return the recorded reply."""
        async for piece in self.stream(model, prompt, settings):
            if isinstance(piece, ModelReply):
                return piece
        raise ProviderError("the journal has no reply to this request", "broken")

    async def list_models(self) -> list[str]:
        """Return none."""
        return []

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


async def _at_once(pause_s: float) -> None:
    del pause_s
