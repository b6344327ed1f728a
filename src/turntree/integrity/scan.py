"""Reads a range of the ledger: every body, every event, and the rows derived from them.

``turn_checker`` and ``event_checker`` check single turns and events. This module compares the
stored projections with what the bytes give, page by page, so that a range of any size takes little
memory. ``fsck`` reports the differences and ``repair`` fixes them; nothing is written here.

A range is a range of ids. Turns, runs and sessions draw their ids from one clock, so a range holds
the turns of a period with their streams. Two ranges share nothing, so several can be read
concurrently.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import orjson
from psycopg import Connection

from turntree.auth.permissions import Permissions, Right
from turntree.core.canonical import digest_from_raw, digest_raw, parse_digest
from turntree.core.errors import InvalidOperation
from turntree.core.manifest import Manifest
from turntree.core.value import value
from turntree.db.sql import load_statements
from turntree.integrity.event_checker import EventChecker
from turntree.integrity.turn_checker import UNREADABLE, Complaint, Derived, TurnChecker, examine

SQL = load_statements(__file__)

Row = tuple[Any, ...]
# A page is held in memory with the bodies of its turns.
PAGE_TURNS_MAX = 1000
PAGE_EVENTS_MAX = 4000

WRONG: Final[Mapping[str, tuple[str, str]]] = {
    "tool_calls": ("I14", "the tool calls are not those of the body"),
    "model_calls": ("I14", "the model calls are not those of the run's events"),
    "message_files": ("I14", "the files are not those of the messages"),
    "compactions": ("I14", "the compaction's row is not what the header says"),
    "object_holders": ("I14", "the objects it refers to are not those noted"),
    "tags": ("I63", "its tags are not those that its events tell of"),
}
"""The invariant and the sentence for a difference in each table."""


@value
class RowDiff:
    """Rows of one turn that differ from those derived from the bytes."""

    table: str
    turn: str
    stored: list[Derived]
    follow: list[Derived]


@dataclass(slots=True)
class ScanResult:
    """The findings of one range."""

    turns: int = 0
    complaints: list[Complaint] = field(default_factory=list[Complaint])
    differences: list[RowDiff] = field(default_factory=list[RowDiff])
    sources: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    substitutions: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])


@dataclass(slots=True)
class RangeScanner:
    """Reads ranges of one workspace through a connection with a fixed snapshot."""

    connection: "Connection[Row]"
    workspace: UUID
    manifests: dict[str, Manifest | None] = field(default_factory=dict[str, Manifest | None])
    """Manifests by digest; None for one that could not be parsed."""
    permissions: dict[str, Permissions] = field(default_factory=dict[str, Permissions])
    """Parsed permissions, by the digest of their object."""

    def read(self, after: UUID, last: UUID) -> ScanResult:
        """Read everything with an id after ``after`` and up to ``last``."""
        passage = ScanResult()
        gaps: dict[str, list[int]] = {}
        for page in self._pages(after, last, passage):
            gaps |= page.gaps
        events = self._read_events(after, last, passage)
        passage.complaints += [
            ("I12", "a message was taken out without a receipt", turn)
            for turn, places in gaps.items()
            if not events.receipts.issuperset((turn, place) for place in places)
        ]
        # Asked at the end of the range, once for all its runs.
        passage.complaints += self._check_interrupted(events.interrupted)
        return passage

    def _pages(self, after: UUID, last: UUID, passage: ScanResult) -> Iterator[TurnChecker]:
        while rows := self._fetch(SQL["fsck_turns"], after=after, last=last, limit=PAGE_TURNS_MAX):
            # Rows after the last turn are derived from nothing, and compared with its page.
            is_last = len(rows) < PAGE_TURNS_MAX
            until = last if is_last else UUID(rows[-1][0])
            page = examine(rows)
            passage.turns += len(rows)
            passage.complaints += page.complaints
            passage.complaints += self._find_missing(page.objects)
            passage.complaints += self._check_tools(page)
            passage.sources += page.sources
            passage.differences += self._compare_page(page, after, until)
            yield page
            if is_last:
                return
            after = until
        passage.differences += self._compare_page(TurnChecker(), after, last)

    def _compare_page(self, page: TurnChecker, after: UUID, last: UUID) -> Iterator[RowDiff]:
        calls = self._fetch(SQL["fsck_tool_calls"], after=after, last=last)
        yield from _compare_said("tool_calls", calls, page.tool_calls, page)
        files = self._fetch(SQL["fsck_files"], after=after, last=last)
        yield from _compare_said("message_files", files, page.files, page)
        details = self._fetch(SQL["fsck_compactions"], after=after, last=last)
        yield from _compare("compactions", details, page.compactions, page.unproven)
        holders = self._fetch(SQL["fsck_holders"], after=after, last=last)
        yield from _compare("object_holders", holders, page.holders, page.unproven)

    def _read_events(self, after: UUID, last: UUID, passage: ScanResult) -> EventChecker:
        events = EventChecker()
        # The largest position, so that the page starts with the first event of the next stream.
        stream, seq, since = after, 2**31 - 1, after
        while rows := self._fetch(
            SQL["fsck_events"], after=stream, seq=seq, last=last, limit=PAGE_EVENTS_MAX
        ):
            events.read(rows)
            if len(rows) < PAGE_EVENTS_MAX:
                break
            stream, seq = UUID(rows[-1][0]), rows[-1][1]
            # The last stream may continue on the next page, so its rows are compared with that
            # page.
            if (until := UUID(int=stream.int - 1)) > since:
                passage.differences += self._compare_streams(events, since, until)
                since = until
        events.close()
        passage.differences += self._compare_streams(events, since, last)
        passage.complaints += events.complaints
        passage.substitutions += events.substitutions
        return events

    def _compare_streams(self, events: EventChecker, after: UUID, last: UUID) -> Iterator[RowDiff]:
        calls, events.model_calls = events.model_calls, []
        stored = self._fetch(SQL["fsck_model_calls"], after=after, last=last)
        yield from _compare("model_calls", stored, calls, events.unproven)
        tags, events.tags = events.tags, []
        stored = self._fetch(SQL["fsck_tags"], after=after, last=last)
        yield from _compare("tags", stored, sorted(tags), events.unproven)

    def _find_missing(self, holders: Mapping[str, str]) -> Iterator[Complaint]:
        if not holders:
            return
        wanted: dict[bytes, str] = {}
        for digest, holder in holders.items():
            try:
                wanted[digest_raw(parse_digest(digest))] = digest
            except UNREADABLE:
                yield "I37", f"the object {digest} is missing", holder
        for (raw,) in self._fetch(SQL["fsck_missing_objects"], digests=list(wanted)):
            digest = wanted[bytes(raw)]
            yield "I37", f"the object {digest} is missing", holders[digest]

    def _check_tools(self, page: TurnChecker) -> Iterator[Complaint]:
        yield from self._load_manifests(page)
        for turn, digest, used in page.manifests:
            manifest = self.manifests.get(digest)
            if manifest is None:
                continue
            kinds = {entry.kind for entry in manifest.entries}
            # A toolset does not list its tools; only a manifest that names each tool can be
            # checked.
            if "tool" in kinds and "toolset" not in kinds:
                tools = {entry.name for entry in manifest.entries if entry.kind == "tool"}
                if not used <= tools:
                    yield "I21", f"it used {min(used - tools)}, which its manifest lacks", turn
            yield from self._check_permissions(turn, manifest, used)

    def _check_permissions(
        self, turn: str, manifest: Manifest, used: Iterable[str]
    ) -> Iterator[Complaint]:
        pinned = [str(entry.object) for entry in manifest.entries if entry.kind == "permissions"]
        for rights in (self.permissions[digest] for digest in pinned if digest in self.permissions):
            for name in sorted(used):
                denied = rights.decide(Right(f"tool:{name}")).pattern
                if denied in rights.deny:
                    yield "I22", f"it used {name}, which its permissions deny", turn

    def _load_permissions(self, manifests: Sequence[Manifest]) -> None:
        entries = (entry for manifest in manifests for entry in manifest.entries)
        pinned = {str(entry.object) for entry in entries if entry.kind == "permissions"}
        wanted = [digest_raw(parse_digest(digest)) for digest in pinned - self.permissions.keys()]
        if not wanted:
            return
        for raw, data in self._fetch(SQL["fsck_objects"], digests=wanted):
            # Permissions in an imported manifest may have another tool's format.
            with contextlib.suppress(*UNREADABLE, InvalidOperation):
                self.permissions[digest_from_raw(bytes(raw))] = Permissions.from_json(
                    orjson.loads(data)
                )

    def _load_manifests(self, page: TurnChecker) -> Iterator[Complaint]:
        holders = {d: turn for turn, d, _ in page.manifests if d not in self.manifests}
        if not holders:
            return
        # Also those that turn out to be missing: each is read and reported once.
        self.manifests |= dict.fromkeys(holders)
        entries: dict[str, str] = {}
        digests = [digest_raw(parse_digest(digest)) for digest in holders]
        for raw, data in self._fetch(SQL["fsck_objects"], digests=digests):
            digest = digest_from_raw(bytes(raw))
            try:
                manifest = Manifest.from_json(orjson.loads(data))
            except UNREADABLE:
                yield "I37", "its manifest cannot be read", holders[digest]
                continue
            self.manifests[digest] = manifest
            entries |= {str(entry.object): holders[digest] for entry in manifest.entries}
        yield from self._find_missing(entries)
        self._load_permissions([m for m in map(self.manifests.get, holders) if m is not None])

    def _check_interrupted(self, lost: Mapping[str, set[str]]) -> Iterator[Complaint]:
        turns = [UUID(turn) for turn, calls in lost.items() if calls]
        if not turns:
            return
        for turn, call, status in self._fetch(SQL["fsck_calls_of"], turns=turns):
            if call in lost[turn] and status != "interrupted":
                yield "I38", f"the call {call} had no result and did not end interrupted", turn

    def _fetch(self, query: bytes, **params: object) -> list[Row]:
        cursor = self.connection.execute(
            query, {"workspace": self.workspace, **params}, binary=True
        )
        return cursor.fetchall()


def _compare_said(
    table: str, stored: Sequence[Derived], follow: Sequence[Derived], page: TurnChecker
) -> Iterator[RowDiff]:
    """Yield the turns whose rows differ from their messages, as far as those are not erased."""
    for found in _compare(table, stored, follow, page.unproven):
        # The content of an erased message exists only in the rows, and the numbering counts it.
        left = _unnumbered(found.follow, table)
        if found.turn not in page.gaps or not left <= _unnumbered(found.stored, table):
            yield found


def _unnumbered(rows: Sequence[Derived], table: str) -> set[Derived]:
    if table == "tool_calls":
        return {(call, tool) for _, _, call, tool, _ in rows}
    return {(message, *file) for _, message, _, *file in rows}


def _compare(
    table: str, stored: Sequence[Derived], follow: Sequence[Derived], unproven: set[str]
) -> Iterator[RowDiff]:
    """Yield the turns whose rows differ, without those whose bytes are unproven."""
    if stored == follow:
        return
    found, wanted = _by_turn(stored), _by_turn(follow)
    for turn in sorted(found.keys() | wanted.keys()):
        if found[turn] != wanted[turn] and turn not in unproven:
            yield RowDiff(table, turn, found[turn], wanted[turn])


def _by_turn(rows: Sequence[Derived]) -> defaultdict[str, list[Derived]]:
    grouped: defaultdict[str, list[Derived]] = defaultdict(list)
    for row in rows:
        grouped[row[0]].append(row)
    return grouped
