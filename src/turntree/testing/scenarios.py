"""Scenarios: steps played on a ledger whose process may die, and a picture of the result.

A runner holds nothing in memory that a step needs: its successor after a crash reads the events and
continues. Ids and times are derived from the position in the scenario, as in production they are
derived from recorded events, so two runs of one scenario must end in the same picture, whatever
crashed on the way.

The model and the tools are scripted by the words of the query. Each word is one round: ``tool``
calls a tool, ``tools`` two at once, ``silence`` is a model that never replies. After the last word
the model says so. The tools are idempotent: a call that was started and lost is settled by running
it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from turntree.core.canonical import digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.event import Event, record
from turntree.core.ids import (
    Digest,
    Label,
    RunId,
    SessionId,
    Timestamp,
    TurnId,
    derived_id,
    instant,
    uuid7,
)
from turntree.core.message import Message, ToolResult, ToolUse, assistant, line_of, tool, user
from turntree.core.principal import Principal
from turntree.core.run import (
    AskModel,
    CallTools,
    Done,
    Fail,
    Run,
    RunEvent,
    Seal,
    SettleCalls,
    WaitForUnpark,
)
from turntree.core.session import Session
from turntree.core.turn import Header, seal
from turntree.core.usage import ModelCall, Usage
from turntree.core.usage import to_json as call_to_json
from turntree.core.value import value
from turntree.ledger.session_store import ReflogStore, SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.testing.fakes import START_MS, Crash, CrashingLedger, CrashPlan

BY: Final = Principal("human", "ana")
MODEL: Final = "scripted-1"
_SCENE_MS: Final = 1_000_000
_FACT_MS: Final = 1000


@value
class PostStep:
    """Posts a message to a session, which is created if it does not exist."""

    session: str
    text: str


@value
class ForkStep:
    """Forks a session at its head; does nothing if there is nothing to fork."""

    session: str
    label: str


@value
class RewindStep:
    """Rewinds a session by one turn, if it has two."""

    session: str


@value
class UndoMove:
    """Undoes a session's last move, if there is one."""

    session: str


Scene = PostStep | ForkStep | RewindStep | UndoMove

STORY: Final[tuple[Scene, ...]] = (
    PostStep("main", "hello"),
    PostStep("main", "tool then"),
    ForkStep("main", "side"),
    PostStep("side", "tools tool"),
    PostStep("main", "silence"),
    RewindStep("main"),
    PostStep("main", "tool silence"),
    UndoMove("main"),
)
"""One of everything: tools alone and at once, a fork, a rewind, an undo, a turn that did
nothing and moves no session, and one that was cut short after a tool had run."""


@value
class OtherWriter:
    """The parts of a ledger implementation that a scenario or the contract runs on."""

    ledger: Ledger
    sessions: SessionStore
    reflog: ReflogStore
    threads: ThreadStore


async def play(neighbours: OtherWriter, story: Sequence[Scene], dying: CrashPlan) -> dict[str, Any]:
    """Run a scenario, restarting a step whenever the process dies; return the picture."""
    player = ScenarioRunner(neighbours, CrashingLedger(neighbours.ledger.database, dying), dying)
    for number, scene in enumerate(story):
        while not await _survives(player, number, scene):
            pass
    return await picture(neighbours, story)


async def picture(neighbours: OtherWriter, story: Sequence[Scene]) -> dict[str, Any]:
    """Return the result of a scenario: heads, moves, and every event and turn by digest."""
    found: dict[str, Any] = {}
    for label in sorted({name for scene in story for name in _names(scene)}):
        session = await neighbours.sessions.find(label)
        if session is None:
            continue
        moves = await neighbours.reflog.list_moves(session.id, limit=1000)
        found[f"session {label}"] = {
            "at": [session.id, session.head_digest, session.version, session.depth],
            "moves": [
                [m.kind, m.before_digest, m.after_digest, m.version, m.at, m.by] for m in moves
            ],
            "events": await _event_ids(neighbours.ledger, session.id),
        }
    for number, scene in enumerate(story):
        if isinstance(scene, PostStep):
            placed = await neighbours.threads.get_turn(TurnId(_run_id(number)))
            found[f"turn {number}"] = {
                "at": [placed.turn.digest, placed.depth, placed.parent],
                "messages": [digest_bytes(line_of(said)) for said in placed.turn.messages],
                "events": await _event_ids(neighbours.ledger, _run_id(number)),
            }
    return found


