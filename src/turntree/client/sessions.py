"""Sessions over HTTP: list, create, move and name them."""

from collections.abc import AsyncIterator
from typing import Final

from turntree.client.connection import HttpConnection
from turntree.core.session import SessionStatus
from turntree.core.value import Facet, value
from turntree.wire.acts import ActResult
from turntree.wire.sessions import SessionDocument, SessionPage, SessionSummary

PAGE: Final = 200


@value
class SessionsApi(Facet):
    """The facet ``client.sessions``."""

    http: HttpConnection

    async def list_page(
        self,
        *,
        after: str = "",
        limit: int = 50,
        status: SessionStatus | None = "active",
        project: str | None = None,
        agent: str | None = None,
        words: str | None = None,
        figures: bool = True,
    ) -> SessionPage:
        """Return a page of sessions, the one that worked last first.

        ``after`` is the ``next`` of the page before. Without a ``status``, archived sessions are
        listed too. ``figures`` counts tokens and costs, which takes the server longer.
        """
        page = await self.http.get(
            "/sessions", SessionPage,
            {
                "limit": limit, "cursor": after or None, "archived": status != "active",
                "project": project, "agent": agent, "q": words, "figures": figures,
            },
        )  # fmt: skip
        if status != "archived":
            return page
        return SessionPage(tuple(one for one in page.sessions if one.archived), page.next)

    async def list_all(
        self, *, status: SessionStatus | None = "active"
    ) -> AsyncIterator[SessionSummary]:
        """Yield all sessions, the one that worked last first."""
        after: str | None = ""
        while after is not None:
            page = await self.list_page(after=after, limit=PAGE, status=status, figures=False)
            for session in page.sessions:
                yield session
            after = page.next

    async def get(self, name: str) -> SessionDocument:
        """Return the session with a label or an alias.

        Raises:
            NotFound: There is none.
        """
        return await self.http.get("/sessions/{session}", SessionDocument, session=name)

    async def create(self, label: str, *, key: str | None = None) -> SessionDocument:
        """Create a session without turns.

        Raises:
            Conflict: The name is taken.
        """
        return await self.http.post(
            "/sessions", SessionDocument, {"label": label}, idempotency_key=key
        )

    async def fork(self, revision: str, label: str, *, key: str | None = None) -> SessionDocument:
        """Create a session at a turn; nothing is copied.

        Raises:
            Conflict: The name is taken.
            NotFound: The revision names nothing.
        """
        body = {"label": label, "at": revision}
        return await self.http.post("/sessions", SessionDocument, body, idempotency_key=key)

    async def rewind(
        self,
        session: str,
        revision: str,
        *,
        before: bool = False,
        expected_head: str | None = None,
    ) -> SessionDocument:
        """Move a session back to an earlier turn, and return it as it is then.

        Raises:
            Conflict: It moved meanwhile, or has another head than was expected.
            InvalidOperation: The turn is not one of its thread.
        """
        body = {
            "to": revision, "before": before,
            "expected_head": expected_head or await self._find_head(session),
        }  # fmt: skip
        return await self.http.post(
            "/sessions/{session}/rewind", SessionDocument, body, session=session
        )

    async def undo(self, session: str, *, expected_head: str | None = None) -> SessionDocument:
        """Undo the last move of a session, and return it as it is then.

        Raises:
            Conflict: It moved meanwhile, or has another head than was expected.
            InvalidOperation: There is nothing to undo.
        """
        body = {"expected_head": expected_head or await self._find_head(session)}
        return await self.http.post(
            "/sessions/{session}/undo", SessionDocument, body, session=session
        )

    async def rename(self, session: str, label: str) -> ActResult:
        """Give a session another label; the old one still leads to it."""
        body = {"session": session, "label": label}
        return await self.http.post("/acts/rename", ActResult, body)

    async def set_status(self, session: str, status: SessionStatus) -> ActResult:
        """Archive a session, or restore it from the archive."""
        body = {"session": session}
        if status == "active":
            return await self.http.post("/acts/restore", ActResult, body)
        return await self.http.post("/acts/archive", ActResult, body)

    async def _find_head(self, session: str) -> str | None:
        # A server that was restarted has forgotten its answers. A repeated move must not move the
        # session once more then, so every move says where the session was.
        return (await self.get(session)).head
