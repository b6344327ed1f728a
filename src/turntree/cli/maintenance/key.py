"""``key``: API keys, with which programs act for you on a server."""

from functools import partial
from typing import Any

import click

from turntree.auth.api_key import KEY_DAYS_DEFAULT, KEY_DAYS_MAX, ApiKey
from turntree.auth.permissions import EVERYTHING, Permissions
from turntree.cli.command import Terminal, verb
from turntree.cli.common.expiry import expires_in
from turntree.cli.common.secret_input import read_secret
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import age, clean, table
from turntree.core.errors import Hint, NotFound
from turntree.core.ids import Timestamp, days_after
from turntree.system.shell_words import quoted


@click.group()
def key() -> None:
    """Create, list and revoke API keys, with which programs act for you.

    ``store`` and ``forget`` are about keys that you use here, for the servers of others.
    """


@verb()
@click.argument("name")
@click.option(
    "--allow",
    metavar="PERMISSION",
    multiple=True,
    help="Permission of the key, by default all of yours; repeatable.",
)
@click.option("--agent", metavar="AGENT", help="Agent that acts with it, on your behalf.")
@expires_in(default=KEY_DAYS_DEFAULT, maximum=KEY_DAYS_MAX)
def create(
    terminal: Terminal, name: str, allow: tuple[str, ...], agent: str | None, days: int
) -> None:
    """Print a new API key; NAME says what it is for.

    The key is shown now and never again: the ledger keeps its digest. It permits what you may do,
    unless --allow says less, and nothing once you are no longer a member.
    """
    act = partial(_create, name=name, allow=allow, agent=agent, days=days)
    tell_created(terminal, *with_ledger(terminal, act, waits=False))


def tell_created(terminal: Terminal, made: ApiKey, text: str) -> None:
    """Print a new key."""
    document = {"key": text, **_document(made), "state": "valid"}
    terminal.tell(text, document, undo=f"turntree key revoke {made.id}")


@verb("list")
@click.option("--all", "-a", "everything", is_flag=True, help="Expired and revoked keys too.")
def list_(terminal: Terminal, everything: bool) -> None:
    """List your API keys; an admin sees those of all members."""
    found, now = with_ledger(terminal, _list, waits=False)
    tell_list(terminal, found, now, everything=everything)


def tell_list(terminal: Terminal, found: list[ApiKey], now: Timestamp, *, everything: bool) -> None:
    """Print keys: those that are valid, or all."""
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
    tell_revoked(terminal, id, reason)


def tell_revoked(terminal: Terminal, id: str, reason: str) -> None:
    """Say that a key is revoked."""
    document = {"id": id, "state": "revoked", "reason": reason}
    terminal.tell(f"{clean(id)} is revoked", document, undo=None)


@verb()
@click.argument("url")
def store(terminal: Terminal, url: str) -> None:
    """Store the key for a server, so that --server URL finds it.

    The key is typed, or read from an input that is no terminal: an argument would be in the list of
    processes. The file that holds it can be read by you alone; TURNTREE_KEY overrides it.
    """
    from turntree.cli.common.server_keys import store_key
    from turntree.client.address import check_key, read_address

    # How it is sent is decided when it is sent.
    address = read_address(url, allow_http=True)
    text = check_key(read_secret("key").strip())
    path = store_key(address.url, text)
    terminal.tell(
        f"the key for {clean(address.url)} is in {clean(str(path))}",
        {"url": address.url, "file": str(path)},
        undo=f"turntree key forget {quoted(address.url)}",
        then=(f"use it with: turntree --server {quoted(address.url)} session list",),
    )


@verb()
@click.argument("url")
def forget(terminal: Terminal, url: str) -> None:
    """Remove the stored key for a server; the server still accepts it."""
    from turntree.cli.common.server_keys import read_keys, store_key
    from turntree.client.address import read_address

    address = read_address(url, allow_http=True)
    if address.url not in read_keys():
        raise NotFound(f"there is no key for {address.url}", hint=Hint("key.list"))
    path = store_key(address.url, None)
    terminal.tell(
        f"the key for {clean(address.url)} is removed",
        {"url": address.url, "file": str(path)},
        undo=None,
    )


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


for command in (create, list_, revoke, store, forget):
    key.add_command(command)