@value
class ScenarioRunner:
    """A process that runs steps until it dies."""

    neighbours: OtherWriter
    ledger: Ledger
    dying: CrashPlan

    async def tell(self, number: int, scene: Scene) -> None:
        """Run a step, or the rest of it.

        Raises:
            Crash: The process died.
        """
        match scene:
            case PostStep():
                await self._say(number, scene)
            case ForkStep():
                found = await self.neighbours.sessions.find(scene.session)
                taken = await self.neighbours.sessions.find(scene.label)
                if found is not None and found.head is not None and taken is None:
                    await self._begin(number, scene.label, found.head)
            case RewindStep():
                await self._rewind(number, scene)
            case UndoMove():
                await self._undo(number, scene)
            case _:
                assert_never(scene)

    async def _say(self, number: int, scene: PostStep) -> None:
        run = _run_id(number)
        facts = await self.ledger.facts(run)
        if facts:
            state = Run.replay(run, facts)
            if isinstance(state.next_step(), Done):
                return
            epoch = await self.ledger.take(run)
        else:
            session = await self._session(number, scene.session)
            first = _first_fact(number, session, scene.text)
            epoch = await self.ledger.start(run, session.id, first)
            facts = [first]
            state = Run.replay(run, facts)
        await ScenarioAttempt(self.ledger, number, epoch, facts[0], facts[-1], state).drive()

    async def _session(self, number: int, label: str) -> Session:
        found = await self.neighbours.sessions.find(label)
        if found is None:
            await self._begin(number, label, None)
            found = await self.neighbours.sessions.find(label)
        assert found is not None, "it was begun"
        return found

    async def _begin(self, number: int, label: str, head: TurnId | None) -> None:
        await self.dying.write(
            lambda: self.neighbours.sessions.create(
                SessionId(derived_id(START_MS, "session", label)),
                Label(label),
                head=head,
                by=str(BY),
                at=moment(number, 0),
                key=f"begin {number}",
            )
        )

    async def _rewind(self, number: int, scene: RewindStep) -> None:
        found = await self.neighbours.sessions.find(scene.session)
        if found is None or found.head is None or found.depth == 1:
            return
        head, depth = found.head, found.depth
        target = await self.neighbours.threads.find_at_depth(head, depth - 1)
        await self.dying.write(
            lambda: self.neighbours.sessions.move(
                found.id, "rewind", target, by=str(BY), at=moment(number, 0), key=f"move {number}"
            )
        )

    async def _undo(self, number: int, scene: UndoMove) -> None:
        found = await self.neighbours.sessions.find(scene.session)
        if found is None:
            return
        try:
            await self.dying.write(
                lambda: self.neighbours.sessions.move(
                    found.id, "undo", None, by=str(BY), at=moment(number, 0), key=f"move {number}"
                )
            )
        except InvalidOperation:
            return  # Nothing to undo.


