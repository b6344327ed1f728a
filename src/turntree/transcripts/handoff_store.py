"""Store handoffs, the sessions written for other tools, in PostgreSQL. See ``incoming``."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from turntree.core.canonical import canonical, digest_from_raw, digest_raw
from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.core.value import value
from turntree.db.database import Database, fetch
from turntree.db.sql import load_statements
from turntree.system.head_file import DEMO_WORKSPACE
from turntree.transcripts.drafts import KnownTurn
from turntree.transcripts.handoff_link import HandoffLink, OwnRecords
from turntree.transcripts.incoming import Handoff

SQL = load_statements(__file__)


@value
class HandoffStore:
    """Handoffs: sessions that were written for other tools, and how they are recognized."""

    database: Database

    async def note(self, checkout: Handoff, *, by: str, at: Timestamp) -> None:
        """Record a handoff, and its event in the same transaction.

        Raises:
            NotFound: There is no such turn.
            Conflict: The tool already has a session of this name.
        """
        told = {"tool": checkout.origin, "tool_session_id": checkout.session, "by": by}
        if checkout.continues is not None:
            told["continues"] = checkout.continues
        await self.database.run(
            SQL["record_handoff"],
            turn=UUID(checkout.turn),
            origin=checkout.origin,
            session=checkout.session,
            file=checkout.file,
            bytes=checkout.bytes,
            mark=checkout.mark,
            last=checkout.last,
            by=by,
            at=at,
            data=canonical(told).decode(),
        )

    async def list_all(self) -> list[tuple[str, HandoffLink]]:
        """Return all handoffs: the tool, and how its session is recognized."""
        rows = await self.database.fetch(SQL["list_handoffs"])
        return [
            (origin, HandoffLink(session, file, size, mark, _planted(*turn), last, continues))
            for origin, session, file, size, mark, last, continues, *turn in rows
        ]

    async def list_sample_copies(self) -> set[tuple[str, str, int]]:
        """Return the handoffs of sample data: the tool, the file's name and its size."""
        named = {name: id for id, name in await self.database.list_workspaces()}
        sample = named.get(DEMO_WORKSPACE)
        if sample is None or UUID(sample) == self.database.workspace:
            return set()
        # A connection of its own: the policies of this one hide every other workspace.
        elsewhere = replace(self.database, workspace=UUID(sample))
        async with elsewhere.acting_as("turntree_app") as connection:
            rows = await fetch(connection, SQL["list_copies"], workspace=elsewhere.workspace)
        return {(tool, file, size) for tool, file, size in rows}

    async def find_gap(self, blocks: Sequence[Digest]) -> OwnRecords | None:
        """Return which of the records in some blocks we wrote, or None."""
        rows = await self.database.fetch(
            SQL["find_own_records"], blocks=[digest_raw(digest) for digest in blocks]
        )
        if not rows:
            return None
        turn = _planted(*rows[0][1:])
        ends = [end for written, id, *_ in rows if id == turn.id for end in written]
        pairs = zip(ends[::2], ends[1::2], strict=True)
        return OwnRecords(
            turn, [place for first, last in pairs for place in range(first, last + 1)]
        )


def _planted(turn: str, digest: bytes, depth: int) -> KnownTurn:
    return KnownTurn(TurnId(turn), digest_from_raw(bytes(digest)), depth)
