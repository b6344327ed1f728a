"""Approvals on PostgreSQL: requests that wait, answers, and the one use of what was allowed.

A decision runs in a transaction of the engine, so that it and the wake-up of the session commit
together.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson

from turntree.core.canonical import Json, canonical, digest_bytes, digest_from_raw, digest_raw
from turntree.core.errors import NotFound, PermissionDenied
from turntree.core.ids import Digest, RunId, SessionId, Timestamp, WorkspaceId
from turntree.core.value import value
from turntree.db.database import Database, Row, as_uuid, fetch
from turntree.db.sql import load_statements
from turntree.ledger.session_store import as_instant
from turntree.policy.approval import Approval, Decided, ForeignCall
from turntree.runs.engine import Engine

SQL = load_statements(__file__)


@value
class ApprovalStore:
    """The approvals of a workspace that its viewer may see."""

    database: Database
    engine: Engine

    async def list_page(
        self,
        *,
        session: SessionId | None,
        answerer: str | None,
        everything: bool,
        after: str | None,
        limit: int,
    ) -> list[Approval]:
        """Return those that wait, oldest first; or all, newest first."""
        rows = await self.database.fetch(
            SQL["list_all_approvals" if everything else "list_approvals"],
            session=as_uuid(session), answerer=answerer, after=as_uuid(after), limit=limit,
        )  # fmt: skip
        return [_approval(row) for row in rows]

    async def get(self, id: str) -> Approval:
        """Return an approval.

        Raises:
            NotFound: There is none of this id, or it is hidden.
        """
        rows = await self.database.fetch(SQL["find_approvals"], id=as_uuid(id), run=None)
        if not rows:
            raise NotFound(f"there is no request {id[:80]!r}")
        return _approval(rows[0])

    async def of_run(self, run: RunId) -> dict[str, Approval]:
        """Return the newest approval of each call of a run."""
        rows = await self.database.fetch(SQL["find_approvals"], id=None, run=as_uuid(run))
        return {str(one.call_id): one for one in map(_approval, rows)}

    async def count_waiting(self, answerer: str) -> int:
        """Return how many requests wait for a person."""
        row = await self.database.fetch_one(SQL["count_waiting"], answerer=answerer)
        return 0 if row is None else int(row[0])

    async def default_answerers(self, session: SessionId, person: str) -> tuple[str, ...]:
        """Return who answers for a session without names of a policy, in a run for a person."""
        row = await self.database.fetch_one(
            SQL["default_answerers"], session=as_uuid(session), person=person
        )
        return () if row is None else tuple(row[0])

    async def decide(
        self,
        id: str,
        decision: Decided,
        *,
        by: str,
        at: Timestamp,
        answer: Json = None,
        note: str | None = None,
    ) -> None:
        """Decide about a request, once, and wake what waited for it.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The principal is not asked, or does not act directly.
            InvalidOperation: It was answered already, has expired, or the answer does not fit.
        """
        document = None if answer is None else canonical(answer)
        digest = None if decision != "edited" else digest_raw(digest_bytes(document or b""))
        await self._waking(
            SQL["decide_approval"], id=UUID(id), by=by, decision=decision, digest=digest, note=note,
            answer=None if document is None else document.decode(), at=at,
        )  # fmt: skip

    async def reject_waiting(
        self, session: SessionId, *, by: str, note: str | None, at: Timestamp
    ) -> int:
        """Reject what a session's run waits for and end the run; return how many there were.

        Raises:
            PermissionDenied: The principal is not asked about one of them.
        """
        row = await self._waking(
            SQL["reject_waiting"], session=as_uuid(session), by=by, note=note, at=at
        )
        return int(row[0])

    async def request_foreign(
        self, id: str, call: ForeignCall, *, by: str, expires_at: Timestamp, at: Timestamp
    ) -> str:
        """Ask about a call of another coding agent; return the id of the request."""
        args = canonical(dict(call.args))
        row: dict[str, Json] = {
            "id": id, "origin": call.origin, "tool": call.tool, "key": call.key,
            "args_digest": digest_bytes(args), "call_id": call.call_id, "session": call.session,
            "folder": call.folder, "policy": call.policy, "line": call.line, "reason": call.reason,
            "answerers": [*call.answerers], "requested_by": by, "expires_at": expires_at,
        }  # fmt: skip
        found = await self.database.fetch_one(
            SQL["request_foreign"], row=canonical(row).decode(), args=args.decode(), at=at
        )
        assert found is not None, "the function returns one row or raises"
        return str(found[0])

    async def use_foreign(self, id: str, args_digest: Digest, *, at: Timestamp) -> bool:
        """Use what was allowed, once, for a call with exactly these arguments."""
        row = await self.database.fetch_one(
            SQL["use_foreign"], id=UUID(id), digest=digest_raw(args_digest), at=at
        )
        return row is not None and bool(row[0])

    async def list_workspaces_due(self, *, at: Timestamp) -> list[WorkspaceId]:
        """Return the workspaces in which an approval has to be looked at."""
        rows = await self.database.fetch(SQL["workspaces_with_due_approvals"], at=at)
        return [WorkspaceId(id) for (id,) in rows]

    async def list_due(self, *, at: Timestamp, limit: int) -> list[str]:
        """Return the approvals of the workspace that have to be looked at."""
        return [id for (id,) in await self.database.fetch(SQL["list_due"], at=at, limit=limit)]

    async def attend(self, id: str, *, at: Timestamp) -> str | None:
        """Remind of an approval, escalate or expire it; return what was done, or None."""
        row = await self._waking(SQL["attend_approval"], id=UUID(id), at=at)
        done: str | None = row[0]
        return done

    async def _waking(self, query: bytes, /, **params: Any) -> Row:
        """Run a statement that returns a session last but one, and the wake-up to schedule last."""
        try:
            async with self.engine.transaction() as transaction:
                async with self.database.borrow(transaction.driver) as connection:
                    (row,) = await fetch(
                        connection, query, workspace=self.database.workspace, **params
                    )
                if row[-1] is not None:
                    await transaction.wake(SessionId(row[-2]), row[-1])
        except (PermissionDenied, NotFound) as error:
            # After the transaction, which the error rolls back.
            await self.database.note_denial(error)
            raise
        return row


def _approval(row: Sequence[Any]) -> Approval:
    (
        id, kind, state, tool, origin, args, args_digest, reason, requested_by, answerers, created,
        expires, run, session, label, call_id, folder, policy, line, question, decided_by,
        decided_at, note, answer, allowed, used_at,
    ) = row  # fmt: skip
    return Approval(
        id, kind, state, tool, origin, None if args is None else orjson.loads(args),
        digest_from_raw(bytes(args_digest)), reason, requested_by, tuple(answerers),
        as_instant(created), as_instant(expires), run, session, label, call_id, folder,
        _digest(policy), line, None if question is None else orjson.loads(question), decided_by,
        None if decided_at is None else as_instant(decided_at), note,
        None if answer is None else orjson.loads(answer), _digest(allowed),
        None if used_at is None else as_instant(used_at),
    )  # fmt: skip


def _digest(raw: bytes | None) -> Digest | None:
    return None if raw is None else digest_from_raw(bytes(raw))
