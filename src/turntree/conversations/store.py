"""Conversations on PostgreSQL. Must never know what a mention looks like."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson
from psycopg.types.json import Jsonb

from turntree.conversations.conversation import Conversation, MentionOutcome, Participant
from turntree.conversations.post import AGENT_TURNS_MAX, Post, PostDraft, content_of
from turntree.conversations.suggestions import MentionCandidate
from turntree.conversations.triage import (
    ANSWERED_MAX,
    TriageCandidate,
    TriageDecision,
    read_decision,
)
from turntree.core.canonical import digest_from_raw
from turntree.core.ids import ProgramId, RunId, SessionId, Timestamp, TurnId, find_long_id
from turntree.core.value import value
from turntree.db.arrays import int_array, text_array
from turntree.db.database import Connection, Database, Row, as_uuid, fetch
from turntree.db.sql import load_statements

SQL = load_statements(__file__)
SEQ_MAX = 2**31 - 1


@value
class ConversationStore:
    """Conversations, their participants and their posts."""

    database: Database

    async def lock(self, connection: Connection, conversation: ProgramId) -> None:
        """Lock a conversation until the transaction ends, before any session of it is locked.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
        await self._call(connection, SQL["lock_conversation"], conversation=UUID(conversation))

    async def add(self, conversation: ProgramId, principal: str, *, by: str, at: Timestamp) -> bool:
        """Add a participant; False if it takes part already.

        Raises:
            NotFound: There is no such agent or member.
            PermissionDenied: ``by`` does not take part, or may not use the agent.
        """
        row = await self.database.fetch_one(
            SQL["add_participant"], conversation=UUID(conversation), principal=principal, by=by,
            at=at,
        )  # fmt: skip
        assert row is not None, "the function returns one row or raises"
        return bool(row[0])

    async def remove(
        self, conversation: ProgramId, principal: str, *, by: str, at: Timestamp
    ) -> None:
        """Remove a participant.

        Raises:
            NotFound: It does not take part.
            PermissionDenied: ``by`` may not remove it.
            InvalidOperation: It is the creator or a system agent.
        """
        await self.database.run(
            SQL["remove_participant"], conversation=UUID(conversation), principal=principal,
            by=by, at=at,
        )  # fmt: skip

    async def fork(
        self, conversation: ProgramId, parent: ProgramId, seq: int, *, by: str, at: Timestamp
    ) -> None:
        """Make a new conversation a fork of another one, at one of its posts.

        Raises:
            NotFound: There is no such post.
        """
        await self.database.run(
            SQL["fork_conversation"], conversation=UUID(conversation), parent=UUID(parent),
            seq=seq, by=by, at=at,
        )  # fmt: skip

    async def create_post(
        self, connection: Connection, draft: PostDraft, id: str, body: str, *, at: Timestamp
    ) -> tuple[int, PostDraft | None]:
        """Store a post; return its position, and what it follows from: None if it is repeated."""
        seq, repeated, cause, hops = await self._call(
            connection, SQL["create_post"], conversation=UUID(draft.conversation), post=UUID(id),
            body=body, author=draft.author, at=at, key=draft.key, turn=as_uuid(draft.turn),
            cause=draft.cause, hops=draft.hops, charged=draft.charged or draft.author,
        )  # fmt: skip
        return int(seq), None if repeated else replace(draft, cause=cause, hops=hops)

    async def address(
        self,
        connection: Connection,
        conversation: ProgramId,
        seq: int,
        mentions: Sequence[tuple[str, str]],
        *,
        author: str,
        hops: int,
        hops_max: int,
        charged: str,
        tokens_max: int | None,
        at: Timestamp,
    ) -> list[MentionOutcome]:
        """Find what a post's mentions mean, each a kind and an id; bring in absent agents."""
        rows = await fetch(
            connection, SQL["address_participants"], workspace=self.database.workspace,
            conversation=UUID(conversation), seq=seq,
            kinds=text_array([kind for kind, _ in mentions]),
            names=text_array([id for _, id in mentions]),
            ids=text_array([find_long_id(id) for _, id in mentions]),
            author=author, hops=hops, hops_max=hops_max, charged=charged,
            tokens_max=tokens_max, at=at,
        )  # fmt: skip
        return [MentionOutcome(*row) for row in rows]

    async def queue_message(
        self,
        connection: Connection,
        session: SessionId,
        payload: str,
        *,
        by: str,
        at: Timestamp,
        options: Mapping[str, Any],
    ) -> tuple[str, int, int | None]:
        """Queue a message for an agent; return its run, its position, and the wake-up owed."""
        run, seq, wake = await self._call(
            connection, SQL["tell_agent"], session=UUID(session), payload=payload, by=by, at=at,
            options=Jsonb(options),
        )  # fmt: skip
        return str(run), int(seq), wake

    async def record_delivery(
        self,
        connection: Connection,
        conversation: ProgramId,
        delivered: Sequence[tuple[int, int]],
        session: SessionId,
        *,
        until: int,
    ) -> None:
        """Record which message tells an agent of which post, and how far it has been told."""
        await self._call(
            connection, SQL["record_delivery"], conversation=UUID(conversation),
            seqs=int_array([seq for seq, _ in delivered]), session=UUID(session),
            messages=int_array([message for _, message in delivered]), until=until,
        )  # fmt: skip

    async def list_posts(
        self,
        conversation: ProgramId,
        *,
        after: int = 0,
        before: int = SEQ_MAX,
        limit: int,
        connection: Connection | None = None,
    ) -> list[Post]:
        """Return the newest posts between two positions, oldest first."""
        params = {
            "conversation": UUID(conversation),
            "after": after,
            "before": before,
            "limit": limit,
        }
        if connection is None:
            rows = await self.database.fetch(SQL["list_posts"], **params)
        else:
            rows = await fetch(
                connection, SQL["list_posts"], workspace=self.database.workspace, **params
            )
        return [_post(row) for row in reversed(rows)]

    async def list_untold_posts(
        self,
        connection: Connection,
        conversation: ProgramId,
        session: SessionId,
        *,
        after: int,
        before: int,
        limit: int,
    ) -> list[Post]:
        """Return the newest posts between two positions that a session was not told of."""
        rows = await fetch(
            connection, SQL["list_untold_posts"], workspace=self.database.workspace,
            conversation=UUID(conversation), session=UUID(session), after=after, before=before,
            limit=limit,
        )  # fmt: skip
        return [_post(row) for row in reversed(rows)]

    async def list_explanations(
        self, connection: Connection, conversation: ProgramId, *, cause: int
    ) -> list[str]:
        """Return what the system said after a person's post about agents that were not woken."""
        rows = await fetch(
            connection, SQL["list_explanations"], workspace=self.database.workspace,
            conversation=UUID(conversation), cause=cause,
        )  # fmt: skip
        return [content_of(body) or "" for (body,) in rows]

    async def forget_delivery(
        self, connection: Connection, session: SessionId, run: TurnId
    ) -> None:
        """Have an agent told again of what a run was told whose turn its session did not keep."""
        await self._call(connection, SQL["forget_delivery"], session=UUID(session), run=UUID(run))

    async def erase(
        self, conversation: ProgramId, seq: int, *, reason: str, by: str, at: Timestamp
    ) -> bool:
        """Erase a post for good; False if it was erased before.

        Raises:
            NotFound: There is no such post.
            PermissionDenied: ``by`` neither wrote it nor created the conversation.
            Conflict: An agent is being told of it.
        """
        params = {"conversation": UUID(conversation), "seq": seq, "by": by}
        # The eraser sees everything, so check first whether this viewer may erase.
        await self.database.run(SQL["require_post_erasure"], **params)
        async with (
            self.database.acting_as("turntree_eraser") as connection,
            connection.transaction(),
        ):
            (is_new,) = await self._call(
                connection, SQL["erase_post"], **params, reason=reason, at=at
            )
        return bool(is_new)

    async def list_addressed(
        self, connection: Connection, conversation: ProgramId, seq: int
    ) -> list[tuple[str, SessionId, str]]:
        """Return the agents that a post addressed, each with its session and its run."""
        rows = await fetch(
            connection, SQL["list_addressed"], workspace=self.database.workspace,
            conversation=UUID(conversation), seq=seq,
        )  # fmt: skip
        return [(agent, SessionId(session), run) for agent, session, run in rows]

    async def list_pending(self, conversation: ProgramId, cause: int) -> list[RunId]:
        """Return the runs that are still to answer a post, or an answer to it."""
        rows = await self.database.fetch(
            SQL["list_pending"], conversation=UUID(conversation), cause=cause
        )
        return [RunId(run) for (run,) in rows]

    async def list_participants(
        self, conversation: ProgramId, *, all: bool = False, connection: Connection | None = None
    ) -> list[Participant]:
        """Return the participants, in the order in which they came; with ``all``, past ones too."""
        params = {"conversation": UUID(conversation), "all": all}
        if connection is None:
            rows = await self.database.fetch(SQL["list_participants"], **params)
        else:
            rows = await fetch(
                connection, SQL["list_participants"], workspace=self.database.workspace, **params
            )
        return [Participant(*row) for row in rows]

    async def list_names(self, connection: Connection, principals: Sequence[str]) -> dict[str, str]:
        """Return how people and agents are shown, by principal."""
        rows = await fetch(
            connection, SQL["list_names"], workspace=self.database.workspace,
            principals=text_array([*principals]),
        )  # fmt: skip
        return {str(principal): str(name) for principal, name in rows}

    async def list_conversations(
        self, *, by: str, name: str | None = None, archived: bool = False
    ) -> list[Conversation]:
        """Return the conversations that the viewer may read, those with the newest posts first.

        With a name or an id, only that one.
        """
        id = None if name is None else as_uuid(find_long_id(name))
        rows = await self.database.fetch(
            SQL["list_conversations"], by=by, name=name, id=id,
            states=text_array(["active", "archived"] if archived else ["active"]),
            agent_turns_max=AGENT_TURNS_MAX,
        )  # fmt: skip
        return [Conversation(*row) for row in rows]

    async def find_question(self, turn: TurnId) -> tuple[ProgramId, int] | None:
        """Return the conversation and the position of the post that a turn answers, if any."""
        row = await self.database.fetch_one(SQL["find_question"], turn=UUID(turn))
        return None if row is None else (ProgramId(row[0]), int(row[1]))

    async def find_triage_agent(self) -> str | None:
        """Return the agent that decides who answers; None if no conversation has wanted one."""
        row = await self.database.fetch_one(SQL["find_triage_agent"])
        return None if row is None or row[0] is None else str(row[0])

    async def find_triage(
        self, connection: Connection, conversation: ProgramId
    ) -> tuple[bool, str | None]:
        """Return whether a conversation wants a decision, and the agent that makes it."""
        row = await self._call(connection, SQL["find_triage"], conversation=UUID(conversation))
        return bool(row[0]), None if row[1] is None else str(row[1])

    async def open_triage_session(
        self, connection: Connection, conversation: ProgramId, agent: str, *, at: Timestamp
    ) -> tuple[SessionId, int]:
        """Return the session of the agent that decides, and the last post that it was told of."""
        session, told = await self._call(
            connection, SQL["open_triage_session"], conversation=UUID(conversation), agent=agent,
            at=at,
        )  # fmt: skip
        return SessionId(session), int(told)

    async def decide(
        self,
        connection: Connection,
        conversation: ProgramId,
        seq: int,
        decision: TriageDecision,
        *,
        at: Timestamp,
    ) -> bool:
        """Store the decision about a post; False if there is one."""
        (is_new,) = await self._call(
            connection, SQL["decide_post"], conversation=UUID(conversation), seq=seq,
            agents=text_array(decision.agents), reason=decision.reason, method=decision.by,
            turn=as_uuid(decision.turn), at=at,
        )  # fmt: skip
        return bool(is_new)

    async def list_triage_candidates(
        self, conversation: ProgramId, *, author: str, charged: str, connection: Connection
    ) -> list[TriageCandidate]:
        """Return the agents that could answer a post, in the order in which they came."""
        rows = await fetch(
            connection, SQL["list_triage_candidates"], workspace=self.database.workspace,
            conversation=UUID(conversation), author=author, charged=charged, limit=ANSWERED_MAX,
        )  # fmt: skip
        return [
            TriageCandidate(
                agent, name, description,
                tuple(words for body in answered if (words := content_of(body)) is not None),
            )
            for agent, name, description, answered in rows
        ]  # fmt: skip

    async def list_routable(self, run: RunId) -> list[str]:
        """Return the agents that the decision of a run may name."""
        rows = await self.database.fetch(SQL["list_routable"], run=UUID(run))
        return [agent for (agent,) in rows]

    async def tokens_charged(self, connection: Connection, person: str, *, at: Timestamp) -> int:
        """Return how many tokens agents have used for a person on the day of a timestamp."""
        (tokens,) = await self._call(connection, SQL["tokens_charged"], person=person, at=at)
        return int(tokens)

    async def list_candidates(self, conversation: ProgramId, *, by: str) -> list[MentionCandidate]:
        """Return whom a principal could mention in a conversation."""
        rows = await self.database.fetch(
            SQL["list_candidates"], conversation=UUID(conversation), by=by
        )
        return [MentionCandidate(*row) for row in rows]

    async def _call(self, connection: Connection, query: bytes, /, **params: Any) -> Row:
        (row,) = await fetch(connection, query, workspace=self.database.workspace, **params)
        return row


def _post(row: Row) -> Post:
    (
        conversation, seq, id, kind, author, body, digest, at, turn, turn_digest, cause, hops,
        decided, is_pending,
    ) = row  # fmt: skip
    return Post(
        ProgramId(conversation), seq, id, kind, author, content_of(body),
        digest_from_raw(bytes(digest)), at, turn,
        None if turn_digest is None else digest_from_raw(bytes(turn_digest)), cause, hops,
        None if decided is None else read_decision(orjson.loads(decided)), bool(is_pending),
    )  # fmt: skip
