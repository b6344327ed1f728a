"""Tools: what a model may have done."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import RunId, SessionId
from turntree.core.message import ToolResult, ToolUse
from turntree.core.value import value
from turntree.models.prompt import ToolSpec


@value
class ToolContext:
    """In which run a tool is called."""

    run: RunId
    session: SessionId | None
    call_id: str


class Toolset(Protocol):
    """Some tools, each with the shape of its arguments."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """What a model is told of them, in a lasting order."""
        ...

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult:
        """Do what a call asks for. What goes wrong inside is a result, not an error.

        The caller ends it after ``ToolSpec.timeout_s``, or when the run is canceled.
        """
        ...
