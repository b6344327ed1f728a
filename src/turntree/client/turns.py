"""Turns and threads over HTTP."""

from collections.abc import Mapping, Sequence
from typing import Final

from turntree.client.connection import HttpConnection
from turntree.core.value import Facet, value
from turntree.wire.acts import ActResult
from turntree.wire.compare import CompareDocument
from turntree.wire.files import PathDiff
from turntree.wire.inspection import CauseList, ContextDocument, PermissionList, RawTurn
from turntree.wire.sealed import SealedList, SealedThread, SealedTurnDocument, SealedView
from turntree.wire.sharing import SharedPage
from turntree.wire.tags import TagPage
from turntree.wire.threads import ThreadPage, TurnDocument

PAGE: Final = 200
SEALED_PAGE: Final = 100
"""Ids in one address: proxies refuse one that is longer than 8,000 characters."""


@value
class TurnsApi(Facet):
    """The facet ``client.turns``."""

    http: HttpConnection

    async def get(self, revision: str) -> TurnDocument:
        """Return the turn that a revision names.

        Raises:
            NotFound: It names nothing.
        """
        return await self.http.get("/turns/{revision}", TurnDocument, revision=revision)

    async def get_text(self, revision: str, message: int, part: int) -> str:
        """Return the whole text of a part of a message, also of one that is cut in a document."""
        return await self.http.get(
            "/turns/{revision}/text/{message}/{part}", str,
            revision=revision, message=str(message), part=str(part),
        )  # fmt: skip

    async def get_raw(self, revision: str) -> RawTurn:
        """Return the bytes of a turn, whose digest proves them, and what it was imported from."""
        return await self.http.get("/turns/{revision}/raw", RawTurn, revision=revision)

    async def get_sealed(self, revision: str) -> SealedView:
        """Return a turn as it was sealed, with its neighbours; ``read_sealed`` reads its bytes."""
        return await self.http.get("/turns/{revision}/sealed", SealedView, revision=revision)

    async def list_sealed(self, turns: Sequence[str]) -> tuple[SealedTurnDocument, ...]:
        """Return turns as they were sealed, by their ids; one that is hidden is left out."""
        found: list[SealedTurnDocument] = []
        left = [*turns]
        while left:
            query = {"turns": ",".join(left[:SEALED_PAGE])}
            page = (await self.http.get("/sealed", SealedList, query)).turns
            found.extend(page)
            # A page may end early, after a large turn; what comes before its end is hidden.
            done = left.index(page[-1].id) + 1 if page else len(left[:SEALED_PAGE])
            left = left[done:]
        return tuple(found)

    async def tag(self, revision: str, tag: str) -> ActResult:
        """Add a tag to a turn."""
        return await self.http.post("/acts/tag", ActResult, {"at": revision, "name": tag})

    async def untag(self, revision: str, tag: str) -> ActResult:
        """Remove a tag from a turn."""
        return await self.http.post("/acts/untag", ActResult, {"at": revision, "name": tag})

    async def list_tags(
        self, *, tag: str | None = None, after: str | None = None, limit: int | None = None
    ) -> TagPage:
        """Return a page of tags and their turns; ``after`` is the ``next`` of the page before."""
        return await self.http.get("/tags", TagPage, {"tag": tag, "cursor": after, "limit": limit})

    async def share(self, revision: str, *, session: str | None = None) -> SharedPage:
        """Return a thread as a page for other people, without secrets."""
        return await self.http.get(
            "/turns/{revision}/share", SharedPage, {"session": session}, revision=revision
        )


@value
class ThreadsApi(Facet):
    """The facet ``client.threads``."""

    http: HttpConnection

    async def page(self, revision: str, *, low: int, high: int) -> tuple[TurnDocument, ...]:
        """Return the turns of a thread from one depth to another, root first."""
        turns: list[TurnDocument] = []
        while low <= high:
            query = {"after": low - 1, "limit": min(high - low + 1, PAGE)}
            page = await self._get_page(revision, query)
            turns.extend(page.turns)
            if page.newer is None:
                break
            low = page.newer + 1
        return tuple(turns)

    async def read(
        self, revision: str, *, last: int | None = None, first: int | None = None
    ) -> tuple[TurnDocument, ...]:
        """Return a thread, root first: all of it, its last turns or its first ones.

        Raises:
            NotFound: The revision names nothing.
        """
        if first is not None:
            return (await self.page(revision, low=1, high=first))[-(last or first) :]
        turns: tuple[TurnDocument, ...] = ()
        before: int | None = None
        while last is None or len(turns) < last:
            left = PAGE if last is None else min(last - len(turns), PAGE)
            page = await self._get_page(revision, {"before": before, "limit": left})
            turns = (*page.turns, *turns)
            before = page.older
            if before is None:
                break
            # The session may move meanwhile: what is read stays one thread.
            revision = page.head or revision
        return turns

    async def read_sealed(
        self, revision: str, *, last: int | None = None
    ) -> tuple[SealedTurnDocument, ...]:
        """Return the turns of a thread as they were sealed, the newest first.

        Those of a session include the turns that failed beside its thread.

        Raises:
            NotFound: The revision names nothing.
        """
        turns: list[SealedTurnDocument] = []
        before: int | None = None
        while last is None or len(turns) < last:
            left = PAGE if last is None else min(last - len(turns), PAGE)
            page = await self.http.get(
                "/threads/{revision}/sealed", SealedThread, {"before": before, "limit": left},
                revision=revision,
            )  # fmt: skip
            turns.extend(page.turns)
            before = page.older
            if before is None:
                break
            # The session may move meanwhile: what is read stays one thread.
            revision = page.head or revision
        return tuple(turns)

    async def compare(self, left: str, right: str) -> CompareDocument:
        """Return two threads side by side, from where they part."""
        return await self.http.get("/compare/{a}...{b}", CompareDocument, a=left, b=right)

    async def diff(self, left: str, right: str, path: str) -> PathDiff:
        """Return how a file differs between the ends of two threads."""
        return await self.http.get(
            "/compare/{a}...{b}/diff", PathDiff, {"path": path}, a=left, b=right
        )

    async def _get_page(self, revision: str, query: Mapping[str, int | None]) -> ThreadPage:
        return await self.http.get("/threads/{revision}", ThreadPage, query, revision=revision)


@value
class ContextsApi(Facet):
    """The facet ``client.contexts``."""

    http: HttpConnection

    async def read(self, turn: str) -> ContextDocument:
        """Return what the model saw for a turn."""
        return await self.http.get("/turns/{revision}/context", ContextDocument, revision=turn)


@value
class CausesApi(Facet):
    """The facet ``client.causes``."""

    http: HttpConnection

    async def explain(self, turn: str) -> CauseList:
        """Return what led to a turn, step by step."""
        return await self.http.get("/turns/{revision}/causes", CauseList, revision=turn)


@value
class AuthorityApi(Facet):
    """The facet ``client.authority``."""

    http: HttpConnection

    async def list_of_turn(self, turn: str) -> PermissionList:
        """Return the permissions that a turn was granted, used and was denied."""
        return await self.http.get("/turns/{revision}/permissions", PermissionList, revision=turn)
