"""``tree.policies``: which policy decides about tool calls, and what another would have.

Source, docstring and tests are one proposal. A person activates it, and never while a test fails.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable

from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.member import ACTIVATE_POLICIES, PROPOSE_POLICIES, roles_with
from turntree.auth.member_store import MemberStore
from turntree.auth.members import require_action
from turntree.core.clock import Clock
from turntree.core.errors import Hint, InvalidOperation, NotFound, PermissionDenied
from turntree.core.program import name_in
from turntree.core.run import ASSISTANT
from turntree.core.value import Facet, value
from turntree.policy.call import JudgedCall
from turntree.policy.decision import PolicyDecision, Verdict
from turntree.policy.evaluate import Evaluator, defaults_of
from turntree.policy.judge import PolicyJudge
from turntree.policy.local import shipped_policy
from turntree.policy.policy import Policy, PolicyLane, PolicyTest, read_policy
from turntree.policy.store import PolicyStore, PolicyVersion
from turntree.programs.service import Programs
from turntree.sandbox.code import Language

NOTES_CHARS_MAX = 1000


@value
class PolicyTestResult:
    """A test of a policy, and what the policy decided."""

    test: PolicyTest
    decision: PolicyDecision

    @property
    def has_passed(self) -> bool:
        """Whether the policy gave the verdict that the test wants, and did not fail."""
        return self.decision.verdict == self.test.verdict and not self.decision.has_failed


@value
class RecordedDecision:
    """A recorded call, and what a policy decides about it."""

    turn: str
    """The turn in which the call was made."""
    call: JudgedCall
    decision: PolicyDecision
    recorded: Verdict | None = None
    """What was decided when the call was made, if it was judged."""


ReadCalls = Callable[[int], AsyncIterator[tuple[str, JudgedCall, Verdict | None]]]
"""Yields the newest recorded calls, at most so many: turn, call and the verdict of then."""


@value
class Policies(Facet):
    """``tree.policies``: the policies of the workspace."""

    store: PolicyStore
    members: MemberStore
    world: Clock
    own: ExecutionContext
    programs: Programs
    find_evaluator: Callable[[], Evaluator]
    read_calls: ReadCalls

    async def propose(
        self,
        source: str,
        *,
        language: Language = "python",
        lane: PolicyLane | None = None,
        agent: str | None = None,
        notes: str | None = None,
    ) -> PolicyVersion:
        """Record a policy as a version that is not in force, and return it.

        ``agent`` is the agent whose calls alone it judges.

        Raises:
            PermissionDenied: Only members may propose; the denial is recorded.
            NotFound: There is no such agent.
            InvalidOperation: It has no ``decide``, docstring or test.
        """
        policy = read_policy(source, language, lane)
        if notes is not None and len(notes) > NOTES_CHARS_MAX:
            raise InvalidOperation(f"notes have at most {NOTES_CHARS_MAX} characters")
        return await self._record(policy, await self._require_agent(agent), notes)

    async def test(self, policy: Policy) -> list[PolicyTestResult]:
        """Return the results of a policy's tests."""
        evaluator = self.find_evaluator()
        return [
            PolicyTestResult(one, await evaluator.decide_request(policy, defaults_of(one.request)))
            for one in policy.tests
        ]

    async def activate(self, number: int, *, agent: str | None = None) -> PolicyVersion:
        """Put a version in force from now on, for every worker, and return it.

        The policy that was in force before stays in the history and can be activated again; 0 is
        the shipped one.

        Raises:
            PermissionDenied: Only an admin who acts directly may; the denial is recorded.
            NotFound: There is no such version, or no such agent.
            InvalidOperation: One of its tests fails.
        """
        agent = await self._require_agent(agent)
        by, at = await require_action(self.members, ACTIVATE_POLICIES, self.own), self.world.now()
        acting = (find_current() or self.own).principal
        if acting.kind != "human":
            reason = "only a person who acts directly can activate a policy"
            await self.members.note_denial(by, "policy.activate", reason)
            raise PermissionDenied(f"{acting} cannot activate a policy: only a person can")
        await self.members.ensure(at=at)
        version = await self.get(number, agent=agent)
        if failed := [one for one in await self.test(version.policy) if not one.has_passed]:
            first = failed[0]
            given = first.decision
            what = f"{given.verdict} instead of {first.test.verdict}"
            raise InvalidOperation(
                f"{len(failed)} of {version.tests} tests fail, first {first.test.name!r}:"
                f" {given.reason if given.has_failed else what}",
                hint=Hint("policy.history"),
            )
        if version.number == 0:
            version = await self._record(version.policy, agent, "the shipped policy")
        await self.store.activate(
            version, by=by, at=at, right="policy.activate", roles=roles_with(ACTIVATE_POLICIES)
        )
        return await self.get(version.number, agent=agent)

    async def history(self, *, agent: str | None = None) -> list[PolicyVersion]:
        """Return all versions, newest first, and the shipped one, which is number 0."""
        versions = await self.store.list_versions(name_in(agent) if agent else None)
        shipped = shipped_policy()
        is_active = not agent and not any(one.is_active for one in versions)
        return [
            *versions,
            PolicyVersion(
                0, shipped.digest, shipped.source, shipped.language, shipped.lane,
                shipped.docstring, len(shipped.tests), is_active,
            ),
        ]  # fmt: skip

    async def get(self, number: int, *, agent: str | None = None) -> PolicyVersion:
        """Return a version; 0 is the shipped one.

        Raises:
            NotFound: There is no such version.
        """
        for one in await self.history(agent=agent):
            if one.number == number:
                return one
        raise NotFound(f"there is no policy {number}", hint=Hint("policy.history"))

    async def get_active(self, *, agent: str | None = None) -> PolicyVersion:
        """Return the version in force: an agent's own, or else that of the workspace."""
        for scope in dict.fromkeys((agent, None)):
            for one in await self.history(agent=scope):
                if one.is_active:
                    return one
        raise NotFound("no policy is in force", hint=Hint("policy.history"))

    async def decide(self, call: JudgedCall) -> PolicyDecision:
        """Return what the policy in force decides about a call; nothing is recorded."""
        return await PolicyJudge(self.find_evaluator(), self.store.find_active).decide(call)

    async def try_on(self, policy: Policy, *, limit: int) -> AsyncGenerator[RecordedDecision, None]:
        """Yield what a policy decides about the newest calls of the ledger; nothing is recorded."""
        evaluator = self.find_evaluator()
        async for turn, call, verdict in self.read_calls(limit):
            decision = await evaluator.decide(policy, call)
            yield RecordedDecision(turn, call, decision, verdict)

    async def _require_agent(self, agent: str | None) -> str | None:
        """Return the name of an agent: a policy of a mistyped one would never be asked."""
        if not agent or agent == ASSISTANT:
            return agent or None
        found = await self.programs.get(agent)
        if found.kind != "agent":
            raise InvalidOperation(
                f"{found.name!r} is a {found.kind}, not an agent",
                hint=Hint("program.list_kind", {"kind": "agent"}),
            )
        return found.name

    async def _record(self, policy: Policy, agent: str | None, notes: str | None) -> PolicyVersion:
        by, at = await require_action(self.members, PROPOSE_POLICIES, self.own), self.world.now()
        await self.members.ensure(at=at)
        number = await self.store.propose(
            policy, agent=agent, notes=notes, by=by, at=at, right="policy.propose",
            roles=roles_with(PROPOSE_POLICIES),
        )  # fmt: skip
        return await self.get(number, agent=agent)
