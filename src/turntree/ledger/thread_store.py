"""Reads the tree: threads in pages, relations between turns, usage."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any
from uuid import UUID

import orjson

from turntree.core import turn as turns
from turntree.core.canonical import canonical, digest_from_raw, digest_raw
from turntree.core.errors import NotFound
from turntree.core.ids import Digest, SessionId, TurnId
from turntree.core.thread import ThreadTurn
from turntree.core.usage import ModelCall, Usage
from turntree.core.value import value
from turntree.db.arrays import uuid_array
from turntree.db.database import Database, as_uuid, as_uuids
from turntree.db.sql import load_statements

SQL = load_statements(__file__)

# PostgreSQL's integer, for "down to the root".
DEPTH_MAX = 2**31 - 1
CANDIDATES_PAGE = 20
ID_MAX = "ffffffff-ffff-ffff-ffff-ffffffffffff"
ID_MIN = "00000000-0000-0000-0000-000000000000"


@value
class TurnBranch:
    """A turn that follows another one."""

    turn: TurnId
    label: str | None
    """The session that was there last."""


@value
class TurnProfile:
    """What is known about a turn besides what was sealed."""

    turn: TurnId
    calls: tuple[ModelCall, ...] = ()
    labels: tuple[str, ...] = ()
    """The labels of the sessions whose head it is."""
    tags: tuple[str, ...] = ()
    spawned: Mapping[str, str] = field(default_factory=dict[str, str])
    """The label of the session that each of its tool calls spawned, by the id of the call."""
    has_snapshot: bool = False
    branches: tuple[TurnBranch, ...] = ()
    """The turns that follow it, without those that the caller knows."""


@value
class StoredTurn:
    """A turn as it is stored, neither parsed nor checked."""

    turn: TurnId
    body: str


@value
class ReplyDetails:
    """What a run's journal says about one reply of a model."""

    request_id: str | None
    """The provider's id of the request, if it gave one."""
    latency_ms: int | None
    situation: str | None
    """The overlay of the model that was in force."""


@value
class ThreadSettings:
    """What a run has from its session's beginning, or from the turn that it continues."""

    persona: Mapping[str, Any] | None
    is_chosen: bool
    """Whether the session was created under the persona."""
    prompt: Digest | None
    """The thread's own instructions."""


