"""Records turns that were taken elsewhere.

A recorder remembers the head of its session, so that recording the next turn is one round trip. If
another writer moved the session meanwhile, the turn is built again after the new head while the
session is locked: turns of one session never fork by accident.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from turntree.core.clock import Clock
from turntree.core.compaction import Compaction
from turntree.core.errors import Conflict
from turntree.core.event import SealedEvent
from turntree.core.ids import Digest, SessionId, Timestamp, TurnId
from turntree.core.message import Message, lift_parts
from turntree.core.principal import Principal
from turntree.core.redaction import BY_FORMAT, Redactor, all_without_secrets
from turntree.core.thread import ThreadTurn
from turntree.core.turn import AgentRole, Header, Outcome, SealedTurn, seal
from turntree.core.usage import ModelCall, recorded
from turntree.core.value import Facet
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore


class TurnDetails(TypedDict, total=False):
    """Optional details of a recorded turn."""

    model: str
    provider: str
    calls: Sequence[ModelCall]
    outcome: Outcome
    agent_role: AgentRole
    started_at: Timestamp
    manifest: Digest
    compaction: Compaction
    retry_of: TurnId
    derived_from: tuple[Digest, ...]
    by: Principal


def check_arguments(query: object, reply: object, details: Mapping[str, object]) -> None:
    """Refuse arguments that Python would accept silently.

    Raises:
        TypeError: An unknown detail, or a string where messages are expected.
    """
    if unknown := sorted(details.keys() - TurnDetails.__annotations__.keys()):
        raise TypeError(f"record() knows no {', '.join(unknown)}")
    if isinstance(query, str) or isinstance(reply, str):
        raise TypeError("record() takes messages: user('…') and assistant('…') make them")


@dataclass(slots=True)
class Recorder(Facet):
    """Appends turns to one session."""

    ledger: Ledger
    threads: ThreadStore
    world: Clock
    by: Principal
    session: SessionId
    head: TurnId | None
    head_digest: Digest | None
    redactor: Redactor = BY_FORMAT
    """Removes secrets from messages before they are sealed."""

    async def record(
        self,
        query: Sequence[Message],
        reply: Sequence[Message],
        *,
        key: str | None = None,
        strict: bool = False,
        **details: Unpack[TurnDetails],
    ) -> ThreadTurn:
        """Seal an exchange as the session's next turn and return it.

        What looks like a secret is removed first. With ``strict`` it raises if the session has
        moved since this recorder last saw it. ``key`` makes the call safe to repeat.

        Raises:
            InvalidOperation: The exchange cannot be sealed.
            Conflict: The session moved and ``strict`` is set.
        """
        check_arguments(query, reply, details)
        at = self.world.now()
        header = self._header(at, details)
        calls = details.get("calls", ())
        query = await self._lifted(all_without_secrets(query, self.redactor))
        reply = await self._lifted(all_without_secrets(reply, self.redactor))
        sealed = seal(header, query, reply)
        by = str(header.by)
        parent = self.head
        try:
            stored = await self.ledger.seal(
                sealed, parent, session=self.session, by=by, at=at, calls=calls, key=key,
                journal=recorded(sealed.turn, calls),
            )  # fmt: skip
        except Conflict:
            if strict:
                raise

            def build(
                head: TurnId | None, digest: Digest | None
            ) -> tuple[SealedTurn, list[SealedEvent]]:
                nonlocal parent
                parent = head
                again = seal(replace(header, parent=digest), query, reply)
                return again, recorded(again.turn, calls)

            stored, sealed = await self.ledger.seal_at_head(
                build, self.session, by=by, at=at, calls=calls, key=key
            )
        thread_turn = ThreadTurn(sealed.turn, stored.depth, parent)
        if stored.repeated:
            thread_turn = await self.threads.get_turn(stored.turn)
        # A repeated call whose first result was lost advances the recorder; one from further back
        # does not.
        if not stored.repeated or thread_turn.parent == self.head:
            self.head, self.head_digest = thread_turn.turn.id, thread_turn.turn.digest
        return thread_turn

    def _header(self, at: Timestamp, details: TurnDetails) -> Header:
        calls = details.get("calls", ())
        last = calls[-1] if calls else None
        return Header(
            id=TurnId(self.world.new_id()),
            parent=self.head_digest,
            by=details.get("by", self.by),
            started_at=details.get("started_at", at),
            sealed_at=at,
            outcome=details.get("outcome", "completed"),
            kind="compaction" if "compaction" in details else "normal",
            agent_role=details.get("agent_role", "unified"),
            model=details.get("model", None if last is None else last.model),
            provider=details.get("provider", None if last is None else last.provider),
            manifest=details.get("manifest"),
            retry_of=details.get("retry_of"),
            derived_from=details.get("derived_from", ()),
            compaction=details.get("compaction"),
        )

    async def _lifted(self, messages: Sequence[Message]) -> list[Message]:
        """Store parts that are too large for a body as objects."""
        objects: list[bytes] = []
        inline = [lift_parts(message, objects) for message in messages]
        for data in objects:
            await self.ledger.put_object(data)
        return inline
