"""``invitation``: let people into the workspace, once each."""

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from turntree.auth.member import (
    INVITATION_DAYS_DEFAULT,
    INVITATION_DAYS_MAX,
    ROLES,
    Invitation,
    Member,
    Role,
    read_role,
)
from turntree.cli.command import Terminal, verb
from turntree.cli.common.expiry import expires_in
from turntree.cli.common.secret_input import read_secret
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import age, clean, table
from turntree.core.ids import Timestamp, days_after
from turntree.system.shell_words import positional


@click.group()
def invitation() -> None:
    """Invite people to the workspace, and accept invitations."""


@verb()
@click.argument("invitee", metavar="NAME_OR_EMAIL")
@click.option(
    "--role", type=click.Choice(ROLES), default="member", show_default=True, help="Role to give."
)
@expires_in(default=INVITATION_DAYS_DEFAULT, maximum=INVITATION_DAYS_MAX)
def create(terminal: Terminal, invitee: str, role: str, days: int) -> None:
    """Print a code that lets one person into the workspace, once.

    The code is shown now and never again: the ledger keeps its digest. An invitation for a name can
    be accepted by that person only, one for an e-mail address by any holder of the code.
    """
    act = partial(_create, invitee=invitee, role=read_role(role), days=days)
    tell_created(terminal, *with_ledger(terminal, act, waits=False))


def tell_created(terminal: Terminal, made: Invitation, code: str) -> None:
    """Print the code of a new invitation."""
    document = {"code": code, **asdict(made)}
    terminal.tell(code, document, undo=f"turntree invitation revoke {made.id}")


@verb("list")
@click.option("--all", "-a", "everything", is_flag=True, help="Ended invitations too.")
def list_(terminal: Terminal, everything: bool) -> None:
    """List the invitations that can still be accepted; only admins see them."""
    found, now = with_ledger(terminal, _list, waits=False)
    tell_list(terminal, found, now, everything=everything)


def tell_list(
    terminal: Terminal, found: list[Invitation], now: Timestamp, *, everything: bool
) -> None:
    """Print invitations: those that are open, or all."""
    shown = [one for one in found if everything or one.state_at(now) == "open"]
    if terminal.as_json:
        terminal.documents({**asdict(one), "state": one.state_at(now)} for one in shown)
    elif not shown:
        terminal.note("no invitation is open." if found else "there are no invitations.")
        command = "list --all" if found else "create NAME"
        terminal.note(f"next: turntree invitation {command}")
    else:
        terminal.page(table([_row(one, now) for one in shown]))


@verb()
@click.argument("code", required=False)
def accept(terminal: Terminal, code: str | None) -> None:
    """Become a member of the workspace by an invitation.

    Without CODE it is read from the input, where no list of processes shows it.
    """
    text = code or read_secret("Code")
    member = with_ledger(terminal, partial(_accept, code=text.strip()), waits=False)
    terminal.tell(
        f"{clean(member.name)} is now a member of the workspace (role: {member.role})",
        asdict(member),
        undo=f"turntree member remove {positional(member.name)}",
    )


@verb()
@click.argument("id")
def revoke(terminal: Terminal, id: str) -> None:
    """End an invitation that was not accepted."""
    with_ledger(terminal, partial(_revoke, id=id), waits=False)
    tell_revoked(terminal, id)


def tell_revoked(terminal: Terminal, id: str) -> None:
    """Say that an invitation is ended."""
    terminal.tell(f"{clean(id)} is revoked", {"id": id, "state": "revoked"}, undo=None)


async def _create(
    opened: CliContext, *, invitee: str, role: Role, days: int
) -> tuple[Invitation, str]:
    until = days_after(opened.now, days)
    return await opened.tree.invitations.create(invitee, role, expires_at=until)


async def _list(opened: CliContext) -> tuple[list[Invitation], Timestamp]:
    return await opened.tree.invitations.list_all(), opened.now


async def _accept(opened: CliContext, *, code: str) -> Member:
    return await opened.tree.invitations.accept(code)


async def _revoke(opened: CliContext, *, id: str) -> None:
    await opened.tree.invitations.revoke(id)


def _row(one: Invitation, now: Timestamp) -> tuple[Any, ...]:
    state = one.state_at(now)
    told = f"until {one.expires_at}" if state == "open" else state
    if one.ended_at is not None:
        by = one.accepted_by or one.revoked_by or ""
        told = f"{state} {age(one.ended_at, now)} by {clean(by)}"
    return one.id, clean(one.invitee), one.role, f"by {clean(one.created_by)}", told


for command in (create, list_, accept, revoke):
    invitation.add_command(command)
