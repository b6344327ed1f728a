"""Bulk import: store many sealed turns at once, by COPY, in memory bounded by a batch.

A batch is planned against what the ledger holds (which turns exist, and the positions of their
parents), copied and committed as one. A stored turn is skipped, so an interrupted import continues
where it stopped and a repeated one changes nothing.

PostgreSQL rejects COPY under row-level security. Where the importer's role may bypass it, a trigger
checks the workspace instead; where no such role is available, the batch goes through temporary
tables and ordinary inserts, which the policies check.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeAlias
from uuid import UUID

import psycopg

from turntree.core.canonical import digest_raw
from turntree.core.errors import Conflict, InvalidOperation, NotFound
from turntree.core.value import value
from turntree.db.arrays import bytea_array, uuid_array, uuid_bytes
from turntree.db.database import Connection, Database, ErrorTranslator, fetch, run, use_indexes
from turntree.db.sql import load_statements
from turntree.ledger.turn_rows import TurnRows
from turntree.transcripts.incoming import ImportedTurn, ImportProgress
from turntree.transcripts.packing import Packer

SQL = load_statements(__file__)

BATCH_TURNS = 2000
TURN_RECORDED = "turn.recorded"
BATCH_BYTES_MAX = 32 * 1024 * 1024
TRIES_MAX = 5
"""How often a batch is planned again because another writer appended at the same turn."""

COLUMN_TYPES: Mapping[str, str] = {
    "copy_segments": "bytea bytea bytea int4 int4 bytea",
    "copy_turns": (
        "bytea bytea bytea bytea int4 bytea timestamptz timestamptz text text text text text text"
    ),
    "copy_bodies": "bytea bytea text text",
    "copy_tool_calls": "bytea bytea int2 text text text",
    "copy_model_calls": "bytea bytea int2 text text text int4 int4 int4 int4 int4",
    "copy_files": "bytea bytea int2 int2 text text int4 int4",
    "copy_compactions": "bytea bytea bytea bytea int4 text text int4 int4 int4 int4",
    "copy_events": "bytea bytea int4 bytea text text",
    "copy_objects": "bytea bytea bytea",
    "copy_holders": "bytea bytea bytea",
    "copy_sources": "bytea bytea int4 int4 int4 int4 text",
}
"""The column types of each COPY, in the order in which the tables must be filled.

An id is sent as its sixteen bytes: a ``UUID`` costs more than all the rest of its row.
"""


Given: TypeAlias = "Iterable[ImportedTurn | TurnRows] | AsyncIterable[ImportedTurn | TurnRows]"


async def import_turns(
    database: Database,
    incoming: Given,
    *,
    batch_turns: int = BATCH_TURNS,
    hurrying: bool = False,
    report: Callable[[ImportProgress], None] = lambda _: None,
) -> ImportProgress:
    """Store turns, parents first, and return how many were new; no session moves.

    With ``hurrying`` the commit is asynchronous: the turns are durable once a later commit is.

    Raises:
        NotFound: A turn comes before its parent.
        InvalidOperation: A turn is known under another digest or another parent, or holds a value
            that no column accepts.
    """
    async with open_bulk_import(database) as bulk:
        return await bulk.store(incoming, batch_turns=batch_turns, hurrying=hurrying, report=report)


@value
class BulkImport:
    """A connection of the importer's role, for any number of turns."""

    connection: Connection
    workspace: UUID
    direct: bool
    """Whether it may copy into the tables themselves."""

    async def store(
        self,
        incoming: Given,
        *,
        batch_turns: int = BATCH_TURNS,
        hurrying: bool = False,
        report: Callable[[ImportProgress], None] = lambda _: None,
    ) -> ImportProgress:
        """Do what ``import_turns`` does."""
        progress = ImportProgress()
        path = "turntree" if self.direct else "pg_temp, turntree"
        begin = {"workspace": self.workspace, "path": path, "hurrying": hurrying}
        # Here, not around the connection: the caller may go on with other turns.
        async with ErrorTranslator():
            async for batch in _batches(incoming, batch_turns):
                await import_batch(self.connection, begin, batch, progress, direct=self.direct)
                report(progress)
        return progress


@asynccontextmanager
async def open_bulk_import(database: Database) -> AsyncGenerator[BulkImport, None]:
    """Open a connection for turns that come little by little.

    A new one for every few megabytes took a fifth of the server's time: each has to learn anew how
    the tables and their triggers look.
    """
    async with database.acting_as("turntree_importer") as connection:
        ((direct,),) = await fetch(connection, SQL["may_bypass"])
        await use_indexes(connection)
        yield BulkImport(connection, database.workspace, direct)


async def _batches(incoming: Given, turns_max: int) -> AsyncIterable[list[TurnRows]]:
    packing = Packer()
    batch: list[TurnRows] = []
    size = 0
    async for given in _each(incoming):
        item = given if isinstance(given, TurnRows) else packing.prepare(given)
        batch.append(item)
        size += len(item.said)
        if len(batch) >= turns_max or size >= BATCH_BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


