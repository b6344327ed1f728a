"""``inbox``: what you were told, and what you have read of it."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from turntree.cli.command import CommandGroup, Terminal, verb
from turntree.cli.common.request_text import decide_command, draw_request, request_document
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import age, clean, table
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp
from turntree.core.value import value
from turntree.notifications.delivery import FailedDelivery
from turntree.notifications.notice import Notice
from turntree.policy.approval import Approval

ID_CHARS = 8
LIMIT = 100


@value
class InboxView:
    """What is shown of an inbox."""

    notices: tuple[Notice, ...]
    """Newest first."""
    failed: tuple[FailedDelivery, ...]
    now: Timestamp
    requests: tuple[Approval, ...] = ()
    """What waits for the person to decide, oldest first; all that they may see with ``--all``."""


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("--all", "-a", "everything", is_flag=True, help="Notices that were read too.")
@click.option("--limit", "-n", type=click.IntRange(1), default=LIMIT, show_default=True,
              help="Number of notices to show at most.")  # fmt: skip
@click.pass_context
def inbox(context: click.Context, *, everything: bool, limit: int) -> None:
    """Show what you were told, and mark it as read.

    Messages, questions, mentions and failures of what you started come here. Another person
    cannot read them.
    """
    if context.invoked_subcommand is None:
        terminal = context.ensure_object(Terminal)
        view = with_ledger(terminal, partial(_list, everything=everything, limit=limit))
        tell_inbox(terminal, view, everything=everything)


def tell_inbox(terminal: Terminal, view: InboxView, *, everything: bool) -> None:
    """Print notices, the newest last, so that it stands above the prompt, then what waits."""
    if terminal.as_json:
        terminal.documents(map(notice_document, view.notices))
        terminal.documents(request_document(one, view.now) for one in view.requests)
        return
    # Each request is shown whole below; its notice would only repeat it.
    told = [one for one in view.notices if everything or one.kind != "approval"]
    lines = table([_row(one, view.now) for one in reversed(told)]) if told else []
    for one in view.requests:
        lines += draw_request(one, view.now)
    if lines:
        terminal.page(lines)
    for failed in view.failed:
        terminal.note(f"{failed.channel} to {clean(failed.address)} fails: {clean(failed.error)}")
    waiting = [one for one in view.requests if one.verdict_at(view.now) == "pending"]
    if waiting:
        terminal.note(f"next: {decide_command(waiting[-1])}")
    elif not told:
        terminal.note("there are no notices." if everything else "nothing is unread.")
        if not everything:
            terminal.note("next: turntree inbox --all")
    elif any(one.read_at is None for one in told):
        terminal.note("next: turntree inbox read")


@verb()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "-a", "everything", is_flag=True, help="All that is unread, as without ID.")
def read(terminal: Terminal, ids: tuple[str, ...], *, everything: bool) -> None:
    """Mark notices as read, and show them."""
    found = with_ledger(terminal, partial(_read, ids=choose_ids(ids, everything=everything)))
    tell_read(terminal, *found)


def choose_ids(ids: tuple[str, ...], *, everything: bool) -> tuple[str, ...] | None:
    """Return the ids that were given; None stands for all.

    Raises:
        InvalidOperation: Ids were given besides ``--all``.
    """
    if ids and everything:
        raise InvalidOperation("name notices, or give --all, not both")
    return ids or None


def tell_read(terminal: Terminal, notices: Sequence[Notice], now: Timestamp) -> None:
    """Print the notices that were read now."""
    if terminal.as_json:
        terminal.documents(map(notice_document, notices))
    elif notices:
        terminal.page(table([_row(one, now) for one in notices]))
    else:
        terminal.note("nothing was unread.")


def notice_document(one: Notice) -> dict[str, Any]:
    """Return a notice as it is printed in JSON."""
    return {
        "id": one.id,
        "kind": one.kind,
        "by": one.by,
        "text": one.text,
        "refs": dict(one.refs),
        "at": one.at,
        "read_at": one.read_at,
        "displaced": one.is_displaced,
    }


async def _list(opened: CliContext, *, everything: bool, limit: int) -> InboxView:
    inbox = opened.tree.inbox
    notices = await inbox.list_page(everything=everything, limit=limit)
    requests = await list_requests(opened.tree.approvals, everything=everything, limit=limit)
    failed = tuple(await inbox.list_failed())
    return InboxView(tuple(notices), failed, opened.now, requests)


async def list_requests(approvals: Any, *, everything: bool, limit: int) -> tuple[Approval, ...]:
    """Return what waits for the acting person; with ``everything`` also what was decided."""
    if everything:
        return (*reversed(await approvals.list_all(mine=True, limit=limit)),)
    return (*(await approvals.list_waiting(mine=True, limit=limit)),)


async def _read(
    opened: CliContext, *, ids: tuple[str, ...] | None
) -> tuple[list[Notice], Timestamp]:
    return await opened.tree.inbox.read(ids), opened.now


def _row(one: Notice, now: Timestamp) -> tuple[str, ...]:
    mark = " " if one.read_at is not None else "*"
    return mark, one.id[:ID_CHARS], one.kind, clean(one.by), age(one.at, now), clean(one.text)


inbox.add_command(read)
