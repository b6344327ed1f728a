"""Check permissions and record every decision: no record, no action.

``auth.permissions`` and ``auth.delegation`` decide. This module records the decision, in the stream
of the session or of the run, before the caller may continue. It must never widen a permission.
"""

from turntree.auth import audit
from turntree.auth.audit import Audit
from turntree.auth.execution_context import ExecutionContext, current
from turntree.auth.permissions import Decision, Right, right
from turntree.auth.store_port import PermissionPort
from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.errors import PermissionDenied
from turntree.core.event import Event, record
from turntree.core.ids import Digest, SessionId, Timestamp
from turntree.core.run import Run, RunEvent
from turntree.core.value import value
from turntree.ledger.store_port import LedgerPort


@value
class Authorizer:
    """``tree.authority``: who may do what, and who did."""

    permissions: PermissionPort
    ledger: LedgerPort
    world: Clock

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
        acting = context or current()
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
        acting = context or current()
        decision = acting.decide(wanted)
        data = audit.judged_data(acting.principal, decision)
        await self.permissions.record(session, audit.kind_of(decision), data, at=self.world.now())
        return _allowed(decision)

    async def use_in_run(
        self, run: Run, wanted: Right, *, epoch: int, context: ExecutionContext | None = None
    ) -> tuple[Run, Decision]:
        """Record a decision as the next event of a run; returns the run after it.

        A denial is returned and not raised: the model is told of it and the run continues.

        Raises:
            Conflict: Another worker took the run over.
        """
        acting = context or current()
        decision = acting.decide(wanted)
        data = audit.judged_data(acting.principal, decision)
        return await self._append(run, audit.kind_of(decision), data, epoch), decision

    async def grant_in_run(
        self,
        run: Run,
        *,
        epoch: int,
        context: ExecutionContext | None = None,
        persona: Digest | None = None,
    ) -> Run:
        """Record the acting principal's permissions in a run; returns the run after it.

        Raises:
            Conflict: Another worker took the run over.
        """
        data = audit.granted_data((context or current()).chain, persona=persona)
        return await self._append(run, audit.GRANTED, data, epoch)

    async def get_credential(
        self, session: SessionId, name: str, *, context: ExecutionContext | None = None
    ) -> str:
        """Return a credential, after recording its use.

        Raises:
            PermissionDenied: No permission names it.
            NotFound: It is neither in the context nor in the environment.
        """
        acting = context or current()
        await self.use(session, right("credential", name), context=acting)
        return acting.get_credential(name)

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

    async def _append(self, run: Run, kind: str, data: dict[str, Json], epoch: int) -> Run:
        event = Event(run.id, run.seq, kind, self.world.now(), data)
        fact = RunEvent(record(event).event, None)
        await self.ledger.append_fact(fact, epoch=epoch)
        return run.apply(fact)


def _allowed(decision: Decision) -> Decision:
    if not decision.allowed:
        raise PermissionDenied(f"{decision.right} is denied: {decision.reason}")
    return decision
