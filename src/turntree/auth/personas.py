"""Personas at work: pinned by the turns taken under them, and changed only on purpose.

The rules are those of ``domain.persona`` and ``domain.persona_fork``. This module gathers what they
need and writes down what they decided. It must never know where personas are registered.
"""

from turntree.auth.authorizer import Authorizer
from turntree.auth.execution_context import ExecutionContext, current
from turntree.auth.permissions import NOTHING, right
from turntree.auth.persona import Persona, read_scopes
from turntree.auth.persona_fork import PersonaForkDecision, PersonaForkRequest, decide_fork
from turntree.auth.store_port import PermissionPort
from turntree.core.canonical import Json, canonical
from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.ids import TurnId
from turntree.core.manifest import ManifestEntry
from turntree.core.session import Session
from turntree.core.value import value
from turntree.db.locks import Transaction
from turntree.ledger.revisions import RevisionResolver
from turntree.ledger.sessions import Sessions
from turntree.ledger.store_port import LedgerPort

CHANGED = "session.persona_changed"


@value
class Personas:
    """``tree.personas``: under whom a thread goes on."""

    permissions: PermissionPort
    ledger: LedgerPort
    sessions: Sessions
    revisions: RevisionResolver
    authority: Authorizer
    world: Clock
    together: Transaction

    async def pin(
        self, persona: Persona, *, context: ExecutionContext | None = None
    ) -> tuple[ManifestEntry, ...]:
        """Keep a persona, its toolset and the rights that are left of it; return their entries.

        They go into the manifest of every turn that is taken under it.
        """
        acting = context or current()
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
        """Say whether a thread may go on under another persona, and why; nothing is changed.

        Raises:
            NotFound: No such turn.
        """
        acting = context or current()
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
        """Begin a session at any turn that goes on under another persona.

        Its stream says who changed to whom and why; its first turn pins the version. The session,
        the change and what it grants become true together: no fork is left without its persona.

        Raises:
            PermissionDenied: The rules are against it; the message holds every reason.
            InvalidOperation: It needs to be confirmed, or the agent would act on its own behalf.
            Conflict: The name is taken.
            NotFound: No such turn.
        """
        acting = context or current()
        decided = await self.decide_fork(
            revision, persona, owner_grants=owner_grants, confirmed=confirmed, context=acting
        )
        if decided.verdict == "deny":
            raise PermissionDenied("; ".join(decided.reasons))
        if decided.verdict == "confirm":
            raise InvalidOperation("; ".join(decided.reasons))
        # Before anything is written: a chain that cannot be built must leave no fork behind.
        under = acting.assume(persona)
        async with self.together():
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
