"""``inbox`` over a server: what the holder of the key was told."""

from typing import cast

from turntree.cli.client.approvals import ServedApprovals
from turntree.cli.client.opened import OpenServer, on_server
from turntree.cli.command import Terminal
from turntree.cli.talk.inbox import (
    InboxView,
    choose_ids,
    list_requests,
    tell_inbox,
    tell_read,
)
from turntree.core.ids import Timestamp
from turntree.notifications.delivery import FailedDelivery
from turntree.notifications.notice import Notice, NoticeKind
from turntree.wire.inbox import NoticeDocument


def list_notices(terminal: Terminal, *, everything: bool, limit: int) -> None:
    """Show what you were told."""

    async def act(opened: OpenServer) -> InboxView:
        page = await opened.client.inbox.list_page(everything=everything, limit=limit)
        failing = tuple(
            FailedDelivery(one.channel, one.address, one.error, Timestamp(one.at))
            for one in page.failing
        )
        served = ServedApprovals(opened.client.approvals)
        requests = await list_requests(served, everything=everything, limit=limit)
        return InboxView(tuple(map(_notice, page.notices)), failing, opened.now, requests)

    tell_inbox(terminal, on_server(terminal, act), everything=everything)


def read_notices(terminal: Terminal, *, ids: tuple[str, ...], everything: bool) -> None:
    """Mark notices as read, and show them."""
    chosen = choose_ids(ids, everything=everything)

    async def act(opened: OpenServer) -> tuple[list[Notice], Timestamp]:
        return [*map(_notice, await opened.client.inbox.read(chosen))], opened.now

    tell_read(terminal, *on_server(terminal, act))


def _notice(document: NoticeDocument) -> Notice:
    return Notice(
        document.id,
        cast("NoticeKind", document.kind),
        document.by,
        document.text,
        document.refs,
        Timestamp(document.at),
        None if document.read_at is None else Timestamp(document.read_at),
        document.displaced,
    )
