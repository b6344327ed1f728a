"""The one tool of the agent that decides who answers: it names agents, and changes nothing.

The decision takes effect when the turn is sealed, so a call that is repeated after a crash, or
made twice, decides nothing twice: the last one counts.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from turntree.conversations.triage import ROUTE
from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId
from turntree.tools.functions import FunctionTools, tool
from turntree.tools.toolset import ToolContext

FindCandidates = Callable[[RunId], Awaitable[Sequence[str]]]
"""Returns the agents that may be named in a run."""


def route_tools(find_candidates: FindCandidates) -> FunctionTools:
    """Return the toolset; only a system agent is offered it."""

    @tool(name=ROUTE, is_repeatable=True, is_read_only=True)
    async def route(
        agents: Annotated[list[str], "Names of the agents that have to answer; none is common."],
        reason: Annotated[str, "Why, in one short sentence for the people who take part."],
        context: ToolContext,
    ) -> str:
        """Say which agents have to answer the post, if any."""
        known = await find_candidates(context.run)
        if unknown := [one for one in agents if one not in known]:
            raise InvalidOperation(f"{unknown[0]!r} is none of {', '.join(known)}")
        if not reason.strip():
            raise InvalidOperation("a decision has a reason")
        return "decided: say no more than one word"

    return FunctionTools([route], name="ledger")