async def _each(incoming: Given) -> AsyncIterable[ImportedTurn | TurnRows]:
    if isinstance(incoming, AsyncIterable):
        async for item in incoming:
            yield item
    else:
        for item in incoming:
            yield item


async def import_batch(
    connection: Connection,
    begin: Mapping[str, Any],
    batch: list[TurnRows],
    progress: ImportProgress,
    *,
    direct: bool,
) -> None:
    """Store a batch in a transaction, which may be part of another one, and count it.

    ``direct`` copies into the tables themselves, which row-level security must allow.

    Raises:
        NotFound: A turn comes before its parent.
        InvalidOperation: As ``import_turns`` says.
    """
    for attempt in range(1, TRIES_MAX + 1):
        try:
            async with connection.transaction():
                await run(connection, SQL["bulk_begin"], begin)
                plan = await _Plan.of(connection, begin["workspace"], batch)
                if not direct:
                    await connection.execute(SQL["stage_tables"])
                await plan.copy(connection)
                if not direct:
                    await connection.execute(SQL["unstage_tables"])
                await plan.link(connection)
        except psycopg.errors.UniqueViolation as error:
            if attempt == TRIES_MAX:
                raise Conflict(
                    "import gave up: another writer keeps extending the segment"
                ) from error
            continue
        except (psycopg.DataError, psycopg.errors.ProgramLimitExceeded) as error:
            raise InvalidOperation(
                f"no column holds this: {error.diag.message_primary or error}"
            ) from error
        added = plan.rows["copy_bodies"]
        progress.added += len(added)
        progress.known += len(batch) - len(added)
        progress.body_bytes += sum(len(body) for *_, body in added)
        return


@dataclass(slots=True)
class _Place:
    segment: str
    depth: int
    digest: bytes
    followed: bool


