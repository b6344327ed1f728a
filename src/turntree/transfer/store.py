"""Reads a workspace as the lines of an archive, and inserts them again.

Both happen in one transaction: an export is one snapshot, and an import is complete or absent. An
import holds its transaction for as long as it takes. Readers of the feed wait for it, which is the
price for never showing half of a ledger. Memory is bounded by a batch and by the largest line.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import orjson
import psycopg

from turntree.auth.member import WORKSPACE_STREAM
from turntree.core.canonical import digest_from_raw, digest_raw, parse_digest
from turntree.core.errors import Conflict, InvalidOperation, NotFound
from turntree.core.ids import Digest, TurnId
from turntree.core.turn import SealedTurn, read_lines
from turntree.db.database import Connection, Database, Row, as_uuids, fetch, run
from turntree.db.pool import ScopedConnection
from turntree.db.sql import load_statements
from turntree.ledger.raw_store import read_block
from turntree.transcripts.bulk_copy import SQL as BULK
from turntree.transcripts.bulk_copy import import_batch
from turntree.transcripts.incoming import ImportedTurn, ImportProgress
from turntree.transcripts.packing import Packer
from turntree.transfer.archive import (
    BY_KIND,
    FORMAT,
    SECTIONS,
    ArchiveLine,
    BaseTurn,
    bytes_line,
    event_line,
    line_of,
    row_from_line,
    row_to_line,
    turn_line,
)

SQL = load_statements(__file__)

BATCH_LINES: Final = 1000
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
ROWS_AHEAD: Final = 200
"""Rows that are fetched at once."""
OBJECTS_AHEAD: Final = 8
"""Objects are large: fewer of them."""
CONFLICTS_SHOWN: Final = 5


@dataclass(slots=True)
class LedgerSnapshot:
    """One state of a workspace, as its viewer sees it."""

    connection: Connection
    workspace: UUID
    sees_all: bool
    unfinished: int
    """Open runs, waiting messages and plans under way, which are left out."""
    total: int
    """About how many lines there will be."""
    resources: list[UUID]
    turns: list[UUID] | None = None
    """The only turns to read, with what belongs to them; None reads everything."""

    async def lines(self) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the kind and the text of every line, except those of files and the last."""
        first: dict[str, Any] = {"turntree": FORMAT}
        # Absent if the archive is whole, so that a copy of the ledger writes the same bytes.
        if not self.sees_all:
            first["partial"] = True
        yield "archive", line_of("archive", first)
        async for id, body in self.rows("event"):
            yield "event", event_line(digest_from_raw(id), body)
        async for id, parent, depth, digest, header, said in self.rows("turn"):
            yield "turn", turn_line(id, parent, depth, digest_from_raw(digest), header, said)
        async for digest, data in self.objects():
            yield "object", bytes_line("object", digest, data)
        for section in SECTIONS:
            async for (text,) in self.rows(section.kind):
                yield section.kind, row_to_line(section, orjson.loads(text))

    async def objects(self) -> AsyncGenerator[tuple[Digest, bytes], None]:
        """Yield the objects with their bytes."""
        async for digest, data in self.rows("object", OBJECTS_AHEAD):
            yield digest_from_raw(digest), data

    async def files(self) -> list[dict[str, Any]]:
        """Return the states of files before and after each of the turns."""
        given = {"workspace": self.workspace, "turns": self.turns}
        rows = await fetch(self.connection, SQL["thread_files"], **given)
        return [orjson.loads(text) for (text,) in rows]

    async def states(self) -> list[Digest]:
        """Return the snapshots whose files belong to the archive."""
        rows = await fetch(
            self.connection,
            SQL["archive_states"],
            workspace=self.workspace,
            sees_all=self.sees_all,
        )
        return [Digest(id) for (id,) in rows]

    async def rows(self, kind: str, ahead: int = ROWS_AHEAD) -> AsyncGenerator[Row, None]:
        """Yield the rows of one kind of line."""
        query = SQL[f"export_{kind}"]
        given = {
            "workspace": self.workspace, "sees_all": self.sees_all, "resources": self.resources,
            "turns": self.turns,
        }  # fmt: skip
        # A cursor of the server: the client never holds more than a few rows.
        async with self.connection.cursor(f"archive_{kind}", scrollable=False) as cursor:
            cursor.itersize = ahead
            await cursor.execute(query, given, binary=True)
            async for row in cursor:
                yield row


