"""Operations on turns and threads: record, read, compare, tag, archive and erase."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest, TurnId
from turntree.core.message import Message, ObjectRef, restore_parts
from turntree.core.principal import Principal
from turntree.core.redaction import BY_FORMAT, Redactor
from turntree.core.thread import Comparison, ThreadTurn
from turntree.core.usage import ModelCall, Usage
from turntree.core.value import Facet, value
from turntree.ledger.recorder import Recorder, TurnDetails, check_arguments
from turntree.ledger.revisions import RevisionResolver
from turntree.ledger.sessions import Sessions
from turntree.ledger.store import Ledger, Tags
from turntree.ledger.thread_store import ReplyDetails, ThreadStore, TurnIndex

UNIQUE_CHARS_MIN = 4
ARCHIVED = "archived"
"""The tag of an archived turn; SQL has it in ``archived_segments``."""


@value
class Turns(Facet):
    """``tree.turns``: sealed turns, which never change."""

    ledger: Ledger
    marks: Tags
    threads: ThreadStore
    index: TurnIndex
    revisions: RevisionResolver
    sessions: Sessions
    world: Clock
    by: Principal
    redactor: Redactor = BY_FORMAT

    async def recorder(self, session: str) -> Recorder:
        """Return a recorder for a session, which is created if it does not exist."""
        existing = await self.sessions.get_or_create(session)
        return Recorder(
            self.ledger, self.threads, self.world, self.by, existing.id, existing.head,
            existing.head_digest, self.redactor,
        )  # fmt: skip

    async def record(
        self,
        session: str,
        query: Sequence[Message],
        reply: Sequence[Message],
        *,
        key: str | None = None,
        **details: Unpack[TurnDetails],
    ) -> ThreadTurn:
        """Seal an exchange as a session's next turn; see ``Recorder.record``."""
        check_arguments(query, reply, details)
        recorder = await self.recorder(session)
        return await recorder.record(query, reply, key=key, **details)

    async def get(self, revision: str | TurnId) -> ThreadTurn:
        """Return the turn that a revision names.

        Raises:
            NotFound: It names nothing.
        """
        return await self.threads.get_turn((await self.revisions.resolve(revision)).turn)

    async def restore(self, turns: Sequence[ThreadTurn]) -> tuple[ThreadTurn, ...]:
        """Return the turns with the parts that are stored as objects, for people who read them.

        A part whose object was erased stays a reference. The result is not what was sealed: its
        messages have other digests.
        """
        return await restore_turns(self.ledger, turns)

    async def list_newest(self, *, limit: int = 100, archived: bool = False) -> list[ThreadTurn]:
        """Return turns of all sessions, newest first; archived ones only if asked for."""
        return await self.index.list_newest(limit=limit, archived=archived)

    async def list_children(
        self,
        revision: str | TurnId,
        *,
        after: TurnId | None = None,
        limit: int | None = None,
    ) -> list[TurnId]:
        """Return the children of a turn, oldest first.

        With a ``limit`` it is a page of them; the next one comes ``after`` the last of this one.
        """
        turn = (await self.revisions.resolve(revision)).turn
        return await self.threads.list_children(turn, after=after, limit=limit)

    async def tag(self, revision: str | TurnId, tag: str) -> bool:
        """Add a tag to a turn; return whether it was new.

        Raises:
            InvalidOperation: The tag is empty.
        """
        if not tag.strip():
            raise InvalidOperation("a tag cannot be empty")
        turn = (await self.revisions.resolve(revision)).turn
        return await self.marks.set_tag(turn, tag, on=True, by=str(self.by), at=self.world.now())

    async def untag(self, revision: str | TurnId, tag: str) -> bool:
        """Remove a tag from a turn; return whether it was there."""
        turn = (await self.revisions.resolve(revision)).turn
        return await self.marks.set_tag(turn, tag, on=False, by=str(self.by), at=self.world.now())

    async def archive(self, revision: str | TurnId) -> bool:
        """Hide a turn and all that follow it from lists and searches; return whether it was new.

        They stay where they are: every address leads to them, and a session there goes on. It is a
        tag, and takes the right to configure the turn's session, as archiving that one does.
        """
        return await self.tag(revision, ARCHIVED)

    async def unarchive(self, revision: str | TurnId) -> bool:
        """Show an archived turn and those that follow it again; return whether it was archived."""
        return await self.untag(revision, ARCHIVED)

    async def list_archived(self, turns: Sequence[TurnId]) -> set[TurnId]:
        """Return those of some turns that are archived, by themselves or with an ancestor."""
        return await self.index.list_archived(turns)

    async def find_archive(self, revision: str | TurnId) -> TurnId | None:
        """Return the turn whose archiving hides a turn: itself or an ancestor; None if none does.

        Of several, it is the nearest one.
        """
        turn = (await self.revisions.resolve(revision)).turn
        marked = [id for id, _ in await self.marks.list_tags(tag=ARCHIVED)]
        above = [id for id in marked if await self.threads.is_ancestor(id, turn)]
        depths = {id: (await self.threads.get_turn(id)).depth for id in above}
        return max(above, key=depths.__getitem__, default=None)

    async def erase(self, revision: str | TurnId, sequence: int, *, reason: str) -> bool:
        """Erase one message permanently; the thread can still be verified."""
        turn = (await self.revisions.resolve(revision)).turn
        return await self.marks.erase(
            turn, sequence, reason=reason, by=str(self.by), at=self.world.now()
        )

    async def list_calls(self, turns: Sequence[TurnId]) -> dict[TurnId, list[ModelCall]]:
        """Return the model calls of some turns."""
        return await self.index.list_calls(turns)

    async def list_replies(self, turns: Sequence[TurnId]) -> dict[TurnId, list[ReplyDetails]]:
        """Return request, latency and situation of each reply; none for turns of other tools."""
        return await self.index.list_replies(turns)

    async def list_unique_lengths(self, digests: Sequence[Digest]) -> dict[Digest, int]:
        """Return how many hexadecimal digits make each digest unique."""
        near = await self.index.list_neighbours(digests)
        return {
            digest: max([UNIQUE_CHARS_MIN, *(_shared(digest, other) + 1 for other in others)])
            for digest, others in near.items()
        }


