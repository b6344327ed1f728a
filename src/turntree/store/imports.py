"""Imported transcripts on PostgreSQL. See ``ports.imports``."""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import anyio.to_thread
from psycopg.types.json import Jsonb

from turntree.domain.canonical import digest_from_raw, digest_raw
from turntree.domain.errors import NotFound
from turntree.domain.ids import Digest, Instant, SessionId, TurnId
from turntree.domain.transcript import Record
from turntree.ports.imports import Cursor, Imported, Incoming
from turntree.store import raw
from turntree.store.arrays import bytea_array
from turntree.store.bulk import import_turns
from turntree.store.database import Database, Row, as_uuid


@dataclass(frozen=True, slots=True)
class PostgresImports:
    """Raw records, their turns and how far each bundle was read."""

    database: Database

    async def list_cursors(self, origin: str | None = None) -> list[Cursor]:
        """Return how far every bundle has been read."""
        rows = await self.database.fetch("list_imports", origin=origin)
        return [_cursor(row) for row in rows]

    async def keep(
        self, origin: str, bundle: str, first: int, records: Sequence[Record]
    ) -> list[Digest]:
        """Keep records as they are, from number ``first`` on; return where, in order."""
        digests: list[Digest] = []
        for run in raw.cut(records):
            # Packing lets go of Python's lock, so that others can go on meanwhile.
            address, packed = await anyio.to_thread.run_sync(raw.pack, origin, bundle, first, run)
            await self.database.run("keep_blocks", digest=address, packed=packed)
            digests.append(digest_from_raw(address))
            first += len(run)
        return digests

    async def read_records(self, blocks: Sequence[Digest]) -> list[Record]:
        """Return kept records."""
        records: list[Record] = []
        for block in blocks:
            row = await self.database.fetch_one("find_block", digest=digest_raw(block))
            if row is None:
                raise NotFound(f"the records {block} are missing")
            records += raw.unpack(row[0])[1]
        return records

    async def store_turns(
        self,
        incoming: Iterable[Incoming] | AsyncIterable[Incoming],
        *,
        report: Callable[[Imported], None] = lambda _: None,
    ) -> Imported:
        """Store turns, parents first, and return how many were new; no session moves."""
        return await import_turns(self.database, incoming, report=report)

    async def find_session(self, origin: str, id: str) -> SessionId | None:
        """Return the session that came from a session of the source."""
        row = await self.database.fetch_one("find_session_by_origin", origin=origin, id=id)
        return None if row is None else SessionId(row[0])

    async def has_held(self, session: SessionId, turn: TurnId) -> bool:
        """Say whether a session's thread ever held a turn."""
        return None is not await self.database.fetch_one(
            "find_reach", session=as_uuid(session), turn=as_uuid(turn)
        )

    async def list_sources(self, origin: str, bundle: str) -> dict[str, TurnId]:
        """Return the newest turn made for each key of a bundle."""
        rows = await self.database.fetch("list_turn_sources", origin=origin, bundle=bundle)
        return cast("dict[str, TurnId]", dict(rows))

    async def mark(self, cursor: Cursor, at: Instant) -> None:
        """Remember how far a bundle has been read."""
        await self.database.run(
            "mark_import",
            origin=cursor.origin,
            bundle=cursor.bundle,
            stamp=cursor.stamp,
            projector=cursor.projector,
            redactor=cursor.redactor,
            records=cursor.records,
            raw_bytes=cursor.raw_bytes,
            prefix=digest_raw(cursor.prefix),
            blocks=bytea_array([digest_raw(block) for block in cursor.blocks]),
            heads=Jsonb(_spelled(cursor.heads)),
            report=Jsonb(_spelled(cursor.report)),
            at=at,
        )


def _spelled(value: object) -> object:
    """Return a document as ``jsonb`` can hold it: without a NUL."""
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


def _cursor(row: Row) -> Cursor:
    origin, bundle, stamp, projector, redactor, records, size, prefix, blocks, heads, report = row
    return Cursor(
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
