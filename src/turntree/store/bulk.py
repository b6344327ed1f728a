"""Bulk import: many sealed turns at once, by COPY, in memory bounded by a batch.

A batch is planned against what the ledger holds (which turns it knows, where their parents
stand), copied and committed as one. A turn the ledger knows is passed over, so an interrupted
import goes on where it stopped and a repeated one changes nothing.

COPY is refused under row-level security. Where the importer's role may bypass it, a trigger
checks the workspace instead; where no such role can be had, the batch goes through temporary
tables and ordinary inserts, which the policies check.
"""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

import psycopg

from turntree.domain.canonical import digest_raw
from turntree.domain.errors import Conflict, NotFound, Refused
from turntree.domain.ids import TurnId
from turntree.ports.imports import Imported, Incoming
from turntree.store.database import Connection, Database, as_uuid, as_uuids, fetch, run
from turntree.store.ledger import actor_of, tool_calls, touched_files
from turntree.store.sql import QUERIES

BATCH_TURNS = 2000
TURN_RECORDED = "turn_recorded"
BATCH_BYTES_MAX = 32 * 1024 * 1024
TRIES_MAX = 5
"""How often a batch is planned again because somebody appended at the same place meanwhile."""

COLUMN_TYPES: Mapping[str, str] = {
    "copy_segments": "uuid uuid uuid int4 int4 uuid",
    "copy_turns": (
        "uuid uuid uuid uuid int4 bytea timestamptz timestamptz text text text text text text"
    ),
    "copy_bodies": "uuid uuid text text",
    "copy_tool_calls": "uuid uuid int2 text text text",
    "copy_model_calls": "uuid uuid int2 text text text int4 int4 int4 int4 int4",
    "copy_files": "uuid uuid int2 int2 text text int4 int4",
    "copy_compactions": "uuid uuid uuid uuid int4 text text int4 int4 int4 int4",
    "copy_events": "uuid uuid int4 bytea text text",
    "copy_objects": "uuid bytea bytea",
    "copy_sources": "uuid uuid int4 int4 int4 text text text",
}
"""What each COPY sends, in the order the tables must be filled."""


async def import_turns(
    database: Database,
    incoming: Iterable[Incoming] | AsyncIterable[Incoming],
    *,
    batch_turns: int = BATCH_TURNS,
    report: Callable[[Imported], None] = lambda _: None,
) -> Imported:
    """Store turns, parents first, and return how many were new; no session moves.

    Raises:
        NotFound: A turn comes before its parent.
        Refused: A turn is known under another digest, was built on another parent, or says
            something that no column holds.
    """
    progress = Imported()
    async with database.acting_as("turntree_importer") as connection:
        ((direct,),) = await fetch(connection, "may_bypass")
        async for batch in _batches(incoming, batch_turns):
            await _import_batch(connection, database.workspace, batch, progress, direct=direct)
            report(progress)
    return progress


async def _batches(
    incoming: Iterable[Incoming] | AsyncIterable[Incoming], turns_max: int
) -> AsyncIterable[list[Incoming]]:
    batch: list[Incoming] = []
    size = 0
    async for item in _each(incoming):
        batch.append(item)
        size += len(item.sealed.body)
        if len(batch) >= turns_max or size >= BATCH_BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


async def _each(incoming: Iterable[Incoming] | AsyncIterable[Incoming]) -> AsyncIterable[Incoming]:
    if isinstance(incoming, AsyncIterable):
        async for item in incoming:
            yield item
    else:
        for item in incoming:
            yield item