@asynccontextmanager
async def open_snapshot(
    database: Database, turns: Sequence[TurnId] | None = None
) -> AsyncGenerator[LedgerSnapshot, None]:
    """Read one state of a workspace within the block, or of some turns; writers continue."""
    async with database.acting_as("turntree_app") as connection:
        await connection.execute(SQL["repeatable_read"])
        async with connection.transaction():
            scope = {"workspace": database.workspace}
            ((sees_all, _, unfinished),) = await fetch(connection, SQL["archive_begin"], **scope)
            if turns is not None:
                ids = as_uuids(turns)
                yield LedgerSnapshot(
                    connection,
                    database.workspace,
                    sees_all=False,
                    unfinished=0,
                    total=len(ids),
                    resources=[],
                    turns=ids,
                )
                return
            ((total,),) = await fetch(connection, SQL["archive_size"], **scope)
            seen = [] if sees_all else await fetch(connection, SQL["archive_resources"], **scope)
            yield LedgerSnapshot(
                connection, database.workspace, sees_all, unfinished, total, [id for (id,) in seen]
            )


@dataclass(slots=True)
class ArchiveImport:
    """Inserts the lines of an archive in a transaction of its caller."""

    connection: ScopedConnection
    workspace: UUID
    is_filled: bool
    """Whether the workspace had anything before."""
    importer: str
    """Who reads the archive."""
    keeps_ours: bool = False
    """Whether what the ledger has stays as it is, even if the archive has less of it.

    A shared thread lacks secrets that its reader may have.
    """
    added: dict[str, int] = field(default_factory=dict[str, int])
    conflicts: list[str] = field(default_factory=list[str])
    """What the ledger has in another form; the caller refuses the archive."""
    _kind: str = ""
    _batch: list[ArchiveLine] = field(default_factory=list[ArchiveLine])
    _bytes: int = 0
    _packer: Packer = field(default_factory=Packer)
    _erased_here: set[str] = field(default_factory=set[str])
    """Turns with messages that were erased here, and not in the archive."""

    async def add(self, line: ArchiveLine, size: int) -> None:
        """Insert a line, or keep it for the next batch."""
        if (
            line.kind != self._kind
            or self._bytes >= BATCH_BYTES_MAX
            or (len(self._batch) >= BATCH_LINES)
        ):
            await self._flush()
            is_after_events = self._kind == "event" and line.kind != "event"
            if self.is_filled and is_after_events and not self.keeps_ours:
                # All events are there, so it is known which rows the archive replaces. Whose they
                # are is asked before it replaces an owner, too.
                extended = await self._fetch("extended_programs", importer=self.importer)
                self.conflicts += [f"{of} {name}, which another created" for of, name in extended]
                for name in (
                    "drop_behind_names", "drop_behind_tags", "drop_behind_grants",
                    "drop_behind_attachments",
                ):  # fmt: skip
                    await self._run(name)
            self._kind = line.kind
        self._batch.append(line)
        self._bytes += size

    async def check_base(self, base: BaseTurn | None) -> None:
        """Raise unless the ledger has the turn that the archive continues.

        Raises:
            InvalidOperation: It does not, or as another turn.
        """
        if base is None:
            return
        turns = as_uuids([base.id])
        known = [
            (digest_from_raw(raw), at) for raw, at in await self._fetch("known_turns", turns=turns)
        ]
        if known != [(base.digest, base.depth)]:
            raise InvalidOperation(f"the archive continues turn {base.id}, which is not here")

    async def finish(self) -> None:
        """Insert the rest, and what follows from all of it.

        Raises:
            Conflict: The ledger has something else in place of what the archive holds.
        """
        await self._flush()
        self.conflicts += [f"name {name}" for (name,) in await self._fetch("exposed_agent")]
        if not self.conflicts:
            for name in ("import_reach", "import_queues", "import_links"):
                await run(self.connection, SQL[name], {"workspace": self.workspace})
            return
        shown = "; ".join(self.conflicts[:CONFLICTS_SHOWN])
        more = len(self.conflicts) - CONFLICTS_SHOWN
        raise Conflict(
            f"the ledger has something else in place of {shown}"
            + (f"; and {more} more" if more > 0 else "")
        )

    async def _flush(self) -> None:
        batch, self._batch, self._bytes = self._batch, [], 0
        if not batch:
            return
        try:
            await self._add_batch(batch)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # No digest proves a row: a damaged one may lack a member.
            said = self._kind.replace("_", " ")
            raise InvalidOperation(f"a {said} in the archive cannot be read") from error

    async def _add_batch(self, batch: list[ArchiveLine]) -> None:
        match self._kind:
            case "event":
                await self._add_events(batch)
            case "turn":
                await self._add_turns(batch)
            case "object":
                await self._add_objects(batch)
            case "source":
                # Transcripts are numbered, and have another number in each ledger.
                rows = orjson.dumps([line.document["row"] for line in batch]).decode()
                await self._run("import_transcripts", rows=rows)
                self._count("source", (await self._run("import_sources", rows=rows)).rowcount)
            case kind if kind in BY_KIND:
                await self._add_rows(kind, batch)
            case _:
                pass  # The first and the last line, and files: they are not in the database.

    async def _add_events(self, batch: list[ArchiveLine]) -> None:
        events = [line.document["event"] for line in batch]
        streams = as_uuids([event["stream"] for event in events])
        # An export leaves these out: a forger could make members with them. Not compared as text,
        # which has several spellings of one id.
        if UUID(WORKSPACE_STREAM) in streams:
            raise InvalidOperation("the archive contains members or keys, which cannot be imported")
        given = {
            "streams": streams,
            "seqs": [event["seq"] for event in events],
            "ids": [digest_raw(parse_digest(line.document["id"])) for line in batch],
            "kinds": [event["kind"] for event in events],
            "bodies": [line.data.decode() for line in batch],
        }
        await self._run("count_streams", **given, is_filled=self.is_filled)
        added = (await self._run("import_events", **given, keeps_ours=self.keeps_ours)).rowcount
        self._count("event", added)
        if added < len(batch) and not self.keeps_ours:
            rows = await self._fetch("differing_events", **given)
            self.conflicts += [f"event {seq} of {stream}" for stream, seq in rows]

    async def _add_turns(self, batch: list[ArchiveLine]) -> None:
        rows = [self._as_rows(line) for line in batch]
        ids = as_uuids([item.id for item in rows])
        referred = sorted({digest for item in rows for digest in item.referred})
        await self._run("import_references", digests=referred)
        if self.is_filled:
            await self._compare_bodies(batch, ids)
        # Turns are copied as an import of transcripts copies them, by the role that may.
        await run(self.connection, SQL["take_role"], {"role": "turntree_importer"})
        ((direct,),) = await self._fetch_plain(BULK["may_bypass"])
        path = "turntree" if direct else "pg_temp, turntree"
        begin = {"workspace": self.workspace, "path": path, "hurrying": False}
        progress = ImportProgress()
        await import_batch(self.connection, begin, rows, progress, direct=direct)
        await run(self.connection, SQL["take_role"], {"role": "turntree_app"})
        self._count("turn", progress.added)
        await self._run("import_model_calls", turns=ids)

    def _as_rows(self, line: ArchiveLine) -> Any:
        assert line.turn is not None, "a line of a turn holds one"
        document, body = line.document, line.turn
        turn = read_lines(body.header, body.said, parse_digest(document["digest"]))
        sealed = SealedTurn(turn, f"{body.header}\n{body.said}")
        parent = None if document["parent"] is None else TurnId(document["parent"])
        rows = self._packer.prepare(ImportedTurn(sealed, parent))
        # What an erased message called and touched comes in rows of its own.
        return rows._replace(tool_calls=(), files=()) if body.is_erased else rows

    async def _compare_bodies(self, batch: list[ArchiveLine], ids: list[UUID]) -> None:
        """Compare what is erased: the digest of a turn is the same before and after."""
        known: dict[str, str] = dict(await self._fetch("known_bodies", turns=ids))
        for line in batch:
            assert line.turn is not None, "a line of a turn holds one"
            here = known.get(line.document["id"], line.turn.said)
            if here == line.turn.said or self.keeps_ours:
                continue
            pairs = zip(here.split("\n"), line.turn.said.split("\n"), strict=True)
            if any(ours != theirs and theirs.startswith('{"erased":') for ours, theirs in pairs):
                self.conflicts.append(f"a message of turn {line.document['id']}, which is erased")
            else:
                self._erased_here.add(line.document["id"])

    async def _add_objects(self, batch: list[ArchiveLine]) -> None:
        digests = [digest_raw(parse_digest(line.document["digest"])) for line in batch]
        done = await self._run(
            "import_objects", digests=digests, data=[line.data for line in batch]
        )
        self._count("object", done.rowcount)

    async def _add_rows(self, kind: str, batch: list[ArchiveLine]) -> None:
        section, workspace = BY_KIND[kind], {"workspace_id": str(self.workspace)}
        rows = [{**workspace, **row_from_line(section, line.document)} for line in batch]
        if self._erased_here and kind in ("raw_block", "import_cursor"):
            # Records of what was erased here must not come back, nor a cursor that counts on them.
            rows = [row for row in rows if self._erased_here.isdisjoint(row.get("turn_ids", ()))]
            rows = rows if kind == "raw_block" else []
        if self.is_filled and section.stream is not None:
            streams = as_uuids([row[section.stream] for row in rows])
            settled = {
                id
                for (id,) in await self._fetch(
                    "list_settled", streams=streams, keeps_ours=self.keeps_ours
                )
            }
            rows = [row for row in rows if row[section.stream] not in settled]
        if kind == "bound_session":
            given = orjson.dumps(rows).decode()
            exposed = await self._fetch_plain(SQL["exposed_sessions"], rows=given)
            self.conflicts += [f"session {id}, which no conversation has" for (id,) in exposed]
        if kind == "post_delivery":
            given = orjson.dumps(rows).decode()
            foreign = await self._fetch_plain(SQL["foreign_deliveries"], rows=given)
            self.conflicts += [f"what session {id} was told of post {seq}" for seq, id in foreign]
        try:
            ((added, differing),) = await self._fetch_plain(
                SQL["import_rows"], table=section.table, rows=orjson.dumps(rows).decode()
            )
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            why = error.diag.message_primary or str(error)
            raise InvalidOperation(
                f"the archive has a {kind.replace('_', ' ')} that cannot be stored: {why}"
            ) from error
        self._count(kind, added)
        if differing is not None and section.is_compared and not self.keeps_ours:
            await self._settle(kind, orjson.loads(differing))
        if kind == "raw_block":
            await self._verify_blocks(rows)

    async def _settle(self, kind: str, differing: list[dict[str, Any]]) -> None:
        """Update rows that the archive has a newer form of; the others are conflicts."""
        updated = set[str]()
        if kind in ("session", "program", "conversation", "participant"):
            rows = orjson.dumps(differing).decode()
            updated = {id for (id,) in await self._fetch_plain(SQL[f"update_{kind}s"], rows=rows)}
        if kind == "participant":
            # Their events say who takes part. How far an agent was told depends on what waited.
            return
        if kind == "post":
            # What was erased here stays so; the digest of both is in an event.
            differing = [row for row in differing if row["body"].startswith('{"erased":')]
        key = BY_KIND[kind].key
        self.conflicts += [
            f"{kind} {' '.join(str(row[name]) for name in key)}"
            for row in differing
            if row.get("id") not in updated
        ]

    async def _verify_blocks(self, rows: list[dict[str, Any]]) -> None:
        """Unpack the records of transcripts against their turns, and hash them."""
        for row in rows:
            digest = digest_from_raw(bytes.fromhex(row["digest"].removeprefix("\\x")))
            try:
                await read_block(self.connection, self.workspace, digest)
            except NotFound as error:
                raise InvalidOperation(
                    f"the archive has raw records that cannot be kept: {error}"
                ) from error

    async def check_objects(self) -> None:
        """Raise if a turn refers to an object that the archive lacks.

        Raises:
            InvalidOperation: One is missing.
        """
        for (digest,) in await self._fetch("missing_object"):
            raise InvalidOperation(f"the archive lacks the object {digest}")

    def _count(self, kind: str, added: int) -> None:
        self.added[kind] = self.added.get(kind, 0) + added

    async def _run(self, name: str, **given: Any) -> Any:
        return await run(self.connection, SQL[name], {"workspace": self.workspace, **given})

    async def _fetch(self, name: str, **given: Any) -> list[Row]:
        return await fetch(self.connection, SQL[name], workspace=self.workspace, **given)

    async def _fetch_plain(self, query: bytes, **given: Any) -> list[Row]:
        return await fetch(self.connection, query, **given)


@asynccontextmanager
async def open_import(database: Database, *, importer: str) -> AsyncGenerator[ArchiveImport, None]:
    """Insert an archive within the block: all of it, or nothing if the block raises.

    The database must be seen by the system, which the rows of every owner belong to.
    """
    async with database.acting_as("turntree_app") as connection, connection.transaction():
        scope = {"workspace": database.workspace}
        ((*_, is_filled),) = await fetch(connection, SQL["import_begin"], **scope)
        await connection.execute(SQL["import_tables"])
        await run(connection, SQL["list_agents"], scope)
        yield ArchiveImport(connection, database.workspace, is_filled, importer)
