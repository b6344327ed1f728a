"""``member``: who belongs to the workspace, and as what."""

from dataclasses import asdict
from functools import partial

import click

from turntree.auth.member import ROLES, Member, Role, as_person, read_role
from turntree.cli.command import Terminal, verb
from turntree.cli.common.secret_input import read_secret
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import age, clean, table
from turntree.core.ids import Timestamp
from turntree.core.value import value
from turntree.system.shell_words import positional

_ROLE = click.Choice(ROLES)


@value
class MemberChange:
    """What became of a member, and who asked for it."""

    member: Member
    before: Role
    by: str


@click.group()
def member() -> None:
    """List, add and remove members of the workspace, and set their roles.

    An admin manages members. A member reads and changes everything that is not private. A guest
    reads, and changes only what was granted with `program grant`.
    """


@verb("list")
def list_(terminal: Terminal) -> None:
    """List the members and their roles."""
    tell_members(terminal, *with_ledger(terminal, _list, waits=False))


def tell_members(terminal: Terminal, found: list[Member], now: Timestamp) -> None:
    """Print members with their roles."""
    if terminal.as_json:
        terminal.documents(asdict(one) for one in found)
    else:
        terminal.page(table([(clean(one.name), one.role, age(one.since, now)) for one in found]))


@verb()
@click.argument("name")
@click.option("--role", type=_ROLE, default="member", show_default=True, help="Role to give.")
def add(terminal: Terminal, name: str, role: str) -> None:
    """Make a person a member of the workspace."""
    tell_added(
        terminal, with_ledger(terminal, partial(_add, name=name, role=read_role(role)), waits=False)
    )


def tell_added(terminal: Terminal, added: Member) -> None:
    """Say that a person is a member."""
    terminal.tell(
        f"{clean(added.name)} is {_article(added.role)}",
        asdict(added),
        undo=f"turntree member remove {positional(added.name)}",
    )


@verb()
@click.argument("name")
def remove(terminal: Terminal, name: str) -> None:
    """Remove a member from the workspace; what they wrote stays.

    Their sessions, turns and programs keep their author. From now on they change nothing, and a
    server no longer lets them in. Their API keys are revoked, and stay so if they come back.
    """
    tell_removed(terminal, name, *with_ledger(terminal, partial(_remove, name=name), waits=False))


def tell_removed(terminal: Terminal, name: str, before: Role, by: str) -> None:
    """Say that a person is removed, and which role they had."""
    person = as_person(name)
    bare = person.removeprefix("human:")
    # Only an admin could add them again, and a person who left is none.
    undo = f"turntree member add --role {before} {positional(bare)}" if person != by else None
    document = {"principal": person, "role": None, "before": before}
    terminal.tell(f"{clean(bare)} was {_article(before)}, and is removed", document, undo=undo)


@verb("role")
@click.argument("name")
@click.argument("role", type=_ROLE)
def set_role(terminal: Terminal, name: str, role: str) -> None:
    """Give a member another role."""
    act = partial(_set_role, name=name, role=read_role(role))
    tell_role(terminal, with_ledger(terminal, act, waits=False))


def tell_role(terminal: Terminal, change: MemberChange) -> None:
    """Say which role a member has, and had."""
    member, before = change.member, change.before
    if before == member.role:
        terminal.tell(
            f"{clean(member.name)} is {_article(before)} already",
            {**asdict(member), "before": before},
            undo=None,
        )
        return
    is_own = member.principal == change.by
    terminal.tell(
        f"{clean(member.name)} was {_article(before)}, and is {_article(member.role)}",
        {**asdict(member), "before": before},
        undo=None if is_own else f"turntree member role {positional(member.name)} {before}",
    )


@verb()
@click.option("--remove", "removes", is_flag=True, help="Remove it instead.")
def password(terminal: Terminal, removes: bool) -> None:
    """Set a password for your own name; only an admin has one.

    With it you log in to a server. It is asked for twice, or read from the input if that is not a
    terminal. Every login session of yours ends.
    """
    text = None if removes else read_secret("Password", confirms=True)
    name, is_changed = with_ledger(terminal, partial(_set_password, text=text), waits=False)
    shown = clean(name)
    undo = None if removes else "turntree member password --remove"
    sentence = f"{shown} has a password"
    if removes:
        sentence = f"the password of {shown} is removed" if is_changed else f"{shown} has none"
    document = {"principal": f"human:{name}", "has_password": not removes}
    terminal.tell(sentence, document, undo=undo)


async def _list(opened: CliContext) -> tuple[list[Member], Timestamp]:
    return await opened.tree.members.list_all(), opened.now


async def _add(opened: CliContext, *, name: str, role: Role) -> Member:
    return await opened.tree.members.add(name, role)


async def _remove(opened: CliContext, *, name: str) -> tuple[Role, str]:
    return await opened.tree.members.remove(name), str(opened.tree.members.own.principal)


async def _set_role(opened: CliContext, *, name: str, role: Role) -> MemberChange:
    member, before = await opened.tree.members.set_role(name, role)
    return MemberChange(member, before, str(opened.tree.members.own.principal))


async def _set_password(opened: CliContext, *, text: str | None) -> tuple[str, bool]:
    passwords = opened.tree.passwords
    is_changed = True
    if text is None:
        is_changed = await passwords.remove()
    else:
        await passwords.set(text)
    return passwords.own.principal.id, is_changed


def _article(role: Role) -> str:
    return f"an {role}" if role == "admin" else f"a {role}"


for command in (list_, add, remove, set_role, password):
    member.add_command(command)
