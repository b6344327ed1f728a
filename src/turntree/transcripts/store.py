"""Stores imported transcripts: raw records, turns and cursors."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, cast

from psycopg.types.json import Jsonb

from turntree.core.canonical import digest_from_raw, digest_raw
from turntree.core.errors import NotFound
from turntree.core.ids import Digest, SessionId, Timestamp, TurnId
from turntree.core.session import Origin
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.arrays import bytea_array
from turntree.db.database import Database, Row, as_uuid, run
from turntree.db.sql import load_statements
from turntree.ledger.raw_codec import RawBlock, RawRecord
from turntree.ledger.raw_store import keep_blocks, read_block
from turntree.ledger.turn_rows import TurnRows
from turntree.transcripts.bulk_copy import BulkImport, import_turns, open_bulk_import
from turntree.transcripts.incoming import (
    IMPORTER,
    ImportCursor,
    ImportedSession,
    ImportedTurn,
    ImportProgress,
)
from turntree.transcripts.packing import Packer

SQL = load_statements(__file__)


@value
class ImportStore:
    """Raw records, their turns, and the cursor of each transcript."""

    database: Database

    @property
    def by(self) -> str:
        """The principal that imports: cursors and sessions belong to it."""
        sight = self.database.sight
        return IMPORTER if sight == EVERYTHING else str(sight)

    @property
    def _everything(self) -> Database:
        """The database without visibility limits: a hidden turn would otherwise be stored twice."""
        return self.database.seen_by(EVERYTHING)

    @property
    def packing(self) -> Packer:
        """Prepares data for ``keep`` and ``store_turns``."""
        return Packer()

    async def require_author(self) -> None:
        """Refuse a guest, and a person who was removed: what follows is written as the system.

        Raises:
            PermissionDenied: The viewer is one; the denial is recorded.
        """
        await self.database.run(SQL["require_author"])

    async def list_cursors(self, origin: str | None = None) -> list[ImportCursor]:
        """Return the cursors of the importer's transcripts."""
        rows = await self._everything.fetch(SQL["list_imports"], origin=origin, by=self.by)
        return [_cursor(row) for row in rows]

    async def count_by_origin(self) -> dict[str, int]:
        """Return the number of the importer's transcripts of each tool."""
        rows = await self._everything.fetch(SQL["count_imports"], by=self.by)
        return cast("dict[str, int]", dict(rows))

    async def list_importers(self, turns: Sequence[TurnId]) -> dict[TurnId, str]:
        """Return the names of the people whose tools recorded turns, where that is known."""
        rows = await self.database.fetch(SQL["list_importers"], turns=list(turns))
        return {TurnId(turn): by.removeprefix("human:") for turn, by in rows}

    async def keep(self, blocks: Sequence[RawBlock], turns: Sequence[TurnRows] = ()) -> None:
        """Store records unchanged, all of them or none; stored ones stay.

        A block that depends on a turn which is not stored, or not complete, is packed again to be
        self-contained; ``turns`` are those that blocks depend on. Records that we wrote are left
        out where something of their thread was erased.
        """
        if blocks:
            async with self._everything.connection() as connection:
                await keep_blocks(connection, self.database.workspace, blocks, turns)

    async def read_records(self, blocks: Sequence[Digest]) -> list[RawRecord]:
        """Return stored records. An erased one is a stub with its digest.

        Raises:
            NotFound: A block is missing, hidden from the viewer, or does not match its digest.
        """
        digests = bytea_array([digest_raw(block) for block in blocks])
        # Checked as the viewer, and read as the system: a block may depend on a hidden turn.
        for (hidden,) in await self.database.fetch(SQL["list_hidden_blocks"], digests=digests):
            raise NotFound(f"the records {digest_from_raw(bytes(hidden))} are missing")
        records: list[RawRecord] = []
        async with self._everything.connection() as connection:
            for block in blocks:
                found = await read_block(connection, self.database.workspace, block)
                records += found.unpacked.records
        return records

    async def read_records_of(self, turn: TurnId) -> list[tuple[str, RawRecord]]:
        """Return the records that a turn was made from, each with the name of its tool.

        A block that is hidden from the viewer, or damaged, is left out.
        """
        rows = await self.database.fetch(SQL["list_visible_blocks_of"], turn=as_uuid(turn))
        records: list[tuple[str, RawRecord]] = []
        async with self._everything.connection() as connection:
            for (digest,) in rows:
                with suppress(NotFound):
                    name = digest_from_raw(bytes(digest))
                    block = await read_block(connection, self.database.workspace, name)
                    records += [
                        (block.unpacked.origin, record)
                        for id, first, last in zip(
                            block.turns, block.spans[::2], block.spans[1::2], strict=True
                        )
                        if id == turn
                        for record in block.unpacked.records[
                            first - block.unpacked.first : last - block.unpacked.first + 1
                        ]
                    ]
        return records

    def open_bulk(self) -> AbstractAsyncContextManager[BulkImport]:
        """Return a connection for ``store_turns``, to be entered."""
        return open_bulk_import(self._everything)

    async def store_turns(
        self, incoming: Iterable[ImportedTurn | TurnRows], bulk: BulkImport | None = None
    ) -> ImportProgress:
        """Store turns, parents first, and return how many were new; no session moves.

        They are durable once ``mark`` has returned. Without ``bulk`` they get a connection of their
        own.

        Raises:
            NotFound: A turn comes before its parent.
            InvalidOperation: A turn is known under another digest or another parent.
        """
        if bulk is None:
            return await import_turns(self._everything, incoming, hurrying=True)
        return await bulk.store(incoming, hurrying=True)

    async def analyze(self) -> None:
        """Let the planner know what a bulk import has stored."""
        await self.database.run_as_login(SQL["analyze"])

    async def find_session(self, origin: str, id: str) -> ImportedSession | None:
        """Return the session imported from a session of the source, the importer's own first."""
        row = await self._everything.fetch_one(
            SQL["find_session_by_origin"], origin=origin, id=id, by=self.by
        )
        return None if row is None else ImportedSession(SessionId(row[0]), row[1])

    async def find_last_in(self, folder: str) -> SessionId | None:
        """Return the imported session that last worked in a folder, not a subagent's."""
        row = await self.database.fetch_one(SQL["find_last_session_in"], folder=folder)
        return None if row is None else SessionId(row[0])

    async def describe_sessions(self) -> dict[Origin, tuple[str | None, str | None]]:
        """Return the folder and the title of each imported session, as its tool knows them."""
        rows = await self.database.fetch(SQL["list_described_sessions"])
        return {Origin(tool, id): (folder, title) for tool, id, folder, title in rows}

    async def has_held(self, session: SessionId, turn: TurnId) -> bool:
        """Return whether a session's thread ever contained a turn."""
        return None is not await self._everything.fetch_one(
            SQL["find_reach"], session=as_uuid(session), turn=as_uuid(turn)
        )

    async def list_sources(self, origin: str, bundle: str) -> dict[str, TurnId]:
        """Return the newest turn made for each key of a transcript."""
        rows = await self._everything.fetch(SQL["list_turn_sources"], origin=origin, bundle=bundle)
        return cast("dict[str, TurnId]", dict(rows))

    async def mark(self, cursors: Sequence[ImportCursor], at: Timestamp) -> None:
        """Write cursors, all of them or none."""
        async with self._everything.connection() as connection, connection.transaction():
            for cursor in cursors:
                known = {"workspace": self.database.workspace, "at": at, "by": self.by}
                row = {**known, **_columns(cursor)}
                await run(connection, SQL["save_import_cursor"], row)