@value
class ThreadStore:
    """Threads and the structure of the tree."""

    database: Database

    async def find_settings(self, session: SessionId | None, head: TurnId | None) -> ThreadSettings:
        """Return the persona that a session was created under, else what its head ran with."""
        chosen, inherited, prompt = await self.database.fetch_one(
            SQL["find_thread_settings"], session=as_uuid(session), head=as_uuid(head)
        ) or (None, None, None)
        is_chosen = chosen is not None
        return ThreadSettings(chosen if is_chosen else inherited, is_chosen, prompt)

    async def get_turn(self, turn: TurnId) -> ThreadTurn:
        """Return a turn and its position.

        Raises:
            NotFound: No such turn.
        """
        row = await self.database.fetch_one(SQL["find_turn"], turn=UUID(turn))
        if row is None:
            raise NotFound(f"there is no turn {turn}")
        return _placed(row)

    async def find_stored(self, turn: TurnId) -> tuple[Digest, str] | None:
        """Return a turn's digest and its text as stored, without checking either."""
        row = await self.database.fetch_one(SQL["find_turn"], turn=UUID(turn))
        if row is None:
            return None
        digest, header, message_lines, *_ = row
        return digest_from_raw(bytes(digest)), f"{header}\n{message_lines}"

    async def list_stored(self, turns_: Sequence[TurnId]) -> list[StoredTurn]:
        """Return some turns as stored; one that does not exist is left out."""
        rows = await self.database.fetch(SQL["list_turns_of"], turns=as_uuids(turns_))
        # The id is in the header: the statement is that of ``list_turns``.
        return [
            StoredTurn(orjson.loads(header)["id"], f"{header}\n{message_lines}")
            for _, header, message_lines, *_ in rows
        ]

    async def list_range(
        self, head: TurnId, *, low: int = 1, high: int = DEPTH_MAX
    ) -> tuple[ThreadTurn, ...]:
        """Return the turns of a thread between two depths, root first."""
        rows = await self.database.fetch(SQL["thread_page"], head=UUID(head), low=low, high=high)
        return tuple([_placed(row) for row in rows])

    async def find_compaction(self, head: TurnId) -> tuple[int, int | None] | None:
        """Return the depth of the newest compaction of a thread and of the first turn it keeps."""
        row = await self.database.fetch_one(SQL["nearest_compaction"], head=UUID(head))
        return None if row is None else (row[0], row[1])

    async def find_at_depth(self, head: TurnId, depth: int) -> TurnId | None:
        """Return the turn of a thread at a depth."""
        row = await self.database.fetch_one(SQL["turn_at_depth"], head=UUID(head), depth=depth)
        return None if row is None else TurnId(row[0])

    async def list_children(
        self, turn: TurnId, *, after: TurnId | None = None, limit: int | None = None
    ) -> list[TurnId]:
        """Return the turns that follow a turn directly, oldest first: all, or a page of them."""
        rows = await self.database.fetch(
            SQL["list_children"], turn=UUID(turn), after=as_uuid(after), limit=limit
        )
        return [TurnId(id) for (id,) in rows]

    async def list_turns(self, turns_: Sequence[TurnId]) -> tuple[ThreadTurn, ...]:
        """Return some turns in their order; one that does not exist is left out."""
        rows = await self.database.fetch(SQL["list_turns_of"], turns=as_uuids(turns_))
        return tuple([_placed(row) for row in rows])

    async def list_leaves(self, *, after: str = ID_MIN, limit: int = 1000) -> list[TurnId]:
        """Return turns without children, oldest first, in pages."""
        rows = await self.database.fetch(SQL["list_leaves"], after=UUID(after), limit=limit)
        return [TurnId(id) for (id,) in rows]

    async def is_ancestor(self, ancestor: TurnId, turn: TurnId) -> bool:
        """Return whether a turn is the same as another or one of its ancestors.

        Raises:
            NotFound: One of them does not exist.
        """
        row = await self.database.fetch_one(
            SQL["is_ancestor"], ancestor=UUID(ancestor), turn=UUID(turn)
        )
        if row is None or row[0] is None:
            raise NotFound(f"there is no turn {ancestor} or no turn {turn}")
        return bool(row[0])

    async def find_common_ancestor(self, left: TurnId, right: TurnId) -> TurnId | None:
        """Return the deepest turn two threads share, or None if they share none."""
        row = await self.database.fetch_one(
            SQL["common_ancestor"], left=UUID(left), right=UUID(right)
        )
        return None if row is None or row[0] is None else TurnId(row[0])

    async def list_sessions_holding(self, turn: TurnId) -> list[SessionId]:
        """Return all sessions whose thread ever contained a turn."""
        rows = await self.database.fetch(SQL["list_sessions_holding"], turn=UUID(turn))
        return [SessionId(id) for (id,) in rows]


