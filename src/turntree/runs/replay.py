"""Playing a turn once more: from the tape, or for real from where it was taken.

From the tape nobody is asked and nothing is done: the runner that took the turn takes it again,
with a model and tools that answer what the journal says they answered, and what it writes stays in
memory. That the same turn comes out shows that the journal is enough to explain it. For real, the
same query is sent to a new session at the same place, and both turns stay.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import anyio
import orjson

from turntree.core.canonical import Json, digest_bytes
from turntree.core.errors import InvalidOperation, ProviderError
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
from turntree.core.value import value
from turntree.ledger.store_port import LedgerPort
from turntree.ledger.thread_store_port import Threads
from turntree.models.prompt import Prompt, ToolSpec, assemble
from turntree.models.provider import ModelReply, ReplyDelta
from turntree.runs.attempt import Attempt
from turntree.runs.inbox import Inbox
from turntree.runs.live_hub import LiveHub
from turntree.runs.model_call import ModelCaller, PromptInput
from turntree.runs.model_context import ModelContexts
from turntree.runs.recorded_calls import RecordedCall, list_taped_calls, with_words
from turntree.runs.request_builder import Assembled, RequestFrame
from turntree.runs.runner import Runner
from turntree.runs.tool_calls import ToolCaller
from turntree.tools.toolset import ToolContext

NEVER_S: Final = 3600.0
"""How long a tool of a tape may take: it waits for the results that came before its own."""
_FIRST: Final = ("run.started", "message.appended")


@value
class ReplayResult:
    """A turn, and what came out when it was played again."""

    original: Turn
    turn: Turn
    prompts: tuple[bool, ...]
    """For each call of the model, whether it was given the very prompt that was recorded."""

    @property
    def is_same(self) -> bool:
        """Whether the same turn came out, to the last byte."""
        return self.original.digest == self.turn.digest


@value
class Replayer:
    """Plays turns again from their journals."""

    contexts: ModelContexts
    ledger: LedgerPort
    threads: Threads

    async def replay(self, turn: TurnId) -> ReplayResult:
        """Take a turn again with the answers that were recorded; nothing leaves the process.

        Raises:
            NotFound: No such turn.
            InvalidOperation: It was taken elsewhere, or something that was said in it has been
                erased.
        """
        placed = await self.threads.get_turn(turn)
        facts = await self.ledger.facts(turn)
        taped = list_taped_calls(facts, placed.turn)
        if not taped:
            raise InvalidOperation(
                "it was taken elsewhere, and there is no journal of it here: "
                f"`turntree rerun {turn}`"
            )
        whole = with_words(facts, placed.turn)
        frame = await self.contexts.restore(placed, taped[0].request)
        tape = _RecordedTools(self.ledger, placed, whole, taped, frame)
        sealed = await tape.play()
        return ReplayResult(placed.turn, sealed.turn, tuple(tape.prompts))


class _TapeEnded(BaseException):
    """Nothing more was recorded. No error: nobody may take it for an answer of a tool."""


@dataclass(slots=True)
class _RecordedTools:
    """A journal that answers for a model and its tools, and keeps what is written meanwhile."""

    ledger: LedgerPort
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
        """Take the turn again."""
        first = [fact for fact in self.facts if fact.event.kind in _FIRST]
        calling = ToolCaller((self,), redactor=Redactor(is_on=False))
        asking = ModelCaller(LiveHub(), clock=lambda: 0.0, chance=lambda: 0.0, sleep=_at_once)
        # Of an inbox and a ledger, a runner uses no more than stands below.
        here = cast("LedgerPort", self)
        runner = Runner(here, self._assemble, asking, calling, asking.hub)
        run = Run.replay(RunId(self.placed.turn.id), first)
        attempt = Attempt(cast("Inbox", self), here, self._moment, 1, [*first], run)
        try:
            await runner.drive(attempt)
        except _TapeEnded:
            await self._close(runner, attempt)
        assert self.sealed is not None, "a run ends in a turn"
        return self.sealed

    async def _close(self, runner: Runner, attempt: Attempt) -> None:
        """End a run as it was ended: by somebody, or because it could not go on."""
        for fact in self.facts:
            data: dict[str, Any] = dict(fact.event.data)
            if fact.event.kind == "run.failed":
                await runner.fail(attempt, data["reason"], data.get("error"))
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

    async def _assemble(self, question: PromptInput) -> Assembled:
        run, frame = question.run, self.frame
        if run.steps >= len(self.calls):
            raise _TapeEnded
        taped = self.calls[run.steps]
        prompt = assemble(
            frame.view, frame.parts, run.query, run.reply, budget_tokens=frame.budget_tokens
        )
        self.prompts.append(prompt.digest == taped.input)
        answerer = _RecordedModel(self, taped)
        pinned = frame.pinned
        return Assembled(
            prompt, pinned.model, answerer, pinned.settings, pinned.manifest, dict(taped.request)
        )

    @property
    def specs(self) -> list[ToolSpec]:
        """Every tool that was called, whether or not the model had been told of it."""
        names = dict.fromkeys(use.tool for use in self._uses())
        return [ToolSpec(name, "", {}, timeout_s=NEVER_S) for name in names if name is not None]

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult:
        """Answer a call as it was answered, and no earlier than those that came before it."""
        del occasion
        order = [part.call_id for part in self._results()]
        if use.call_id not in order:
            await self._after([id for id in order if id in self._open(use.call_id)])
            raise _TapeEnded
        place = order.index(use.call_id)
        await self._after(order[:place])
        return await self._whole(self._results()[place])

    async def append_facts(self, facts: Sequence[RunEvent], *, epoch: int) -> bool:
        """Keep nothing; results that were waited for have arrived."""
        del epoch
        for fact in facts:
            if fact.event.kind == "tool_call.finished":
                self._event(str(fact.event.data["call_id"])).set()
        return True

    async def put_object(self, data: bytes) -> Digest:
        """Keep an object in memory."""
        digest = digest_bytes(data)
        self._kept[digest] = data
        return digest

    async def get_object(self, digest: Digest) -> bytes:
        """Return an object, of this process or of the ledger."""
        return self._kept.get(digest) or await self.ledger.get_object(digest)

    async def seal(self, sealed: SealedTurn, parent: TurnId | None, **told: object) -> None:
        """Keep the turn in memory."""
        del parent, told
        self.sealed = sealed

    def _uses(self) -> list[ToolUse | ObjectRef]:
        return [use for said in self._said() for use in said.tool_uses]

    def _results(self) -> list[ToolResult | ObjectRef]:
        return [part for said in self._said() for part in said.tool_results]

    def _said(self) -> list[Message]:
        return [fact.message for fact in self.facts if fact.message is not None]

    def _open(self, call_id: str) -> set[str | None]:
        """Return the calls that were asked for together with one."""
        for said in self._said():
            together = {use.call_id for use in said.tool_uses}
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
        found = part_from_json(orjson.loads(await self.ledger.get_object(part.object)))
        assert isinstance(found, ToolResult), "it was lifted as one"
        return found


@value
class _RecordedModel:
    """Says what was said. See ``ports.provider``."""

    tape: _RecordedTools
    taped: RecordedCall

    @property
    def name(self) -> str:
        """Who answered."""
        call = self.taped.call
        return str((call and call.provider) or self.taped.request.get("provider", ""))

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Yield the answer that was recorded."""
        del prompt, settings
        response, call = self.taped.response, self.taped.call
        if response is None or call is None:
            raise _TapeEnded
        said = next(one.message for one in self.tape.facts if one.event is response)
        assert said is not None, "an answer has words"
        data: dict[str, Any] = dict(response.data)
        yield ModelReply(
            said, call.usage, call.model or model, data.get("finish_reason"), data.get("request_id")
        )

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        """Return the answer that was recorded."""
        async for piece in self.stream(model, prompt, settings):
            if isinstance(piece, ModelReply):
                return piece
        raise ProviderError("the tape has no answer", "broken")

    async def list_models(self) -> list[str]:
        """Return none."""
        return []

    async def aclose(self) -> None:
        """Let go of nothing."""


async def _at_once(pause_s: float) -> None:
    del pause_s
