"""Login sessions: browsers in which a person has logged in to a server.

A session ends at a fixed time, after a pause, when its holder logs out, and with what it was begun
with: a removed member, a changed password, a revoked key and an unlinked account take their
sessions along.
"""

from typing import Final, Literal

from turntree.auth.access_code import use_due_at
from turntree.auth.delegation import DelegationChain
from turntree.auth.member import RIGHTS, Role
from turntree.auth.permissions import Permissions
from turntree.core.ids import Timestamp, WorkspaceId, unix_ms
from turntree.core.principal import Principal
from turntree.core.value import value

LOGIN_DAYS_MAX: Final = 14
"""A session ends after this time, however much it is used."""
PAUSE_MS_MAX: Final = 3 * 24 * 60 * 60 * 1000
"""A session that was not used for this long has ended."""
Method = Literal["password", "key", "invitation", "identity"]


@value
class LoginSession:
    """What a ledger knows about a login session: never the code in its cookie."""

    id: str
    holder: str
    """The person who logged in: ``human:ana``."""
    method: Method
    """With what the person logged in."""
    scopes: Permissions
    """What it permits, of what the holder may do: that of the key that it was begun with."""
    created_at: Timestamp
    expires_at: Timestamp
    last_used_at: Timestamp
    """To the minute."""
    key: str | None = None
    """The id of the API key that it was begun with."""
    ended_at: Timestamp | None = None
    ended_by: str | None = None
    identity: str | None = None
    """The id of the account at an identity provider that it was begun with."""

    def state_at(self, now: Timestamp) -> Literal["valid", "ended", "expired"]:
        """Return whether it opens anything."""
        if self.ended_at is not None:
            return "ended"
        is_idle = unix_ms(now) - unix_ms(self.last_used_at) > PAUSE_MS_MAX
        return "expired" if is_idle or now >= self.expires_at else "valid"

    @property
    def current_until(self) -> Timestamp:
        """When it expires, or a use of it is to be noted: long before a pause ends it."""
        return min(self.expires_at, use_due_at(self.last_used_at))

    def chain_as(self, role: Role) -> DelegationChain:
        """Return the delegation chain of a holder with a role: both limit it."""
        person = Principal("human", self.holder.removeprefix("human:"))
        return DelegationChain.begin(person, RIGHTS[role].intersect(self.scopes))


@value
class VerifiedLogin:
    """Who acts in a login session, where, and what they may do."""

    record: LoginSession
    workspace: WorkspaceId
    chain: DelegationChain

    @property
    def id(self) -> str:
        """The public id of the session."""
        return self.record.id
