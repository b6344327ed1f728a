"""Stories told to sessions at work: what is sent, forked, taken back, parked, allowed and canceled.

A story is played in a world of runs. Its picture holds every turn, event and move by its digest; a
world in which processes died must leave the same one as a calm world.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, assert_never

from proofs.run_world import BY, Fate, Fates, Life, RunWorld, session_id
from turntree.core.canonical import digest_bytes
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.event import record
from turntree.core.ids import Label, RunId, Timestamp, TurnId, instant
from turntree.core.message import line_of, user
from turntree.core.session import MoveKind, Session
from turntree.core.viewer import Sight
from turntree.runs.approving.approval_store import ApprovalStore
from turntree.runs.worker_store import WorkerStore
from turntree.testing.fakes import START_MS

_SCENE_MS: Final = 10_000_000
WORDS: Final = (
    "hello", "tool", "tool", "tools", "tools", "silence", "busy", "broken", "long", "wide", "ask",
    "send", "hang", "drop",
)  # fmt: skip
SESSIONS: Final = ("main", "side", "third")
DEATHS_SHARE: Final = 0.12
POINTS_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class Send:
    """Somebody sends messages to a session, which begins if there is none."""

    session: str
    texts: tuple[str, ...]
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Fork:
    """A session begins where another stands; nothing happens if there is nothing to fork."""

    session: str
    label: str


@dataclass(frozen=True, slots=True)
class Move:
    """A session goes back a turn, or takes its last move back."""

    session: str
    kind: MoveKind


@dataclass(frozen=True, slots=True)
class Approve:
    """Somebody allows the call that a run waits for, if one does."""

    session: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Somebody ends a run that waits, if one does."""

    session: str
    discard: bool


Scene = Send | Fork | Move | Approve | Cancel


async def play(world: RunWorld, story: Sequence[Scene]) -> dict[str, Any]:
    """Tell a story to the end and return its picture."""
    for number, scene in enumerate(story):
        await Player(world, number).tell(scene)
        await world.settle()
    return await picture(world)


@dataclass(frozen=True, slots=True)
class Player:
    """Whoever stands outside: a client of the runtime, which dies as well."""

    world: RunWorld
    number: int

    def at(self, place: int = 0) -> Timestamp:
        """Return the time at which something is done in this scene, whoever does it."""
        return instant(START_MS + self.number * _SCENE_MS + place * 1000)

    async def tell(self, scene: Scene) -> None:
        """Play one scene."""
        match scene:
            case Send():
                await self._send(scene)
            case Fork(session, label):
                found = await self.world.sessions.find(session)
                if found is not None and found.head is not None:
                    await self._begin(label, found.head)
            case Move():
                await self._move(scene)
            case Approve(session):
                if (run := await self._parked(session)) is not None:
                    await self._approve(run)
            case Cancel(session, discard):
                if await self._parked(session) is not None:
                    await self._cancel(session, discard=discard)
            case _:
                assert_never(scene)

    async def _send(self, scene: Send) -> None:
        if await self.world.sessions.find(scene.session) is None:
            await self._begin(scene.session, None)
        for place, text in enumerate(scene.texts):
            options = {"fold": True} if scene.fold and place > 0 else {}
            said, at, key = user(text), self.at(place), f"send {self.number} {place}"

            async def post(life: Life, said=said, at=at, key=key, options=options) -> None:  # type: ignore[no-untyped-def]
                posted = await self.world.mortal_inbox(life).post(
                    session_id(scene.session), said, by=BY, at=at, key=key, options=options
                )
                if posted.run not in self.world.posted:
                    self.world.posted.append(posted.run)

            await self.world.surely(post)
            await self._mistake(scene.session, text, key)

    async def _mistake(self, session: str, text: str, key: str) -> None:
        """Send other words under a key that is in use: they must be refused, not swallowed."""
        self.world.mistakes += 1
        try:
            await self.world.inbox.post(
                session_id(session), user(f"not {text}"), by=BY, at=self.at(), key=key
            )
        except InvalidOperation:
            return
        self.world.strays.append(f"other words were taken for {text!r}, under the key {key!r}")

    async def _begin(self, label: str, head: TurnId | None) -> None:
        if await self.world.sessions.find(label) is not None:
            return

        async def create(life: Life) -> None:
            await life.write(
                lambda: self.world.sessions.create(
                    session_id(label),
                    Label(label),
                    head=head,
                    by=BY,
                    at=self.at(),
                    key=f"begin {self.number}",
                )
            )

        await self.world.surely(create)

    async def _move(self, scene: Move) -> None:
        found = await self.world.sessions.find(scene.session)
        if found is None or (scene.kind == "rewind" and (found.head is None or found.depth == 1)):
            return
        target = await self._above(found) if scene.kind == "rewind" else None

        async def move(life: Life) -> None:
            try:
                await life.write(
                    lambda: self.world.sessions.move(
                        found.id,
                        scene.kind,
                        target,
                        by=BY,
                        at=self.at(),
                        key=f"move {self.number}",
                    )
                )
            except InvalidOperation:
                return  # There was nothing to undo.

        await self.world.surely(move)

    async def _above(self, session: Session) -> TurnId | None:
        assert session.head is not None, "it was asked before"
        return await self.world.threads.find_at_depth(session.head, session.depth - 1)

    async def _parked(self, session: str) -> RunId | None:
        workers = WorkerStore(self.world.database, self.world.wakes)
        opened = await workers.list_open(session_id(session))
        return opened[0].run if opened and opened[0].status == "parked" else None

    async def _approve(self, run: RunId) -> None:
        approvals = ApprovalStore(self.world.database.seen_by(Sight(BY)), self.world.wakes)

        async def approve(life: Life) -> None:
            # Whoever died after it was decided finds that nothing waits any more.
            for one in (await approvals.of_run(run)).values():
                if one.state == "pending":
                    await life.write(
                        partial(approvals.decide, one.id, "approved", by=BY, at=self.at())
                    )

        await self.world.surely(approve)

    async def _cancel(self, session: str, *, discard: bool) -> None:
        async def cancel(life: Life) -> None:
            inbox = self.world.mortal_inbox(life)
            await inbox.cancel(session_id(session), by=BY, at=self.at(), discard=discard)

        await self.world.surely(cancel)


