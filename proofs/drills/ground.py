"""What a walker stands on: the ledger, the model beside it, and everything it has seen so far."""

import random
from collections.abc import Awaitable
from dataclasses import dataclass, field

from proofs.drills.model import Model, ModelSession
from turntree.core.errors import TurntreeError
from turntree.core.ids import Digest, SessionId, Timestamp, TurnId
from turntree.core.principal import Principal
from turntree.core.session import MoveKind
from turntree.core.turn import Turn
from turntree.core.usage import ModelCall, Usage
from turntree.db.database import Database
from turntree.ledger.recorder import Recorder
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.testing.fakes import FakeClock

BY = Principal("human", "walker")


class Difference(AssertionError):
    """The ledger did something other than the model."""


@dataclass(frozen=True, slots=True)
class Known:
    """A turn that was stored, to be handed in again."""

    turn: Turn
    parent: TurnId | None
    session: SessionId | None


@dataclass(slots=True)
class Ground:
    """The ledger and the model of it, moved together."""

    database: Database
    world: FakeClock
    chance: random.Random
    look_chance: random.Random
    sessions_max: int
    model: Model = field(default_factory=Model)
    answers: dict[str, tuple[SessionId, int]] = field(
        default_factory=dict[str, tuple[SessionId, int]]
    )
    recorders: dict[SessionId, Recorder] = field(default_factory=dict[SessionId, Recorder])
    known: dict[TurnId, Known] = field(default_factory=dict[TurnId, Known])
    turns: list[TurnId] = field(default_factory=list[TurnId])
    touched: set[SessionId] = field(default_factory=set[SessionId])
    minted: int = 0

    def calls(self) -> tuple[ModelCall, ...]:
        """Return what a turn cost: nothing, a call or several."""
        # A call that is recorded twice keeps its id and its cost; most have no id at all.
        number = self.chance.randrange(30)
        shared = ModelCall("m", Usage(number, 1, 2, 3, 0), "p", f"call-{number}")
        own = ModelCall("m", Usage(self.minted, 7, 0, 0, 1), "p")
        return self.chance.choice(((), (own,), (own, own), (shared, own)))

    def recorder(self, id: SessionId, session: ModelSession) -> Recorder:
        """Return a recorder of a session, which may have been overtaken since it was used."""
        if id not in self.recorders or self.chance.random() < 0.3:
            threads, head = ThreadStore(self.database), session.head
            self.recorders[id] = Recorder(
                self.ledger, threads, self.world, BY, id, head, self.digest(head)
            )
        return self.recorders[id]

    def log(
        self, id: SessionId, session: ModelSession, kind: MoveKind, after: TurnId | None,
        at: Timestamp, key: str | None,
    ) -> None:  # fmt: skip
        """Move a session in the model, as it just moved in the ledger."""
        session.move(kind, after, at)
        self.touched.add(id)
        if key is not None:
            self.answers[key] = (id, session.version)

    def keep(self, known: Known, calls: tuple[ModelCall, ...]) -> None:
        """Remember a turn that the ledger has taken."""
        turn = known.turn.id
        self.turns.append(turn)
        self.known[turn] = known
        self.model.parents[turn] = known.parent
        self.model.calls[turn] = calls

    def digest(self, turn: TurnId | None) -> Digest | None:
        """Return the digest that proves a turn."""
        return None if turn is None else self.known[turn].turn.digest

    def session(self) -> tuple[SessionId, ModelSession]:
        """Return any session."""
        # Recent sessions are more often worked in, as in life.
        ids = list(self.model.sessions)
        id = self.chance.choice(ids[-6:] if self.chance.random() < 0.7 else ids)
        return id, self.model.sessions[id]

    def any_turn(self) -> TurnId:
        """Return any turn, most often a recent one."""
        return self.chance.choice(self.turns[-12:] if self.chance.random() < 0.8 else self.turns)

    def word(self, kind: str) -> str:
        """Return a word that was not used before."""
        self.minted += 1
        return f"{kind}-{self.minted}"

    def expect(self, what: str, found: object, wanted: object) -> None:
        """Raise ``Difference`` if the ledger answered otherwise than the model."""
        if found != wanted:
            raise Difference(f"{what}: found {found}, wanted {wanted}")

    async def refuse(self, error: type[TurntreeError], asked: Awaitable[object]) -> None:
        """Raise ``Difference`` unless the ledger refuses with this error."""
        try:
            answered = await asked
        except error:
            return
        raise Difference(f"{error.__name__} was due, but the answer was {answered}")

    @property
    def ledger(self) -> Ledger:
        """The door for turns."""
        return Ledger(self.database)

    @property
    def sessions(self) -> SessionStore:
        """The door for sessions."""
        return SessionStore(self.database)
