"""The program registry on PostgreSQL: one transaction for changes that belong together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, assert_never
from uuid import UUID

import orjson
from psycopg.types.numeric import Int4

from turntree.core.canonical import Json, canonical, digest_from_raw, digest_raw
from turntree.core.errors import NotFound
from turntree.core.ids import Digest, ProgramId, Timestamp, find_long_id
from turntree.core.program import Program, ProgramVersion, Right
from turntree.core.session import begun
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.arrays import text_array
from turntree.db.database import Database, Row, as_uuid, as_uuids, run
from turntree.db.sql import load_statements
from turntree.ledger.session_store import SQL as SESSION_SQL
from turntree.ledger.session_store import as_instant
from turntree.programs.catalog import ProgramFilter, ProgramReference, VersionRow
from turntree.programs.changes import (
    AddNotice,
    Change,
    ChangeProgram,
    CreateEmptySession,
    CreateProgram,
    NextVersion,
    SetGrant,
)

SQL = load_statements(__file__)

_SYSTEM: Final = "system:registry"


@value
class ProgramStore:
    """All programs. Nothing is ever deleted."""

    database: Database

    async def commit(self, changes: Sequence[Change], *, by: str, at: Timestamp) -> None:
        """Commit changes together, each with its event.

        Raises:
            Conflict: A name is taken, or a program changed since it was read.
            NotFound: There is no such program, or none that this principal may see.
            PermissionDenied: This principal may not.
        """
        held = [
            change.program
            for change in changes
            if not isinstance(change, CreateEmptySession | AddNotice)
        ]
        scope = {"workspace": self.database.workspace}
        async with self.database.connection() as connection, connection.transaction():
            await run(connection, SQL["lock_programs"], {**scope, "programs": as_uuids(held)})
            for change in changes:
                query, params = _statement(change, by, at)
                await run(connection, query, {**scope, "by": by, "at": at, **params})

    async def find(self, name: str, *, by: str) -> Program | None:
        """Return a program by its name or its id, if the principal may see it."""
        id = as_uuid(find_long_id(name))
        row = await self.database.fetch_one(SQL["find_program"], name=name, id=id, by=by)
        return None if row is None else _program(row)

    async def find_hidden(self, name: str) -> Program | None:
        """Return a program by its name, also one that no principal but its owner may see."""
        everything = replace(self, database=self.database.seen_by(EVERYTHING))
        return await everything.find(name, by=_SYSTEM)

    async def list_reachable(
        self, names: Sequence[str], members: Sequence[str], *, by: str
    ) -> list[Program]:
        """Return programs by name or id, with those reachable through members of their configs."""
        ids = [id for id in map(find_long_id, names) if id is not None]
        rows = await self.database.fetch(
            SQL["list_reachable_programs"],
            names=text_array(names),
            ids=as_uuids(ids),
            members=text_array(members),
            by=by,
        )
        return [_program(row) for row in rows]

    async def list_page(
        self, wanted: ProgramFilter, *, by: str, after: str = "", limit: int = 500
    ) -> list[Program]:
        """Return programs that the principal may see, in order of their names."""
        rows = await self.database.fetch(
            SQL["list_programs"],
            kind=wanted.kind,
            state=wanted.state,
            tags=text_array(wanted.tags),
            by=by,
            after=after,
            limit=limit,
        )
        return [_program(row) for row in rows]

    async def get_version(self, program: ProgramId, number: int, *, by: str) -> ProgramVersion:
        """Return a version of a config.

        Raises:
            NotFound: There is no such version.
        """
        row = await self.database.fetch_one(
            SQL["find_program_version"], program=UUID(program), number=Int4(number), by=by
        )
        if row is None:
            raise NotFound(f"there is no version {number} of {program}")
        found, digest, author, data, hidden = row
        return ProgramVersion(found, orjson.loads(data), _digest(digest), author, frozenset(hidden))

    async def list_versions(self, program: ProgramId) -> list[VersionRow]:
        """Return every version, newest first."""
        rows = await self.database.fetch(SQL["list_program_versions"], program=UUID(program))
        return [
            VersionRow(number, _digest(digest), as_instant(at), by)
            for number, digest, at, by in rows
        ]

    async def list_uses(self, program: ProgramId, *, by: str) -> list[ProgramReference]:
        """Return the programs whose newest config refers to this one."""
        rows = await self.database.fetch(SQL["list_program_uses"], program=UUID(program), by=by)
        return [ProgramReference(_program(row), member) for member, *row in rows]

    async def list_used(self, program: ProgramId, *, by: str) -> list[ProgramReference]:
        """Return the programs that this one's newest config refers to."""
        rows = await self.database.fetch(SQL["list_program_used"], program=UUID(program), by=by)
        return [ProgramReference(_program(row), member) for member, *row in rows]

    async def list_private(self, kind: str, *, by: str) -> list[ProgramId]:
        """Return the private programs of a kind that the principal may see, unordered."""
        rows = await self.database.fetch(SQL["list_private_programs"], kind=kind, by=by)
        return [ProgramId(id) for (id,) in rows]

    async def find_last_active(self, by: str) -> Timestamp | None:
        """Return when the last turn by a principal was sealed; None without one."""
        row = await self.database.fetch_one(SQL["find_last_active"], by=by)
        return None if row is None or row[0] is None else as_instant(row[0])

    async def list_grants(self, program: ProgramId) -> list[tuple[str, Right]]:
        """Return the access of principals other than the owner."""
        rows = await self.database.fetch(SQL["list_program_grants"], program=UUID(program))
        return [(grantee, right) for grantee, right in rows]


