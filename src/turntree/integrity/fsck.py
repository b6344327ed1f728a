"""Checks a whole workspace against the ledger's invariants.

Structure and heads are checked by joins over whole tables. Content is checked by reading and
hashing every body and every event once, in ranges. Everything reads one snapshot, so writers can
continue meanwhile.

fsck changes nothing and must never learn to: it reports what is wrong, and with what.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

import anyio
import psycopg
from psycopg import IsolationLevel

from turntree.core.canonical import digest_from_raw, digest_raw, parse_digest
from turntree.core.errors import NotCanonical, NotFound, TurntreeError
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Connection, Database, Row, fetch
from turntree.db.sql import load_statements
from turntree.integrity.findings import Report, Severity, Violation
from turntree.integrity.invariants import (
    OBJECTS,
    PROGRAMS,
    SESSIONS,
    TREE,
    WALKS,
    WARNINGS,
    Check,
)
from turntree.integrity.program_checker import examine_programs
from turntree.integrity.scan import WRONG, ScanResult
from turntree.integrity.scan_ranges import FIRST, LAST, RangeScan, cut
from turntree.integrity.shared_snapshot import SharedSnapshot
from turntree.ledger.raw_store import read_block

SQL = load_statements(__file__)

SUBJECTS_PER_CHECK_MAX = 1000
FINDINGS_MAX = 10_000
"""Stop after this many findings: such a ledger needs its backup, not a longer list."""

Edge = tuple[str, str, str]
"""The subject that holds a reference, its source, and its target."""


def _say_nothing(_stage: str, _done: int, _total: int) -> None:
    pass


async def fsck(
    database: Database, *, full: bool = True, report: Report = _say_nothing
) -> list[Violation]:
    """Return the violations in a workspace; an empty list means that it is sound.

    Without ``full`` only structure and heads are checked, and nothing is hashed. At most about
    ``FINDINGS_MAX`` findings are returned.

    Raises:
        DatabaseUnavailable: The database is unreachable.
    """
    # A separate connection, because its transaction lasts longer than one of the pool may.
    async with database.seen_by(EVERYTHING).acting_as("turntree_app") as connection:
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        await connection.set_read_only(True)
        async with connection.transaction():
            ((snapshot, *_),) = await fetch(connection, SQL["fsck_snapshot"])
            moment = SharedSnapshot(database.conninfo, database.workspace, snapshot)
            return await _Examination(connection, moment, report).run(full=full)


async def check_structure(connection: Connection, workspace: UUID) -> list[Violation]:
    """Return the faults in the columns of a workspace, as a transaction of the caller sees them.

    The settings of the checks stay until that transaction ends.
    """
    await fetch(connection, SQL["fsck_settings"])
    moment = SharedSnapshot("", workspace, "")
    findings = await _Examination(connection, moment, _say_nothing).run(full=False)
    return [finding for finding in findings if finding.severity == "fault"]


@dataclass(slots=True)
class _Examination:
    """One pass over one snapshot of one workspace."""

    connection: Connection
    moment: SharedSnapshot
    report: Report
    structure: list[Violation] = field(default_factory=list[Violation])
    words: list[Violation] = field(default_factory=list[Violation])
    sources: list[Edge] = field(default_factory=list[Edge])
    substitutions: list[Edge] = field(default_factory=list[Edge])
    failures: list[Exception] = field(default_factory=list[Exception])
    """Collected instead of raised: a task group would wrap them in a group of its own."""

    async def run(self, *, full: bool) -> list[Violation]:
        if not full:
            await self._look()
            return self.structure
        ((turns,),) = await self._fetch(SQL["fsck_count"])
        cuts = [UUID(id) for (id,) in await self._fetch(SQL["fsck_ranges"], size=cut(turns))]
        ranges = list(zip([FIRST, *cuts], [*cuts, LAST], strict=True))
        # Concurrently: the joins use the server's CPU, the reading uses ours.
        async with anyio.create_task_group() as group:
            group.start_soon(self._read, ranges, turns)
            group.start_soon(self._look_at_all)
        if self.failures:
            raise self.failures[0]
        self.words += await self._judge_edges()
        return self.structure + self.words

    async def _look_at_all(self) -> None:
        try:
            await self._look()
            self.structure += await self._ask("objects", OBJECTS)
            await self._unpack()
        except psycopg.Error as error:
            # Report what was found so far, with the error: a damaged page must not hide the other
            # findings.
            self.failures.append(error)

    async def _unpack(self) -> None:
        """Hash the records of imported transcripts, a block at a time."""
        digests = [bytes(digest) for (digest,) in await self._fetch(SQL["list_block_digests"])]
        for done, digest in enumerate(digests, start=1):
            try:
                await read_block(self.connection, self.moment.workspace, digest_from_raw(digest))
            except NotFound as error:
                self.structure.append(Violation("I1", str(error), f"block {digest.hex()}"))
            self.report("records", done, len(digests))

    async def _look(self) -> None:
        """Check the columns."""
        self.structure += await self._ask("tree", TREE)
        is_walkable = not self.structure
        self.structure += await self._ask("sessions", SESSIONS)
        self.structure += await self._ask("programs", PROGRAMS)
        self.structure += [_finding(*told) for told in await examine_programs(self._fetch)]
        if is_walkable:
            self.structure += await self._ask("walks", WALKS)

    async def _ask(self, stage: str, checks: tuple[Check, ...]) -> list[Violation]:
        findings: list[Violation] = []
        self.report(stage, 0, len(checks))
        for done, check in enumerate(checks, start=1):
            rows = await self._fetch(SQL[check.query], limit=SUBJECTS_PER_CHECK_MAX)
            findings += [_finding(check.invariant, check.sentence, subject) for (subject,) in rows]
            self.report(stage, done, len(checks))
        return findings

    async def _read(self, ranges: list[tuple[UUID, UUID]], total: int) -> None:
        done = 0
        self.report("turns", 0, total)

        def found(passage: ScanResult) -> bool:
            nonlocal done
            done += passage.turns
            self.report("turns", done, total)
            self.words += [_finding(*complaint) for complaint in passage.complaints]
            self.words += [_finding(*WRONG[d.table], d.turn) for d in passage.differences]
            self.sources += passage.sources
            self.substitutions += passage.substitutions
            return len(self.words) < FINDINGS_MAX

        try:
            await RangeScan(self.moment, ranges, found).run(total)
        except TurntreeError as error:
            # The same: a range that cannot be read is reported, and the findings of the others
            # stay.
            self.failures.append(error)

    async def _judge_edges(self) -> list[Violation]:
        """Check references that may cross ranges."""
        named = [(turn, source) for turn, _, source in self.sources]
        facts = [(event, end) for event, *ends in self.substitutions for end in ends]
        return [
            *_judge_circles("I40", "it is derived from itself", self.sources),
            *await self._find_missing(
                "I40", "what it was derived from is missing", SQL["fsck_missing_sources"], named
            ),
            *_judge_circles(
                "I39", "the fact replaces itself, or does so in the end", self.substitutions
            ),
            *await self._find_missing(
                "I39", "a fact of the replacement is missing", SQL["fsck_missing_events"], facts
            ),
        ]

    async def _find_missing(
        self, invariant: str, sentence: str, query: bytes, named: list[tuple[str, str]]
    ) -> list[Violation]:
        wanted = {digest: _find_raw(digest) for _, digest in named}
        raws = [raw for raw in wanted.values() if raw is not None]
        rows = await self._fetch(query, digests=raws) if raws else []
        missing = {None, *(bytes(raw) for (raw,) in rows)}
        return [
            Violation(invariant, f"{sentence}: {digest}", who)
            for who, digest in named
            if wanted[digest] in missing
        ]

    async def _fetch(self, query: bytes, **params: object) -> list[Row]:
        return await fetch(self.connection, query, workspace=self.moment.workspace, **params)


def _finding(invariant: str, sentence: str, subject: str) -> Violation:
    severity: Severity = "warning" if invariant in WARNINGS else "fault"
    return Violation(invariant, sentence, subject, severity)


def _find_raw(digest: str) -> bytes | None:
    """Return the stored bytes of a digest, or None if the text is not a digest."""
    try:
        return digest_raw(parse_digest(digest))
    except (NotCanonical, TypeError):
        return None


def _judge_circles(invariant: str, sentence: str, edges: list[Edge]) -> Iterator[Violation]:
    """Yield the subjects that are on a cycle or lead into one."""
    left: dict[str, int] = {}
    leading: dict[str, list[str]] = {}
    for _, start, end in edges:
        left[start] = left.get(start, 0) + 1
        leading.setdefault(end, []).append(start)
    # A node without outgoing edges is on no cycle. After removing such nodes repeatedly, every
    # remaining node is on a cycle or leads into one.
    ends = [end for end in leading if end not in left]
    while ends:
        for start in leading.get(ends.pop(), ()):
            left[start] -= 1
            if not left[start]:
                ends.append(start)
    for who, start, end in edges:
        if left.get(start) and left.get(end):
            yield Violation(invariant, sentence, who)
