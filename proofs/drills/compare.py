"""Asks the ledger and the model the same questions.

Knows every reading door of the store. Must never write.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from proofs.drills.model import Model
from turntree.core.ids import SessionId, TurnId
from turntree.core.session import undo_target
from turntree.db.database import Database
from turntree.ledger.session_store import VERSION_MAX, ReflogStore, SessionStore
from turntree.ledger.store import Tags
from turntree.ledger.thread_store import ThreadStore, TurnIndex

PAIRS = 4
CLOSER_LOOKS = 0.3
"""How often a session's parts are read too, and not only the whole of it."""
LEAVES_MAX = 100_000


@dataclass(slots=True)
class Comparer:
    """One look at the ledger."""

    database: Database
    model: Model
    chance: random.Random
    problems: list[str] = field(default_factory=list[str])

    async def compare(self, sessions: Sequence[SessionId], turns: Sequence[TurnId]) -> list[str]:
        """Return how the ledger differs from the model, for some sessions and any turns."""
        for id in sessions:
            await self._session(id)
            await self._reflog(id)
        for _ in range(PAIRS if turns else 0):
            await self._pair(self.chance.choice(turns), self.chance.choice(turns))
        await self._whole()
        return self.problems

    async def _session(self, id: SessionId) -> None:
        wanted = self.model.sessions[id]
        found = await SessionStore(self.database).get(id)
        thread = self.model.thread(wanted.head)
        self._same(
            f"session {wanted.label}",
            (found.label, found.head, found.version, found.status, found.depth, found.aliases),
            (
                wanted.label, wanted.head, wanted.version, wanted.status, len(thread),
                tuple(sorted(wanted.aliases)),
            ),
        )  # fmt: skip
        if wanted.head is not None:
            await self._thread(wanted.head, thread)

    async def _thread(self, head: TurnId, thread: list[TurnId]) -> None:
        threads = ThreadStore(self.database)
        read = await threads.list_range(head)
        self._same(f"thread {head}", [placed.turn.id for placed in read], thread)
        self._same(
            f"places of {head}",
            [(placed.depth, placed.parent) for placed in read],
            list(enumerate([None, *thread[:-1]], start=1)),
        )
        proofs = [None, *(placed.turn.digest for placed in read)]
        self._same(
            f"digests of {head}", [placed.turn.header.parent for placed in read], proofs[:-1]
        )
        if self.chance.random() > CLOSER_LOOKS:
            return
        low = self.chance.randint(1, len(thread))
        high = self.chance.randint(low, len(thread))
        part = await threads.list_range(head, low=low, high=high)
        self._same(f"part of {head}", [placed.turn.id for placed in part], thread[low - 1 : high])
        at = await threads.find_at_depth(head, low)
        self._same(f"depth {low} of {head}", at, thread[low - 1])

    async def _reflog(self, id: SessionId) -> None:
        wanted = self.model.sessions[id]
        reflog = ReflogStore(self.database)
        moves = (await reflog.list_moves(id, limit=VERSION_MAX))[::-1]
        self._same(
            f"reflog of {wanted.label}",
            [(move.version, move.kind, move.before, move.after) for move in moves],
            [
                (version, move.kind, move.before, move.after)
                for version, move in enumerate(wanted.moves, start=1)
            ],
        )
        target = undo_target(moves)
        self._same(
            f"undo of {wanted.label}",
            None if target is None else (target.kind, target.before),
            (wanted.undoable[-1].kind, wanted.undoable[-1].before) if wanted.undoable else None,
        )
        if self.chance.random() > CLOSER_LOOKS:
            return
        version = self.chance.randint(1, wanted.version)
        (at_version,) = await reflog.list_moves(id, before=version + 1, limit=1)
        self._same(f"head at version {version}", at_version.after, wanted.moves[version - 1].after)
        moment = wanted.moves[version - 1].at
        at_moment = await reflog.find_move_at(id, moment)
        latest = [move.after for move in wanted.moves if move.at <= moment][-1]
        self._same(f"head at {moment}", at_moment and at_moment.after, latest)

    async def _pair(self, left: TurnId, right: TurnId) -> None:
        threads = ThreadStore(self.database)
        self._same(
            f"is {left} above {right}",
            await threads.is_ancestor(left, right),
            left in self.model.thread(right),
        )
        self._same(
            f"common ancestor of {left} and {right}",
            await threads.find_common_ancestor(left, right),
            self.model.common_ancestor(left, right),
        )
        self._same(
            f"children of {left}", await threads.list_children(left), self.model.children(left)
        )
        self._same(
            f"sessions holding {left}",
            await threads.list_sessions_holding(left),
            self.model.holding(left),
        )
        heads = [left, right]
        self._same(
            f"usage of {heads}",
            await TurnIndex(self.database).usage_of(heads),
            self.model.usage(heads),
        )

    async def _whole(self) -> None:
        index = TurnIndex(self.database)
        self._same("number of turns", await index.count(), len(self.model.parents))
        leaves = await ThreadStore(self.database).list_leaves(limit=LEAVES_MAX)
        self._same("leaves", leaves, self.model.leaves())
        tags = await Tags(self.database).list_tags()
        self._same("tags", set(tags), self.model.tags)
        if self.model.names:
            name = self.chance.choice(list(self.model.names))
            found = await SessionStore(self.database).find(name)
            self._same(f"name {name}", found and found.id, self.model.names[name])

    def _same(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.problems.append(f"{what}: found {found}, wanted {wanted}")
