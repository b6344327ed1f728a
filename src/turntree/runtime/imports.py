"""Importing: other tools' transcripts become turns and sessions of ours.

A bundle goes through five steps. Its records are read and secrets taken out of them; they are
kept; they are projected and sealed; the turns are stored, many bundles at a time; and its sessions
are begun or moved. Only then is the bundle's cursor set, so that whatever is interrupted is done
again, and doing it again changes nothing.

A session that somebody has moved since stays where it is: people win over importers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import anyio.to_thread

from turntree.domain.canonical import digest_from_raw
from turntree.domain.errors import Conflict, NotCanonical, NotFound, Refused
from turntree.domain.event import Event, Recorded, record
from turntree.domain.ids import Digest, Label, SessionId, TurnId
from turntree.domain.journal import recorded
from turntree.domain.principal import Principal
from turntree.domain.secrets import RULES_VERSION, redact
from turntree.domain.session import Origin, Spawn
from turntree.domain.transcript import (
    DraftSession,
    DraftSpawn,
    Key,
    Projection,
    Record,
    SealedDraft,
    seal_drafts,
)
from turntree.ports import sessions as session_ports
from turntree.ports.importers import Bundle, Importer
from turntree.ports.imports import Cursor, Imports, Incoming, TurnSource
from turntree.ports.world import World

BY = "system:import"
BATCH_BYTES = 24 * 1024 * 1024
NAMES_TRIED_MAX = 100


@dataclass(slots=True)
class Progress:
    """How far an import has come, and what it found."""

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
    """Those that people have moved, so that the import left them alone."""
    secrets: int = 0
    repaired: int = 0
    orphans: int = 0
    broken: int = 0
    unknown: dict[str, int] = field(default_factory=dict[str, int])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Bundles that could not be read, or not be projected and stored whole, and why."""


@dataclass(slots=True)
class _Read:
    """A bundle on its way through."""

    bundle: Bundle
    importer: Importer
    cursor: Cursor
    projection: Projection
    turns: list[SealedDraft]
    error: str | None
    replaces: Mapping[str, TurnId] = field(default_factory=dict[str, TurnId])

    @property
    def heads(self) -> dict[Key, TurnId]:
        """The turn of each key."""
        return {turn.draft.key: turn.sealed.turn.id for turn in self.turns}


