"""The toolset protocol: tools that a model may call."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from turntree.core.canonical import Json
from turntree.core.ids import RunId, SessionId
from turntree.core.message import ToolResult, ToolStatus, ToolUse
from turntree.core.value import value
from turntree.models.prompt import ToolSpec


@value
class GivenAnswer:
    """What a person answered to the question that a call asked before."""

    state: Mapping[str, Json]
    """The state of the question, as the toolset gave it."""
    decision: Literal["answered", "rejected"]
    answer: Json = None


@value
class ToolContext:
    """The run and session in which a tool is called."""

    run: RunId
    session: SessionId | None
    call_id: str
    answer: GivenAnswer | None = None
    """Given if the call asked a question: the toolset continues the call with it."""


@value
class ToolFile:
    """An image, a sound or a file that a tool returns."""

    kind: Literal["image", "audio", "file"]
    media_type: str
    data: bytes
    name: str | None = None


@value
class ToolReply:
    """The outcome of a call with files in it, which are stored as objects."""

    call_id: str
    status: ToolStatus
    pieces: tuple[str | ToolFile, ...]


@value
class ToolQuestion:
    """A question for a person, without whose answer a call cannot go on.

    The run is parked, and any worker continues the call once there is an answer.
    """

    call_id: str
    text: str
    schema: Mapping[str, Json] | None
    """The JSON Schema of the answer; None where a confirmation is enough."""
    state: Mapping[str, Json]
    """What the toolset needs to continue. It is recorded, and no other part reads it."""


ToolOutcome: TypeAlias = ToolResult | ToolReply | ToolQuestion


class Toolset(Protocol):
    """A set of tools, each with a schema of its arguments."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The specs of the tools, in a stable order."""
        ...

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolOutcome:
        """Return the result of a call; a failure of the tool is a result, not an exception.

        The caller cancels it after ``ToolSpec.timeout_s``, or when the run is canceled.
        """
        ...
