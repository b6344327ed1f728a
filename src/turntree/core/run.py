"""The run: one attempt at a turn, as a state machine without I/O.

A run is never stored; its events are. ``Run.replay`` folds them and ``next_step`` says what remains
to be done, so that a run continues after its last recorded event, on any machine, after any crash,
with newer code.

    run.started ─> model_call.started ─> model_call.finished ─┬─> tool_call.started
                           ^                                  │           │
                           │                                  │           v
                           └──────────────────────────────────┼── tool_call.finished
                                                              └─> run.finished
    run.parked, run.unparked and run.interrupted may come in between; run.failed ends it. A run of a
    triage agent may end in route.chosen: the decision was plain, and no model was needed.

A call that was started and never finished is lost: a ``run.interrupted`` that names it, and an
``interrupted`` result, let the run continue. A ``run.interrupted`` that names no call ends the run;
it holds the text that a model had sent so far, which becomes the end of the reply.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from turntree.core import usage
from turntree.core.canonical import Json, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.event import Event
from turntree.core.ids import RunId, SessionId
from turntree.core.message import Message, ObjectRef, ToolUse, line_of
from turntree.core.principal import Principal
from turntree.core.turn import Outcome, interrupt_calls
from turntree.core.usage import ModelCall
from turntree.core.value import value

ASSISTANT: Final = "assistant"
"""The agent that acts if neither the message nor the session names one."""

InterruptionReason = Literal[
    "crash", "shutdown", "context_reset", "approval_denied", "timeout", "canceled", "system_restart"
]

STEPS_MAX: Final = 500
"""Maximum number of model responses in a run that has no limit of its own: a model that never stops
calling tools must end at a bounded cost."""


@value
class RunEvent:
    """An event of a run, with its message if it has one.

    The event holds the digest; the message is stored next to it until sealing moves it into the
    turn.
    """

    event: Event
    message: Message | None = None

    def __post_init__(self) -> None:
        """Refuse a message that does not match the event.

        Raises:
            InvalidOperation: The event does not hold the digest of the message.
        """
        if self.message is not None:
            digest = digest_bytes(line_of(self.message))
            if self.event.data.get("message") != digest:
                raise InvalidOperation(
                    f"{self.event.kind} does not hold the digest of what was said"
                )

    @classmethod
    def of(cls, event: Event, message: Message | None = None) -> "RunEvent":
        """Return the event with the digest of the message added."""
        if message is None:
            return cls(event)
        data = {**event.data, "message": digest_bytes(line_of(message))}
        return cls(replace(event, data=data), message)


@value
class AskModel:
    """Send the thread, the query and the reply so far to the model."""

    is_requested: bool = False
    """The request is recorded and was never answered: repeat exactly this one."""


@value
class CallTools:
    """Execute these calls; record each as an intent before starting it."""

    uses: tuple[ToolUse | ObjectRef, ...]


@value
class SettleCalls:
    """These calls were started and have no result: their worker died."""

    call_ids: tuple[str, ...]


@value
class Fail:
    """The run cannot continue; record why."""

    reason: str


@value
class WaitForUnpark:
    """Nothing to do until the run is unparked."""

    reason: str


@value
class Seal:
    """Nothing is left to do: seal the turn with this reply and outcome."""

    outcome: Outcome
    reply: tuple[Message, ...]


@value
class Done:
    """The turn is sealed."""


Step = AskModel | CallTools | SettleCalls | Fail | WaitForUnpark | Seal | Done


@value
class Run:
    """The state that the events so far add up to."""

    id: RunId
    seq: int
    """Number of events so far; the position of the next one."""
    query: tuple[Message, ...] = ()
    reply: tuple[Message, ...] = ()
    begun: frozenset[str] = frozenset()
    """Calls that were recorded as started."""
    answered: frozenset[str] = frozenset()
    calls: tuple[ModelCall, ...] = ()
    parked: str | None = None
    interrupted: InterruptionReason | None = None
    failed: str | None = None
    requested: bool = False
    """A model was asked and has not answered yet."""
    steps_max: int | None = None
    """Maximum number of model responses, if the run has a limit of its own."""
    finished: bool = False

    @classmethod
    def replay(cls, id: RunId, facts: Iterable[RunEvent]) -> "Run":
        """Return the run that the events, in order, add up to.

        Raises:
            InvalidOperation: They are not the events of a run.
        """
        run = cls(id, 0)
        for fact in facts:
            run = run.apply(fact)
        return run

    def apply(self, fact: RunEvent) -> "Run":
        """Return the run after one more event.

        Raises:
            InvalidOperation: The event cannot follow.
        """
        # A run read from the ledger and one in memory go through the same checks, so a bug cannot
        # record what a restart could not read.
        self._check(fact.event)
        run = replace(self, seq=self.seq + 1)
        messages = () if fact.message is None else (fact.message,)
        data: dict[str, Any] = dict(fact.event.data)
        match fact.event.kind:
            case "run.started":
                return replace(run, query=messages, steps_max=data.get("max_steps"))
            case "message.appended":
                return replace(run, query=(*run.query, *messages))
            case "model_call.started":
                return replace(run, requested=True)
            case "model_call.finished":
                calls = (usage.from_json(data["call"]),) if "call" in data else ()
                reply = (*run.reply, *messages)
                return replace(run, reply=reply, requested=False, calls=(*run.calls, *calls))
            case "route.chosen":
                # No model was asked, or the one that was has failed.
                return replace(run, reply=(*run.reply, *messages), requested=False)
            case "tool_call.started":
                return replace(run, begun=run.begun | {data["call_id"]})
            case "tool_call.finished":
                answered = run.answered | {data["call_id"]}
                return replace(run, reply=(*run.reply, *messages), answered=answered)
            case "run.interrupted":
                # The part of the answer received so far is all there will be.
                return _moved(replace(run, reply=(*run.reply, *messages)), "run.interrupted", data)
            case kind:
                return _moved(run, kind, data)

    def _check(self, event: Event) -> None:
        if event.stream != self.id or event.seq != self.seq:
            raise InvalidOperation(
                f"fact {event.seq} of {event.stream} cannot be fact {self.seq} of {self.id}"
            )
        if (event.kind == "run.started") != (self.seq == 0):
            raise InvalidOperation("a run starts once, with its first fact")
        if self.finished and event.kind in (
            "model_call.finished",
            "tool_call.finished",
            "run.finished",
        ):
            raise InvalidOperation(f"the run is finished; {event.kind} comes too late")

    def next_step(self) -> Step:
        """Return what to do next; the same events always give the same step."""
        if self.finished:
            return Done()
        # The order of these questions is the rule of priority: an end that was recorded wins over
        # everything that is still open.
        if self.interrupted is not None:
            outcome: Outcome = "canceled" if self.interrupted == "canceled" else "interrupted"
            return Seal(outcome, interrupt_calls(self.reply, self.interrupted))
        if self.failed is not None:
            return Seal("failed", interrupt_calls(self.reply, self.failed))
        if self.parked is not None:
            return WaitForUnpark(self.parked)
        # Before new calls: a call that started and has no result may have had its effect, and only
        # the settling decides whether it may be made again.
        if lost := tuple(sorted(self.begun - self.answered)):
            return SettleCalls(lost)
        if waiting := self._waiting():
            # Checked here and not before asking: the last reply counts if it needs no tools.
            if self.steps >= self.steps_limit:
                return Fail("max_steps")
            return CallTools(waiting)
        if self.reply and self.reply[-1].role == "assistant":
            return Seal("completed", self.reply)
        # A request that is recorded without a reply was lost with its worker. It is sent again as
        # it was recorded, with the same model and parameters.
        return AskModel(self.requested)

    @property
    def steps_limit(self) -> int:
        """How many times the model may be asked."""
        return STEPS_MAX if self.steps_max is None else self.steps_max

    @property
    def steps(self) -> int:
        """Number of model responses so far."""
        return sum(1 for message in self.reply if message.role == "assistant")

    def _waiting(self) -> tuple[ToolUse | ObjectRef, ...]:
        return tuple(
            use
            for message in self.reply
            for use in message.tool_uses
            if use.call_id not in self.answered
        )


def options_of(started: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the options of the message that a run started with."""
    options = started.get("options")
    return options if isinstance(options, Mapping) else {}


