"""A small stretch of ledger for two writers to meet in, and what each of them may do there."""

from dataclasses import dataclass
from pathlib import Path

from turntree.boot.open import Settings, tree_on
from turntree.core.clock import Clock
from turntree.core.ids import Label, SessionId, TurnId
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.core.session import MoveKind
from turntree.core.thread import MoveResult, ThreadTurn
from turntree.db.database import Database
from turntree.ledger.recorder import Recorder
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Ledger, Tags
from turntree.ledger.thread_store import ThreadStore

BY = Principal("human", "writer")


@dataclass(frozen=True, slots=True)
class Scene:
    """A session of three turns, made for one order of one pair."""

    database: Database
    world: Clock
    session: SessionId
    turns: tuple[TurnId, ...]
    twin: SessionId
    """Another session that stands at the same turn."""
    other: SessionId
    """An empty session beside them."""

    @property
    def mark(self) -> str:
        """A word no other scene uses."""
        return self.session[-12:]

    async def append(
        self, database: Database, *, key: str | None = None, to: SessionId | None = None
    ) -> ThreadTurn:
        """Read where a session stands and record a turn."""
        stands = await SessionStore(database).get(to or self.session)
        ledger, threads = Ledger(database), ThreadStore(database)
        recorder = Recorder(
            ledger, threads, self.world, BY, stands.id, stands.head, stands.head_digest
        )
        return await recorder.record([user("more")], [assistant("done")], key=key)

    async def append_overtaken(self, database: Database) -> ThreadTurn:
        """Record a turn without having read where the session stands."""
        ledger, threads = Ledger(database), ThreadStore(database)
        recorder = Recorder(ledger, threads, self.world, BY, self.session, None, None)
        return await recorder.record([user("late")], [assistant("done")])

    async def record_by_name(self, database: Database) -> ThreadTurn:
        """Record a turn into a session that nobody has begun yet."""
        tree = tree_on(database, Settings(Path.cwd(), user="writer"), self.world)
        return await tree.turns.record(f"wanted-{self.mark}", [user("first")], [assistant("yes")])

    async def fork(self, database: Database) -> MoveResult:
        """Read where the session stands and begin another there."""
        head = (await SessionStore(database).get(self.session)).head
        return await self.create(database, SessionId(self.world.new_id()), head=head)

    async def create(
        self, database: Database, id: SessionId, *, head: TurnId | None = None,
        label: str | None = None, key: str | None = None,
    ) -> MoveResult:  # fmt: skip
        """Begin a session."""
        name = Label(label or f"fork-{id}")
        at = self.world.now()
        return await SessionStore(database).create(id, name, by=str(BY), at=at, head=head, key=key)

    async def move(self, database: Database, kind: MoveKind, target: TurnId | None) -> MoveResult:
        """Move the session."""
        sessions = SessionStore(database)
        return await sessions.move(self.session, kind, target, by=str(BY), at=self.world.now())

    async def name(self, database: Database, id: SessionId, *, as_label: bool) -> None:
        """Give a session the one name that both writers want."""
        name = Label(f"wanted-{self.mark}")
        at = self.world.now()
        await SessionStore(database).name(id, name, by=str(BY), at=at, as_label=as_label)

    async def merge(self, database: Database, id: SessionId, other: SessionId) -> None:
        """Let one session's names lead to another."""
        kept = Label(f"kept-{other}")
        at = self.world.now()
        await SessionStore(database).merge(id, other, kept, by=str(BY), at=at)

    async def tag(self, database: Database, tag: str) -> bool:
        """Tag the session's first turn."""
        marks = Tags(database)
        return await marks.set_tag(self.turns[0], tag, on=True, by=str(BY), at=self.world.now())


async def make_scene(database: Database, world: Clock) -> Scene:
    """Return a scene nobody has been in."""
    sessions = SessionStore(database)
    id, other = SessionId(world.new_id()), SessionId(world.new_id())
    for session in (id, other):
        await sessions.create(session, Label(f"s-{session}"), by=str(BY), at=world.now())
    ledger, threads = Ledger(database), ThreadStore(database)
    recorder = Recorder(ledger, threads, world, BY, id, None, None)
    placed = [await recorder.record([user("q")], [assistant("a")]) for _ in range(3)]
    turns = tuple(each.turn.id for each in placed)
    twin = SessionId(world.new_id())
    label = Label(f"s-{twin}")
    await sessions.create(twin, label, by=str(BY), at=world.now(), head=turns[-1])
    return Scene(database, world, id, turns, twin, other)
