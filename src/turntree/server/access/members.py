"""``/members``: who belongs to the workspace, and as what; admins change it."""

from typing import Final

from turntree.auth.member import MANAGE_MEMBERS, Member, read_role
from turntree.core.value import value
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute, NoValues
from turntree.wire.accounts import MemberDocument, MemberList


@value
class NewMember:
    """A person to add, and their role."""

    name: str
    role: str = "member"


@value
class RoleChange:
    """A member, and the role to give."""

    member: str
    role: str


@value
class MemberName:
    """A member."""

    member: str


async def list_members(context: ServerContext, _: NoValues) -> MemberList:
    """Return all members."""
    return MemberList(tuple(map(_document, await context.tree.members.list_all())))


async def add_member(context: ServerContext, asked: NewMember) -> MemberDocument:
    """Make a person a member."""
    return _document(await context.tree.members.add(asked.name, read_role(asked.role)))


async def set_role(context: ServerContext, asked: RoleChange) -> MemberDocument:
    """Give a member another role."""
    member, _ = await context.tree.members.set_role(asked.member, read_role(asked.role))
    return _document(member)


async def remove_member(context: ServerContext, asked: MemberName) -> None:
    """Remove a member: their keys open nothing from now on."""
    await context.tree.members.remove(asked.member)


def _document(member: Member) -> MemberDocument:
    return MemberDocument(member.name, member.role, member.since)


ROUTES: Final = (
    ApiRoute(
        "GET", "/members", READ, list_members, "The members of the workspace.", answers=MemberList
    ),
    ApiRoute(
        "POST", "/members", MANAGE_MEMBERS, add_member, "Add a member.",
        NewMember, MemberDocument, "write",
    ),
    ApiRoute(
        "POST", "/members/{member}/role", MANAGE_MEMBERS, set_role, "Give a member another role.",
        RoleChange, MemberDocument, "write",
    ),
    ApiRoute(
        "POST", "/members/{member}/remove", MANAGE_MEMBERS, remove_member, "Remove a member.",
        MemberName, None, "write",
    ),
)  # fmt: skip