@dataclass(slots=True)
class ScenarioAttempt:
    """One process's share of a run: from the existing events to the sealed turn."""

    ledger: Ledger
    number: int
    epoch: int
    first: RunEvent
    last: RunEvent
    run: Run

    async def drive(self) -> None:
        """Drive the run until it is sealed.

        Raises:
            Crash: The process died.
        """
        while True:
            step = self.run.next_step()
            match step:
                case AskModel():
                    await self._ask()
                case CallTools(uses):
                    await self._append("tool_call.started", call_id=str(uses[0].call_id))
                    await self._answer(str(uses[0].call_id))
                case SettleCalls(call_ids):
                    await self._answer(call_ids[0])
                case Fail(reason):
                    await self._append("run.failed", reason=reason)
                case WaitForUnpark(reason):
                    raise InvalidOperation(f"a scenario never unparks a run: {reason}")
                case Seal():
                    await self._seal(step)
                    return
                case Done():
                    return
                case _:
                    assert_never(step)

    async def _ask(self) -> None:
        # A recorded request without a response is this same request.
        if self.last.event.kind != "model_call.started":
            await self._append("model_call.started", model=MODEL)
        said = scripted_reply(self.run)
        if said is None:
            await self._append("run.interrupted", reason="timeout")
        else:
            call = ModelCall(MODEL, Usage(self.run.seq, 1), call_id=f"{self.run.id}/{self.run.seq}")
            await self._append("model_call.finished", said, call=call_to_json(call))

    async def _answer(self, call_id: str) -> None:
        use = next(
            use
            for message in self.run.reply
            for use in message.tool_uses
            if isinstance(use, ToolUse) and use.call_id == call_id
        )
        result = ToolResult(call_id, "ok", {"did": use.args})
        await self._append("tool_call.finished", tool(result), call_id=call_id)

    async def _append(self, kind: str, said: Message | None = None, **data: Any) -> None:
        if said is not None:
            data["message"] = digest_bytes(line_of(said))
        place = self.run.seq
        fact = RunEvent.of(Event(self.run.id, place, kind, moment(self.number, place), data), said)
        after = self.run.apply(fact)
        await self.ledger.append_fact(fact, epoch=self.epoch)
        self.run, self.last = after, fact

    async def _seal(self, step: Seal) -> None:
        known: dict[str, Any] = dict(self.first.event.data)
        at = moment(self.number, self.run.seq)
        parent: Digest | None = known["parent_digest"]
        header = Header(
            TurnId(self.run.id),
            parent,
            BY,
            self.first.event.at,
            at,
            outcome=step.outcome,
            model=MODEL,
        )
        sealed = seal(header, self.run.query, step.reply)
        data = {"outcome": step.outcome, "turn": sealed.turn.digest}
        finished = record(Event(self.run.id, self.run.seq, "run.finished", at, data))
        # An agent must not forget what it did; only a turn without effects moves no session.
        advances = step.outcome == "completed" or bool(self.run.begun)
        await self.ledger.seal(
            sealed,
            known["parent"],
            by=str(BY),
            at=at,
            session=known["session"] if advances else None,
            calls=self.run.calls,
            journal=[finished],
            epoch=self.epoch,
        )


def scripted_reply(run: Run) -> Message | None:
    """Return the model's next message, or None if it never replies."""
    words = run.query[0].text.split()
    done = sum(1 for said in run.reply if said.role == "assistant")
    if done >= len(words):
        return assistant(f"after {len(run.reply)} messages")
    match words[done]:
        case "silence":
            return None
        case "tool" | "tools" as word:
            count = 1 if word == "tool" else 2
            uses = [ToolUse(f"call-{done}-{n}", "nod", {"n": n}) for n in range(count)]
            return assistant("let me see", *uses)
        case word:
            return assistant(f"{word}!")


def moment(number: int, place: int) -> Timestamp:
    """Return the timestamp of an event of a step, whichever process records it."""
    return instant(START_MS + number * _SCENE_MS + place * _FACT_MS)


async def _survives(player: ScenarioRunner, number: int, scene: Scene) -> bool:
    try:
        await player.tell(number, scene)
    except Crash:
        return False
    return True


async def _event_ids(ledger: Ledger, stream: str) -> list[str]:
    return [record(fact.event).id for fact in await ledger.facts(stream)]


def _run_id(number: int) -> RunId:
    return RunId(uuid7(START_MS + number * _SCENE_MS, number))


def _names(scene: Scene) -> tuple[str, ...]:
    return (scene.session, scene.label) if isinstance(scene, ForkStep) else (scene.session,)


def _first_fact(number: int, session: Session, text: str) -> RunEvent:
    said = user(text)
    data = {
        "message": digest_bytes(line_of(said)),
        "parent": session.head,
        "parent_digest": session.head_digest,
        "session": session.id,
    }
    return RunEvent.of(Event(_run_id(number), 0, "run.started", moment(number, 0), data), said)
