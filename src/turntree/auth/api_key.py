"""API keys: what a ledger knows about one, and what a key that was verified permits."""

from typing import Final, Literal

from turntree.auth.access_code import use_due_at
from turntree.auth.delegation import DelegationChain
from turntree.auth.member import RIGHTS, Role
from turntree.auth.permissions import Permissions
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp, WorkspaceId
from turntree.core.principal import Principal
from turntree.core.value import value

NAME_CHARS_MAX: Final = 200
KEY_DAYS_DEFAULT: Final = 90
KEY_DAYS_MAX: Final = 3650


@value
class ApiKey:
    """What a ledger knows about a key: never the key itself."""

    id: str
    name: str
    """What it is for, in the words of its holder."""
    holder: str
    """The person whose rights it has at most: ``human:ana``."""
    agent: str | None
    """The agent that acts with it on the holder's behalf; None if the holder does."""
    scopes: Permissions
    """What it permits, of what the holder may do."""
    created_at: Timestamp
    expires_at: Timestamp
    last_used_at: Timestamp | None = None
    """To the minute."""
    revoked_by: str | None = None
    revoked_at: Timestamp | None = None
    reason: str | None = None

    def state_at(self, now: Timestamp) -> Literal["valid", "revoked", "expired"]:
        """Return whether it opens anything."""
        if self.revoked_at is not None:
            return "revoked"
        return "valid" if now < self.expires_at else "expired"

    @property
    def current_until(self) -> Timestamp:
        """When it expires or a use of it is to be noted; if it was not used, when it was made."""
        if self.last_used_at is None:
            return self.created_at
        return min(self.expires_at, use_due_at(self.last_used_at))

    def chain_as(self, role: Role) -> DelegationChain:
        """Return the delegation chain of a holder with a role: both limit it."""
        person = Principal("human", self.holder.removeprefix("human:"))
        chain = DelegationChain.begin(person, RIGHTS[role].intersect(self.scopes))
        return chain if self.agent is None else chain.delegate(_agent(self.agent), self.scopes)


@value
class VerifiedKey:
    """Who acts with a key, where, and what they may do."""

    record: ApiKey
    workspace: WorkspaceId
    chain: DelegationChain

    @property
    def id(self) -> str:
        """The public id of the key."""
        return self.record.id

    @property
    def principal(self) -> Principal:
        """The acting principal, and on whose behalf."""
        return self.chain.principal

    @property
    def rights(self) -> Permissions:
        """What the key permits: its scopes, of what its holder may do today."""
        return self.chain.rights


def check_key_name(name: str) -> str:
    """Return the name of a key.

    Raises:
        InvalidOperation: It is empty, too long, or not printable.
    """
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise InvalidOperation(
            f"a key's name has 1 to {NAME_CHARS_MAX} printable characters, unlike {name[:80]!r}"
        )
    return name


def _agent(name: str) -> Principal:
    return Principal("agent", name)
