"""Approvals over HTTP: what waits to be decided by a person, and their answers."""

from collections.abc import Mapping

from turntree.client.connection import HttpConnection
from turntree.core.canonical import Json
from turntree.core.value import Facet, value
from turntree.wire.approvals import ApprovalDocument, ApprovalPage, RejectedRequests


@value
class ApprovalsApi(Facet):
    """The facet ``client.approvals``."""

    http: HttpConnection

    async def list_waiting(
        self,
        *,
        session: str | None = None,
        mine: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> ApprovalPage:
        """Return the requests that wait, oldest first.

        ``mine`` leaves out those that the caller may not answer.
        """
        query = {"session": session, "mine": mine, "after": after, "limit": limit}
        return await self.http.get("/approvals", ApprovalPage, query)

    async def list_all(
        self,
        *,
        session: str | None = None,
        mine: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> ApprovalPage:
        """Return all requests, newest first, with those that were decided."""
        query = {
            "everything": True, "session": session, "mine": mine, "after": after, "limit": limit,
        }  # fmt: skip
        return await self.http.get("/approvals", ApprovalPage, query)

    async def get(self, id: str) -> ApprovalDocument:
        """Return a request by its id.

        Raises:
            NotFound: There is none of this id, or it is hidden.
        """
        return await self.http.get("/approvals/{approval}", ApprovalDocument, approval=id)

    async def approve(self, id: str, *, note: str | None = None) -> ApprovalDocument:
        """Allow a call with its arguments, once, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The caller is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a question.
        """
        return await self.http.post(
            "/approvals/{approval}/approve", ApprovalDocument, {"note": note}, approval=id
        )

    async def reject(self, id: str, *, note: str | None = None) -> ApprovalDocument:
        """Refuse a call or a question; the model reads the note. Returns the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The caller is not a person who is asked.
            InvalidOperation: It was answered already, or has expired.
        """
        return await self.http.post(
            "/approvals/{approval}/reject", ApprovalDocument, {"note": note}, approval=id
        )

    async def edit(
        self, id: str, args: Mapping[str, Json], *, note: str | None = None
    ) -> ApprovalDocument:
        """Allow a call with other arguments, once, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The caller is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a question.
        """
        return await self.http.post(
            "/approvals/{approval}/edit",
            ApprovalDocument,
            {"args": dict(args), "note": note},
            approval=id,
        )

    async def answer(self, id: str, answer: Json, *, note: str | None = None) -> ApprovalDocument:
        """Answer a question, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The caller is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a call.
        """
        return await self.http.post(
            "/approvals/{approval}/answer",
            ApprovalDocument,
            {"answer": answer, "note": note},
            approval=id,
        )

    async def reject_waiting(self, session: str, *, note: str | None = None) -> int:
        """Reject what a session's run waits for, and end that run; return how many there were.

        Raises:
            NotFound: No such session.
            PermissionDenied: The caller is not asked about one of them.
        """
        done = await self.http.post(
            "/sessions/{session}/reject-waiting", RejectedRequests, {"note": note}, session=session
        )
        return done.rejected
