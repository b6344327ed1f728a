"""Import other tools' transcripts as turns and sessions.

A transcript is read first, by another process if there is much to read: secrets are removed from
its records, and they are packed, projected and sealed. Then, many transcripts at a time, the
records and turns are stored, and the sessions are created or moved. The cursors are written last,
so an interrupted import is repeated, and repeating it changes nothing. That is why everything
before the cursors commits asynchronously: what a crash loses is imported again like the rest.

An import acts as the principal that runs it, and its moves have a kind of their own. A session that
is not where an import left it stays there: people win over importers. A person who undoes their
move puts it back where the import left it, and it follows its tool again.

A session of another principal is never moved. Any user can write a transcript with its name, so
what comes under that name from elsewhere creates a session of the importer's own.
"""

from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio.to_thread

from turntree.core.clock import Clock
from turntree.core.errors import Conflict, InvalidOperation, NotFound
from turntree.core.ids import Label, SessionId, Timestamp, TurnId
from turntree.core.redaction import RULES_VERSION
from turntree.core.session import MoveKind, Origin, Session, Spawn, numbered_labels
from turntree.core.value import value
from turntree.ledger.session_store import ReflogStore, SessionStore
from turntree.transcripts.bulk_copy import BulkImport
from turntree.transcripts.drafts import DraftSession, DraftSpawn, Key
from turntree.transcripts.handoff_link import HandoffLink
from turntree.transcripts.handoff_store import HandoffStore
from turntree.transcripts.importer import Importer, TranscriptRef
from turntree.transcripts.incoming import IMPORTER, ImportCursor
from turntree.transcripts.pipeline import BundleRead, ReadTask, may_begin_with, take_records
from turntree.transcripts.reader_pool import Readers
from turntree.transcripts.store import ImportStore

# A batch is held in memory until it is stored.
BATCH_BYTES = 4 * 1024 * 1024
AHEAD_BYTES = 8 * BATCH_BYTES
"""Bytes that may be read ahead of what is stored; a larger transcript is read alone.

Readers get no new task while a batch is being stored. With less than a few batches read ahead,
the import would end up waiting for them.
"""
PROCESSES_FROM_BYTES = 8 * 1024 * 1024
"""Less than this is read faster than another process starts."""
ANALYZE_FROM_TURNS = 500
"""Autovacuum keeps up with less than this, such as the turns that hooks report."""
CHECKED_OUT_BEFORE = "system:checkout"
"""The principal of handoff moves before they had a kind of their own."""
HELD = "open:"
"""Prefix of the fingerprint of a transcript that was read without its unfinished turns."""


