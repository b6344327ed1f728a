"""A random walk over everything that can be done to the ledger, beside the model of it.

The same seed takes the same steps. Every few steps the ledger is asked what it holds and the
model what it should hold; a walk that finds a difference is walked again with a look after every
step, so that the report names the step.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proofs.drills.compare import Comparer
from proofs.drills.ground import BY, Difference, Ground, Known
from proofs.drills.model import ModelSession
from turntree.core.errors import Conflict, InvalidOperation, TurntreeError
from turntree.core.ids import Label, SessionId, TurnId
from turntree.core.message import Message, assistant, user
from turntree.core.session import AliasReason, MoveKind, SessionStatus
from turntree.core.turn import Header, seal
from turntree.core.viewer import EVERYTHING
from turntree.db.database import open_database, prepare_database
from turntree.integrity.fsck import fsck
from turntree.ledger.store import Tags
from turntree.system.clock import SystemClock
from turntree.testing.fakes import FakeClock

LOOK_EVERY = 100
SESSIONS_MAX = (2, 6, 16)
"""One for each walk: few sessions nest forks deeply, many share them widely."""
TAGS = ("good", "bad", "later")
REASONS: tuple[AliasReason, ...] = ("manual", "identity_promotion")
STATUSES: tuple[SessionStatus, ...] = ("active", "archived", "deleted")


@dataclass(frozen=True, slots=True)
class Walked:
    """How far a walk came, and what it found."""

    seed: int
    steps: int
    problems: tuple[str, ...] = ()


async def take_walk(
    conninfo: str, seed: int, steps: int, *, look_every: int = LOOK_EVERY
) -> Walked:
    """Walk in a workspace of its own; if it fails, walk again and name the step."""
    walked = await _walk(conninfo, seed, steps, look_every)
    if walked.problems and look_every > 1:
        again = await _walk(conninfo, seed, steps, 1)
        return again if again.problems else walked
    return walked


async def _walk(conninfo: str, seed: int, steps: int, look_every: int) -> Walked:
    # Each walk needs a workspace nobody has walked in.
    name = f"walk-{seed}-{look_every}"
    workspace = await prepare_database(conninfo, name, SystemClock().new_id())
    async with open_database(conninfo, workspace, connections_max=1, sight=EVERYTHING) as database:
        # Looking draws from another source than walking, so that more looks change no step.
        chances = random.Random(seed), random.Random(seed)
        sessions_max = SESSIONS_MAX[seed // len(SESSIONS_MAX) % len(SESSIONS_MAX)]
        walker = Walker(database, FakeClock(seed), *chances, sessions_max)
        for step in range(1, steps + 1):
            try:
                await walker.step()
                if step % look_every == 0 or step == steps:
                    await walker.look()
            except (Difference, TurntreeError) as found:
                said = f"seed {seed}, step {step} ({walker.taken}): {type(found).__name__}: {found}"
                return Walked(seed, step, (said,))
        findings = await fsck(database)
    told = [f"seed {seed}: {f.invariant} {f.sentence}: {f.subject}" for f in findings]
    return Walked(seed, steps, tuple(told))


@dataclass(slots=True)
class Walker(Ground):
    """Does one thing after the other to the ledger and to the model."""

    taken: str = "none"
    """The step it is taking."""

    async def step(self) -> None:
        """Take one random step.

        Raises:
            Difference: The ledger answered otherwise than the model.
        """
        if not self.turns:
            chosen = self.append if self.model.sessions else self.create
        else:
            chosen = self.chance.choices(_STEPS, _WEIGHTS)[0].__get__(self)
        self.taken = chosen.__name__
        await chosen()

    async def look(self) -> None:
        """Compare everything that was touched since the last look.

        Raises:
            Difference: Something is not as it should be.
        """
        comparer = Comparer(self.database, self.model, self.look_chance)
        problems = await comparer.compare(sorted(self.touched), self.turns)
        self.touched.clear()
        if problems:
            raise Difference("; ".join(problems[:5]))

    async def create(self) -> None:
        """Begin an empty session."""
        await self._begin(None)

    async def fork(self) -> None:
        """Begin a session at any turn."""
        await self._begin(self.any_turn())

    async def append(self) -> None:
        """Record a turn, through a recorder that may have been overtaken."""
        await self._append(None)

    async def append_under_key(self) -> None:
        """Record a turn under a key."""
        await self._append(self.word("key"))

    async def append_strictly(self) -> None:
        """Record a turn only if nobody moved the session meanwhile."""
        id, session = self.session()
        recorder = self.recorder(id, session)
        if recorder.head == session.head:
            return await self._append(None)
        return await self.refuse(
            Conflict, recorder.record([user("late")], [assistant("no")], strict=True)
        )

    async def ask_again(self) -> None:
        """Repeat a key: the answer is the same, or refused elsewhere, and nothing happens."""
        if not self.answers:
            return
        key = self.chance.choice(list(self.answers))
        id, version = self.answers[key]
        move = self.model.sessions[id].moves[version - 1]
        if move.kind == "advance":
            other, session = self.session()
            asked = self.recorder(other, session).record(
                [user("again")], [assistant("again")], key=key
            )
            if other == id:
                self.expect("the turn of a repeated key", (await asked).turn.id, move.after)
            else:
                await self.refuse(InvalidOperation, asked)
            return
        if move.kind in ("create", "fork"):
            name = Label(self.word("unused"))
            moved = await self.sessions.create(
                SessionId(self.world.new_id()), name, by="x", at=self.world.now(), key=key
            )
        else:
            moved = await self.sessions.move(
                id, move.kind, self.turns[0], by="x", at=self.world.now(), key=key
            )
        found = (moved.session, moved.version, moved.head, moved.repeated)
        self.expect("a repeated key", found, (id, version, move.after, True))

    async def seal_again(self) -> None:
        """Hand the same turn in again: it is known and nothing happens."""
        known = self.known[self.chance.choice(self.turns)]
        said = [said for said in known.turn.messages if isinstance(said, Message)]
        count = known.turn.query_count
        sealed = seal(known.turn.header, said[:count], said[count:])
        stored = await self.ledger.seal(
            sealed, known.parent, session=known.session, by="x", at=self.world.now()
        )
        version = None
        if known.session is not None:
            version = self.model.sessions[known.session].find_advance(known.turn.id)
        found = (stored.turn, stored.version, stored.repeated)
        self.expect("a known turn", found, (known.turn.id, version, True))

    async def seal_loose(self) -> None:
        """Store a turn after any other, with no session pointing at it."""
        parent = self.chance.choice([None, *self.turns])
        at = self.world.now()
        header = Header(TurnId(self.world.new_id()), self.digest(parent), BY, at, at)
        sealed = seal(header, [user("loose")], [assistant("end")])
        stored = await self.ledger.seal(sealed, parent, by="x", at=at)
        depth = len(self.model.thread(parent)) + 1
        self.expect("a loose turn", (stored.depth, stored.version), (depth, None))
        self.keep(Known(sealed.turn, parent, None), ())

    async def seal_misplaced(self) -> None:
        """Hand in a turn that was built on another parent, or on none: refused."""
        parent, built_on = self.chance.choice(self.turns), self.chance.choice([None, *self.turns])
        if parent != built_on:
            at = self.world.now()
            header = Header(TurnId(self.world.new_id()), self.digest(built_on), BY, at, at)
            sealed = seal(header, [user("stray")], [assistant("no")])
            await self.refuse(InvalidOperation, self.ledger.seal(sealed, parent, by="x", at=at))

    async def rewind(self) -> None:
        """Move a session to an ancestor, or be refused."""
        id, session = self.session()
        thread = self.model.thread(session.head)
        # Mostly a few turns back, as people do: forks below forks below forks come of it.
        near = thread[-4:] if self.chance.random() < 0.8 else thread
        target = self.chance.choice(near or self.turns)
        if self.chance.random() < 0.2:
            target = self.any_turn()
        if target in thread[:-1]:
            await self._move(id, "rewind", target, target)
        else:
            await self.refuse(InvalidOperation, self._ask(id, "rewind", target))

    async def replay(self) -> None:
        """Move a session to any turn."""
        target = self.any_turn()
        await self._move(self.session()[0], "reset", target, target)

    async def undo(self) -> None:
        """Take a move back, or be refused."""
        id, session = self.session()
        if session.undoable:
            await self._move(id, "undo", None, session.undoable[-1].before)
        else:
            await self.refuse(InvalidOperation, self._ask(id, "undo", None))

    async def move_blindly(self) -> None:
        """Expect a head that the session has not: refused, and nothing happens."""
        id, session = self.session()
        wrong = self.chance.choice(self.turns)
        if wrong != session.head:
            move = self.sessions.move(
                id, "reset", wrong, by="x", at=self.world.now(), expected_head=wrong,
                check_head=True,
            )  # fmt: skip
            await self.refuse(Conflict, move)

    async def name(self) -> None:
        """Rename a session, promote it or give it an alias; the name may be taken."""
        id, session = self.session()
        name = self.chance.choice([self.word("name"), *self.model.names][-8:])
        as_label = self.chance.random() < 0.6
        reason = self.chance.choice(REASONS)
        naming = self.sessions.name(
            id, Label(name), by="x", at=self.world.now(), as_label=as_label, reason=reason
        )
        if self.model.names.get(name, id) != id:
            return await self.refuse(Conflict, naming)
        await naming
        self.model.names[name] = id
        if as_label:
            session.aliases = (session.aliases | {session.label}) - {name}
            session.label = name
        elif name != session.label:
            session.aliases.add(name)
        self.touched.add(id)
        return None

    async def merge(self) -> None:
        """Let every name of one session lead to another."""
        (id, session), (other, gone) = self.session(), self.session()
        kept = Label(self.word("kept"))
        merging = self.sessions.merge(id, other, kept, by="x", at=self.world.now())
        if id == other:
            return await self.refuse(InvalidOperation, merging)
        await merging
        moved = gone.aliases | {gone.label}
        session.aliases |= moved
        self.model.names.update(dict.fromkeys(moved, id))
        gone.label, gone.aliases, gone.status = kept, set(), "archived"
        self.model.names[kept] = other
        self.touched.update((id, other))
        return None

    async def set_status(self) -> None:
        """Archive a session, or bring it back."""
        id, session = self.session()
        session.status = self.chance.choice(STATUSES)
        await self.sessions.set_status(id, session.status, by="x", at=self.world.now())
        self.touched.add(id)

    async def tag(self) -> None:
        """Put a tag on a turn or take it off."""
        pair = (self.chance.choice(self.turns[-20:]), self.chance.choice(TAGS))
        on = self.chance.random() < 0.6
        marks = Tags(self.database)
        changed = await marks.set_tag(*pair, on=on, by="x", at=self.world.now())
        self.expect("a tag", changed, (pair in self.model.tags) != on)
        (self.model.tags.add if on else self.model.tags.discard)(pair)

    async def _begin(self, head: TurnId | None) -> None:
        if len(self.model.sessions) >= self.sessions_max:
            return await self.replay()
        id, at = SessionId(self.world.new_id()), self.world.now()
        taken = self.chance.random() < 0.1 and self.model.names
        label = self.chance.choice(list(self.model.names)) if taken else self.word("session")
        key = self.word("key") if self.chance.random() < 0.3 else None
        beginning = self.sessions.create(id, Label(label), by="x", at=at, head=head, key=key)
        if taken:
            return await self.refuse(Conflict, beginning)
        moved = await beginning
        self.expect("a new session", (moved.version, moved.head, moved.repeated), (1, head, False))
        self.model.sessions[id] = session = ModelSession(label)
        self.model.names[label] = id
        self.log(id, session, "create" if head is None else "fork", head, at, key)
        return None

    async def _append(self, key: str | None) -> None:
        id, session = self.session()
        parent = session.head
        self.minted += 1
        calls = self.calls()
        placed = await self.recorder(id, session).record(
            [user(f"question {self.minted}")], [assistant(f"answer {self.minted}")],
            key=key, calls=calls,
        )  # fmt: skip
        self.expect("the parent of a new turn", placed.parent, parent)
        self.expect("its depth", placed.depth, len(self.model.thread(parent)) + 1)
        self.keep(Known(placed.turn, parent, id), calls)
        self.log(id, session, "advance", placed.turn.id, placed.turn.header.sealed_at, key)

    async def _ask(self, id: SessionId, kind: MoveKind, target: TurnId | None) -> object:
        return await self.sessions.move(id, kind, target, by="x", at=self.world.now())

    async def _move(
        self, id: SessionId, kind: MoveKind, target: TurnId | None, lands: TurnId | None
    ) -> None:
        session, at = self.model.sessions[id], self.world.now()
        key = self.word("key") if self.chance.random() < 0.3 else None
        checked = self.chance.random() < 0.5
        moved = await self.sessions.move(
            id, kind, target, by="x", at=at, key=key, check_head=checked,
            expected_head=session.head if checked else None,
        )  # fmt: skip
        found = (moved.version, moved.before, moved.head, moved.repeated)
        self.expect(f"a {kind}", found, (session.version + 1, session.head, lands, False))
        self.log(id, session, kind, lands, at, key)


_CHANCES: Sequence[tuple[Callable[[Walker], Any], int]] = (
    (Walker.append, 34),
    (Walker.append_under_key, 8),
    (Walker.append_strictly, 3),
    (Walker.ask_again, 5),
    (Walker.seal_again, 4),
    (Walker.seal_loose, 3),
    (Walker.seal_misplaced, 1),
    (Walker.create, 2),
    (Walker.fork, 8),
    (Walker.rewind, 9),
    (Walker.replay, 5),
    (Walker.undo, 7),
    (Walker.move_blindly, 2),
    (Walker.name, 4),
    (Walker.merge, 1),
    (Walker.set_status, 2),
    (Walker.tag, 3),
)
_STEPS = [step for step, _ in _CHANCES]
_WEIGHTS = [weight for _, weight in _CHANCES]
