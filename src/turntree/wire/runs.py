"""Runs: a message on its way to becoming a turn, what became of it, and its events."""

from typing import Literal

from turntree.core.value import value
from turntree.wire.threads import MessageDocument

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
    new_model: "ModelOption | None" = None
    """The model that was set up for it, from a vendor's key."""


@value
class ModelOption:
    """A model that a message may name."""

    name: str
    model_id: str
    """Its vendor's name for it."""
    provider: str | None
    state: str


@value
class SendPreview:
    """What a message would lead to, if it were sent now."""

    session: str | None
    """The label of the session that it continues; null if none exists yet."""
    begins: str | None
    """The label of the session that begins with it; another one if that is taken meanwhile."""
    at: str | None
    """The turn that it follows; null if it is the first of its thread."""
    agent: str | None
    """The agent that answers; null if a model does."""
    model: ModelOption | None
    """The model that answers."""
    key: str | None
    """The variable with a vendor's key from which a model is set up, because there is none."""
    is_served: bool
    """Whether a worker runs; without one the message waits."""
    problem: str = ""
    """Why nothing can answer; empty if something can."""
    next: tuple[str, ...] = ()
    """What helps against that, and where no worker runs."""
    models: tuple[ModelOption, ...] = ()
    """The models that the message may name instead."""


@value
class UnfinishedRun:
    """A message that is being answered, or waits for its turn."""

    run: str
    status: RunState
    at: str
    """When it was sent; when its run started, if it has."""
    is_canceled: bool
    text: str = ""
    """The beginning of what was said, while it waits."""
    by: str = ""
    """Who sent it, while it waits."""
    reason: str = ""
    """What its run waits for, if it is parked."""


@value
class FailedMessage:
    """A message that could not be answered, and that no later one followed."""

    run: str
    text: str
    reason: str
    next: tuple[str, ...]
    """What helps."""


@value
class SessionRuns:
    """The messages of a session that are not answered yet, in the order of their answers."""

    runs: tuple[UnfinishedRun, ...]
    failed: FailedMessage | None
    """The last one, if it failed."""


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
    message: MessageDocument | None = None
    """The same with tool calls and their results, as in a turn; its number is ``seq``."""
    call: str | None = None
    """The tool call that the event is about."""


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
