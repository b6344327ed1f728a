"""Rebuilds projections from the turns and events they are derived from.

It writes only rows that can be computed: tool calls, files, object references and compactions from
bodies; model calls and tags from the journal; a session's reach from its reflog; programs and their
grants from their events. It deletes unusable rows of search, which indexing creates again. It never
writes turns or events, and derives nothing from bytes that fail their digest: only a backup can
restore those.

It runs as the owner of the tables, in one transaction, with the triggers of four tables disabled.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

import psycopg
from psycopg import Connection

from turntree.core.canonical import canonical
from turntree.core.program import ProgramState
from turntree.core.value import value
from turntree.db.database import translated
from turntree.db.sql import load_statements
from turntree.integrity.findings import ProjectionDiff
from turntree.integrity.program_checker import (
    PAGE_PROGRAMS_MAX,
    StoredProgram,
    find_otherwise,
    gather,
)
from turntree.integrity.program_checker import SQL as PROGRAM_SQL
from turntree.integrity.scan import RangeScanner, Row, RowDiff
from turntree.integrity.scan_ranges import FIRST, LAST

SQL = load_statements(__file__)


def repair_derived(conninfo: str, workspace: UUID, *, dry_run: bool) -> list[ProjectionDiff]:
    """Rebuild the projections, and return what changed or would change.

    Raises:
        DatabaseUnavailable: The database is unreachable.
        InvalidOperation: The account does not own the tables.
    """
    with _owning(conninfo) as connection, connection.transaction():
        # It runs as the owner, so only this setting confines it to its workspace.
        connection.execute(SQL["repair_begin"], {"workspace": str(workspace)})
        if not dry_run:
            connection.execute(SQL["repair_open"])
        work = _Repair(connection, workspace)
        changes = [
            *work.rebuild(dry_run=dry_run),
            *work.drop_stray_holders(dry_run=dry_run),
            *work.rebuild_reach(dry_run=dry_run),
            *work.rebuild_programs(dry_run=dry_run),
            *work.empty_search(dry_run=dry_run),
        ]
        if not dry_run:
            connection.execute(SQL["repair_close"])
        return changes


@contextmanager
def _owning(conninfo: str) -> Generator["Connection[Row]", None, None]:
    try:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            yield connection
    except psycopg.Error as error:
        raise translated(error) from error


@value
class _Repair:
    connection: "Connection[Row]"
    workspace: UUID

    def rebuild(self, *, dry_run: bool) -> Iterator[ProjectionDiff]:
        """Rebuild the rows derived from bodies and events."""
        passage = RangeScanner(self.connection, self.workspace).read(FIRST, LAST)
        for found in passage.differences:
            if not dry_run:
                self._write(found)
            gone = [row for row in found.stored if row not in found.follow]
            new = [row for row in found.follow if row not in found.stored]
            yield ProjectionDiff(found.table, found.turn, len(gone), len(new))

    def drop_stray_holders(self, *, dry_run: bool) -> Iterator[ProjectionDiff]:
        """Delete object references whose holder is neither a turn nor a run."""
        scope = {"workspace": self.workspace}
        for (turn,) in self._run(SQL["repair_stray_holders"], scope):
            if not dry_run:
                self._run(SQL["repair_drop_object_holders"], {**scope, "turn": turn})
            yield ProjectionDiff("object_holders", str(turn), 1, 0)

    def rebuild_reach(self, *, dry_run: bool) -> Iterator[ProjectionDiff]:
        """Rebuild the deepest position that each session reached in each segment."""
        scope = {"workspace": self.workspace}
        for session, segment, noted, depth in self._run(SQL["repair_reach"], scope):
            place = {**scope, "session": session, "segment": segment}
            if not dry_run:
                self._run(SQL["repair_drop_reach"], place)
                if depth is not None:
                    self._run(SQL["repair_add_reach"], {**place, "depth": depth})
            subject = f"{session} in {segment}"
            yield ProjectionDiff(
                "session_reach", subject, int(noted is not None), int(depth is not None)
            )

    def rebuild_programs(self, *, dry_run: bool) -> Iterator[ProjectionDiff]:
        """Rebuild programs and their grants."""
        wrong: list[tuple[str, Row | None, StoredProgram, ProgramState]] = []
        for few in self._page_programs():
            stored = self._read_programs([UUID(id) for id in few])
            for id, row in few.items():
                state = find_otherwise(row, stored[id])
                if state is not None:
                    wrong.append((id, row, stored[id], state))
        if not dry_run:
            # Two programs with swapped names would violate the unique constraint.
            for id, *_ in wrong:
                self._run(
                    SQL["repair_free_name"], {"workspace": self.workspace, "program": UUID(id)}
                )
        for id, row, known, state in wrong:
            yield from self._rebuild_program(id, row, known, state, dry_run=dry_run)

    def _page_programs(self) -> Iterator[dict[str, Row | None]]:
        """Yield programs by id with their rows; those without a row come first."""
        scope = {"workspace": self.workspace, "limit": PAGE_PROGRAMS_MAX}
        after = UUID(int=0)
        while lost := self._run(SQL["repair_lost_programs"], {**scope, "after": after}):
            yield {id: None for (id,) in lost}
            after = UUID(lost[-1][0])
        after = UUID(int=0)
        while page := self._run(PROGRAM_SQL["fsck_programs"], {**scope, "after": after}):
            yield {row[0]: row for row in page}
            after = UUID(page[-1][0])

    def _read_programs(self, ids: list[UUID]) -> dict[str, StoredProgram]:
        few = {"workspace": self.workspace, "programs": ids}
        return gather(
            self._run(SQL["repair_program_events"], few),
            self._run(PROGRAM_SQL["fsck_program_versions"], few),
            self._run(PROGRAM_SQL["fsck_program_refs"], few),
            self._run(PROGRAM_SQL["fsck_program_grants"], few),
        )

    def _rebuild_program(
        self, id: str, row: Row | None, stored: StoredProgram, state: ProgramState, *, dry_run: bool
    ) -> Iterator[ProjectionDiff]:
        scope = {"workspace": self.workspace, "program": UUID(id)}
        gone, new = stored.grants - state.grants, state.grants - stored.grants
        if not dry_run:
            told = {
                "kind": state.kind,
                "name": state.name,
                "owner": state.owner,
                "state": state.state,
                "visibility": state.visibility,
                "version": state.number,
                "event_seq": 0 if state.kind == "session" else len(stored.events),
                "details": canonical(dict(state.details)).decode(),
                "created_at": stored.events[0].at,
                "updated_at": stored.events[-1].at,
            }
            self._run(SQL["repair_put_program"], {**scope, **told})
            for query, grants in ((SQL["repair_drop_grant"], gone), (SQL["repair_add_grant"], new)):
                for grantee, right in grants:
                    self._run(query, {**scope, "grantee": grantee, "right": right})
        yield ProjectionDiff("programs", id, int(row is not None), 1)
        if gone or new:
            yield ProjectionDiff("program_grants", id, len(gone), len(new))

    def empty_search(self, *, dry_run: bool) -> Iterator[ProjectionDiff]:
        """Delete search rows without a turn, and vectors of the wrong length."""
        scope = {"workspace": self.workspace}
        for (turn,) in self._run(SQL["repair_stray_documents"], scope):
            if not dry_run:
                self._run(SQL["repair_drop_document"], {**scope, "turn": turn})
            yield ProjectionDiff("search_documents", str(turn), 1, 0)
        for turn, embedder in self._run(SQL["repair_stale_embeddings"], scope):
            if not dry_run:
                self._run(
                    SQL["repair_drop_embedding"], {**scope, "turn": turn, "embedder": embedder}
                )
            yield ProjectionDiff("embeddings", f"{turn} by {embedder}", 1, 0)

    def _write(self, found: RowDiff) -> None:
        scope = {"workspace": self.workspace, "turn": UUID(found.turn)}
        self._run(SQL[f"repair_drop_{found.table}"], scope)
        for row in found.follow:
            columns = {f"c{place}": value for place, value in enumerate(row[1:], start=1)}
            self._run(SQL[f"repair_add_{found.table}"], {**scope, **columns})

    def _run(self, query: bytes, params: Mapping[str, object]) -> list[Row]:
        cursor = self.connection.execute(query, params)
        return cursor.fetchall() if cursor.description is not None else []