def _shared(left: Digest, right: Digest) -> int:
    a, b = left.removeprefix("sha256:"), right.removeprefix("sha256:")
    return next((index for index, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a))


@value
class ThreadReader(Facet):
    """``tree.threads``: turns read with their ancestry."""

    threads: ThreadStore
    index: TurnIndex
    revisions: RevisionResolver

    async def read(
        self, revision: str | TurnId, *, last: int | None = None, first: int | None = None
    ) -> tuple[ThreadTurn, ...]:
        """Return a thread, root first: all of it, its last turns, or its first ones."""
        head = (await self.revisions.resolve(revision)).turn
        if last is not None:
            depth = (await self.threads.get_turn(head)).depth
            return await self.threads.list_range(head, low=max(1, depth - last + 1))
        if first is not None:
            return await self.threads.list_range(head, high=first)
        return await self.threads.list_range(head)

    async def page(self, revision: str | TurnId, *, low: int, high: int) -> tuple[ThreadTurn, ...]:
        """Return the turns of a thread between two depths, root first."""
        head = (await self.revisions.resolve(revision)).turn
        return await self.threads.list_range(head, low=low, high=high)

    async def read_visible(self, revision: str | TurnId) -> tuple[ThreadTurn, ...]:
        """Return the turns that a context includes: from the newest compaction on, its summary
        first.
        """
        head = (await self.revisions.resolve(revision)).turn
        compaction = await self.threads.find_compaction(head)
        if compaction is None:
            return await self.threads.list_range(head)
        at, first_kept = compaction
        part = await self.threads.list_range(head, low=at if first_kept is None else first_kept)
        summary = next(entry for entry in part if entry.depth == at)
        return (summary, *(entry for entry in part if entry.depth != at))

    async def compare(self, left: str | TurnId, right: str | TurnId) -> Comparison:
        """Return where two threads diverge, and the turns of each after that."""
        a = (await self.revisions.resolve(left)).turn
        b = (await self.revisions.resolve(right)).turn
        base = await self.threads.find_common_ancestor(a, b)
        shared = None if base is None else await self.threads.get_turn(base)
        low = 1 if shared is None else shared.depth + 1
        return Comparison(
            shared,
            await self.threads.list_range(a, low=low),
            await self.threads.list_range(b, low=low),
        )

    async def is_ancestor(self, ancestor: str | TurnId, revision: str | TurnId) -> bool:
        """Return whether a turn is the same as another or one of its ancestors."""
        above = (await self.revisions.resolve(ancestor)).turn
        return await self.threads.is_ancestor(above, (await self.revisions.resolve(revision)).turn)

    async def usage(self, *revisions: str | TurnId) -> tuple[Usage, int]:
        """Return the usage of some threads, each call counted once, and the number of calls."""
        heads = [(await self.revisions.resolve(revision)).turn for revision in revisions]
        return await self.index.usage_of(heads)


async def restore_turns(ledger: Ledger, turns: Sequence[ThreadTurn]) -> tuple[ThreadTurn, ...]:
    """Return the turns with the parts that are stored as objects; see ``Turns.restore``."""
    digests = {
        part.object
        for placed in turns
        for message in placed.turn.messages
        for part in message.parts
        if isinstance(part, ObjectRef)
    }
    objects = await ledger.find_objects(digests)
    return tuple(
        replace(
            placed,
            turn=replace(
                placed.turn,
                messages=tuple(
                    restore_parts(message, objects) if isinstance(message, Message) else message
                    for message in placed.turn.messages
                ),
            ),
        )
        for placed in turns
    )
