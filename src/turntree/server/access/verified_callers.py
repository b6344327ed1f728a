"""Remembers that a credential was verified, and what its caller acts with.

Only what was valid is remembered, never a refusal: each of those is looked up, and recorded, again.
Whatever another process revokes opens nothing ``VERIFIED_S`` later. What this process revokes
opens nothing from then on, and an expiry is compared with the clock at every use.

To look up each of 200 keys twice a second would cost more than the reading that is done with them.
Every change of a key, a login session or a member is an event of one stream of the workspace, so
that its newest event tells for all of them whether there was one. A token is looked up itself.

A caller's tree and settings follow from the workspace and the delegation chain alone. They are used
again if the next verification finds the same two. No answer is kept.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Literal
from uuid import UUID

from turntree.auth.execution_context import ExecutionContext
from turntree.auth.member_store import ACCESS_CHANGES
from turntree.core.clock import Clock
from turntree.core.ids import Timestamp
from turntree.core.value import value
from turntree.server.access.caller import ApiCaller
from turntree.server.access.workspaces import ServedWorkspace
from turntree.server.problems import Refusal

VERIFIED_S: Final = 0.5
"""Seconds for which it is not asked again whether a credential is still valid."""
CALLERS_MAX: Final = 1_000


@value
class Credential:
    """What a request sends to say who sends it."""

    kind: Literal["bearer", "cookie"]
    """A code that a browser sends by itself is not accepted as a header, nor the other way."""
    workspace: str
    """The name in the path of the request."""
    text: str
    place: tuple[str, str, bytes] = field(init=False, compare=False)
    """Under what its caller is remembered, in which no secret can be read."""

    def __post_init__(self) -> None:
        """Compute the digest once: each request looks for its caller in several places."""
        place = self.kind, self.workspace, hashlib.sha256(self.text.encode()).digest()
        object.__setattr__(self, "place", place)

    def __repr__(self) -> str:
        """Return what it is for, and nothing of the secret."""
        return f"Credential({self.kind!r}, {self.workspace!r})"


@value
class VerifiedCredential:
    """Where a credential leads, and who acts with it."""

    workspace: ServedWorkspace
    acting: ExecutionContext
    current_until: Timestamp
    """When it expires, or a use of it has to be noted."""
    latest: int | None = None
    """The newest change of who may do what, from before; None if it does not tell."""


@dataclass(slots=True, eq=False)
class _KnownCaller:
    verified: VerifiedCredential
    caller: ApiCaller
    began: float
    """When the verification did, or the look at the newest change that confirmed it."""
    changes: int
    """The changes of this process that came before."""


class LatestChanges:
    """The newest change of who may do what, in each workspace; asked twice a second at most."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._found: dict[UUID, tuple[float, int]] = {}

    async def find(self, workspace: ServedWorkspace, *, since: float) -> tuple[float, int]:
        """Return when the newest change was looked up, not before a time, and its number."""
        found = self._found.get(workspace.id)
        if found is None or found[0] < since:
            began = time.monotonic()
            found = began, await workspace.tree.members.store.find_latest_change()
            self._found[workspace.id] = found
        return found


class VerifiedCallers:
    """The callers of one server process whose credentials were verified last."""

    def __init__(self, clock: Clock, *, callers_max: int = CALLERS_MAX) -> None:
        """Begin without a caller."""
        self.latest = LatestChanges()
        self._clock = clock
        self._callers_max = callers_max
        self._known: OrderedDict[tuple[str, str, bytes], _KnownCaller] = OrderedDict()

    async def identify(
        self,
        credential: Credential,
        verify: Callable[[], Awaitable[VerifiedCredential]],
        make: Callable[[VerifiedCredential], ApiCaller],
    ) -> ApiCaller:
        """Return the caller of a credential that is valid, or was a moment ago.

        Raises:
            Refusal: It is not valid.
        """
        place = credential.place
        began, changes = time.monotonic(), ACCESS_CHANGES.made
        known = self._known.get(place)
        if known is not None and await self._is_valid(known, began):
            return known.caller
        try:
            verified = await verify()
        except Refusal:
            self._known.pop(place, None)
            raise
        if known is not None and _is_same(known.verified, verified):
            caller = known.caller
        else:
            caller = make(verified)
        self._known[place] = _KnownCaller(verified, caller, began, changes)
        self._known.move_to_end(place)
        while len(self._known) > self._callers_max:
            self._known.popitem(last=False)
        return caller

    async def _is_valid(self, known: _KnownCaller, now: float) -> bool:
        if now - known.began >= VERIFIED_S:
            if known.verified.latest is None:
                return False
            workspace = known.verified.workspace
            looked_at, latest = await self.latest.find(workspace, since=now - VERIFIED_S)
            if latest != known.verified.latest:
                return False
            known.began = max(known.began, looked_at)
        # Last, because another request may have revoked it while this one waited.
        is_unchanged = known.changes == ACCESS_CHANGES.made
        return is_unchanged and self._clock.now() < known.verified.current_until

    def remembers(self, credential: Credential) -> bool:
        """Return whether a credential was valid when it was verified last, a while ago perhaps."""
        return credential.place in self._known

    def forget(self, credential: Credential) -> None:
        """Verify a credential anew at its next use."""
        self._known.pop(credential.place, None)


def _is_same(one: VerifiedCredential, other: VerifiedCredential) -> bool:
    """Return whether two verifications lead to the same caller: a role may have changed between."""
    return one.workspace is other.workspace and one.acting == other.acting
