"""Members of a workspace: the roles, and the table of what each may do.

``RIGHTS`` is the one place that says who may do what. The server asks it for every request, the
facets ask it which roles may manage members, and the database is told those roles. It says what a
role may do at most: a private session still has to be granted, and a guest changes only what was
granted by name, which ``db/functions/34_members.sql`` decides session by session.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from turntree.auth.permissions import (
    EVERYTHING,
    MANAGING,
    Permissions,
    Right,
    actions,
    credentials,
    tools,
)
from turntree.auth.permissions import right as make_right
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp, derived_id
from turntree.core.value import value
from turntree.core.viewer import BEHALF

Role = Literal["admin", "member", "guest"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
NAME_CHARS_MAX: Final = 200
INVITATION_DAYS_DEFAULT: Final = 7
INVITATION_DAYS_MAX: Final = 365
WORKSPACE_STREAM: Final = derived_id(0, "workspace")
"""The stream of what concerns a workspace itself; it has the same id in each."""

MANAGE_MEMBERS: Final = make_right("action", "member.manage")
CREATE_KEYS: Final = make_right("action", "key.create")
"""To create API keys of one's own, and to revoke them."""
MANAGE_KEYS: Final = make_right("action", "key.manage")
"""To revoke the keys of others."""
CREATE_WEBHOOKS: Final = make_right("action", "webhook.create")
"""To have one's own notices sent to an address."""
MANAGE_WEBHOOKS: Final = make_right("action", "webhook.manage")
"""To have events of the workspace sent to an address, and to stop the webhooks of others."""
CREATE_TRIGGERS: Final = make_right("action", "trigger.create")
"""To let messages come in that act for oneself."""
MANAGE_TRIGGERS: Final = make_right("action", "trigger.manage")
"""To stop the triggers of others."""
PROPOSE_POLICIES: Final = make_right("action", "policy.propose")
"""To propose a policy, which decides about tool calls once it is activated."""
ACTIVATE_POLICIES: Final = make_right("action", "policy.activate")
"""To say which policy is in force."""
APPROVE: Final = make_right("action", "approve")
"""To answer requests, for instance whether a tool may be called."""

RIGHTS: Final[Mapping[Role, Permissions]] = {
    "admin": EVERYTHING,
    "member": Permissions(EVERYTHING.allow, MANAGING),
    # Tools and credentials are those of the agents that a guest was granted; without a grant there
    # is no session in which one could be used.
    "guest": Permissions((
        *actions("read", "invoke", "approve", "key.create"), *tools("*"), *credentials("*"),
    )),
}  # fmt: skip
"""What each role may do at most."""


@value
class Member:
    """A person who belongs to a workspace."""

    principal: str
    """``human:ana``."""
    role: Role
    since: Timestamp
    """When the role was given."""

    @property
    def name(self) -> str:
        """The person's name: ``ana``."""
        return self.principal.removeprefix("human:")


@value
class Invitation:
    """What a ledger knows about an invitation: never its code."""

    id: str
    invitee: str
    """The person who may accept it (``human:ana``), or the address that it was sent to."""
    role: Role
    created_by: str
    created_at: Timestamp
    expires_at: Timestamp
    accepted_by: str | None = None
    revoked_by: str | None = None
    ended_at: Timestamp | None = None

    def state_at(self, now: Timestamp) -> Literal["open", "accepted", "revoked", "expired"]:
        """Return what became of it."""
        if self.accepted_by is not None:
            return "accepted"
        if self.revoked_by is not None:
            return "revoked"
        return "open" if now < self.expires_at else "expired"


def roles_with(wanted: Right) -> list[Role]:
    """Return the roles that have a permission."""
    return [role for role in ROLES if RIGHTS[role].permits(wanted)]


def read_role(text: str) -> Role:
    """Return the role of a name.

    Raises:
        InvalidOperation: There is no such role.
    """
    for role in ROLES:
        if role == text:
            return role
    raise InvalidOperation(f"{text!r} is not a role: there are {', '.join(ROLES)}")


def as_person(name: str) -> str:
    """Return the principal of a person: ``ana`` and ``human:ana`` are both ``human:ana``.

    Raises:
        InvalidOperation: It is not the name of a person.
    """
    bare = name.removeprefix("human:")
    # The database writes who acts for whom as one text: a name must not look like such a pair.
    if not bare or bare != bare.strip() or BEHALF in bare or not bare.isprintable():
        raise InvalidOperation(f"{name!r} is not the name of a person")
    if len(bare) > NAME_CHARS_MAX:
        raise InvalidOperation(f"the name of a person has at most {NAME_CHARS_MAX} characters")
    kind, colon, _ = bare.partition(":")
    if colon and kind in ("agent", "session", "system"):
        raise InvalidOperation(f"{name!r} is not a person: only people are members")
    return f"human:{bare}"
