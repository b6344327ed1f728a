"""``tree.personas``: record the persona of each turn, and change it only on purpose.

The rules are in ``auth.persona`` and ``auth.persona_fork``. This module gathers what they need and
records what they decide. It must never know where personas are registered.
"""

from turntree.auth.authorizer import Authorizer
from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.permissions import NOTHING, right
from turntree.auth.persona import Persona, read_scopes
from turntree.auth.persona_fork import PersonaForkDecision, PersonaForkRequest, decide_fork
from turntree.auth.store import PermissionStore
from turntree.core.canonical import Json, canonical
from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.ids import TurnId
from turntree.core.manifest import ManifestEntry
from turntree.core.session import Session
from turntree.core.value import Facet, value
from turntree.ledger.revisions import RevisionResolver
from turntree.ledger.sessions import Sessions
from turntree.ledger.store import Ledger

CHANGED = "session.persona_changed"


@value
class Personas(Facet):
    """``tree.personas``: the persona under which a thread continues."""

    permissions: PermissionStore
    ledger: Ledger
    sessions: Sessions
    revisions: RevisionResolver
    authority: Authorizer
    world: Clock

    async def pin(
        self, persona: Persona, *, context: ExecutionContext | None = None
    ) -> tuple[ManifestEntry, ...]:
        """Store a persona, its toolset and effective permissions; return their manifest entries.

        They go into the manifest of every turn that runs under it.
        """
        acting = context or find_current() or self.authority.own
        given = persona.get_toolset()
        rights = persona.granted.intersect(acting.rights)
        return (
            ManifestEntry("persona", persona.agent, await self.ledger.put_object(persona.body)),
            ManifestEntry(
                "toolset", given.name, await self.ledger.put_object(canonical(given.to_json()))
            ),
            ManifestEntry(
                "permissions", "granted", await self.ledger.put_object(canonical(rights.to_json()))
            ),
        )

    async def decide_fork(
        self,
        revision: str | TurnId,
        persona: Persona,
        *,
        owner_grants: bool = False,
        confirmed: bool = False,
        context: ExecutionContext | None = None,
    ) -> PersonaForkDecision:
        """Return whether a thread may continue under another persona, and why; changes nothing.

        Raises:
            NotFound: No such turn.
        """
        acting = context or find_current() or self.authority.own
        turn = (await self.revisions.resolve(revision)).turn
        pinned = await self.permissions.list_personas(turn)
        asked = PersonaForkRequest(
            source=Persona.from_json(pinned[0]).permitted if pinned else NOTHING,
            scopes=read_scopes(pinned),
            target=persona,
            caller=acting.rights,
            may_read=acting.decide(right("action", "read")).allowed,
            owner_grants=owner_grants,
            confirmed=confirmed,
        )
        return decide_fork(asked)

    async def fork(
        self,
        revision: str | TurnId,
        label: str,
        persona: Persona,
        *,
        owner_grants: bool = False,
        confirmed: bool = False,
        context: ExecutionContext | None = None,
    ) -> Session:
        """Create a session at any turn that continues under another persona.

        Its stream records the change and the reason; its first turn records the version. The
        session, the change and its grants are committed together: no fork is left without its
        persona.

        Raises:
            PermissionDenied: The rules are against it; the message lists every reason.
            InvalidOperation: It needs to be confirmed, or the agent would act on its own behalf.
            Conflict: The label is taken.
            NotFound: No such turn.
        """
        acting = context or find_current() or self.authority.own
        decided = await self.decide_fork(
            revision, persona, owner_grants=owner_grants, confirmed=confirmed, context=acting
        )
        if decided.verdict == "deny":
            raise PermissionDenied("; ".join(decided.reasons))
        if decided.verdict == "confirm":
            raise InvalidOperation("; ".join(decided.reasons))
        # Built before anything is written: an invalid chain must leave no fork behind.
        under = acting.assume(persona)
        async with self.permissions.database.keep_together():
            session = await self.sessions.fork(revision, label)
            told: dict[str, Json] = {
                "by": acting.principal.to_json(),
                "persona": persona.agent,
                "digest": await self.ledger.put_object(persona.body),
                "change": decided.change,
                "reasons": list(decided.reasons),
            }
            await self.permissions.record(session.id, CHANGED, told, at=self.world.now())
            await self.authority.grant(session.id, context=under, persona=persona.digest)
        return session
