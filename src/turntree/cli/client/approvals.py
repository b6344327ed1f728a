"""Requests over a server, with the verbs and the values that the commands know."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from turntree.cli.client.dispatch import choose_hint
from turntree.cli.client.opened import on_server
from turntree.cli.command import Terminal
from turntree.client.approvals import ApprovalsApi
from turntree.core.canonical import Json
from turntree.core.errors import Ambiguous, NotFound, TurntreeError
from turntree.core.ids import Digest, RunId, SessionId, Timestamp
from turntree.core.value import value
from turntree.policy.approval import Approval, ApprovalKind, ApprovalState, find_request
from turntree.wire.approvals import ApprovalDocument

T = TypeVar("T")
WAITING_READ_MAX = 1_000
"""Requests among which the beginning of an id is looked up."""


@value
class ServedApprovals:
    """What ``tree.approvals`` does, done by a server."""

    api: ApprovalsApi

    async def list_waiting(
        self, *, session: str | None = None, mine: bool = False, limit: int = 100
    ) -> list[Approval]:
        """Return the requests that wait."""
        page = await self.api.list_waiting(session=session, mine=mine, limit=limit)
        return [read_approval(one) for one in page.approvals]

    async def list_all(
        self, *, session: str | None = None, mine: bool = False, limit: int = 100
    ) -> list[Approval]:
        """Return all requests."""
        page = await self.api.list_all(session=session, mine=mine, limit=limit)
        return [read_approval(one) for one in page.approvals]

    async def find(self, start: str | None = None) -> Approval:
        """Return the request that the beginning or the end of an id names."""
        waiting = await self.list_waiting(mine=start is None, limit=WAITING_READ_MAX)
        try:
            return find_request(start, waiting)
        except Ambiguous:
            raise
        except NotFound:
            over = [] if start is None else await self.list_all(limit=WAITING_READ_MAX)
            return find_request(start, (), over)

    async def approve(self, id: str, *, note: str | None = None) -> Approval:
        """Allow a call, once."""
        return read_approval(await self.api.approve(id, note=note))

    async def reject(self, id: str, *, note: str | None = None) -> Approval:
        """Refuse a call or a question."""
        return read_approval(await self.api.reject(id, note=note))

    async def edit(self, id: str, args: Mapping[str, Json], *, note: str | None = None) -> Approval:
        """Allow a call with other arguments, once."""
        return read_approval(await self.api.edit(id, args, note=note))

    async def answer(self, id: str, answer: Json, *, note: str | None = None) -> Approval:
        """Answer a question."""
        return read_approval(await self.api.answer(id, answer, note=note))


def call_served_requests(terminal: Terminal, act: Callable[[Any, Timestamp], Awaitable[T]]) -> T:
    """Run one call on the requests of the server of a command."""
    try:
        return on_server(
            terminal, lambda opened: act(ServedApprovals(opened.client.approvals), opened.now)
        )
    except TurntreeError as error:
        error.hint = choose_hint(error, terminal)
        raise


def read_approval(document: ApprovalDocument) -> Approval:
    """Return the request that a document describes."""
    return Approval(
        document.id, cast("ApprovalKind", document.kind), cast("ApprovalState", document.state),
        document.tool, document.origin, document.args, Digest(document.args_digest),
        document.reason, document.requested_by, document.answerers,
        Timestamp(document.created_at), Timestamp(document.expires_at),
        None if document.run is None else RunId(document.run),
        None if document.session is None else SessionId(document.session), document.label,
        document.call_id, document.folder,
        None if document.policy is None else Digest(document.policy), document.line,
        document.question, document.decided_by,
        None if document.decided_at is None else Timestamp(document.decided_at), document.note,
        document.answer,
        None if document.allowed_digest is None else Digest(document.allowed_digest),
        None if document.used_at is None else Timestamp(document.used_at),
    )  # fmt: skip
