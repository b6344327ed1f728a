"""Who belongs to a workspace: members, invitations, API keys and login sessions."""

from turntree.core.value import value


@value
class MemberDocument:
    """A person who belongs to the workspace."""

    name: str
    role: str
    """``admin``, ``member`` or ``guest``."""
    since: str
    """When the role was given."""


@value
class MemberList:
    """The members, in the order in which they got their roles."""

    members: tuple[MemberDocument, ...]


@value
class KeyDocument:
    """An API key, without the key itself."""

    id: str
    name: str
    holder: str
    """The person whose rights it has at most."""
    agent: str | None
    """The agent that acts with it on the holder's behalf."""
    allow: tuple[str, ...]
    """The patterns of what it permits, of what its holder may do."""
    deny: tuple[str, ...]
    """The patterns of what it does not permit, also where another one allows it."""
    created_at: str
    expires_at: str
    last_used_at: str | None
    """To the minute."""
    state: str
    """``valid``, ``revoked`` or ``expired``."""
    revoked_by: str | None
    revoked_at: str | None
    reason: str | None


@value
class KeyList:
    """API keys, in the order in which they were made."""

    keys: tuple[KeyDocument, ...]


@value
class NewKey:
    """An API key, which is shown this once."""

    key: str
    id: str
    holder: str
    """The person whose rights it has: ``human:ana``."""
    expires_at: str


@value
class InvitationDocument:
    """An invitation, without its code."""

    id: str
    invitee: str
    """The person or the e-mail address that it is for."""
    role: str
    created_by: str
    created_at: str
    expires_at: str
    state: str
    """``open``, ``accepted``, ``revoked`` or ``expired``."""
    accepted_by: str | None
    revoked_by: str | None
    ended_at: str | None


@value
class InvitationList:
    """Invitations, in the order in which they were made."""

    invitations: tuple[InvitationDocument, ...]


@value
class NewInvitation:
    """An invitation with its code, which is shown this once."""

    code: str
    invitation: InvitationDocument


@value
class LoginDocument:
    """A login session, without the code in its cookie."""

    id: str
    holder: str
    """The person who logged in: ``human:ana``."""
    method: str
    """``password``, ``key`` or ``invitation``."""
    created_at: str
    expires_at: str
    last_used_at: str
    """To the minute."""


@value
class LoginList:
    """Login sessions that are open, in the order in which they began."""

    login_sessions: tuple[LoginDocument, ...]