@dataclass(slots=True)
class Progress:
    """The progress of an import, and its totals."""

    bundles: int = 0
    bundles_read: int = 0
    bundles_unchanged: int = 0
    bytes: int = 0
    bytes_read: int = 0
    records: int = 0
    turns_added: int = 0
    turns_known: int = 0
    sessions_begun: int = 0
    sessions_moved: int = 0
    sessions_kept: int = 0
    """Sessions that people have moved elsewhere, so the import left them alone."""
    sessions_apart: int = 0
    """Sessions created beside another user's session from a source of the same name."""
    secrets: int = 0
    repaired: int = 0
    orphans: int = 0
    broken: int = 0
    unknown: dict[str, int] = field(default_factory=dict[str, int])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Transcripts that could not be read, projected or stored completely, and why."""


@value
class _ReadTranscript:
    """A transcript that has been read."""

    importer: Importer
    bundle: TranscriptRef
    cursor: ImportCursor | None
    """How far it was read before."""
    read: BundleRead


@dataclass(slots=True)
class ImportService:
    """Imports transcripts into one workspace."""

    imports: ImportStore
    checkouts: HandoffStore
    sessions: SessionStore
    reflog: ReflogStore
    world: Clock
    moving: SessionStore | None = None
    """Sessions as that principal sees them, used for moves; None if the system imports."""
    private: bool = False
    """Whether new sessions are private to their importer."""
    redacting: bool = True
    live: tuple[bytes, ...] = field(default=(), repr=False)
    """Secret values to remove, wherever they occur."""
    hold_open: bool = False
    """Whether to leave out turns that a transcript ends in the middle of: they may still run."""
    reader_command: Sequence[str] = ()
    """The command of a process that runs ``reader_pool.serve``; empty to read in this one."""
    reader_processes: int = 0
    batch_bytes: int = BATCH_BYTES
    """Bytes that are stored together; with fewer, others see the progress sooner."""
    hold_after: Mapping[tuple[str, str], Timestamp] = field(
        default_factory=dict[tuple[str, str], Timestamp]
    )
    """Leave out turns of a transcript that began later: their ends are not recorded yet."""
    report: Callable[[Progress], None] = lambda _: None
    progress: Progress = field(default_factory=Progress)
    _grafts: list[tuple[str, HandoffLink]] = field(default_factory=list[tuple[str, HandoffLink]])
    """The handoffs that existed before this run began."""

    async def run(self, found: Sequence[tuple[Importer, TranscriptRef]]) -> Progress:
        """Import everything that has changed since it was last read."""
        # Read once: handoffs that are written while this runs belong to the next import.
        self._grafts = await self.checkouts.list_all()
        known = {(c.origin, c.bundle): c for c in await self.imports.list_cursors()}
        found = _without_parts(await self._without_copies(found), known.values())
        self.progress.bundles += len(found)
        self.progress.bytes += sum(bundle.size for _, bundle in found)
        changed: list[tuple[Importer, TranscriptRef, ImportCursor | None]] = []
        for importer, bundle in found:
            cursor = known.get((bundle.origin, bundle.id))
            if cursor is not None and self._is_current(cursor, importer, bundle):
                self.progress.bundles_unchanged += 1
                self.progress.bytes_read += bundle.size
            else:
                changed.append((importer, bundle, cursor))
        if changed:
            await self.imports.require_author()
            changed.sort(key=lambda one: _last_written(one[1]))
            async with self.imports.open_bulk() as bulk:
                await self._import_all(changed, bulk)
            await self._analyze()
        return self.progress

    async def _import_all(
        self,
        changed: Sequence[tuple[Importer, TranscriptRef, ImportCursor | None]],
        bulk: BulkImport,
    ) -> None:
        batch: list[_ReadTranscript] = []
        size = 0
        # Whatever stops this, such as Ctrl-C, also ends the reader processes.
        async with aclosing(self._read_ahead(changed)) as ahead:
            async for taken in ahead:
                batch.append(taken)
                size += taken.read.raw_bytes
                if size >= self.batch_bytes:
                    await self._store(batch, bulk)
                    batch, size = [], 0
        await self._store(batch, bulk)

    async def announce(self, importer: Importer, bundle: TranscriptRef) -> None:
        """Create the sessions of a transcript that has no records yet."""
        await self.imports.require_author()
        for draft in importer.project(bundle, []).sessions:
            await self._place(bundle, draft, None, {})

    async def list_pending(
        self, found: Sequence[tuple[Importer, TranscriptRef]]
    ) -> list[tuple[Importer, TranscriptRef]]:
        """Return what ``run`` would read: everything that has changed since it was last read."""
        known = {(c.origin, c.bundle): c for c in await self.imports.list_cursors()}
        found = _without_parts(await self._without_copies(found), known.values())
        return [
            (importer, bundle)
            for importer, bundle in found
            if (cursor := known.get((bundle.origin, bundle.id))) is None
            or not self._is_current(cursor, importer, bundle)
        ]

    async def _without_copies(
        self, found: Sequence[tuple[Importer, TranscriptRef]]
    ) -> list[tuple[Importer, TranscriptRef]]:
        """Return transcripts without sample data that was handed off and that no tool continued.

        It is not the user's history. What a tool adds is, together with what it continues.
        """
        copies = await self.checkouts.list_sample_copies()
        return [
            (importer, bundle)
            for importer, bundle in found
            if (bundle.origin, bundle.files[0].name, bundle.size) not in copies
        ]

    async def _read_ahead(
        self, changed: Sequence[tuple[Importer, TranscriptRef, ImportCursor | None]]
    ) -> AsyncGenerator[_ReadTranscript, None]:
        """Yield transcripts in order, while free readers read the next ones."""
        worth = sum(bundle.size for _, bundle, _ in changed) >= PROCESSES_FROM_BYTES
        processes = min(self.reader_processes, len(changed)) if worth else 0
        readers = Readers(self.imports.packing, self.reader_command, processes)
        pool = ThreadPoolExecutor(readers.count)
        ahead: deque[tuple[Importer, TranscriptRef, ImportCursor | None, Future[BundleRead]]] = (
            deque()
        )
        size = 0
        waiting = deque(changed)
        try:
            while waiting or ahead:
                while waiting and (not ahead or size < AHEAD_BYTES):
                    importer, bundle, cursor = waiting.popleft()
                    task = self._task(bundle, cursor)
                    reading = pool.submit(readers.read, importer, task)
                    ahead.append((importer, bundle, cursor, reading))
                    size += bundle.size
                importer, bundle, cursor, reading = ahead.popleft()
                size -= bundle.size
                try:
                    read = await anyio.to_thread.run_sync(reading.result, abandon_on_cancel=True)
                except OSError as error:
                    # Nothing is stored and its cursor stays: the next import tries again.
                    self.progress.failed[f"{bundle.origin}/{bundle.id}"] = str(error)
                    continue
                yield _ReadTranscript(importer, bundle, cursor, read)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            readers.close()

    def _task(self, bundle: TranscriptRef, cursor: ImportCursor | None) -> ReadTask:
        records, prefix = (0, None) if cursor is None else (cursor.records, cursor.prefix)
        hold_after = self.hold_after.get((bundle.origin, bundle.id))
        grafts = [
            graft
            for origin, graft in self._grafts
            if origin == bundle.origin and may_begin_with(bundle, graft)
        ]
        return ReadTask(
            bundle, self.redacting, self.hold_open, hold_after, records, prefix, grafts,
            live=self.live,
        )  # fmt: skip

    async def reproject(self, importers: Mapping[str, Importer]) -> Progress:
        """Project stored records again wherever an importer has a newer version.

        New turns are sealed beside the old ones, which stay, and each names the turn it replaces.
        """
        await self.imports.require_author()
        self._grafts = await self.checkouts.list_all()
        for cursor in await self.imports.list_cursors():
            importer = importers.get(cursor.origin)
            if importer is None or cursor.projector >= importer.version:
                self.progress.bundles_unchanged += 1
                continue
            bundle = TranscriptRef(cursor.origin, cursor.bundle, (), cursor.stamp, cursor.raw_bytes)
            records = await self.imports.read_records(cursor.blocks)
            replaces = await self.imports.list_sources(cursor.origin, cursor.bundle)
            gap = await self.checkouts.find_gap(cursor.blocks)
            task, packing = replace(self._task(bundle, cursor), gap=gap), self.imports.packing
            take = partial(take_records, importer, task, packing, records, replaces=replaces)
            read = await anyio.to_thread.run_sync(take)
            await self._store([_ReadTranscript(importer, bundle, cursor, read)])
        await self._analyze()
        return self.progress

    async def _analyze(self) -> None:
        if self.progress.turns_added >= ANALYZE_FROM_TURNS:
            await self.imports.analyze()

    def _is_current(self, cursor: ImportCursor, importer: Importer, bundle: TranscriptRef) -> bool:
        is_read = cursor.stamp == bundle.stamp
        # If only unfinished turns were left out, there is nothing new to read.
        is_watched = self.hold_open and not self.hold_after
        is_held = is_watched and cursor.stamp == f"{HELD}{bundle.stamp}"
        return (
            (is_read or is_held)
            and cursor.projector >= importer.version
            and (cursor.redactor >= RULES_VERSION or not self.redacting)
        )

    def _count(self, taken: _ReadTranscript) -> None:
        progress, read = self.progress, taken.read
        progress.bundles_read += 1
        progress.bytes_read += taken.bundle.size
        progress.records += read.records
        progress.secrets += read.secrets
        progress.repaired += read.repaired
        progress.orphans += read.orphans
        progress.broken += read.broken
        for kind, times in read.unknown.items():
            progress.unknown[kind] = progress.unknown.get(kind, 0) + times
        if read.error is not None:
            progress.failed[f"{taken.bundle.origin}/{taken.bundle.id}"] = read.error

    async def _store(
        self, batch: Sequence[_ReadTranscript], bulk: BulkImport | None = None
    ) -> None:
        if not batch:
            return
        # Committed asynchronously, because the cursors that follow are durable. Lost work is simply
        # read again.
        async with self.imports.database.hurry():
            cursors = await self._store_all(batch, bulk)
        await self.imports.mark(cursors, self.world.now())
        self.report(self.progress)

    async def _store_all(
        self, batch: Sequence[_ReadTranscript], bulk: BulkImport | None
    ) -> list[ImportCursor]:
        """Store the content of transcripts, and return their cursors, which are written last."""
        turns = [turn for taken in batch for turn in taken.read.turns]
        await self._store_turns(batch, bulk)
        # Blocks of records may depend on the bodies of turns, so the turns come first.
        await self.imports.keep([block for taken in batch for block in taken.read.blocks], turns)
        cursors: list[ImportCursor] = []
        for taken in batch:
            told: dict[str, Any] = {}
            try:
                told = await self._place_all(taken)
            except (Conflict, NotFound, InvalidOperation) as error:
                # One transcript that cannot be placed must not stop the others of its batch. Its
                # error is reported with it.
                taken.read.error = str(error)
            cursors.append(self._cursor(taken, told))
            self._count(taken)
        return cursors

    async def _store_turns(self, batch: Sequence[_ReadTranscript], bulk: BulkImport | None) -> None:
        turns = (turn for taken in batch for turn in taken.read.turns)
        try:
            stored = await self.imports.store_turns(turns, bulk)
        except (Conflict, NotFound, InvalidOperation) as error:
            # One transcript fails, and the others must not fail with it. Its records are stored.
            if len(batch) == 1:
                batch[0].read.give_up(str(error))
                return
            for taken in batch:
                await self._store_turns([taken], bulk)
        else:
            self.progress.turns_added += stored.added
            self.progress.turns_known += stored.known

    async def _place_all(self, taken: _ReadTranscript) -> dict[str, Any]:
        heads = taken.read.heads
        told: dict[str, Any] = {}
        # A handoff that no tool has continued is our own writing, not a session of the tool. One
        # that a hook reported was opened, and the next turn will follow.
        is_used = (
            taken.read.graft is None
            or bool(taken.read.turns)
            or (taken.bundle.origin, taken.bundle.id) in self.hold_after
        )
        # A subagent's session names the turn of its parent, which therefore has to exist first.
        for session in _parents_first(taken.read.sessions):
            head = None if session.head is None else heads.get(session.head)
            if is_used or await self.imports.find_session(taken.bundle.origin, session.id):
                await self._place(taken.bundle, session, head, heads)
            if session.spawn is None and head is not None:
                await self._carry_on(taken, session, head)
            told[session.id] = {"head": head, "title": session.title, **session.details}
        return told

    async def _carry_on(self, taken: _ReadTranscript, draft: DraftSession, head: TurnId) -> None:
        """Move the handed-off session on with the tool, if it is still at that turn."""
        graft = taken.read.graft
        if graft is None or graft.continues is None:
            return
        told: Mapping[str, Any] = {} if taken.cursor is None else taken.cursor.heads
        before: Mapping[str, Any] = told.get(draft.id) or {}
        stood = before.get("head") or graft.turn.id
        if not await self._may_carry(graft.continues):
            return
        session = await self._moving.get(graft.continues)
        if session.head == head:
            return
        if session.head == stood or await self._carried(session, taken.read.heads):
            await self._move_on(session, head, "handoff")

    async def _carried(self, session: Session, heads: Mapping[Key, TurnId]) -> bool:
        """Return whether an import that crashed before writing its cursor moved a session on."""
        (last,) = await self.reflog.list_moves(session.id, limit=1)
        is_carried = last.kind == "handoff" or last.by == CHECKED_OUT_BEFORE
        return is_carried and last.after in heads.values()

    async def _may_carry(self, session: SessionId) -> bool:
        """Return whether the importer, or the system, created a session that was handed off.

        Another principal's session stays: the tool's turns go to a session of the importer's own.
        """
        begun = (await self.reflog.list_moves(session, before=2, limit=1))[0].by
        return self.imports.by in (IMPORTER, begun) or begun.startswith("system:")

    @property
    def _moving(self) -> SessionStore:
        """Sessions as the importer sees them: the database checks the permission to move one."""
        return self.moving or self.sessions

    async def _move_on(self, session: Session, head: TurnId, kind: MoveKind) -> None:
        """Move a session from its known head; one that was moved meanwhile is left alone."""
        try:
            await self._moving.move(
                session.id,
                kind,
                head,
                by=self.imports.by,
                at=self.world.now(),
                expected_head=session.head,
                check_head=True,
            )
        except Conflict:
            # It moved since its head was read, perhaps by its user, and is never moved back. The
            # turns are in the ledger anyway.
            self.progress.sessions_kept += 1
        else:
            self.progress.sessions_moved += 1

    def _cursor(self, taken: _ReadTranscript, told: Mapping[str, Any]) -> ImportCursor:
        """Return the cursor after what was read."""
        bundle, read = taken.bundle, taken.read
        kept = taken.cursor.blocks if taken.cursor is not None and read.grown else ()
        return ImportCursor(
            bundle.origin,
            bundle.id,
            f"{HELD}{bundle.stamp}" if read.held else bundle.stamp,
            taken.importer.version,
            RULES_VERSION if self.redacting else 0,
            read.records,
            read.raw_bytes,
            read.prefix,
            (*kept, *(block.digest for block in read.blocks)),
            told,
            _report(read),
        )

    async def _place(
        self,
        bundle: TranscriptRef,
        draft: DraftSession,
        head: TurnId | None,
        heads: Mapping[Key, TurnId],
    ) -> None:
        """Create a session, or move it on if it is where an import left it."""
        known = await self.imports.find_session(bundle.origin, draft.id)
        if known is None or not known.is_own:
            await self._begin(bundle, draft, head, heads)
            self.progress.sessions_apart += known is not None
            return
        session = await self._moving.get(known.id)
        if head is None or session.head == head:
            return
        if not await self._is_ours(known.id):
            self.progress.sessions_kept += 1
            return
        await self._move_on(session, head, "import")

    async def _begin(
        self,
        bundle: TranscriptRef,
        draft: DraftSession,
        head: TurnId | None,
        heads: Mapping[Key, TurnId],
    ) -> None:
        spawn = None if draft.spawn is None else await self._spawn(bundle, draft.spawn, heads)
        for label in numbered_labels(draft.label):
            try:
                await self.sessions.create(
                    SessionId(self.world.new_id()),
                    Label(label),
                    by=self.imports.by,
                    at=self.world.now(),
                    head=head,
                    origin=Origin(bundle.origin, draft.id),
                    spawn=spawn,
                    visibility="private" if self.private else None,
                )
            except Conflict:
                continue
            self.progress.sessions_begun += 1
            return
        raise InvalidOperation(f"too many sessions are named {draft.label!r}")

    async def _spawn(
        self, bundle: TranscriptRef, draft: DraftSpawn, heads: Mapping[Key, TurnId]
    ) -> Spawn | None:
        """Return the spawn of a session, if its parent was ever at the turn that spawned it."""
        found = await self.imports.find_session(bundle.origin, draft.parent_session)
        turn = heads.get(draft.parent_turn)
        if found is None or not found.is_own or turn is None:
            return None
        parent = found.id
        if not await self.imports.has_held(parent, turn):
            if not await self._is_ours(parent):
                return None
            # It was spawned on a branch that its tool has left since: the parent was there once.
            stands = (await self._moving.get(parent)).head
            for head in (turn, stands or turn):
                await self._moving.move(
                    parent, "import", head, by=self.imports.by, at=self.world.now()
                )
        return Spawn(parent, turn, draft.call_id, draft.mode, draft.task)

    async def _is_ours(self, session: SessionId) -> bool:
        """Return whether a session is where an import left it."""
        page = await self.reflog.list_moves(session, limit=1)
        stands = page[0].after
        while page:
            for move in page:
                # A session with an origin was created by an import, which once moved it by resets.
                was_import = move.by == IMPORTER and move.kind == "reset"
                if move.kind == "import" or move.version == 1 or was_import:
                    return move.after == stands
            page = await self.reflog.list_moves(session, before=page[-1].version)
        return False


def _without_parts(
    found: Sequence[tuple[Importer, TranscriptRef]], cursors: Iterable[ImportCursor]
) -> Sequence[tuple[Importer, TranscriptRef]]:
    """Return transcripts without parts of sessions of which another transcript was imported."""
    if all(bundle.part_of is None for _, bundle in found):
        return found
    holders: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for cursor in cursors:
        for session in cursor.heads:
            holders[cursor.origin, session].add(cursor.bundle)
    return [
        (importer, bundle)
        for importer, bundle in found
        if bundle.part_of is None or holders[bundle.origin, bundle.part_of] <= {bundle.id}
    ]


def _last_written(bundle: TranscriptRef) -> float:
    """Sort key, oldest first: ids follow time, and inserting in their order is faster."""
    try:
        return max((file.stat().st_mtime for file in bundle.files), default=0.0)
    except OSError:
        # Deleted since it was listed. Reading it reports that; the order does not matter.
        return 0.0


def _parents_first(drafts: Sequence[DraftSession]) -> Iterator[DraftSession]:
    """Yield sessions so that none comes before the session that spawned it."""
    waiting = {draft.id: draft for draft in drafts}
    for draft in drafts:
        chain: list[DraftSession] = []
        found = waiting.pop(draft.id, None)
        while found is not None:
            chain.append(found)
            found = None if found.spawn is None else waiting.pop(found.spawn.parent_session, None)
        yield from reversed(chain)


def _report(read: BundleRead) -> dict[str, Any]:
    report = {
        "turns": len(read.turns),
        "unknown": dict(read.unknown),
        "orphans": read.orphans,
        "broken": read.broken,
        "repaired": read.repaired,
        "tokens": read.tokens,
        "error": read.error,
    }
    return {name: value for name, value in report.items() if value}
