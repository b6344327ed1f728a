"""Who belongs to a workspace: members, invitations, keys, login sessions, linked accounts."""

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
    """``password``, ``key``, ``invitation`` or ``identity``."""
    created_at: str
    expires_at: str
    last_used_at: str
    """To the minute."""


@value
class LoginPreview:
    """Whom a key or an invitation would log in, before it does."""

    holder: str
    """``human:ana``."""
    workspace: str
    method: str
    """``key`` or ``invitation``."""
    expires_at: str
    """When the login session would end at the latest."""


@value
class LoginList:
    """Login sessions that are open, in the order in which they began."""

    login_sessions: tuple[LoginDocument, ...]


@value
class ProviderDocument:
    """The identity provider with which people log in."""

    name: str | None
    """What people call it; null if there is none."""
    issuer: str | None
    """Its address."""


@value
class StartedLogin:
    """A login that was begun."""

    url: str
    """Where the browser goes to prove who its person is."""


@value
class FinishedLogin:
    """What an identity provider has proven."""

    holder: str
    """The person who is logged in: ``human:ana``."""
    expires_at: str | None
    """When the new login session ends; null if the account was linked to the one there is."""


@value
class IdentityDocument:
    """An account at an identity provider that is linked to a member."""

    id: str
    issuer: str
    """The address of the provider."""
    holder: str
    """The member who logs in with it: ``human:ana``."""
    linked_at: str


@value
class IdentityList:
    """Linked accounts, in the order in which they were."""

    identities: tuple[IdentityDocument, ...]
