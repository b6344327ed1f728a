"""The tools ``ledger.search``, ``ledger.fork`` and ``ledger.send`` of our own agents.

They are those of ``turntree.memory.memory``, which other tools' agents call by another protocol,
and they act for the run that calls them: what its sender, its persona and the message permit.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Final

from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext, current
from turntree.auth.permissions import Right, right
from turntree.core.errors import PermissionDenied
from turntree.memory.memory import Memory
from turntree.tools.functions import FunctionTools, tool
from turntree.tools.ledger import READS

READ: Final = right("action", "read")
CREATE: Final = right("action", "create")
INVOKE: Final = right("action", "invoke")
ActAs = Callable[[ExecutionContext], Tree]
"""Returns the workspace as a principal sees it, with that principal's rights."""


def history_tools(act_as: ActAs) -> FunctionTools:
    """Return the toolset of a worker."""

    def memory_with(wanted: Right) -> Memory:
        @asynccontextmanager
        async def open_tree() -> AsyncGenerator[Tree]:
            decision = current().decide(wanted)
            if not decision.allowed:
                raise PermissionDenied(decision.reason)
            yield act_as(current())

        return Memory(open_tree)

    @tool(name="ledger.search", is_repeatable=True, is_read_only=True, effects=READS)
    async def search(
        query: Annotated[
            str, 'Words, a "phrase", file:PATH, tool:NAME, in:SESSION, after:2026-11-01.'
        ],
        skip: Annotated[int, "Results to leave out, as the last answer said."] = 0,
    ) -> str:
        """Find turns of all sessions that you may see, by what was asked, answered or done."""
        return await memory_with(READ).search(query, skip)

    @tool(name="ledger.fork", is_read_only=True, effects=())
    async def fork(
        turn: Annotated[str, "A citation such as 3f2a9c1b04de, or a session's label."],
        label: Annotated[str, "Name of the new session."],
    ) -> str:
        """Begin a new session at a past turn; nothing is copied or changed."""
        return await memory_with(CREATE).fork(turn, label)

    @tool(name="ledger.send", is_read_only=True, effects=("external_write",))
    async def send(
        to: Annotated[str, "A session, a turn, or an agent as @(NAME)."], message: str
    ) -> str:
        """Queue a message for another session or agent; does not wait for the answer."""
        return await memory_with(INVOKE).send(to, message)

    return FunctionTools([search, fork, send], name="ledger")
