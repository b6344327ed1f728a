"""``key``: API keys, with which programs act for you on a server."""

from functools import partial
from typing import Any

import click

from turntree.auth.api_key import ApiKey
from turntree.auth.permissions import EVERYTHING, Permissions
from turntree.cli.command import Terminal, verb
from turntree.cli.common.expiry import days_after, expires_in
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import age, clean, table
from turntree.core.ids import Timestamp

DAYS_DEFAULT = 90
DAYS_MAX = 3650


@click.group()
def key() -> None:
    """Create, list and revoke API keys, with which programs act for you."""


@verb()
@click.argument("name")
@click.option(
    "--allow",
    metavar="PERMISSION",
    multiple=True,
    help="Permission of the key, by default all of yours; repeatable.",
)
@click.option("--agent", metavar="AGENT", help="Agent that acts with it, on your behalf.")
@expires_in(default=DAYS_DEFAULT, maximum=DAYS_MAX)
def create(
    terminal: Terminal, name: str, allow: tuple[str, ...], agent: str | None, days: int
) -> None:
    """Print a new API key; NAME says what it is for.

    The key is shown now and never again: the ledger keeps its digest. It permits what you may do,
    unless --allow says less, and nothing once you are no longer a member.
    """
    act = partial(_create, name=name, allow=allow, agent=agent, days=days)
    made, text = with_ledger(terminal, act, waits=False)
    document = {"key": text, **_document(made), "state": "valid"}
    terminal.tell(text, document, undo=f"turntree key revoke {made.id}")


@verb("list")
@click.option("--all", "-a", "everything", is_flag=True, help="Expired and revoked keys too.")
def list_(terminal: Terminal, everything: bool) -> None:
    """List your API keys; an admin sees those of all members."""
    found, now = with_ledger(terminal, _list, waits=False)
    shown = [one for one in found if everything or one.state_at(now) == "valid"]
    if terminal.as_json:
        terminal.documents({**_document(one), "state": one.state_at(now)} for one in shown)
    elif not shown:
        terminal.note("no key is valid." if found else "there are no keys.")
        terminal.note(f"next: turntree key {'list --all' if found else 'create NAME'}")
    else:
        terminal.page(table([_row(one, now) for one in shown]))


@verb()
@click.argument("id")
@click.option("--reason", default="", help="Reason, shown in the list.")
def revoke(terminal: Terminal, id: str, reason: str) -> None:
    """Revoke an API key: from now on it opens nothing."""
    with_ledger(terminal, partial(_revoke, id=id, reason=reason), waits=False)
    document = {"id": id, "state": "revoked", "reason": reason}
    terminal.tell(f"{clean(id)} is revoked", document, undo=None)


async def _create(
    opened: CliContext, *, name: str, allow: tuple[str, ...], agent: str | None, days: int
) -> tuple[ApiKey, str]:
    scopes = Permissions.of_patterns(allow) if allow else EVERYTHING
    until = days_after(opened.now, days)
    return await opened.tree.keys.create(name, scopes=scopes, agent=agent, expires_at=until)


async def _list(opened: CliContext) -> tuple[list[ApiKey], Timestamp]:
    return await opened.tree.keys.list_all(), opened.now


async def _revoke(opened: CliContext, *, id: str, reason: str) -> None:
    await opened.tree.keys.revoke(id, reason=reason)


def _document(one: ApiKey) -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        "holder": one.holder,
        "agent": one.agent,
        "scopes": one.scopes.to_json(),
        "created_at": one.created_at,
        "expires_at": one.expires_at,
        "last_used_at": one.last_used_at,
        "revoked_by": one.revoked_by,
        "revoked_at": one.revoked_at,
        "reason": one.reason,
    }


def _row(one: ApiKey, now: Timestamp) -> tuple[Any, ...]:
    told = f"until {one.expires_at}" if one.state_at(now) == "valid" else "expired"
    if one.revoked_at is not None:
        told = f"revoked {age(one.revoked_at, now)} by {clean(one.revoked_by or '')}"
        told += f": {clean(one.reason)}" if one.reason else ""
    used = "never used" if one.last_used_at is None else f"used {age(one.last_used_at, now)}"
    acting = f"{one.agent} for {one.holder}" if one.agent is not None else one.holder
    return one.id, clean(one.name), clean(acting), used, told


for command in (create, list_, revoke):
    key.add_command(command)