def _statement(change: Change, by: str, at: Timestamp) -> tuple[bytes, dict[str, Any]]:
    match change:
        case CreateEmptySession(session, label):
            fact = begun(session, label, None, by=by, at=at)
            return SESSION_SQL["insert_session"], {
                "session": UUID(session),
                "label": label,
                "head": None,
                "id": digest_raw(Digest(fact.id)),
                "body": fact.body,
                "origin": None,
                "origin_session": None,
                "source": None,
                "visibility": "configured",
            }
        case CreateProgram():
            return SQL["create_program"], {
                "program": UUID(change.program),
                "kind": change.kind,
                "name": change.name,
                "owner": change.owner,
                "state": change.state,
                "visibility": change.visibility,
                "details": _text(change.details),
                "event": change.event,
                "data": _text(change.data),
                **_version(change.version),
            }
        case ChangeProgram():
            before, after = change.step or (None, None)
            return SQL["change_program"], {
                "program": UUID(change.program),
                "right": change.right,
                "event": change.event,
                "data": _text(change.data),
                "from": before,
                "to": after,
                "sets": None if change.sets is None else _text(change.sets),
                "visibility": change.visibility,
                **_version(change.version),
            }
        case SetGrant():
            return SQL["set_program_grant"], {
                "program": UUID(change.program),
                "grantee": change.grantee,
                "right": change.right,
                "on": change.on,
                "data": _text(change.data),
            }
        case AddNotice():
            return SQL["add_notice"], {
                "by": change.by or by,
                "person": change.person,
                "kind": change.kind,
                # PostgreSQL stores no NUL.
                "text": change.text.replace("\0", "\ufffd"),
                "refs": _text(change.refs),
                "key": change.key,
            }
        case _:
            assert_never(change)


def _version(version: NextVersion | None) -> dict[str, Any]:
    refs = () if version is None else version.refs
    return {
        "number": None if version is None else Int4(version.number),
        "digest": None if version is None else digest_raw(version.digest),
        "config": None if version is None else version.data,
        "members": text_array([member for member, _ in refs]),
        "targets": text_array([target for _, target in refs]),
    }


def _text(document: Mapping[str, Json]) -> str:
    return canonical(dict(document)).decode()


def _digest(raw: bytes) -> Digest:
    return digest_from_raw(bytes(raw))


def _program(row: Sequence[Any] | Row) -> Program:
    (
        id, kind, name, owner, state, visibility, number, digest, by, data, hidden, details,
        created, updated, tags,
    ) = row  # fmt: skip
    return Program(
        ProgramId(id),
        kind,
        name,
        owner,
        state,
        visibility,
        ProgramVersion(number, orjson.loads(data), _digest(digest), by, frozenset(hidden)),
        orjson.loads(details),
        as_instant(created),
        as_instant(updated),
        tuple(tags),
    )
