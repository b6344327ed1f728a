"""``tree.approvals``: what waits to be decided by a person, and their answers.

Only a person who is asked and acts directly can answer: not an agent, not a token that was
delegated, not a schedule and not a webhook. The database decides, once.
"""

from collections.abc import Mapping
from typing import Final

import anyio

from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.member import APPROVE
from turntree.auth.member_store import MemberStore
from turntree.auth.members import require_action
from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.errors import Ambiguous, InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Digest, RunId, derived_id, unix_ms
from turntree.core.value import Facet, value
from turntree.ledger.sessions import Sessions
from turntree.policy.approval import (
    EXPIRES_S,
    NOTE_CHARS_MAX,
    Approval,
    Decided,
    ForeignCall,
    expiry_after,
    find_request,
)
from turntree.runs.approving.approval_store import ApprovalStore

PAGE: Final = 100
WAITING_READ_MAX: Final = 10_000
"""Requests among which the beginning of an id is looked up."""
OVER_READ_MAX: Final = 1_000
"""Requests among which one is looked up that does not wait any more, the newest."""
LOOK_S: Final = 0.5
"""How often the database is asked whether a request was decided."""


@value
class Approvals(Facet):
    """``tree.approvals``: requests to people, and answers."""

    store: ApprovalStore
    members: MemberStore
    sessions: Sessions
    world: Clock
    own: ExecutionContext
    expires_s: int = EXPIRES_S
    """How long a request of another coding agent waits."""

    async def list_waiting(
        self,
        *,
        session: str | None = None,
        mine: bool = False,
        after: str | None = None,
        limit: int = PAGE,
    ) -> list[Approval]:
        """Return the requests that wait, oldest first.

        ``mine`` leaves out those that the acting person may not answer. ``after`` is the id of the
        last one of the page before.

        Raises:
            NotFound: No such session.
        """
        return await self._list(session, mine=mine, everything=False, after=after, limit=limit)

    async def list_all(
        self,
        *,
        session: str | None = None,
        mine: bool = False,
        after: str | None = None,
        limit: int = PAGE,
    ) -> list[Approval]:
        """Return all requests, newest first, with those that were decided.

        Raises:
            NotFound: No such session.
        """
        return await self._list(session, mine=mine, everything=True, after=after, limit=limit)

    async def get(self, id: str) -> Approval:
        """Return a request by its id.

        Raises:
            NotFound: There is none of this id, or it is hidden.
        """
        return await self.store.get(id)

    async def find(self, start: str | None = None) -> Approval:
        """Return the waiting request that the beginning or the end of an id names.

        None names the only one that the acting person may answer.

        Raises:
            NotFound: There is none.
            InvalidOperation: It does not wait any more; the message says who answered and when.
            Ambiguous: Several could be meant.
        """
        waiting = await self.list_waiting(mine=start is None, limit=WAITING_READ_MAX)
        try:
            return find_request(start, waiting)
        except Ambiguous:
            raise
        except NotFound:
            over = [] if start is None else await self.list_all(limit=OVER_READ_MAX)
            return find_request(start, (), over)

    async def of_run(self, run: RunId) -> dict[str, Approval]:
        """Return the newest request about each call of a run."""
        return await self.store.of_run(run)

    async def count_waiting(self) -> int:
        """Return how many requests wait for the acting person."""
        person = self._person
        return 0 if person is None else await self.store.count_waiting(person)

    async def approve(self, id: str, *, note: str | None = None) -> Approval:
        """Allow a call with its arguments, once, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The acting principal is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a question.
        """
        return await self._decide(id, "approved", note=note)

    async def edit(self, id: str, args: Mapping[str, Json], *, note: str | None = None) -> Approval:
        """Allow a call with other arguments, once, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The acting principal is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a question.
        """
        return await self._decide(id, "edited", answer=dict(args), note=note)

    async def reject(self, id: str, *, note: str | None = None) -> Approval:
        """Refuse a call or a question; the model reads the note. Returns the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The acting principal is not a person who is asked.
            InvalidOperation: It was answered already, or has expired.
        """
        return await self._decide(id, "rejected", note=note)

    async def answer(self, id: str, answer: Json, *, note: str | None = None) -> Approval:
        """Answer a question, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The acting principal is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a call.
        """
        if answer is None:
            raise InvalidOperation("an answer is a JSON value other than null")
        return await self._decide(id, "answered", answer=answer, note=note)

    async def reject_waiting(self, session: str, *, note: str | None = None) -> int:
        """Reject what a session's run waits for, and end that run; return how many there were.

        Nothing happens where no run waits.

        Raises:
            NotFound: No such session.
            PermissionDenied: The acting principal is not asked about one of them.
        """
        target = await self.sessions.get(session)
        by = await self._require_person()
        return await self.store.reject_waiting(
            target.id, by=by, note=_check_note(note), at=self.world.now()
        )

    async def request_foreign(self, call: ForeignCall, *, expires_s: int | None = None) -> Approval:
        """Ask about a call that another coding agent wants to make, and return the request.

        The same key returns the same request for as long as it waits, or is allowed and unused. The
        same id always does.

        Raises:
            PermissionDenied: The acting principal was removed from the workspace.
        """
        at, by = call.at or self.world.now(), str(self._acting.principal)
        expires = expiry_after(at, self.expires_s if expires_s is None else expires_s)
        id = call.id or derived_id(unix_ms(at), "approval", self.world.nonce())
        found = await self.store.request_foreign(id, call, by=by, expires_at=expires, at=at)
        return await self.store.get(found)

    async def use_foreign(self, id: str, args_digest: Digest) -> bool:
        """Use what was allowed, once; return whether a call with these arguments may be made.

        The arguments are those that were asked about, or those that a person put in their place.
        """
        return await self.store.use_foreign(id, args_digest, at=self.world.now())

    async def wait(self, id: str, *, timeout_s: float | None = None) -> Approval:
        """Return a request once it does not wait any more.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            TimeoutError: It took longer than that.
        """
        with anyio.fail_after(timeout_s):
            while True:
                found = await self.store.get(id)
                if found.verdict_at(self.world.now()) != "pending":
                    return found
                await anyio.sleep(LOOK_S)

    async def _list(
        self, session: str | None, *, mine: bool, everything: bool, after: str | None, limit: int
    ) -> list[Approval]:
        if mine and self._person is None:
            return []
        target = None if session is None else (await self.sessions.get(session)).id
        return await self.store.list_page(
            session=target, answerer=self._person if mine else None, everything=everything,
            after=after, limit=limit,
        )  # fmt: skip

    async def _decide(
        self, id: str, decision: Decided, *, answer: Json = None, note: str | None = None
    ) -> Approval:
        by = await self._require_person()
        await self.store.decide(
            id, decision, by=by, at=self.world.now(), answer=answer, note=_check_note(note)
        )
        return await self.store.get(id)

    async def _require_person(self) -> str:
        by = await require_action(self.members, APPROVE, self.own)
        if self._person is None:
            raise PermissionDenied(f"only a person who acts directly can answer, not {by}")
        return by

    @property
    def _acting(self) -> ExecutionContext:
        return find_current() or self.own

    @property
    def _person(self) -> str | None:
        principal = self._acting.principal
        is_person = principal.kind == "human" and principal.on_behalf_of is None
        return str(principal) if is_person else None


def _check_note(note: str | None) -> str | None:
    if note is not None and len(note) > NOTE_CHARS_MAX:
        raise InvalidOperation(f"a note has at most {NOTE_CHARS_MAX} characters, not {len(note)}")
    return note or None
