"""``/inbox``: what the caller was told. No caller sees the inbox of another one."""

from typing import Annotated, Final

from annotated_types import Ge, Le, MaxLen, MinLen

from turntree.core.value import value
from turntree.notifications.notice import Notice
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute
from turntree.wire.inbox import FailingChannel, InboxPage, NoticeDocument, ReadNotices

NOTICES_DEFAULT: Final = 100
NOTICES_MAX: Final = 1_000
ID_CHARS_MAX: Final = 64


@value
class InboxQuery:
    """Which notices: the unread ones, or all."""

    everything: bool = False
    limit: Annotated[int, Ge(1), Le(NOTICES_MAX)] = NOTICES_DEFAULT
    cursor: Annotated[str, MaxLen(ID_CHARS_MAX)] | None = None


@value
class ReadAct:
    """Notices to mark as read."""

    ids: (
        Annotated[tuple[Annotated[str, MinLen(1), MaxLen(ID_CHARS_MAX)], ...], MaxLen(NOTICES_MAX)]
        | None
    ) = None
    """Their ids, or how these begin; without it, all."""


async def list_notices(context: ServerContext, asked: InboxQuery) -> InboxPage:
    """Return the notices of the caller, newest first."""
    inbox = context.tree.inbox
    found = await inbox.list_page(
        everything=asked.everything, before=asked.cursor, limit=asked.limit + 1
    )
    page = found[: asked.limit]
    return InboxPage(
        tuple(map(_document, page)),
        await inbox.count_unread(),
        tuple(
            FailingChannel(one.channel, one.address, one.error, one.at)
            for one in await inbox.list_failed()
        ),
        page[-1].id if len(found) > asked.limit else None,
    )


async def read_notices(context: ServerContext, act: ReadAct) -> ReadNotices:
    """Mark notices of the caller as read.

    Raises:
        NotFound: There is no unread notice of such an id.
    """
    return ReadNotices(tuple(map(_document, await context.tree.inbox.read(act.ids))))


def _document(one: Notice) -> NoticeDocument:
    return NoticeDocument(
        one.id, one.kind, one.by, one.text, dict(one.refs), one.at, one.read_at, one.is_displaced
    )


ROUTES: Final = (
    ApiRoute(
        "GET", "/inbox", READ, list_notices, "What the caller was told.", InboxQuery, InboxPage
    ),
    ApiRoute(
        "POST", "/inbox/read", READ, read_notices, "Mark notices as read.",
        ReadAct, ReadNotices, "write", refusals=(404,),
    ),
)  # fmt: skip
