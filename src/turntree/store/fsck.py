"""Checking a whole workspace against the rules that every write keeps.

The rules keep the numbers they have in ``docs/reference/invariants.md``. Structure and heads are
checked by joins over whole tables; what was said is checked by reading every body and every
event once, in pages, and hashing it. Everything sees one moment, so writers may go on meanwhile.

fsck changes nothing and must never learn to: it says what is wrong, and to whom it happened.
"""

import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import orjson
from psycopg import IsolationLevel

from turntree.domain.canonical import digest_from_raw, digest_raw
from turntree.domain.checks import Finding
from turntree.domain.ids import Digest, TurnId
from turntree.ports.checks import Report
from turntree.store.database import Connection, Database, Row, fetch
from turntree.store.stored_turn import UNREADABLE, StoredTurn, examine
from turntree.store.threads import ID_MIN

PAGE_TURNS_MAX = 500
PAGE_EVENTS_MAX = 2000
SUBJECTS_PER_CHECK_MAX = 1000
FINDINGS_MAX = 10_000
"""Where to stop looking: a ledger with this many faults needs its backup, not a longer list."""

INVARIANTS: Final[Mapping[str, str]] = {
    "I1": "The id of an event and the address of an object are the sha256 of the stored bytes, "
    "and an event's columns are those of its body.",
    "I7": "Every turn but a root has a parent that exists.",
    "I8": "A turn is one deeper than its parent and a root has depth 1, so there is no cycle.",
    "I9": "A place (segment, depth) is held by one turn, so every turn has one thread.",
    "I10": "Walking up by parents and reading by segments give the same thread: segments, "
    "ordinals and jump pointers are as appending makes them.",
    "I11": "The children of a turn by segments are its children by parents.",
    "I12": "Every body proves its turn's digest and follows its parent, the columns are those of "
    "the header, every erased message has its receipt, and the triggers that refuse change are "
    "in force.",
    "I13": "No two turns, segments, sessions or events share an id, and no two turns a digest.",
    "I14": "Tool calls, model calls and compactions as rows are those of the body and of the "
    "run's events, and no turn is sealed before it started.",
    "I15": "A body holds as many messages as its header counts.",
    "I16": "A turn answers a query, and a completed one has a reply; nobody speaks in the "
    "other's place.",
    "I17": "Every tool call of a sealed turn has a result, and every result a call.",
    "I26": "Every session that has a head points at a turn that exists.",
    "I27": "Every move of a session stands in its reflog and in its stream, without a gap; the "
    "newest is where the session stands, and its reach and its keys follow from them.",
    "I28": "Every move is lawful for its kind.",
    "I29": "A session advances only to a turn whose parent was its head, and once per version.",
    "I30": "Every session has one label, and every name leads to one session that exists.",
    "I34": "The events of a stream hold the places 0 to n-1, and a session knows its next one.",
    "I37": "Every object that a message points to is there.",
}


@dataclass(frozen=True, slots=True)
class _Check:
    """A statement that returns the subjects for which a sentence is true."""

    query: str
    sentence: str

    @property
    def invariant(self) -> str:
        return f"I{int(self.query.split('_')[1].removeprefix('i'))}"


_TREE: Final = (
    _Check("fsck_i07", "its parent does not exist"),
    _Check("fsck_i08", "its depth is not one more than its parent's"),
    _Check("fsck_i09", "two turns hold this place"),
    _Check("fsck_i10_place", "it stands outside its segment"),
    _Check("fsck_i10_walk", "its parent is not the turn above it in its segment"),
    _Check("fsck_i10_segment", "the segment does not fit below the one it forks from"),
    _Check("fsck_i10_jump", "the segment's jump pointer is not the one that the rule gives"),
    _Check("fsck_i11", "it is a child by its parent or by its segment, not by both"),
    _Check("fsck_i12_bodies", "there is a turn without a body, or a body without a turn"),
    _Check("fsck_i12_triggers", "facts could be changed here"),
    _Check("fsck_i13", "two things share this"),
    _Check("fsck_i14_times", "it was sealed before it started"),
    _Check("fsck_i14_strays", "there is no such turn"),
)
_SESSIONS: Final = (
    _Check("fsck_i26", "its head does not exist"),
    _Check("fsck_i27_versions", "its reflog has a gap"),
    _Check("fsck_i27_head", "it stands elsewhere than its newest move says"),
    _Check("fsck_i27_chain", "the move begins elsewhere than the one before it ended"),
    _Check("fsck_i27_events", "the move and the event that tells of it differ, or one is missing"),
    _Check("fsck_i27_reach", "how deep the session stood here is not what its reflog says"),
    _Check("fsck_i27_keys", "the key was answered with a move that does not exist"),
    _Check("fsck_i28_shape", "a move of this kind cannot stand or lead here"),
    _Check("fsck_i28_undo", "it does not go back to where the move it takes back began"),
    _Check("fsck_i29_parent", "the session advanced to a turn that does not follow its head"),
    _Check("fsck_i29_twice", "two moves left from one version"),
    _Check("fsck_i30_label", "the session has no label, or several"),
    _Check("fsck_i30_name", "the name leads to no session, or to several"),
    _Check("fsck_i34_places", "the stream has a gap"),
    _Check("fsck_i34_next", "the session's next place is not the end of its stream"),
)
_WALKS: Final = (_Check("fsck_i28_rewind", "it rewound to a turn that is no ancestor"),)
_OBJECTS: Final = (_Check("fsck_i01_objects", "its bytes have another digest"),)


