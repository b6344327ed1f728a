"""Rebuilding projections from the facts they follow from.

Only rows that can be computed anew are written: tool calls, files, references to objects and
compactions from bodies, model calls and tags from the journal, a session's reach from its reflog,
programs and who may use them from their events. What search cannot use is taken out of its tables,
which indexing fills again. Facts are never written, and nothing is derived from bytes that do not
prove themselves: those come back from a backup only.

Runs as the owner of the tables, in one transaction in which the triggers of four of them rest.
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
from turntree.db.sql import QUERIES
from turntree.integrity.findings import ProjectionDiff
from turntree.integrity.program_checker import (
    PAGE_PROGRAMS_MAX,
    StoredProgram,
    find_otherwise,
    gather,
)
from turntree.integrity.scan import RangeScanner, Row, RowDiff
from turntree.integrity.scan_ranges import FIRST, LAST


def repair_derived(conninfo: str, workspace: UUID, *, dry_run: bool) -> list[ProjectionDiff]:
    """Rebuild what follows from the facts and return what was changed, or would be.

    Raises:
        Unreachable: The database does not answer.
        Refused: The account does not own the tables.
    """
    with _owning(conninfo) as connection, connection.transaction():
        # No role is taken here, so nothing but this setting keeps it inside its workspace.
        connection.execute(QUERIES["repair_begin"], {"workspace": str(workspace)})
        if not dry_run:
            connection.execute(QUERIES["repair_open"])
        work = _Repair(connection, workspace)
        changes = [
            *work.rebuild(dry_run=dry_run),
            *work.drop_stray_holders(dry_run=dry_run),
            *work.rebuild_reach(dry_run=dry_run),
            *work.rebuild_programs(dry_run=dry_run),
            *work.empty_search(dry_run=dry_run),
        ]
        if not dry_run:
            connection.execute(QUERIES["repair_close"])
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
        """Rebuild what follows from bodies and events."""
        passage = RangeScanner(self.connection, self.workspace).read(FIRST, LAST)
        for found in passage.differences:
            if not dry_run:
                self._write(found)
            gone = [row for row in found.stored if row not in found.follow]
            new = [row for row in found.follow if row not in found.stored]
            yield ProjectionDiff(found.table, found.turn, len(gone), len(new))

    def drop_stray_holders(self, *, dry_run: bool) -> Iterator[ProjectionDiff]:
        """Drop what is noted of objects under an id that is neither a turn's nor a run's."""
        scope = {"workspace": self.workspace}
        for (turn,) in self._run("repair_stray_holders", scope):
            if not dry_run:
                self._run("repair_drop_object_holders", {**scope, "turn": turn})
            yield ProjectionDiff("object_holders", str(turn), 1, 0)

    def rebuild_reach(self, *, dry_run: bool) -> Iterator[ProjectionDiff]:
        """Rebuild how deep each session ever stood."""
        scope = {"workspace": self.workspace}
        for session, segment, noted, depth in self._run("repair_reach", scope):
            place = {**scope, "session": session, "segment": segment}
            if not dry_run:
                self._run("repair_drop_reach", place)
                if depth is not None:
                    self._run("repair_add_reach", {**place, "depth": depth})
            subject = f"{session} in {segment}"
            yield ProjectionDiff(
                "session_reach", subject, int(noted is not None), int(depth is not None)
            )

    def rebuild_programs(self, *, dry_run: bool) -> Iterator[ProjectionDiff]:
        """Rebuild what is known of programs, and who besides the owner may use them."""
        wrong: list[tuple[str, Row | None, StoredProgram, ProgramState]] = []
        for few in self._page_programs():
            stored = self._read_programs([UUID(id) for id in few])
            for id, row in few.items():
                state = find_otherwise(row, stored[id])
                if state is not None:
                    wrong.append((id, row, stored[id], state))
        if not dry_run:
            # Two that have each other's names would stand in each other's way.
            for id, *_ in wrong:
                self._run("repair_free_name", {"workspace": self.workspace, "program": UUID(id)})
        for id, row, known, state in wrong:
            yield from self._rebuild_program(id, row, known, state, dry_run=dry_run)

    def _page_programs(self) -> Iterator[dict[str, Row | None]]:
        """Yield programs by their ids, with their rows; those that lost theirs come first."""
        scope = {"workspace": self.workspace, "limit": PAGE_PROGRAMS_MAX}
        after = UUID(int=0)
        while lost := self._run("repair_lost_programs", {**scope, "after": after}):
            yield {id: None for (id,) in lost}
            after = UUID(lost[-1][0])
        after = UUID(int=0)
        while page := self._run("fsck_programs", {**scope, "after": after}):
            yield {row[0]: row for row in page}
            after = UUID(page[-1][0])

    def _read_programs(self, ids: list[UUID]) -> dict[str, StoredProgram]:
        few = {"workspace": self.workspace, "programs": ids}
        return gather(
            self._run("repair_program_events", few),
            self._run("fsck_program_versions", few),
            self._run("fsck_program_refs", few),
            self._run("fsck_program_grants", few),
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
            self._run("repair_put_program", {**scope, **told})
            for query, grants in (("repair_drop_grant", gone), ("repair_add_grant", new)):
                for grantee, right in grants:
                    self._run(query, {**scope, "grantee": grantee, "right": right})
        yield ProjectionDiff("programs", id, int(row is not None), 1)
        if gone or new:
            yield ProjectionDiff("program_grants", id, len(gone), len(new))

    def empty_search(self, *, dry_run: bool) -> Iterator[ProjectionDiff]:
        """Take out of search what is of no turn, and vectors that cannot be compared."""
        scope = {"workspace": self.workspace}
        for (turn,) in self._run("repair_stray_documents", scope):
            if not dry_run:
                self._run("repair_drop_document", {**scope, "turn": turn})
            yield ProjectionDiff("search_documents", str(turn), 1, 0)
        for turn, embedder in self._run("repair_stale_embeddings", scope):
            if not dry_run:
                self._run("repair_drop_embedding", {**scope, "turn": turn, "embedder": embedder})
            yield ProjectionDiff("embeddings", f"{turn} by {embedder}", 1, 0)

    def _write(self, found: RowDiff) -> None:
        scope = {"workspace": self.workspace, "turn": UUID(found.turn)}
        self._run(f"repair_drop_{found.table}", scope)
        for row in found.follow:
            columns = {f"c{place}": value for place, value in enumerate(row[1:], start=1)}
            self._run(f"repair_add_{found.table}", {**scope, **columns})

    def _run(self, query: str, params: Mapping[str, object]) -> list[Row]:
        cursor = self.connection.execute(QUERIES[query], params)
        return cursor.fetchall() if cursor.description is not None else []
