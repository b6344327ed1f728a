"""What counts after the chaos: each complaint is a sentence, and there must be none.

Knows what a calm run of the same words leaves. Must never know how the chaos was made.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from proofs.run_stories import Player, Send
from proofs.run_world import Fates, RunWorld
from turntree.core.errors import NotFound
from turntree.core.ids import RunId, SessionId, TurnId, unix_ms
from turntree.core.message import ErasedMessage, Message, ToolResult, tool
from turntree.core.run import RunEvent
from turntree.core.thread import ThreadTurn
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore

Reply = tuple[Message | ErasedMessage, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was taken in: its run, and what it said."""

    run: RunId
    text: str


@dataclass(slots=True)
class Verdict:
    """What was found."""

    turns: int = 0
    events: int = 0
    interruptions: int = 0
    silence_s: float = 0.0
    """The longest time between two facts of a run: somebody died and another had to come."""
    unsealed: list[str] = field(default_factory=list[str])
    chains: list[str] = field(default_factory=list[str])
    gaps: list[str] = field(default_factory=list[str])
    unfinished: list[str] = field(default_factory=list[str])
    differences: list[str] = field(default_factory=list[str])
    deeds: list[str] = field(default_factory=list[str])
    findings: list[str] = field(default_factory=list[str])


async def calm_replies(database: Database, texts: Sequence[str]) -> dict[str, Reply]:
    """Return what is answered to some words where nothing dies."""
    world = RunWorld(database, Fates())
    for number, text in enumerate(texts):
        await Player(world, number).tell(Send("main", (text,)))
        await world.settle()
    return {
        text: (await world.threads.get_turn(TurnId(run))).turn.reply
        for text, run in zip(texts, world.posted, strict=True)
    }


@dataclass(frozen=True, slots=True)
class Audit:
    """Looks at everything that was sent, and at what became of it."""

    database: Database
    calm: Mapping[str, Reply]
    deeds: Path

    async def judge(self, sent: Mapping[SessionId, Sequence[Sent]]) -> Verdict:
        """Return what was found."""
        verdict = Verdict()
        done = Counter(self.deeds.read_text().splitlines() if self.deeds.exists() else ())
        verdict.deeds += [f"{deed} was done {n} times" for deed, n in done.items() if n > 1]
        for session, messages in sent.items():
            await self._judge_chain(verdict, session, messages)
            for message in messages:
                await self._judge_run(verdict, message, done)
        verdict.findings += [
            f"{one.invariant} {one.sentence}: {one.subject}" for one in await fsck(self.database)
        ]
        return verdict

    async def _judge_chain(
        self, verdict: Verdict, session: SessionId, messages: Sequence[Sent]
    ) -> None:
        found = await SessionStore(self.database).get(session)
        thread: tuple[ThreadTurn, ...] = ()
        if found.head is not None:
            thread = await ThreadStore(self.database).list_range(found.head)
        if [RunId(placed.turn.id) for placed in thread] != [message.run for message in messages]:
            verdict.chains.append(f"session {session} is not the chain of what was sent to it")

    async def _judge_run(self, verdict: Verdict, sent: Sent, done: Counter[str]) -> None:
        try:
            turn = (await ThreadStore(self.database).get_turn(TurnId(sent.run))).turn
        except NotFound:
            verdict.unsealed.append(f"{sent.run} ({sent.text}) left no turn")
            return
        facts = await Ledger(self.database).facts(sent.run)
        verdict.turns += 1
        verdict.events += len(facts)
        kinds = [fact.event.kind for fact in facts]
        if [fact.event.seq for fact in facts] != list(range(len(facts))):
            verdict.gaps.append(f"{sent.run} has a gap: {[fact.event.seq for fact in facts]}")
        if kinds[0] != "run.started" or kinds.count("run.finished") != 1:
            verdict.gaps.append(f"{sent.run} does not begin or end: {kinds}")
        moments = [unix_ms(fact.event.at) for fact in facts]
        silences = [after - before for before, after in pairwise(moments)]
        verdict.silence_s = max(verdict.silence_s, *(ms / 1000 for ms in silences))
        lost = _lost(facts)
        verdict.interruptions += len(lost)
        verdict.unfinished += [f"{sent.run}: {told}" for told in _unfinished(facts, lost)]
        results = {str(one.call_id): one for one in _results(turn.reply) if one.call_id in lost}
        expected = [_interrupted(said, results) for said in self.calm[sent.text]]
        if _arranged(turn.reply) != _arranged(expected) or turn.header.outcome != "completed":
            verdict.differences.append(
                f"{sent.run} ({sent.text}) differs, with {sorted(lost)} interrupted: {turn.reply}"
            )
        verdict.deeds += [
            f"{sent.run} {result.call_id} is said to be done and is not"
            for result in _results(turn.reply)
            if result.status == "ok"
            and _tool_of(facts, result.call_id) == "append"
            and done[f"{sent.run} {result.call_id}"] != 1
        ]


def _lost(facts: Sequence[RunEvent]) -> set[str]:
    """Return the calls that interruptions name."""
    return {
        str(call)
        for fact in facts
        if fact.event.kind == "run.interrupted"
        for call in _list(fact.event.data.get("calls"))
    }


def _unfinished(facts: Sequence[RunEvent], lost: set[str]) -> list[str]:
    begun = Counter(
        str(f.event.data["call_id"]) for f in facts if f.event.kind == "tool_call.started"
    )
    ended = Counter(
        str(f.event.data["call_id"]) for f in facts if f.event.kind == "tool_call.finished"
    )
    interrupted = {
        str(f.event.data["call_id"])
        for f in facts
        if f.event.kind == "tool_call.finished" and f.event.data["status"] == "interrupted"
    }
    told = [f"{call} was begun {n} times" for call, n in begun.items() if n > 1]
    told += [f"{call} ended {ended[call]} times" for call in begun if ended[call] != 1]
    told += [f"{call} is interrupted, and nobody says why" for call in interrupted - lost]
    return told + [f"{call} was interrupted and ended otherwise" for call in lost - interrupted]


def _interrupted(
    said: Message | ErasedMessage, lost: Mapping[str, ToolResult]
) -> Message | ErasedMessage:
    """Return what was said, or how a lost call ended: one worker was lost in it, or two."""
    if isinstance(said, Message) and said.role == "tool":
        (part,) = said.tool_results
        if (result := lost.get(str(part.call_id))) is not None and result.status == "interrupted":
            return tool(result)
    return said


def _arranged(reply: Sequence[Message | ErasedMessage]) -> list[Message | ErasedMessage]:
    """Return a reply without times, with results in the order of their calls."""
    arranged: list[Message | ErasedMessage] = []
    results: list[Message | ErasedMessage] = []
    for one in reply:
        said = replace(one, at=None) if isinstance(one, Message) else one
        if said.role == "tool":
            results.append(said)
        else:
            arranged += [*sorted(results, key=_call_of), said]
            results = []
    return [*arranged, *sorted(results, key=_call_of)]


def _call_of(said: Message | ErasedMessage) -> str:
    return str(said.tool_results[0].call_id) if isinstance(said, Message) else ""


def _results(reply: Sequence[Message | ErasedMessage]) -> list[ToolResult]:
    return [part for said in reply for part in said.parts if isinstance(part, ToolResult)]


def _tool_of(facts: Sequence[RunEvent], call_id: str) -> str | None:
    for fact in facts:
        if fact.event.kind == "tool_call.started" and fact.event.data["call_id"] == call_id:
            return str(fact.event.data["tool"])
    return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
