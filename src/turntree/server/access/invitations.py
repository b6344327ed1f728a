"""``/invitations``: admins invite people, and a code gives the invited person their first key."""

from http import HTTPStatus
from typing import Annotated, Final

from annotated_types import Ge, Le

from turntree.auth.api_key import KEY_DAYS_DEFAULT
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.member import (
    INVITATION_DAYS_DEFAULT,
    INVITATION_DAYS_MAX,
    MANAGE_MEMBERS,
    RIGHTS,
    Invitation,
    read_role,
)
from turntree.core.errors import NotFound, PermissionDenied
from turntree.core.ids import Timestamp, days_after
from turntree.core.principal import Principal
from turntree.core.value import value
from turntree.server.access.visitor import Visitor
from turntree.server.context import ServerContext
from turntree.server.problems import Refusal
from turntree.server.route import ApiRoute, NoValues
from turntree.wire.accounts import InvitationDocument, InvitationList, NewInvitation, NewKey

KEY_NAME: Final = "invitation"


@value
class InvitationRequest:
    """Whom to invite, and as what."""

    invitee: str
    """A name, or an e-mail address; the person is called by it."""
    role: str = "member"
    expires_in_days: Annotated[int, Ge(1), Le(INVITATION_DAYS_MAX)] = INVITATION_DAYS_DEFAULT


@value
class InvitationId:
    """An invitation."""

    invitation: str


@value
class InvitationCode:
    """The code of an invitation, which was shown to the admin who made it."""

    code: str


async def list_invitations(context: ServerContext, _: NoValues) -> InvitationList:
    """Return all invitations, also those that have ended."""
    now = context.clock.now()
    found = await context.tree.invitations.list_all()
    return InvitationList(tuple(_document(invitation, now) for invitation in found))


async def create_invitation(context: ServerContext, asked: InvitationRequest) -> NewInvitation:
    """Return a new invitation with its code, which is not stored."""
    now = context.clock.now()
    made, code = await context.tree.invitations.create(
        asked.invitee, read_role(asked.role), expires_at=days_after(now, asked.expires_in_days)
    )
    return NewInvitation(code, _document(made, now))


async def revoke_invitation(context: ServerContext, asked: InvitationId) -> None:
    """End an invitation that was not accepted."""
    await context.tree.invitations.revoke(asked.invitation)


async def accept_invitation(visitor: Visitor, asked: InvitationCode) -> NewKey:
    """Make the person a member whom an invitation names, and return their first key.

    Raises:
        Refusal: The code is not that of an invitation to the workspace. Nothing says whether
            there is such a workspace.
        InvalidOperation: The invitation was accepted or revoked, or has expired.
        Conflict: The person is a member already.
    """
    refused = Refusal(
        HTTPStatus.FORBIDDEN,
        "code-refused",
        "this is not the code of an invitation to this workspace",
        "compare the code and the address with what you were sent",
    )
    workspace = await visitor.find_workspace()
    if workspace is None:
        raise refused
    # One transaction: a code that was used up without a key would leave a member who cannot get in.
    async with workspace.database.keep_together():
        try:
            member = await workspace.tree.invitations.redeem(asked.code)
        except (NotFound, PermissionDenied) as error:
            raise refused from error
        acting = ExecutionContext.begin(Principal("human", member.name), RIGHTS[member.role])
        made, key = await workspace.tree.act_as(acting).keys.create(
            KEY_NAME, expires_at=days_after(visitor.base.clock.now(), KEY_DAYS_DEFAULT)
        )
    return NewKey(key, made.id, made.holder, made.expires_at)


def _document(invitation: Invitation, now: Timestamp) -> InvitationDocument:
    return InvitationDocument(
        invitation.id,
        invitation.invitee,
        invitation.role,
        invitation.created_by,
        invitation.created_at,
        invitation.expires_at,
        invitation.state_at(now),
        invitation.accepted_by,
        invitation.revoked_by,
        invitation.ended_at,
    )


ROUTES: Final = (
    ApiRoute(
        "GET", "/invitations", MANAGE_MEMBERS, list_invitations, "The invitations.",
        answers=InvitationList,
    ),
    ApiRoute(
        "POST", "/invitations", MANAGE_MEMBERS, create_invitation,
        "Invite a person; the code is shown once.", InvitationRequest, NewInvitation, "write",
    ),
    ApiRoute(
        "POST", "/invitations/{invitation}/revoke", MANAGE_MEMBERS, revoke_invitation,
        "End an invitation.", InvitationId, None, "write",
    ),
    ApiRoute(
        "POST", "/accepted-invitations", None, accept_invitation,
        "Become a member by the code of an invitation, and get a first API key.",
        InvitationCode, NewKey, is_open=True,
    ),
)  # fmt: skip