@dataclass(slots=True)
class Importing:
    """Imports bundles into one workspace."""

    imports: Imports
    sessions: session_ports.Sessions
    reflog: session_ports.Reflog
    world: World
    redacting: bool = True
    hold_open: bool = False
    """Leave out turns that a transcript ends in the middle of: they are still being taken."""
    report: Callable[[Progress], None] = lambda _: None
    progress: Progress = field(default_factory=Progress)

    async def run(self, found: Sequence[tuple[Importer, Bundle]]) -> Progress:
        """Import whatever has changed since it was last read."""
        known = {(c.origin, c.bundle): c for c in await self.imports.list_cursors()}
        self.progress.bundles += len(found)
        self.progress.bytes += sum(bundle.size for _, bundle in found)
        batch: list[_Read] = []
        size = 0
        for importer, bundle in found:
            cursor = known.get((bundle.origin, bundle.id))
            if cursor is not None and self._is_current(cursor, importer, bundle):
                self.progress.bundles_unchanged += 1
                self.progress.bytes_read += bundle.size
                continue
            try:
                records = await anyio.to_thread.run_sync(self._read, importer, bundle)
            except OSError as error:
                # Nothing is known of it and its cursor stays: the next import tries again.
                self.progress.failed[f"{bundle.origin}/{bundle.id}"] = str(error)
                continue
            batch.append(await self._take(importer, bundle, records, cursor))
            size += batch[-1].cursor.raw_bytes
            if size >= BATCH_BYTES:
                await self._store(batch)
                batch, size = [], 0
        await self._store(batch)
        return self.progress

    async def list_pending(
        self, found: Sequence[tuple[Importer, Bundle]]
    ) -> list[tuple[Importer, Bundle]]:
        """Return what ``run`` would read: whatever has changed since it was last read."""
        known = {(c.origin, c.bundle): c for c in await self.imports.list_cursors()}
        return [
            (importer, bundle)
            for importer, bundle in found
            if (cursor := known.get((bundle.origin, bundle.id))) is None
            or not self._is_current(cursor, importer, bundle)
        ]

    async def reproject(self, importers: Mapping[str, Importer]) -> Progress:
        """Project kept records again wherever an importer has learned to read them better.

        New turns are sealed beside the old ones, which stay, and each says what it replaces.
        """
        for cursor in await self.imports.list_cursors():
            importer = importers.get(cursor.origin)
            if importer is None or cursor.projector >= importer.version:
                self.progress.bundles_unchanged += 1
                continue
            bundle = Bundle(cursor.origin, cursor.bundle, (), cursor.stamp, cursor.raw_bytes)
            records = await self.imports.read_records(cursor.blocks)
            replaces = await self.imports.list_sources(cursor.origin, cursor.bundle)
            read = await self._take(importer, bundle, records, cursor)
            await self._store([replace(read, replaces=replaces)])
        return self.progress

    def _is_current(self, cursor: Cursor, importer: Importer, bundle: Bundle) -> bool:
        return (
            cursor.stamp == bundle.stamp
            and cursor.projector >= importer.version
            and (cursor.redactor >= RULES_VERSION or not self.redacting)
        )

    def _read(self, importer: Importer, bundle: Bundle) -> list[Record]:
        records: list[Record] = []
        for found in importer.read(bundle):
            data, secrets = redact(found.data) if self.redacting else (found.data, 0)
            self.progress.secrets += secrets
            records.append(replace(found, data=data) if secrets else found)
        return records

    async def _take(
        self, importer: Importer, bundle: Bundle, records: Sequence[Record], cursor: Cursor | None
    ) -> _Read:
        grown = await self._keep(importer, bundle, records, cursor)
        error = None
        turns: list[SealedDraft] = []
        projection = Projection((), ())
        try:
            projection = await anyio.to_thread.run_sync(importer.project, bundle, records)
            if self.hold_open:
                projection = _without_open(projection)
            turns = await anyio.to_thread.run_sync(
                lambda: list(seal_drafts(projection, Principal("agent", bundle.origin)))
            )
        except (Refused, NotCanonical) as refused:
            # The records are kept: a better projector will read them one day.
            error, projection, turns = str(refused), Projection((), ()), []
            self.progress.failed[f"{bundle.origin}/{bundle.id}"] = error
        self._count(bundle, records, projection, turns)
        return _Read(bundle, importer, grown, projection, turns, error)

    async def _keep(
        self, importer: Importer, bundle: Bundle, records: Sequence[Record], cursor: Cursor | None
    ) -> Cursor:
        """Keep the records that are not kept yet and return the cursor behind them."""
        hashed = sha256()
        new = 0
        for place, found in enumerate(records):
            if cursor is not None and place == cursor.records:
                new = place if digest_from_raw(hashed.digest()) == cursor.prefix else 0
            # Where it stood belongs to it, and so does where it ended.
            hashed.update(b"%s\n%d\n%d\n" % (found.file.encode(), found.offset, len(found.data)))
            hashed.update(found.data)
        if cursor is not None and len(records) == cursor.records:
            new = len(records) if digest_from_raw(hashed.digest()) == cursor.prefix else 0
        kept: tuple[Digest, ...] = cursor.blocks if cursor is not None and new else ()
        blocks = await self.imports.keep(bundle.origin, bundle.id, new, records[new:])
        return Cursor(
            bundle.origin,
            bundle.id,
            bundle.stamp,
            importer.version,
            RULES_VERSION if self.redacting else 0,
            len(records),
            sum(len(found.data) for found in records),
            digest_from_raw(hashed.digest()),
            (*kept, *blocks),
        )

    def _count(
        self,
        bundle: Bundle,
        records: Sequence[Record],
        projection: Projection,
        turns: Sequence[SealedDraft],
    ) -> None:
        progress = self.progress
        progress.bundles_read += 1
        progress.bytes_read += bundle.size
        progress.records += len(records)
        progress.repaired += sum(turn.repaired for turn in turns)
        progress.orphans += len(projection.orphans)
        progress.broken += projection.broken
        for kind, times in projection.unknown.items():
            progress.unknown[kind] = progress.unknown.get(kind, 0) + times

    async def _store(self, batch: Sequence[_Read]) -> None:
        if not batch:
            return
        try:
            await self._store_turns(batch)
        except (Conflict, NotFound, Refused) as error:
            # One of them fails, and nobody else shall fail with it.
            if len(batch) > 1:
                for read in batch:
                    await self._store([read])
                return
            batch[0].projection, batch[0].turns = Projection((), ()), []
            self._fail(batch[0], error)
        for read in batch:
            told: dict[str, Any] = {}
            try:
                told = await self._place_all(read)
            except (Conflict, NotFound, Refused) as error:
                self._fail(read, error)
            report = _report(read)
            at = self.world.now()
            await self.imports.mark(replace(read.cursor, heads=told, report=report), at)
        self.report(self.progress)

    async def _store_turns(self, batch: Sequence[_Read]) -> None:
        stored = await self.imports.store_turns(_incoming(batch))
        self.progress.turns_added += stored.added
        self.progress.turns_known += stored.known

    def _fail(self, read: _Read, error: Exception) -> None:
        """Say that a bundle's turns or sessions are not all there; its records are kept."""
        read.error = str(error)
        self.progress.failed[f"{read.bundle.origin}/{read.bundle.id}"] = read.error

    async def _place_all(self, read: _Read) -> dict[str, Any]:
        heads = read.heads
        told: dict[str, Any] = {}
        for session in _parents_first(read.projection.sessions):
            head = None if session.head is None else heads.get(session.head)
            await self._place(read.bundle, session, head, heads)
            told[session.id] = {"head": head, "title": session.title, **session.details}
        return told

    async def _place(
        self, bundle: Bundle, draft: DraftSession, head: TurnId | None, heads: Mapping[Key, TurnId]
    ) -> None:
        """Begin a session, or move it on if nobody else has moved it."""
        known = await self.imports.find_session(bundle.origin, draft.id)
        if known is None:
            await self._begin(bundle, draft, head, heads)
            return
        session = await self.sessions.get(known)
        if head is None or session.head == head:
            return
        if not await self._is_ours(known):
            self.progress.sessions_kept += 1
            return
        await self.sessions.move(known, "replay", head, by=BY, at=self.world.now())
        self.progress.sessions_moved += 1

    async def _begin(
        self, bundle: Bundle, draft: DraftSession, head: TurnId | None, heads: Mapping[Key, TurnId]
    ) -> None:
        spawn = None if draft.spawn is None else await self._spawn(bundle, draft.spawn, heads)
        for attempt in range(1, NAMES_TRIED_MAX + 1):
            label = draft.label if attempt == 1 else f"{draft.label}-{attempt}"
            try:
                await self.sessions.create(
                    SessionId(self.world.new_id()),
                    Label(label),
                    by=BY,
                    at=self.world.now(),
                    head=head,
                    origin=Origin(bundle.origin, draft.id),
                    spawn=spawn,
                )
            except Conflict:
                if attempt == NAMES_TRIED_MAX:
                    raise
            else:
                self.progress.sessions_begun += 1
                return

    async def _spawn(
        self, bundle: Bundle, draft: DraftSpawn, heads: Mapping[Key, TurnId]
    ) -> Spawn | None:
        """Return who began a session, if that session was ever at the turn that did."""
        parent = await self.imports.find_session(bundle.origin, draft.parent_session)
        turn = heads.get(draft.parent_turn)
        if parent is None or turn is None:
            return None
        if not await self.imports.has_held(parent, turn):
            if not await self._is_ours(parent):
                return None
            # It began somebody on a way that its tool has left since: it stood there once.
            stands = (await self.sessions.get(parent)).head
            for head in (turn, stands or turn):
                await self.sessions.move(parent, "replay", head, by=BY, at=self.world.now())
        return Spawn(parent, turn, draft.call_id, draft.mode, draft.task)

    async def _is_ours(self, session: SessionId) -> bool:
        """Say whether nobody but an import has moved a session last."""
        (newest,) = await self.reflog.list_moves(session, limit=1)
        return newest.by == BY