def sender_of(started: Mapping[str, Json]) -> Principal:
    """Return the principal that sent the first message of a run."""
    return _read_principal(str(started["by"]))


@value
class Caller:
    """The tool call that sent a run's message and waits for its turn."""

    run: RunId
    call_id: str
    reader: Principal
    """The principal with whose access to programs and sessions the calling run works."""
    waiting: tuple[SessionId, ...]
    """The sessions whose runs wait for the turn, that of the calling run last."""

    @property
    def key(self) -> str:
        """The idempotency key of what it sends: a call that is repeated sends it only once."""
        return f"call:{self.run}:{self.call_id}"

    def to_json(self) -> dict[str, Json]:
        """Return the document that the run's first event has."""
        return {
            "run": self.run,
            "call_id": self.call_id,
            "reader": str(self.reader),
            "waiting": [*self.waiting],
        }


def caller_of(started: Mapping[str, Json]) -> Caller | None:
    """Return the tool call that sent the first message of a run; None if it was not one."""
    match options_of(started).get("caller"):
        case {"run": run, "call_id": call_id, "reader": reader, "waiting": [*waiting]}:
            return Caller(
                RunId(str(run)),
                str(call_id),
                _read_principal(str(reader)),
                tuple(SessionId(str(session)) for session in waiting),
            )
        case _:
            return None


def reader_of(started: Mapping[str, Json]) -> Principal:
    """Return the principal with whose access a run reads programs and sessions.

    That is the sender. A message that an agent sent as a tool call is read with the access of the
    run that it is part of, and what an agent says in a conversation with that of the person whose
    post led to it.
    """
    caller, sender = caller_of(started), sender_of(started)
    if caller is not None:
        return caller.reader
    match options_of(started).get("conversation"):
        case {"charged_to": str(person)} if sender.kind == "agent":
            return _read_principal(person)
        case _:
            return sender


def agent_of(started: Mapping[str, Json]) -> str | None:
    """Return the agent that acts in a run; None for runs of versions that recorded none."""
    agent = started.get("agent") or options_of(started).get("agent")
    return agent if isinstance(agent, str) else None


def _read_principal(text: str) -> Principal:
    kind, _, id = text.partition(":")
    match kind:
        case "human" | "agent" | "session" | "system" if id:
            return Principal(kind, id)
        case _:
            return Principal("human", text)


def _moved(run: Run, kind: str, data: dict[str, Any]) -> Run:
    match kind:
        case "run.parked":
            return replace(run, parked=data["reason"])
        case "run.unparked":
            return replace(run, parked=None)
        case "run.interrupted" if not data.get("affects"):
            return replace(run, interrupted=data["reason"], parked=None)
        case "run.failed":
            return replace(run, failed=data["reason"], parked=None)
        case "run.finished":
            return replace(run, finished=True)
        case _:
            # Kinds of extensions and provenance events do not change the run.
            return run
