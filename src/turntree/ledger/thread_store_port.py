"""Protocols for reading the tree: threads, relations between turns, addresses, usage."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import Digest, SessionId, TurnId
from turntree.core.thread import ThreadTurn
from turntree.core.usage import ModelCall, Usage


class Threads(Protocol):
    """Threads and the structure of the tree."""

    async def get_turn(self, turn: TurnId) -> ThreadTurn:
        """Return a turn and its position.

        Raises:
            NotFound: No such turn.
        """
        ...

    async def list_range(
        self, head: TurnId, *, low: int = 1, high: int = ...
    ) -> tuple[ThreadTurn, ...]:
        """Return the turns of a thread between two depths, root first."""
        ...

    async def find_compaction(self, head: TurnId) -> tuple[int, int | None] | None:
        """Return the depth of the newest compaction of a thread and of the first turn it keeps."""
        ...

    async def find_at_depth(self, head: TurnId, depth: int) -> TurnId | None:
        """Return the turn of a thread at a depth."""
        ...

    async def list_children(self, turn: TurnId) -> list[TurnId]:
        """Return the turns that follow a turn directly, oldest first."""
        ...

    async def list_leaves(self, *, after: str = ..., limit: int = 1000) -> list[TurnId]:
        """Return turns without children, oldest first, in pages."""
        ...

    async def is_ancestor(self, ancestor: TurnId, turn: TurnId) -> bool:
        """Return whether a turn is the same as another or one of its ancestors.

        Raises:
            NotFound: One of them does not exist.
        """
        ...

    async def find_common_ancestor(self, left: TurnId, right: TurnId) -> TurnId | None:
        """Return the deepest turn two threads share, or None if they share none."""
        ...

    async def list_sessions_holding(self, turn: TurnId) -> list[SessionId]:
        """Return all sessions whose thread ever contained a turn."""
        ...


class Index(Protocol):
    """Finds turns by address, words and time, and adds up usage."""

    async def list_newest(self, *, before: str = ..., limit: int = 100) -> list[ThreadTurn]:
        """Return turns, newest first."""
        ...

    async def list_by_digest(self, low: Digest, high: Digest, *, limit: int) -> list[TurnId]:
        """Return the turns whose digests are between two, both included."""
        ...

    async def list_by_id(self, low: str, high: str, *, limit: int) -> list[TurnId]:
        """Return the turns whose ids are between two, both included."""
        ...

    async def find_by_words(self, words: str) -> TurnId | None:
        """Return the newest turn whose text contains some words, ignoring case."""
        ...

    async def list_neighbours(self, digests: Sequence[Digest]) -> dict[Digest, list[Digest]]:
        """Return, for each digest, the nearest ones below and above it."""
        ...

    async def usage_of(self, heads: Sequence[TurnId]) -> tuple[Usage, int]:
        """Return the usage of the threads of some heads, each call counted once, and the number of
        calls.
        """
        ...

    async def list_calls(self, turns_: Sequence[TurnId]) -> dict[TurnId, list[ModelCall]]:
        """Return the model calls of some turns."""
        ...

    async def count(self) -> int:
        """Return the number of turns."""
        ...