def _without_open(projection: Projection) -> Projection:
    """Leave out turns that are still being taken; their sessions stand at what came before."""
    parents = {turn.key: turn.parent for turn in projection.turns if turn.open}
    if not parents:
        return projection
    turns = [t for t in projection.turns if t.key not in parents and t.parent not in parents]

    def stands(head: Key | None) -> Key | None:
        while head is not None and head in parents:
            head = parents[head]
        return head

    sessions = [replace(one, head=stands(one.head)) for one in projection.sessions]
    kept = {turn.key for turn in turns}
    return replace(
        projection,
        turns=turns,
        sessions=[one for one in sessions if one.spawn is None or one.spawn.parent_turn in kept],
        usage_told=None,  # It tells of calls that no turn counts yet.
    )


def _parents_first(drafts: Sequence[DraftSession]) -> Iterator[DraftSession]:
    """Yield sessions so that nobody comes before the session that spawned it."""
    waiting = {draft.id: draft for draft in drafts}
    for draft in drafts:
        chain: list[DraftSession] = []
        found = waiting.pop(draft.id, None)
        while found is not None:
            chain.append(found)
            found = None if found.spawn is None else waiting.pop(found.spawn.parent_session, None)
        yield from reversed(chain)


def _incoming(batch: Iterable[_Read]) -> Iterator[Incoming]:
    for read in batch:
        for turn in read.turns:
            draft, sealed = turn.draft, turn.sealed
            places = draft.records or (0,)
            source = TurnSource(
                read.bundle.origin, read.bundle.id, draft.key, min(places), max(places),
                read.importer.version,
            )  # fmt: skip
            journal = recorded(sealed.turn, draft.calls)
            old = read.replaces.get(draft.key)
            if old is not None and old != sealed.turn.id:
                journal = [*journal, _substitution(turn, old, len(journal))]
            yield Incoming(sealed, turn.parent, draft.calls, journal, turn.objects, source)


def _substitution(turn: SealedDraft, old: TurnId, seq: int) -> Recorded:
    """Return the fact that a turn stands for one that was projected less well."""
    data = {"original_turn": old, "replacement_turn": turn.sealed.turn.id, "reason": "reprojected"}
    at = turn.sealed.turn.header.sealed_at
    return record(Event(turn.sealed.turn.id, seq, "substitution", at, data))


def _report(read: _Read) -> dict[str, Any]:
    report = {
        "turns": len(read.turns),
        "unknown": dict(read.projection.unknown),
        "orphans": len(read.projection.orphans),
        "broken": read.projection.broken,
        "repaired": sum(turn.repaired for turn in read.turns),
        "tokens": read.projection.usage_told,
        "error": read.error,
    }
    return {name: value for name, value in report.items() if value}
