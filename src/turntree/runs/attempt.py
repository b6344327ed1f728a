"""An attempt: one worker's turn at driving a run, and its permission to append events to it.

The state is a fold of the recorded events, so it changes only after the append has committed. If an
append is interrupted, its outcome is unknown: the worker drops the attempt and reads the run again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import anyio

from turntree.auth.run_rights import principal_in
from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.event import Event
from turntree.core.ids import Digest, RunId, SessionId, Timestamp, TurnId
from turntree.core.message import Message, lift_parts
from turntree.core.principal import Principal
from turntree.core.run import Run, RunEvent, agent_of, options_of, sender_of
from turntree.core.turn import Header
from turntree.core.value import value
from turntree.ledger.store import Ledger
from turntree.runs.inbox_store import InboxStore

Moment = Callable[[RunId, int], Timestamp]
"""Gives the timestamp of the event at position ``seq`` of a run: the clock's, except in a replay,
which repeats the recorded one."""


def moment_of(clock: Clock) -> Moment:
    """Return the timestamps of a clock."""
    return lambda _run, _seq: clock.now()


@value
class Draft:
    """An event before it has a position in its run."""

    kind: str
    data: Mapping[str, Json]
    message: Message | None = None
    correlation_id: str | None = None


class RunObserver(Protocol):
    """Watches the runs of one process: it is told of what a worker has recorded, right after that.

    So what it tells is what the ledger holds, whichever worker recorded it. It must neither wait
    nor raise: a run goes on whether or not it is watched.
    """

    def note_recorded(self, facts: Sequence[RunEvent]) -> None:
        """Take events that this worker has recorded in a run that it drives."""
        ...

    def note_sealed(self, facts: Sequence[RunEvent], header: Header) -> None:
        """Take all events of a run that this worker has sealed, and the header of its turn."""
        ...


@dataclass(slots=True)
class Attempt:
    """A run as recorded so far, and the epoch under which this worker may extend it."""

    inbox: InboxStore
    ledger: Ledger
    moment: Moment
    epoch: int
    facts: list[RunEvent]
    run: Run
    one_by_one: anyio.Lock = field(default_factory=anyio.Lock)
    """Serializes appends: tool calls run concurrently, but each event needs the next position."""
    stamps: bool = True
    """Whether a message without a time gets its event's time; false in a replay."""
    observers: Sequence[RunObserver] = ()
    """Told of what was recorded."""

    @property
    def started(self) -> Mapping[str, Json]:
        """The data of the run's first event, ``run.started``."""
        return self.facts[0].event.data

    @property
    def session(self) -> SessionId | None:
        """The session that the run belongs to, if any."""
        session = self.started.get("session")
        return None if session is None else SessionId(str(session))

    @property
    def has_folder(self) -> bool:
        """Whether the run's session works in a folder."""
        return "workspace_path" in self.started

    @property
    def parent(self) -> tuple[TurnId | None, Digest | None]:
        """The turn that the run continues, and its digest; None for both at the root."""
        parent, digest = self.started.get("parent"), self.started.get("parent_digest")
        if parent is None or digest is None:
            return None, None
        return TurnId(str(parent)), Digest(str(digest))

    @property
    def acting(self) -> Principal:
        """The agent that acts, and on whose behalf."""
        agent, sender = agent_of(self.started), sender_of(self.started)
        # A run of an earlier version does not say which agent acts: its turn names the sender.
        if agent is None:
            return sender
        if "chain" in options_of(self.started) or sender.kind == "agent":
            return principal_in(self.started)
        return Principal("agent", agent, sender)

    @property
    def first_request(self) -> Mapping[str, Json] | None:
        """The data of the first ``model_call.started``, which records what the later ones share."""
        kind = "model_call.started"
        return next((fact.event.data for fact in self.facts if fact.event.kind == kind), None)

    @property
    def requested(self) -> RunEvent | None:
        """The newest ``model_call.started``."""
        for fact in reversed(self.facts):
            if fact.event.kind == "model_call.started":
                return fact
        return None

    @property
    def offered(self) -> list[str] | None:
        """Names of the tools offered in the newest request, if it recorded them."""
        names = None if self.requested is None else self.requested.event.data.get("tools")
        return [str(name) for name in names] if isinstance(names, list | tuple) else None

    async def append(self, *drafts: Draft) -> None:
        """Append events in one transaction.

        Raises:
            Canceled: The run was canceled, and one of the events announces a side effect.
            Conflict: Another worker took the run over.
            InvalidOperation: An event cannot follow the ones before it.
        """
        async with self.one_by_one:
            facts: list[RunEvent] = []
            run = self.run
            for draft in drafts:
                fact = await self._fact(draft, run.seq)
                run = run.apply(fact)
                facts.append(fact)
            # Applied in memory only after the database took it: a refused append must not leave a
            # run that exists only here.
            await self.inbox.append_facts(facts, epoch=self.epoch)
            self.run = run
            self.facts += facts
            for observer in self.observers:
                observer.note_recorded(facts)

    async def _fact(self, draft: Draft, seq: int) -> RunEvent:
        run = self.run.id
        event = Event(
            run, seq, draft.kind, self.moment(run, seq), draft.data,
            correlation_id=draft.correlation_id,
        )  # fmt: skip
        if draft.message is None:
            return RunEvent.of(event)
        objects: list[bytes] = []
        message = lift_parts(draft.message, objects)
        if self.stamps and message.at is None:
            message = replace(message, at=event.at)
        # Objects before the event that names them. A crash in between leaves an object that nothing
        # names, never a name without an object.
        for data in objects:
            await self.ledger.put_object(data)
        return RunEvent.of(event, message)
