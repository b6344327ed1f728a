"""Runs: a message on its way to becoming a turn, what became of it, and its events."""

from typing import Literal

from turntree.core.value import value

RunState = Literal["waiting", "open", "parked", "finished"]
ChunkKind = Literal["text", "reasoning", "tool", "restart"]


@value
class QueuedRun:
    """A message that was accepted: the run that answers it."""

    run: str
    """Its address, and that of the turn which it becomes."""
    session: str
    """The label of the session that it is in."""
    agent: str | None
    """The agent that answers."""
    repeated: bool
    """Whether a message with the same Idempotency-Key was accepted before: this is that one."""
    redacted: int
    """Number of secret keys that were removed from the text."""


@value
class RunDocument:
    """What became of a run."""

    run: str
    status: RunState
    """``waiting`` until a worker starts it."""
    outcome: str | None = None
    """How the turn ended, once it is finished."""
    digest: str | None = None
    """The digest of the turn, once it is finished."""
    depth: int | None = None
    reason: str = ""
    """Why it is parked, or why it failed."""
    next: tuple[str, ...] = ()
    """What helps against a failure."""


@value
class OpenRunDocument:
    """A run that is not finished."""

    run: str
    session: str
    """The id of its session."""
    status: str
    started_at: str
    is_canceled: bool


@value
class RunPage:
    """A page of runs that are not finished, oldest first."""

    runs: tuple[OpenRunDocument, ...]
    next: str | None
    """The cursor of the next page."""


@value
class CanceledRun:
    """The run whose cancellation was requested."""

    run: str | None
    """Null if there was nothing to cancel."""


@value
class StepDocument:
    """An event of a run: permanent, in contrast to the chunks that announced it."""

    kind: str
    """Such as ``run.started`` or ``model_call.finished``."""
    seq: int
    at: str
    role: str | None = None
    text: str = ""
    """What was said, if the event carries a message."""
    reason: str = ""


@value
class ChunkDocument:
    """Text in progress. Once its step is recorded, only that counts."""

    kind: ChunkKind
    """``restart`` discards the chunks of the step so far."""
    seq: int
    """The step that the text will become."""
    text: str
    tool: str | None = None
    call: str | None = None
