"""The judge: asks the policy that is in force about each call.

Which policy that is, is read once. A worker that goes on with an older one is refused when it
records a decision (``db/functions/48_policies.sql``), forgets what it read and asks again: so a
policy is in force everywhere from the moment it is activated, and no call costs a statement more.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from turntree.policy.call import JudgedCall
from turntree.policy.decision import PolicyDecision
from turntree.policy.evaluate import Evaluator
from turntree.policy.local import shipped_policy
from turntree.policy.policy import Policy

FindActivePolicy = Callable[[str | None], Awaitable[Policy | None]]
"""Returns the policy that was activated for an agent, or for all; None if none was."""


@dataclass(slots=True)
class PolicyJudge:
    """Decides about tool calls."""

    evaluator: Evaluator
    find_active: FindActivePolicy
    _known: dict[str | None, Policy] = field(default_factory=dict[str | None, Policy])

    async def decide(self, call: JudgedCall) -> PolicyDecision:
        """Return what the policy in force decides; a policy that fails denies."""
        return await self.evaluator.decide(await self._policy_for(call.agent), call)

    def forget(self) -> None:
        """Read the policies again before the next decision."""
        self._known.clear()

    async def _policy_for(self, agent: str | None) -> Policy:
        if agent not in self._known:
            self._known[agent] = await self.find_active(agent) or shipped_policy()
        return self._known[agent]
