"""``webhook``: addresses to which events of the workspace, or your notices, leave."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.common.rotation import keep_hours, tell_secret
from turntree.cli.context import with_ledger
from turntree.cli.output.text import age, clean, counted, table
from turntree.core.ids import Timestamp
from turntree.system.shell_words import positional
from turntree.webhooks.webhook import Webhook, WebhookDelivery

if TYPE_CHECKING:
    from turntree.webhooks.service import Webhooks

T = TypeVar("T")
Sending: TypeAlias = "Webhooks"
"""What does the work: a ledger of this machine, or a server with the same verbs."""
DELIVERIES = 50


@click.group()
def webhook() -> None:
    """Send events, or your notices, to addresses of other systems, signed.

    Messages follow Standard Webhooks: an id that stays the same, a timestamp and a signature. A
    worker sends them and tries again for three days.
    """


@verb()
@click.argument("url", metavar="URL")
@click.option(
    "--event", "events", metavar="PATTERN", multiple=True,
    help="Events that leave: run.failed, session.* or '*'; repeatable; takes an admin.",
)  # fmt: skip
def create(terminal: Terminal, url: str, events: tuple[str, ...]) -> None:
    """Print the secret of a new webhook; it is shown now and never again.

    Without --event it is for your notices: name its id with `turntree human create` or `configure`,
    as --channel webhook --webhook ID.
    """

    async def act(sending: Sending, _now: Timestamp) -> tuple[Webhook, str]:
        return await sending.create(url, events=events)

    made, secret = with_webhooks(terminal, act)
    what = f"events {', '.join(made.events)}" if made.events else "your notices"
    undo = f"turntree webhook delete {positional(made.id)}"
    tell_secret(terminal, f"{made.id} is for {what}", secret, asdict(made), undo)


@verb("list")
def list_(terminal: Terminal) -> None:
    """List your webhooks; an admin sees those of all members."""

    async def act(sending: Sending, now: Timestamp) -> tuple[list[Webhook], Timestamp]:
        return await sending.list_all(), now

    found, now = with_webhooks(terminal, act)
    if terminal.as_json:
        terminal.documents(map(asdict, found))
    elif found:
        terminal.page(table([_row(one, now) for one in found]))
    else:
        terminal.note("there are no webhooks.")
        terminal.note(f"next: {terminal.address('turntree webhook create https://HOST/PATH')}")


@verb()
@click.argument("id", metavar="WEBHOOK")
def show(terminal: Terminal, id: str) -> None:
    """Show a webhook, and what waits or failed to leave by it."""

    async def act(sending: Sending, now: Timestamp) -> tuple[Webhook, Timestamp]:
        return await sending.get(id), now

    found, now = with_webhooks(terminal, act)
    if terminal.as_json:
        terminal.document(asdict(found))
        return
    terminal.page(table([_row(found, now)]))
    if found.failed:
        again = f"turntree webhook deliveries {positional(found.id)} --failed"
        terminal.note(f"next: {terminal.address(again)}")


@verb()
@click.argument("id", metavar="WEBHOOK")
@keep_hours()
def rotate(terminal: Terminal, id: str, hours: int) -> None:
    """Print a new secret of a webhook; for some hours messages are signed with both."""

    async def act(sending: Sending, _now: Timestamp) -> tuple[Webhook, str]:
        return await sending.rotate(id, hours=hours)

    made, secret = with_webhooks(terminal, act)
    tell_secret(terminal, f"{made.id} has a new secret", secret, asdict(made), None)


@verb()
@click.argument("id", metavar="WEBHOOK")
def pause(terminal: Terminal, id: str) -> None:
    """Send nothing until the webhook is resumed; nothing is lost."""

    async def act(sending: Sending, _now: Timestamp) -> Webhook:
        return await sending.pause(id)

    made = with_webhooks(terminal, act)
    terminal.tell(
        f"{made.id} is paused", asdict(made), undo=f"turntree webhook resume {positional(made.id)}"
    )


@verb()
@click.argument("id", metavar="WEBHOOK")
def resume(terminal: Terminal, id: str) -> None:
    """Send again, also what has happened meanwhile."""

    async def act(sending: Sending, _now: Timestamp) -> Webhook:
        return await sending.resume(id)

    made = with_webhooks(terminal, act)
    terminal.tell(
        f"{made.id} is active", asdict(made), undo=f"turntree webhook pause {positional(made.id)}"
    )


@verb()
@click.argument("id", metavar="WEBHOOK")
def delete(terminal: Terminal, id: str) -> None:
    """Delete a webhook and its secrets; what waits to leave by it is withdrawn."""

    async def act(sending: Sending, _now: Timestamp) -> Webhook:
        return await sending.delete(id)

    made = with_webhooks(terminal, act)
    terminal.tell(f"{made.id} is deleted", {**asdict(made), "state": "deleted"}, undo=None)


@verb()
@click.argument("id", metavar="WEBHOOK")
@click.option("--failed", is_flag=True, help="Only those that were given up.")
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=DELIVERIES, show_default=True,
              help="Number of deliveries to show at most.")  # fmt: skip
def deliveries(terminal: Terminal, id: str, failed: bool, limit: int) -> None:
    """List what left by a webhook of yours, or failed to, newest first."""

    async def act(sending: Sending, now: Timestamp) -> tuple[list[WebhookDelivery], Timestamp]:
        return await sending.list_deliveries(id, failed=failed, limit=limit), now

    found, now = with_webhooks(terminal, act)
    if terminal.as_json:
        terminal.documents(map(asdict, found))
    elif found:
        terminal.page(table([_delivery_row(one, now) for one in found]))
        given_up = next((one for one in found if one.state == "failed"), None)
        if given_up is not None:
            again = f"turntree webhook resend {positional(given_up.id)}"
            terminal.note(f"next: {terminal.address(again)}")
    else:
        terminal.note("no delivery was given up." if failed else "nothing has left yet.")


@verb()
@click.argument("delivery", metavar="DELIVERY")
def resend(terminal: Terminal, delivery: str) -> None:
    """Send the event of a delivery again, under the same id."""

    async def act(sending: Sending, _now: Timestamp) -> WebhookDelivery:
        return await sending.resend(delivery)

    found = with_webhooks(terminal, act)
    terminal.tell(
        f"{clean(found.id)} leaves again by {clean(found.webhook)}", asdict(found), undo=None
    )


def with_webhooks(terminal: Terminal, act: Callable[[Sending, Timestamp], Awaitable[T]]) -> T:
    """Run one call on the webhooks of this machine, or of the server of the command."""
    if terminal.find_server() is None:
        return with_ledger(
            terminal, lambda opened: act(opened.tree.webhooks, opened.now), waits=False
        )
    # By its name: what works over a server imports the commands, and not the other way round.
    served = import_module("turntree.cli.client.webhooks")
    call: Callable[[Terminal, Callable[[Sending, Timestamp], Awaitable[T]]], T]
    call = served.call_webhooks
    return call(terminal, act)


def _row(one: Webhook, now: Timestamp) -> tuple[Any, ...]:
    what = ", ".join(one.events) or "notices"
    told = [one.state, f"{counted(one.secrets, 'secret')}", f"{one.waiting} waiting"]
    if one.failed:
        told.append(f"{one.failed} failed")
    owner = one.owner.removeprefix("human:")
    return (
        one.id,
        clean(owner),
        clean(what),
        clean(one.url),
        ", ".join(told),
        age(one.created_at, now),
    )


def _delivery_row(one: WebhookDelivery, now: Timestamp) -> tuple[Any, ...]:
    tried = counted(one.attempts, "attempt")
    return (
        one.id,
        clean(one.kind),
        one.state,
        tried,
        age(one.created_at, now),
        clean(one.error or ""),
    )


for command in (create, list_, show, rotate, pause, resume, delete, deliveries, resend):
    webhook.add_command(command)
