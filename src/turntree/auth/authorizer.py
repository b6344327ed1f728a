"""Check permissions and record every decision: no record, no action.

``auth.permissions`` and ``auth.delegation`` decide. This module records the decision in the stream
of the session before the caller may continue. It must never widen a permission.
"""

from typing import Final

from turntree.auth import audit
from turntree.auth.audit import Audit, Fact, FactPage, FactPosition
from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.permissions import Decision, Right, right
from turntree.auth.store import PermissionStore
from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.ids import Digest, SessionId, Timestamp, TurnId
from turntree.core.value import Facet, value

FACTS_PAGE: Final = 100


@value
class Authorizer(Facet):
    """``tree.authority``: who may do what, and who did."""

    permissions: PermissionStore
    world: Clock
    own: ExecutionContext
    """The tree's own context, for calls outside of every other."""

    async def grant(
        self,
        session: SessionId,
        *,
        context: ExecutionContext | None = None,
        persona: Digest | None = None,
    ) -> None:
        """Record the permissions of the acting principal in a session.

        Raises:
            NotFound: No such session.
        """
        acting = context or find_current() or self.own
        data = audit.granted_data(acting.chain, persona=persona)
        await self.permissions.record(session, audit.GRANTED, data, at=self.world.now())

    async def use(
        self, session: SessionId, wanted: Right, *, context: ExecutionContext | None = None
    ) -> Decision:
        """Record that a permission is used in a session, and return once that is durable.

        Raises:
            PermissionDenied: The permission is missing; the denial is recorded too.
            NotFound: No such session.
        """
        acting = context or find_current() or self.own
        decision = acting.decide(wanted)
        data = audit.judged_data(acting.principal, decision)
        await self.permissions.record(session, audit.kind_of(decision), data, at=self.world.now())
        if not decision.allowed:
            raise PermissionDenied(f"{decision.right} is denied: {decision.reason}")
        return decision

    async def get_credential(
        self, session: SessionId, name: str, *, context: ExecutionContext | None = None
    ) -> str:
        """Return a credential, after recording its use.

        Raises:
            PermissionDenied: No permission names it.
            NotFound: It is neither in the context nor in the environment.
        """
        acting = context or find_current() or self.own
        await self.use(session, right("credential", name), context=acting)
        return acting.get_credential(name)

    async def list_of_turn(self, turn: TurnId) -> list[Fact]:
        """Return what one turn was granted, used and was denied; empty if nothing is recorded."""
        return await self.permissions.list_turn_facts(turn)

    async def list_facts(
        self,
        *,
        session: SessionId | None = None,
        after: FactPosition | None = None,
        limit: int = FACTS_PAGE,
    ) -> FactPage:
        """Return a page of permissions granted, used and denied, in one session or in all.

        They come in the order in which their sessions and turns began. The permissions of a turn
        and the tools it used count as one towards ``limit``.

        Raises:
            InvalidOperation: A page has at least one.
        """
        if limit < 1:
            raise InvalidOperation(f"a page has at least one fact, not {limit}")
        return await self.permissions.list_fact_page(session=session, after=after, limit=limit)

    async def audit(
        self,
        *,
        session: SessionId | None = None,
        agent: str | None = None,
        since: Timestamp | None = None,
        until: Timestamp | None = None,
    ) -> Audit:
        """Return permissions granted, used, denied and never used, with the findings."""
        facts = await self.permissions.list_facts(session=session, until=until)
        if agent is not None:
            facts = [fact for fact in facts if audit.concerns(fact, agent)]
        return audit.audit(facts, since=since)