@dataclass(slots=True)
class _Plan:
    """The rows of one batch, with their positions in the tree."""

    connection: Connection
    workspace: UUID
    places: dict[str, _Place] = field(default_factory=dict[str, _Place])
    jumps: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    derived: set[bytes] = field(default_factory=set[bytes])
    """Turns whose headers name what they came from."""
    rows: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {query: [] for query in COLUMN_TYPES}
    )

    @classmethod
    async def of(cls, connection: Connection, workspace: UUID, batch: list[TurnRows]) -> "_Plan":
        """Return the plan of a batch, based on what the ledger holds now."""
        plan = cls(connection, workspace)
        ids = uuid_array(item.id for item in batch)
        known = {
            id: bytes(digest)
            for id, digest in await fetch(
                connection, SQL["bulk_known"], workspace=workspace, turns=ids
            )
        }
        parents = uuid_array({item.parent for item in batch if item.parent is not None})
        for id, segment, depth, digest, followed in await fetch(
            connection, SQL["bulk_places"], workspace=workspace, turns=parents
        ):
            plan.places[id] = _Place(segment, depth, bytes(digest), followed)
        for item in batch:
            digest = digest_raw(item.digest)
            if item.id not in known:
                await plan.add(item, digest)
                known[item.id] = digest
            elif known[item.id] != digest:
                raise InvalidOperation(f"turn {item.id} is sealed with another digest")
        await plan.add_objects(batch)
        await plan.add_sources(batch)
        return plan

    async def add_objects(self, batch: list[TurnRows]) -> None:
        """Add objects that were too large for a message, each once."""
        held = {sha256(data).digest(): data for item in batch for data in item.objects}
        await self._check_references({row[2] for row in self.rows["copy_holders"]} - held.keys())
        if not held:
            return
        for (digest,) in await fetch(
            self.connection,
            SQL["bulk_objects"],
            workspace=self.workspace,
            digests=bytea_array([*held]),
        ):
            del held[bytes(digest)]
        self.rows["copy_objects"] += [(self.workspace.bytes, *pair) for pair in held.items()]

    async def _check_references(self, digests: set[bytes]) -> None:
        if not digests:
            return
        for (digest,) in await fetch(
            self.connection,
            SQL["bulk_hidden_objects"],
            workspace=self.workspace,
            digests=bytea_array(sorted(digests)),
        ):
            raise NotFound(f"there is no object sha256:{bytes(digest).hex()}")

    async def add_sources(self, batch: list[TurnRows]) -> None:
        """Record the transcript of each turn; a known turn may have come from another one."""
        told = {
            (item.id, item.source.origin, item.source.bundle): item.source
            for item in batch
            if item.source is not None
        }
        if not told:
            return
        names = sorted({(source.origin, source.bundle) for source in told.values()})
        given = {"origins": [o for o, _ in names], "bundles": [b for _, b in names]}
        await fetch(
            self.connection, SQL["bulk_insert_transcripts"], workspace=self.workspace, **given
        )
        numbers = {
            (origin, bundle): number
            for number, origin, bundle in await fetch(
                self.connection, SQL["bulk_transcripts"], workspace=self.workspace, **given
            )
        }
        ids = uuid_array(id for id, _, _ in told)
        known = {
            (id, number)
            for id, number in await fetch(
                self.connection, SQL["bulk_sources"], workspace=self.workspace, turns=ids
            )
        }
        for (id, origin, bundle), s in told.items():
            number = numbers[origin, bundle]
            if (id, number) not in known:
                self.rows["copy_sources"].append(
                    (
                        self.workspace.bytes,
                        uuid_bytes(id),
                        number,
                        s.first,
                        s.last,
                        s.projector,
                        s.key,
                    )
                )

    async def add(self, item: TurnRows, digest: bytes) -> None:
        """Place a turn: the first child of a turn extends its segment, others fork."""
        if item.parent is None:
            if item.parent_digest is not None:
                raise InvalidOperation(
                    f"turn {item.id} was built on a parent, and comes without one"
                )
            segment, depth = str(item.id), 1
            self._open(segment, None, 0, 0, segment)
        else:
            place = self.places.get(item.parent)
            if place is None:
                raise NotFound(f"turn {item.id} comes before its parent {item.parent}")
            if item.parent_digest is None or digest_raw(item.parent_digest) != place.digest:
                raise InvalidOperation(
                    f"turn {item.id} was built on another parent than {item.parent}"
                )
            segment, depth = place.segment, place.depth + 1
            if place.followed:
                ordinal, jump = await self._below(segment)
                self._open(str(item.id), segment, place.depth, ordinal, jump)
                segment = str(item.id)
            place.followed = True
        self.places[item.id] = _Place(segment, depth, digest, followed=False)
        key = self.workspace.bytes, uuid_bytes(item.id)
        started, sealed, *columns = item.columns
        assert started is not None, "every turn has its times"
        assert sealed is not None, "every turn has its times"
        self.rows["copy_turns"].append((
            *key, _raw_or_none(item.parent), uuid_bytes(segment), depth, digest,
            datetime.fromisoformat(started), datetime.fromisoformat(sealed), *columns,
        ))  # fmt: skip
        if item.derived:
            self.derived.add(key[1])
        self.rows["copy_bodies"].append((*key, item.header, item.said))
        self._add_projections(key, item)

    def _add_projections(self, key: tuple[bytes, bytes], item: TurnRows) -> None:
        self.rows["copy_tool_calls"] += [(*key, *call) for call in item.tool_calls]
        self.rows["copy_model_calls"] += [(*key, *call) for call in item.model_calls]
        self.rows["copy_files"] += [(*key, *file) for file in item.files]
        self.rows["copy_holders"] += [(*key, digest) for digest in item.referred]
        if item.compaction is not None:
            through, kept, *details = item.compaction
            self.rows["copy_compactions"].append(
                (*key, uuid_bytes(through), _raw_or_none(kept), *details)
            )
        for stream, seq, fact, kind, body in item.facts:
            self.rows["copy_events"].append(
                (key[0], uuid_bytes(stream), seq, digest_raw(fact), kind, body)
            )

    def _open(self, id: str, parent: str | None, fork_depth: int, ordinal: int, jump: str) -> None:
        self.jumps[id] = (ordinal, jump)
        self.rows["copy_segments"].append(
            (
                self.workspace.bytes,
                uuid_bytes(id),
                _raw_or_none(parent),
                fork_depth,
                ordinal,
                uuid_bytes(jump),
            )
        )

    async def _below(self, parent: str) -> tuple[int, str]:
        """Return the ordinal and the jump pointer of a forked segment (Myers' skew-binary rule)."""
        ordinal, jump = await self._jump(parent)
        jump_ordinal, far = await self._jump(jump)
        far_ordinal, _ = await self._jump(far)
        even = ordinal - jump_ordinal == jump_ordinal - far_ordinal
        return ordinal + 1, far if even else parent

    async def _jump(self, segment: str) -> tuple[int, str]:
        if segment not in self.jumps:
            ((ordinal, jump),) = await fetch(
                self.connection,
                SQL["bulk_segment"],
                workspace=self.workspace,
                segment=UUID(segment),
            )
            self.jumps[segment] = (ordinal, jump)
        return self.jumps[segment]

    async def copy(self, connection: Connection) -> None:
        """Write every row; parents come before children in each table."""
        for query, rows in self.rows.items():
            if not rows:
                continue
            async with connection.cursor().copy(SQL[query]) as copy:
                copy.set_types(COLUMN_TYPES[query].split())
                for row in rows:
                    await copy.write_row(row)

    async def link(self, connection: Connection) -> None:
        """Record the links in events and headers; most have none."""
        streams = {row[1] for row in self.rows["copy_events"] if row[4] != TURN_RECORDED}
        streams |= self.derived
        if streams:
            ids = [UUID(bytes=stream) for stream in streams]
            await fetch(connection, SQL["bulk_links"], workspace=self.workspace, streams=ids)


def _raw_or_none(id: str | None) -> bytes | None:
    return None if id is None else uuid_bytes(id)
