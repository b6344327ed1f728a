"""The ledger as it should be: dictionaries and lists, with none of the store's cleverness.

Knows the domain's words. Must never know segments, skip pointers, SQL or a clock: it is right
because it is too simple to be wrong, and slow enough to stay small.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from turntree.core.ids import SessionId, Timestamp, TurnId
from turntree.core.session import MoveKind, SessionStatus
from turntree.core.usage import ModelCall, Usage


@dataclass(frozen=True, slots=True)
class ModelMove:
    """One entry of a reflog."""

    kind: MoveKind
    before: TurnId | None
    after: TurnId | None
    at: Timestamp


@dataclass(slots=True)
class ModelSession:
    """A pointer, everything it was called and everywhere it stood."""

    label: str
    aliases: set[str] = field(default_factory=set[str])
    status: SessionStatus = "active"
    moves: list[ModelMove] = field(default_factory=list[ModelMove])
    undoable: list[ModelMove] = field(default_factory=list[ModelMove])
    """Moves that were not taken back yet."""

    @property
    def head(self) -> TurnId | None:
        """Where it stands."""
        return self.moves[-1].after

    @property
    def version(self) -> int:
        """How often it moved."""
        return len(self.moves)

    def move(self, kind: MoveKind, after: TurnId | None, at: Timestamp) -> None:
        """Move it, whatever anybody thinks of that."""
        move = ModelMove(kind, self.moves[-1].after if self.moves else None, after, at)
        self.moves.append(move)
        if kind == "undo":
            self.undoable.pop()
        elif kind not in ("create", "fork"):
            self.undoable.append(move)

    def find_advance(self, turn: TurnId) -> int | None:
        """Return the newest version at which a turn became the head by being appended."""
        versions = [
            version
            for version, move in enumerate(self.moves, start=1)
            if move.kind == "advance" and move.after == turn
        ]
        return versions[-1] if versions else None


@dataclass(slots=True)
class Model:
    """A workspace."""

    parents: dict[TurnId, TurnId | None] = field(default_factory=dict[TurnId, TurnId | None])
    calls: dict[TurnId, tuple[ModelCall, ...]] = field(
        default_factory=dict[TurnId, tuple[ModelCall, ...]]
    )
    tags: set[tuple[TurnId, str]] = field(default_factory=set[tuple[TurnId, str]])
    sessions: dict[SessionId, ModelSession] = field(default_factory=dict[SessionId, ModelSession])
    names: dict[str, SessionId] = field(default_factory=dict[str, SessionId])

    def thread(self, turn: TurnId | None) -> list[TurnId]:
        """Return the turns from the root to a turn."""
        path: list[TurnId] = []
        while turn is not None:
            path.append(turn)
            turn = self.parents[turn]
        return path[::-1]

    def children(self, turn: TurnId) -> list[TurnId]:
        """Return the turns right below a turn."""
        return sorted(child for child, parent in self.parents.items() if parent == turn)

    def leaves(self) -> list[TurnId]:
        """Return the turns with nothing below them."""
        return sorted(set(self.parents) - set(self.parents.values()))

    def common_ancestor(self, left: TurnId, right: TurnId) -> TurnId | None:
        """Return the deepest turn of both threads."""
        shared = [a for a, b in zip(self.thread(left), self.thread(right), strict=False) if a == b]
        return shared[-1] if shared else None

    def holding(self, turn: TurnId) -> list[SessionId]:
        """Return the sessions whose thread ever held a turn."""
        below: set[TurnId | None] = {turn}
        for child, parent in self.parents.items():  # Parents were stored before children.
            if parent in below:
                below.add(child)
        return sorted(
            id
            for id, session in self.sessions.items()
            if any(move.after in below for move in session.moves)
        )

    def usage(self, heads: Iterable[TurnId]) -> tuple[Usage, int]:
        """Return what some threads used, each call once."""
        distinct: dict[str, Usage] = {}
        for turn in {turn for head in heads for turn in self.thread(head)}:
            for place, call in enumerate(self.calls[turn]):
                distinct[call.call_id or f"{turn}/{place}"] = call.usage
        return sum(distinct.values(), Usage()), len(distinct)
