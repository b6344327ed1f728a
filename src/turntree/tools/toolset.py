"""The toolset protocol: tools that a model may call."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import RunId, SessionId
from turntree.core.message import ToolResult, ToolUse
from turntree.core.value import value
from turntree.models.prompt import ToolSpec


@value
class ToolContext:
    """The run and session in which a tool is called."""

    run: RunId
    session: SessionId | None
    call_id: str


class Toolset(Protocol):
    """A set of tools, each with a schema of its arguments."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The specs of the tools, in a stable order."""
        ...

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult:
        """Return the result of a call; a failure of the tool is a result, not an exception.

        The caller cancels it after ``ToolSpec.timeout_s``, or when the run is canceled.
        """
        ...