@value
class TurnIndex:
    """Finds turns by address, words and time, and adds up usage."""

    database: Database

    async def list_newest(
        self, *, before: str = ID_MAX, limit: int = 100, archived: bool = True
    ) -> list[ThreadTurn]:
        """Return turns, newest first."""
        rows = await self.database.fetch(
            SQL["list_turns"], before=UUID(before), limit=limit, archived=archived
        )
        return [_placed(row) for row in rows]

    async def list_archived(self, turns: Sequence[TurnId]) -> set[TurnId]:
        """Return those of some turns that are archived, by themselves or with an ancestor."""
        rows = await self.database.fetch(SQL["list_archived_turns"], turns=as_uuids(turns))
        return {TurnId(id) for (id,) in rows}

    async def list_by_digest(self, low: Digest, high: Digest, *, limit: int) -> list[TurnId]:
        """Return the turns whose digests are between two, both included."""
        rows = await self.database.fetch(
            SQL["list_turns_by_digest"], low=digest_raw(low), high=digest_raw(high), limit=limit
        )
        return [TurnId(id) for (id,) in rows]

    async def list_by_id(self, low: str, high: str, *, limit: int) -> list[TurnId]:
        """Return the turns whose ids are between two, both included."""
        rows = await self.database.fetch(
            SQL["list_turns_by_id"], low=UUID(low), high=UUID(high), limit=limit
        )
        return [TurnId(id) for (id,) in rows]

    async def list_by_response(self, response: str, *, limit: int) -> list[TurnId]:
        """Return the turns with a response that its provider gave this id."""
        rows = await self.database.fetch(
            SQL["list_turns_by_response"], response=response, limit=limit
        )
        return [TurnId(id) for (id,) in rows]

    async def find_by_words(self, words: str) -> TurnId | None:
        """Return the newest turn whose text contains some words, ignoring case."""
        sought = words.lower()
        escaped = canonical(sought).decode()[1:-1]
        before = ID_MAX
        while rows := await self.database.fetch(
            SQL["list_turns_by_words"], words=escaped, before=UUID(before), limit=CANDIDATES_PAGE
        ):
            for turn in (_placed(row).turn for row in rows):
                if any(sought in message.text.lower() for message in turn.messages):
                    return turn.id
                before = turn.id
        return None

    async def list_neighbours(self, digests: Sequence[Digest]) -> dict[Digest, list[Digest]]:
        """Return, for each digest, the nearest ones below and above it."""
        rows = await self.database.fetch(
            SQL["adjacent_turns"], digests=[digest_raw(d) for d in digests]
        )
        return {
            digest_from_raw(bytes(of)): [digest_from_raw(bytes(n)) for n in near if n is not None]
            for of, *near in rows
        }

    async def usage_of(self, heads: Sequence[TurnId]) -> tuple[Usage, int]:
        """Return the usage of the threads of some heads, each call counted once, and the number of
        calls.
        """
        row = await self.database.fetch_one(SQL["usage_of_threads"], heads=as_uuids(heads))
        assert row is not None, "an aggregate always has a row"
        *numbers, calls = row
        return Usage(*numbers), calls

    async def list_calls(self, turns_: Sequence[TurnId]) -> dict[TurnId, list[ModelCall]]:
        """Return the model calls of some turns."""
        rows = await self.database.fetch(SQL["list_model_calls"], turns=as_uuids(turns_))
        calls: dict[TurnId, list[ModelCall]] = {}
        for turn, _, model, provider, call_id, *numbers in rows:
            call = ModelCall(model, Usage(*numbers), provider, call_id)
            calls.setdefault(TurnId(turn), []).append(call)
        return calls

    async def list_profiles(
        self, turns_: Sequence[TurnId], known: Sequence[TurnId], *, branches_max: int
    ) -> dict[TurnId, TurnProfile]:
        """Return what is known about some turns besides what was sealed.

        A turn that does not exist is left out. Of the turns that follow each at most
        ``branches_max`` are returned, or one more if none of them is known.
        """
        rows = await self.database.fetch(
            SQL["list_turn_profiles"], turns=uuid_array(turns_), known=uuid_array(known),
            branches=branches_max,
        )  # fmt: skip
        return {one.turn: one for one in (_profile(text) for (text,) in rows)}

    async def find_with_profile(
        self, turn: TurnId, *, branches_max: int
    ) -> tuple[ThreadTurn, TurnProfile] | None:
        """Return a turn, its position and its profile, all by one statement; or None."""
        row = await self.database.fetch_one(
            SQL["find_turn_with_profile"], turn=UUID(turn), branches=branches_max
        )
        if row is None:
            return None
        *placed, profile = row
        return _placed(placed), _profile(profile)

    async def list_replies(self, turns_: Sequence[TurnId]) -> dict[TurnId, list[ReplyDetails]]:
        """Return what the journals of some turns say about each reply of a model, in order."""
        rows = await self.database.fetch(SQL["list_replies"], turns=as_uuids(turns_))
        replies: dict[TurnId, list[ReplyDetails]] = {}
        for turn, *told in rows:
            replies.setdefault(TurnId(turn), []).append(ReplyDetails(*told))
        return replies

    async def count(self) -> int:
        """Return the number of turns."""
        row = await self.database.fetch_one(SQL["count_turns"])
        assert row is not None, "an aggregate always has a row"
        return int(row[0])


def _placed(row: Sequence[Any]) -> ThreadTurn:
    digest, header, message_lines, depth, parent = row
    return ThreadTurn(
        turns.read_lines(header, message_lines, digest_from_raw(bytes(digest))), depth, parent
    )


def _profile(text: str) -> TurnProfile:
    document = orjson.loads(text)
    return TurnProfile(
        TurnId(document["turn"]),
        tuple(
            ModelCall(model, Usage(*numbers), provider, call_id)
            for model, provider, call_id, *numbers in document["calls"] or ()
        ),
        tuple(document["labels"] or ()),
        tuple(document["tags"] or ()),
        dict(document["spawned"] or ()),
        document["has_snapshot"],
        tuple(TurnBranch(TurnId(id), label) for id, label in document["branches"] or ()),
    )