def _say_nothing(_stage: str, _done: int, _total: int) -> None:
    pass


async def fsck(
    database: Database, *, full: bool = True, report: Report = _say_nothing
) -> list[Finding]:
    """Return everything that is wrong with a workspace; nothing means that it is sound.

    Without ``full`` only structure and heads are checked, and nothing is hashed. At most about
    ``FINDINGS_MAX`` findings are returned.

    Raises:
        Unreachable: The database does not answer.
    """
    # A connection of its own, for its transaction is longer than the pool's should ever be.
    async with database.acting_as("turntree_app") as connection:
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        await connection.set_read_only(True)
        async with connection.transaction():
            await fetch(connection, "fsck_snapshot")
            return await _Examination(connection, database.workspace, report).run(full=full)


@dataclass(frozen=True, slots=True)
class _Examination:
    """One pass over one moment of one workspace."""

    connection: Connection
    workspace: UUID
    report: Report

    async def run(self, *, full: bool) -> list[Finding]:
        findings = await self._ask("tree", _TREE)
        is_walkable = not findings
        findings += await self._ask("sessions", _SESSIONS)
        if is_walkable:
            findings += await self._ask("rewinds", _WALKS)
        if not full:
            return findings
        ((turns, events),) = await self._fetch("fsck_counts")
        for passes in (self._read_turns(turns), self._read_events(events)):
            async for page in passes:
                findings += page
                if len(findings) >= FINDINGS_MAX:
                    return findings
        return findings + await self._ask("objects", _OBJECTS)

    async def _ask(self, stage: str, checks: tuple[_Check, ...]) -> list[Finding]:
        findings: list[Finding] = []
        self.report(stage, 0, len(checks))
        for done, check in enumerate(checks, start=1):
            rows = await self._fetch(check.query, limit=SUBJECTS_PER_CHECK_MAX)
            findings += [Finding(check.invariant, check.sentence, subject) for (subject,) in rows]
            self.report(stage, done, len(checks))
        return findings

    async def _read_turns(self, total: int) -> AsyncIterator[list[Finding]]:
        self.report("turns", 0, total)
        after, done = UUID(ID_MIN), 0
        while rows := await self._fetch("fsck_turns", after=after, limit=PAGE_TURNS_MAX):
            last = UUID(rows[-1][0])
            page = {row[0]: _stored(row) for row in rows if row[3] is not None}
            await self._fill(page, after, last)
            findings: list[Finding] = []
            holders: dict[Digest, str] = {}
            for id, stored in page.items():
                examined = examine(stored)
                findings += [Finding(broken, how, id) for broken, how in examined.complaints]
                holders |= dict.fromkeys(examined.objects, stored.id)
            yield findings + await self._find_missing(holders)
            after, done = last, done + len(rows)
            self.report("turns", done, total)

    async def _fill(self, page: Mapping[str, StoredTurn], after: UUID, last: UUID) -> None:
        """Put beside each turn what other tables say of it; strays have a check of their own."""
        for id, *call in await self._fetch("fsck_tool_calls", after=after, last=last):
            if id in page:
                sequence, call_id, tool, status = call
                page[id].tool_calls.append((sequence, call_id, tool, status))
        for id, *numbers in await self._fetch("fsck_model_calls", after=after, last=last):
            if id in page:
                page[id].model_calls.append(tuple(numbers))
        for id, *details in await self._fetch("fsck_compactions", after=after, last=last):
            if id in page:
                page[id].compaction = tuple(details)
        for id, body in await self._fetch("fsck_journal", after=after, last=last):
            if id in page:
                page[id].journal.append(body)

    async def _find_missing(self, holders: Mapping[Digest, str]) -> list[Finding]:
        if not holders:
            return []
        rows = await self._fetch("fsck_missing_objects", digests=[*map(digest_raw, holders)])
        missing = [digest_from_raw(bytes(raw)) for (raw,) in rows]
        return [Finding("I37", f"the object {one} is missing", holders[one]) for one in missing]

    async def _read_events(self, total: int) -> AsyncIterator[list[Finding]]:
        self.report("events", 0, total)
        after, seq, done = UUID(ID_MIN), -1, 0
        while rows := await self._fetch("fsck_events", after=after, seq=seq, limit=PAGE_EVENTS_MAX):
            yield [
                Finding("I1", sentence, f"{row[0]} at {row[1]}")
                for row in rows
                if (sentence := _find_fault(row)) is not None
            ]
            after, seq, done = UUID(rows[-1][0]), rows[-1][1], done + len(rows)
            self.report("events", done, total)

    async def _fetch(self, query: str, **params: object) -> list[Row]:
        return await fetch(self.connection, query, workspace=self.workspace, **params)


def _stored(row: Row) -> StoredTurn:
    id, digest, parent, body, kind, outcome, role, model, provider, started_at, sealed_at = row
    return StoredTurn(
        TurnId(id),
        digest_from_raw(bytes(digest)),
        None if parent is None else digest_from_raw(bytes(parent)),
        body,
        (kind, outcome, role, model, provider),
        started_at,
        sealed_at,
    )


def _find_fault(row: Row) -> str | None:
    stream, seq, id, kind, body = row
    if hashlib.sha256(body.encode()).digest() != bytes(id):
        return "the event's id is not the digest of its body"
    try:
        document = orjson.loads(body)
        said = (document["stream"], document["seq"], document["kind"])
    except UNREADABLE:
        return "the event's body cannot be read"
    return None if said == (stream, seq, kind) else "a column says something else than the event"