async def _import_batch(
    connection: Connection,
    workspace: UUID,
    batch: list[Incoming],
    progress: Imported,
    *,
    direct: bool,
) -> None:
    for attempt in range(1, TRIES_MAX + 1):
        try:
            async with connection.transaction():
                path = "turntree" if direct else "pg_temp, turntree"
                await run(connection, "bulk_begin", {"workspace": workspace, "path": path})
                plan = await _Plan.of(connection, workspace, batch)
                if not direct:
                    await connection.execute(QUERIES["stage_tables"])
                await plan.copy(connection)
                if not direct:
                    await connection.execute(QUERIES["unstage_tables"])
                await plan.link(connection)
        except psycopg.errors.UniqueViolation as error:
            if attempt == TRIES_MAX:
                raise Conflict("somebody keeps appending where this import appends") from error
            continue
        except (psycopg.DataError, psycopg.errors.ProgramLimitExceeded) as error:
            raise Refused(f"no column holds this: {error.diag.message_primary or error}") from error
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
    """The rows of one batch, placed in the tree."""

    connection: Connection
    workspace: UUID
    places: dict[str, _Place] = field(default_factory=dict[str, _Place])
    jumps: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    derived: set[UUID] = field(default_factory=set[UUID])
    """Turns whose headers name what they came from."""
    rows: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {query: [] for query in COLUMN_TYPES}
    )

    @classmethod
    async def of(cls, connection: Connection, workspace: UUID, batch: list[Incoming]) -> "_Plan":
        """Place a batch against what the ledger holds now."""
        plan = cls(connection, workspace)
        ids = as_uuids([item.sealed.turn.id for item in batch])
        known = {
            id: bytes(digest)
            for id, digest in await fetch(connection, "bulk_known", workspace=workspace, turns=ids)
        }
        parents = as_uuids(sorted({item.parent for item in batch if item.parent is not None}))
        for id, segment, depth, digest, followed in await fetch(
            connection, "bulk_places", workspace=workspace, turns=parents
        ):
            plan.places[id] = _Place(segment, depth, bytes(digest), followed)
        for item in batch:
            turn = item.sealed.turn
            if turn.id not in known:
                await plan.add(item)
                known[turn.id] = digest_raw(turn.digest)
            elif known[turn.id] != digest_raw(turn.digest):
                raise Refused(f"turn {turn.id} is sealed with another digest")
        await plan.add_objects(batch)
        await plan.add_sources(batch)
        return plan

    async def add_objects(self, batch: list[Incoming]) -> None:
        """Keep what was too large to stand in a message, each once."""
        held = {sha256(data).digest(): data for item in batch for data in item.objects}
        if not held:
            return
        # The importer's connection is its own and does not know our arrays.
        for (digest,) in await fetch(
            self.connection, "bulk_objects", workspace=self.workspace, digests=list(held)
        ):
            del held[bytes(digest)]
        self.rows["copy_objects"] += [(self.workspace, *pair) for pair in held.items()]

    async def add_sources(self, batch: list[Incoming]) -> None:
        """Say what each turn was made from; a turn that is known may have come from elsewhere."""
        told = {
            (item.sealed.turn.id, item.source.origin, item.source.bundle): item.source
            for item in batch
            if item.source is not None
        }
        if not told:
            return
        ids = as_uuids([id for id, _, _ in told])
        for place in await fetch(
            self.connection, "bulk_sources", workspace=self.workspace, turns=ids
        ):
            told.pop(cast("tuple[TurnId, str, str]", tuple(place)), None)
        self.rows["copy_sources"] += [
            (self.workspace, UUID(id), s.first, s.last, s.projector, s.origin, s.bundle, s.key)
            for (id, _, _), s in told.items()
        ]

    async def add(self, item: Incoming) -> None:
        """Give a turn its place: the first after a turn extends its segment, others fork."""
        turn, header = item.sealed.turn, item.sealed.turn.header
        if item.parent is None:
            if header.parent is not None:
                raise Refused(f"turn {turn.id} was built on a parent, and comes without one")
            segment, depth = str(turn.id), 1
            self._open(segment, None, 0, 0, segment)
        else:
            place = self.places.get(item.parent)
            if place is None:
                raise NotFound(f"turn {turn.id} comes before its parent {item.parent}")
            if header.parent is None or digest_raw(header.parent) != place.digest:
                raise Refused(f"turn {turn.id} was built on another parent than {item.parent}")
            segment, depth = place.segment, place.depth + 1
            if place.followed:
                ordinal, jump = await self._below(segment)
                self._open(str(turn.id), segment, place.depth, ordinal, jump)
                segment = str(turn.id)
            place.followed = True
        digest = digest_raw(turn.digest)
        self.places[turn.id] = _Place(segment, depth, digest, followed=False)
        id = UUID(turn.id)
        self.rows["copy_turns"].append((
            self.workspace, id, as_uuid(item.parent), UUID(segment), depth, digest,
            datetime.fromisoformat(header.started_at), datetime.fromisoformat(header.sealed_at),
            header.kind, header.outcome, header.agent_role, actor_of(header), header.model,
            header.provider,
        ))  # fmt: skip
        if header.retry_of is not None or header.derived_from:
            self.derived.add(id)
        header_line, _, said = item.sealed.body.partition("\n")
        self.rows["copy_bodies"].append((self.workspace, id, header_line, said))
        self._add_projections(id, item)

    def _add_projections(self, id: UUID, item: Incoming) -> None:
        header = item.sealed.turn.header
        for sequence, (call_id, tool, status) in enumerate(tool_calls(item.sealed.turn)):
            self.rows["copy_tool_calls"].append(
                (self.workspace, id, sequence, call_id, tool, status)
            )
        for sequence, call in enumerate(item.calls):
            u = call.usage
            self.rows["copy_model_calls"].append((
                self.workspace, id, sequence, call.model, call.provider, call.call_id,
                u.input, u.output, u.cached_input, u.cache_write, u.reasoning,
            ))  # fmt: skip
        for sequence, (message, file) in enumerate(touched_files(item.sealed.turn)):
            self.rows["copy_files"].append((
                self.workspace, id, message, sequence, file.kind, file.path, file.line_start,
                file.line_end,
            ))  # fmt: skip
        if (c := header.compaction) is not None:
            self.rows["copy_compactions"].append((
                self.workspace, id, UUID(c.summarized_through), as_uuid(c.first_kept),
                c.turns_summarized, c.kind, c.trigger, c.tokens_before, c.tokens_after,
                c.summary_tokens, c.duration_ms,
            ))  # fmt: skip
        for fact in item.journal:
            event = fact.event
            self.rows["copy_events"].append((
                self.workspace, UUID(event.stream), event.seq, digest_raw(fact.id), event.kind,
                fact.body,
            ))  # fmt: skip

    def _open(self, id: str, parent: str | None, fork_depth: int, ordinal: int, jump: str) -> None:
        self.jumps[id] = (ordinal, jump)
        self.rows["copy_segments"].append(
            (self.workspace, UUID(id), as_uuid(parent), fork_depth, ordinal, UUID(jump))
        )

    async def _below(self, parent: str) -> tuple[int, str]:
        """Return the ordinal and the jump of a segment that forks off another (Myers' rule)."""
        ordinal, jump = await self._jump(parent)
        jump_ordinal, far = await self._jump(jump)
        far_ordinal, _ = await self._jump(far)
        even = ordinal - jump_ordinal == jump_ordinal - far_ordinal
        return ordinal + 1, far if even else parent

    async def _jump(self, segment: str) -> tuple[int, str]:
        if segment not in self.jumps:
            ((ordinal, jump),) = await fetch(
                self.connection, "bulk_segment", workspace=self.workspace, segment=UUID(segment)
            )
            self.jumps[segment] = (ordinal, jump)
        return self.jumps[segment]

    async def copy(self, connection: Connection) -> None:
        """Write every row; parents come before children in each table."""
        for query, rows in self.rows.items():
            if not rows:
                continue
            async with connection.cursor().copy(QUERIES[query]) as copy:
                copy.set_types(COLUMN_TYPES[query].split())
                for row in rows:
                    await copy.write_row(row)

    async def link(self, connection: Connection) -> None:
        """Note what events and headers say of other things; most say nothing."""
        streams = {row[1] for row in self.rows["copy_events"] if row[4] != TURN_RECORDED}
        streams |= self.derived
        if streams:
            await fetch(connection, "bulk_links", workspace=self.workspace, streams=[*streams])
