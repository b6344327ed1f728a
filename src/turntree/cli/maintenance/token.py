"""``token``: delegate permissions to another process, and revoke them."""

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from turntree.auth.permissions import EVERYTHING, Permissions
from turntree.auth.token import TokenRecord
from turntree.boot.open import begin_context, load_token_key
from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import age, clean, table
from turntree.core.ids import Timestamp, instant, unix_ms
from turntree.core.principal import Principal

MINUTES_DEFAULT = 60
_MINUTE_MS = 60_000


@click.group()
def token() -> None:
    """Issue, list and revoke tokens that delegate permissions."""


@verb()
@click.argument("audience")
@click.option(
    "--allow",
    metavar="PERMISSION",
    multiple=True,
    help="Permission to delegate, by default all; repeatable.",
)
@click.option("--agent", metavar="NAME", help="Principal that acts with it, on your behalf.")
@click.option(
    "--expires-in",
    "minutes",
    metavar="MINUTES",
    type=click.IntRange(1),
    default=MINUTES_DEFAULT,
    show_default=True,
    help="Lifetime in minutes.",
)
def issue(
    terminal: Terminal, audience: str, allow: tuple[str, ...], agent: str | None, minutes: int
) -> None:
    """Print a token for one audience; its holder can act with it.

    AUDIENCE is who may open it: a run, a session, a server. The ledger records that it was issued,
    never the token itself.
    """

    async def act(opened: CliContext) -> tuple[str, str, Timestamp]:
        rights = Permissions.of_patterns(allow) if allow else EVERYTHING
        context = begin_context(opened.settings)
        acting = (
            context.child(rights)
            if agent is None
            else context.delegate(Principal("agent", agent), rights)
        )
        until = instant(unix_ms(opened.now) + minutes * _MINUTE_MS)
        key = load_token_key(opened.settings)
        tokens = opened.tree.tokens
        made, nonce = await tokens.issue(acting, key=key, audience=audience, expires_at=until)
        return made, nonce, until

    made, nonce, until = with_ledger(terminal, act, waits=False)
    document = {"token": made, "nonce": nonce, "audience": audience, "expires_at": until}
    terminal.tell(made, document, undo=f"turntree token revoke {nonce}")


@verb("list")
@click.option("--all", "-a", "everything", is_flag=True, help="Expired and revoked tokens too.")
def list_(terminal: Terminal, everything: bool) -> None:
    """List the tokens issued from this ledger, and those revoked."""
    found, now = with_ledger(terminal, _list, waits=False)
    shown = [one for one in found if everything or _state(one, now) == "counts"]
    if terminal.as_json:
        terminal.documents({**asdict(one), "state": _state(one, now)} for one in shown)
    elif not shown:
        terminal.note("no token counts here." if found else "no token was issued here.")
        terminal.note(
            "next: turntree token list --all" if found else "next: turntree token issue AUDIENCE"
        )
    else:
        terminal.page(table([_row(one, now) for one in shown]))


@verb()
@click.argument("nonce")
@click.option("--reason", default="", help="Reason, shown when the token is opened.")
def revoke(terminal: Terminal, nonce: str, reason: str) -> None:
    """Revoke a token, and with it all tokens made by narrowing it.

    From now on, opening it against this ledger fails. A holder that opens it offline cannot know:
    keep lifetimes short.
    """
    noted = with_ledger(terminal, partial(_revoke, nonce=nonce, reason=reason), waits=False)
    terminal.tell(f"{nonce} is revoked", asdict(noted), undo=None)


async def _list(opened: CliContext) -> tuple[list[TokenRecord], Timestamp]:
    return await opened.tree.tokens.list_all(), opened.now


async def _revoke(opened: CliContext, *, nonce: str, reason: str) -> TokenRecord:
    return await opened.tree.tokens.revoke(nonce, reason=reason)


def _state(one: TokenRecord, now: Timestamp) -> str:
    if one.revoked_at is not None:
        return "revoked"
    return "counts" if one.expires_at is not None and now < one.expires_at else "expired"


def _row(one: TokenRecord, now: Timestamp) -> tuple[Any, ...]:
    told = _state(one, now)
    if one.revoked_at is not None:
        told = f"revoked {age(one.revoked_at, now)} by {clean(one.revoked_by or '')}"
        told += f": {clean(one.reason)}" if one.reason else ""
    elif told == "counts":
        told = f"until {one.expires_at}"
    return (
        clean(one.nonce),
        clean(one.holder or "-"),
        clean(one.audience or "-"),
        f"by {clean(one.issued_by)}" if one.issued_by else "-",
        told,
    )


for command in (issue, list_, revoke):
    token.add_command(command)