def _columns(cursor: ImportCursor) -> dict[str, Any]:
    return {
        "origin": cursor.origin,
        "bundle": cursor.bundle,
        "stamp": cursor.stamp,
        "projector": cursor.projector,
        "redactor": cursor.redactor,
        "records": cursor.records,
        "raw_bytes": cursor.raw_bytes,
        "prefix": digest_raw(cursor.prefix),
        "blocks": bytea_array([digest_raw(block) for block in cursor.blocks]),
        "heads": Jsonb(_spelled(cursor.heads)),
        "report": Jsonb(_spelled(cursor.report)),
    }


def _spelled(value: object) -> object:
    """Return a document that ``jsonb`` can hold: without NUL."""
    match value:
        case str():
            return value.replace("\x00", "\N{REPLACEMENT CHARACTER}")
        case Mapping():
            members = cast("Mapping[str, object]", value)
            return {_spelled(name): _spelled(member) for name, member in members.items()}
        case list() | tuple():
            return [_spelled(entry) for entry in cast("Sequence[object]", value)]
        case _:
            return value


def _cursor(row: Row) -> ImportCursor:
    origin, bundle, stamp, projector, redactor, records, size, prefix, blocks, heads, report = row
    return ImportCursor(
        origin,
        bundle,
        stamp,
        projector,
        redactor,
        records,
        size,
        digest_from_raw(bytes(prefix)),
        tuple(digest_from_raw(bytes(block)) for block in blocks),
        heads,
        report,
    )