async def picture(world: RunWorld) -> dict[str, Any]:
    """Return all that a story left, by its digests; what waits and who is awake, too."""
    found: dict[str, Any] = {}
    for label in SESSIONS:
        session = await world.sessions.find(label)
        if session is None:
            continue
        moves = await world.reflog.list_moves(session.id, limit=1000)
        found[f"session {label}"] = {
            "at": [session.head_digest, session.version, session.depth],
            "moves": [
                [m.kind, m.before_digest, m.after_digest, m.version, m.at, m.by] for m in moves
            ],
            "events": await _event_ids(world, session.id),
            "waiting": [waiting.run for waiting in await world.inbox.list_waiting(session.id)],
        }
    for run in world.posted:
        found[f"run {run}"] = {
            "turn": await _turn(world, run),
            "events": await _event_ids(world, run),
        }
    # Nothing waits but behind a run that waits itself, and nobody is awake with nothing due.
    found["forgotten"] = [
        label
        for label in SESSIONS
        if found.get(f"session {label}", {}).get("waiting")
        and not await WorkerStore(world.database, world.wakes).list_open(session_id(label))
    ]
    found["awake"] = await WorkerStore(world.database, world.wakes).wake_stuck(silent_s=0.0)
    return found


async def _turn(world: RunWorld, run: RunId) -> list[Any] | None:
    try:
        placed = await world.threads.get_turn(TurnId(run))
    except NotFound:
        return None
    said = [digest_bytes(line_of(message)) for message in placed.turn.messages]
    return [placed.turn.digest, placed.depth, placed.parent, placed.turn.header.outcome, said]


async def _event_ids(world: RunWorld, stream: str) -> list[str]:
    return [record(fact.event).id for fact in await world.ledger.facts(stream)]


def random_story(chance: random.Random) -> tuple[Scene, ...]:
    """Return a story that begins with something said."""
    first = Send("main", (_text(chance),))
    return (first, *(_scene(chance) for _ in range(chance.randint(1, 5))))


def random_fates(chance: random.Random) -> Fates:
    """Return what becomes of the processes that play a story."""
    kinds: tuple[Fate, ...] = ("die before", "die after", "slow", "give way")
    return Fates(
        [
            chance.choice(kinds) if chance.random() < DEATHS_SHARE else "live"
            for _ in range(POINTS_MAX)
        ]
    )


def _scene(chance: random.Random) -> Scene:
    session = chance.choice(SESSIONS[:2])
    match chance.randint(0, 9):
        case 0 | 1 | 2 | 3:
            texts = tuple(_text(chance) for _ in range(chance.choice((1, 1, 1, 2, 3))))
            return Send(session, texts, fold=chance.random() < 0.3)
        case 4:
            return Fork(session, chance.choice(SESSIONS[1:]))
        case 5:
            return Move(session, "rewind")
        case 6:
            return Move(session, "undo")
        case 7 | 8:
            return Approve(session)
        case _:
            return Cancel(session, discard=chance.random() < 0.5)


def _text(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.choice((1, 2, 2, 3))))
