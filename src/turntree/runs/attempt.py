"""An attempt: one worker's share of a run, and its right to add facts to it.

The state is what the facts amount to, so it moves only after they were recorded. Whoever is
interrupted while recording knows nothing any more, lets go of the attempt and reads the run again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from turntree.core.canonical import Json
from turntree.core.event import Event
from turntree.core.ids import Digest, RunId, SessionId, Timestamp, TurnId
from turntree.core.message import Message, lift_parts
from turntree.core.principal import Principal
from turntree.core.run import Run, RunEvent
from turntree.core.value import value
from turntree.ledger.store_port import LedgerPort
from turntree.runs.inbox import Inbox

Moment = Callable[[RunId, int], Timestamp]
"""When the fact at a place of a run is recorded. The clock says so, except in worlds that repeat
themselves."""


@value
class Draft:
    """A fact before it has a place."""

    kind: str
    data: Mapping[str, Json]
    message: Message | None = None
    correlation_id: str | None = None


@dataclass(slots=True)
class Attempt:
    """A run as far as it was recorded, under an epoch."""

    inbox: Inbox
    ledger: LedgerPort
    moment: Moment
    epoch: int
    facts: list[RunEvent]
    run: Run
    one_by_one: anyio.Lock = field(default_factory=anyio.Lock)
    """Results of calls that were made at once are recorded one after the other."""

    @property
    def started(self) -> Mapping[str, Json]:
        """What the run began with."""
        return self.facts[0].event.data

    @property
    def session(self) -> SessionId | None:
        """The session the run was begun for."""
        found = self.started.get("session")
        return None if found is None else SessionId(str(found))

    @property
    def parent(self) -> tuple[TurnId | None, Digest | None]:
        """The turn the run was begun after, and its digest."""
        parent, digest = self.started.get("parent"), self.started.get("parent_digest")
        if parent is None or digest is None:
            return None, None
        return TurnId(str(parent)), Digest(str(digest))

    @property
    def requested(self) -> RunEvent | None:
        """The newest request to a model."""
        for fact in reversed(self.facts):
            if fact.event.kind == "model_call.started":
                return fact
        return None

    @property
    def offered(self) -> list[str] | None:
        """The tools that the model was told of when it was asked last, if that was recorded."""
        names = None if self.requested is None else self.requested.event.data.get("tools")
        return [str(name) for name in names] if isinstance(names, list | tuple) else None

    async def append(self, *drafts: Draft) -> None:
        """Record facts that become true together.

        Raises:
            Canceled: The run was canceled, and one of the facts is the intent of an effect.
            Conflict: The run was taken over.
            Refused: A fact cannot follow.
        """
        async with self.one_by_one:
            facts: list[RunEvent] = []
            run = self.run
            for draft in drafts:
                fact = await self._fact(draft, run.seq)
                run = run.apply(fact)
                facts.append(fact)
            await self.inbox.append_facts(facts, epoch=self.epoch)
            self.run = run
            self.facts += facts

    async def _fact(self, draft: Draft, seq: int) -> RunEvent:
        run = self.run.id
        event = Event(
            run, seq, draft.kind, self.moment(run, seq), draft.data,
            correlation_id=draft.correlation_id,
        )  # fmt: skip
        if draft.message is None:
            return RunEvent.of(event)
        objects: list[bytes] = []
        stands = lift_parts(draft.message, objects)
        for data in objects:
            await self.ledger.put_object(data)
        return RunEvent.of(event, stands)


def principal_of(by: str, agent: Json = None) -> Principal:
    """Return who acts in a run that somebody asked for: an agent, if one was asked."""
    kind, _, id = by.partition(":")
    match kind:
        case "human" | "agent" | "session" | "system" if id:
            asker = Principal(kind, id)
        case _:
            asker = Principal("human", by)
    return Principal("agent", agent, asker) if isinstance(agent, str) and agent else asker


def sender_of(started: Mapping[str, Json]) -> Principal:
    """Return who sent the message that a run began with."""
    return principal_of(str(started["by"]))
