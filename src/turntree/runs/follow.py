"""Following a run: what has been recorded of it, and the words that are on their way.

The ledger is the truth; words are only ever shown early. Whoever follows is told things in the
order in which they became true, and may begin at any time: in the middle of a run, or after it.
It must never write, and never know who is told.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

from turntree.core import usage
from turntree.core.canonical import digest_bytes
from turntree.core.ids import Instant, RunId, TurnId, unix_ms
from turntree.core.message import Lifted, Message, ToolResult, ToolUse, line_of
from turntree.core.run import Fact
from turntree.core.thread import Placed
from turntree.core.usage import ModelCall
from turntree.core.value import value
from turntree.runs.live import Live
from turntree.runs.service import Runs

WordKind = Literal["text", "reasoning", "tool"]


@value
class Begun:
    """A run began with what was sent."""

    run: RunId
    query: tuple[Message, ...]


@value
class Words:
    """Some words of an answer that is on its way to a place in the journal."""

    seq: int
    kind: WordKind
    text: str
    tool: str | None = None


@value
class Dropped:
    """Somebody begins the answer for a place again: the words so far are void."""

    seq: int


@value
class Said:
    """A model has answered."""

    seq: int
    message: Message
    call: ModelCall | None


@value
class CallBegun:
    """A tool is at work."""

    use: ToolUse | Lifted


@value
class CallEnded:
    """A tool has answered, or never will."""

    use: ToolUse | Lifted
    result: ToolResult | Lifted
    took_ms: int | None
    """None if nobody recorded that it had begun."""


@value
class Told:
    """Something else that people want to know: it waits, was interrupted or failed."""

    kind: Literal["parked", "unparked", "interrupted", "failed"]
    reason: str


@value
class Ended:
    """The turn is sealed."""

    placed: Placed
    calls: tuple[ModelCall, ...]


Heard = Begun | Words | Dropped | Said | CallBegun | CallEnded | Told | Ended


@value
class Following:
    """Tells runs to those who watch."""

    runs: Runs

    async def follow(self, run: RunId, hear: Callable[[Heard], None]) -> Placed:
        """Tell everything of a run until its turn is sealed; return the turn."""
        journal, sealed = _Journal(run), dict[str, Message]()
        async with aclosing(self.runs.follow(run)) as news:
            async for one in news:
                if isinstance(one, Live):
                    hear(_words(one))
                    continue
                if one.message is None and "message" in one.event.data and not sealed:
                    sealed = await self._read_sealed(run)
                for heard in journal.read(one, sealed):
                    hear(heard)
        placed = await self.runs.threads.get_turn(TurnId(run))
        hear(Ended(placed, tuple(journal.calls)))
        return placed

    async def recount(self, run: RunId, hear: Callable[[Heard], None]) -> None:
        """Tell what is recorded of a run that is not sealed, and wait for nothing."""
        journal = _Journal(run)
        for fact in await self.runs.ledger.facts(run):
            for heard in journal.read(fact, {}):
                hear(heard)

    async def _read_sealed(self, run: RunId) -> dict[str, Message]:
        """Return what was said in a turn by its digest: sealing takes the words out of the run."""
        turn = (await self.runs.threads.get_turn(TurnId(run))).turn
        return {digest_bytes(line_of(m)): m for m in turn.messages if isinstance(m, Message)}


@dataclass(slots=True)
class _Journal:
    """What a reader has read of a run."""

    run: RunId
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    uses: dict[str, ToolUse | Lifted] = field(default_factory=dict[str, ToolUse | Lifted])
    begun: dict[str, Instant] = field(default_factory=dict[str, Instant])

    def read(self, fact: Fact, sealed: Mapping[str, Message]) -> Sequence[Heard]:
        """Return what one more fact tells."""
        data: Mapping[str, Any] = fact.event.data
        said = fact.message or sealed.get(str(data.get("message")))
        match fact.event.kind:
            case "run.started":
                return [Begun(self.run, () if said is None else (said,))]
            case "message.appended" if said is not None:
                return [Begun(self.run, (said,))]
            case "model_call.finished":
                return self._answer(fact, said)
            case "tool_call.started":
                call_id = str(data["call_id"])
                self.begun[call_id] = fact.event.at
                use = self.uses.get(call_id)
                return [] if use is None else [CallBegun(use)]
            case "tool_call.finished":
                return self._result(fact, said)
            case "run.interrupted" if said is not None:
                return [Said(fact.event.seq, said, None), *_told("run.interrupted", data)]
            case kind:
                return _told(kind, data)

    def _answer(self, fact: Fact, said: Message | None) -> Sequence[Heard]:
        data: Mapping[str, Any] = fact.event.data
        call = usage.from_json(data["call"]) if "call" in data else None
        if call is not None:
            self.calls.append(call)
        if said is None:
            return []
        self.uses |= {str(use.call_id): use for use in said.tool_uses}
        return [Said(fact.event.seq, said, call)]

    def _result(self, fact: Fact, said: Message | None) -> Sequence[Heard]:
        call_id = str(fact.event.data["call_id"])
        use = self.uses.get(call_id)
        results = () if said is None else said.tool_results
        result = next((one for one in results if one.call_id == call_id), None)
        if use is None or result is None:
            return []
        begun = self.begun.get(call_id)
        took = None if begun is None else unix_ms(fact.event.at) - unix_ms(begun)
        return [CallEnded(use, result, took)]


def _words(live: Live) -> Words | Dropped:
    if live.kind == "restart":
        return Dropped(live.position.seq)
    return Words(live.position.seq, live.kind, live.text, live.tool)


def _told(kind: str, data: Mapping[str, Any]) -> Sequence[Heard]:
    reason = str(data.get("reason", ""))
    match kind:
        case "run.parked":
            return [Told("parked", reason)]
        case "run.unparked":
            return [Told("unparked", reason)]
        case "run.interrupted" if not data.get("affects"):
            return [Told("interrupted", reason)]
        case "run.failed":
            error = str(data.get("error") or "")
            return [Told("failed", f"{reason}: {error}" if error else reason)]
        case _:
            return []
