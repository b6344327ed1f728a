"""Compares the stored rows of programs with the fold of their events.

The fold is the one of ``core.program``; rows, versions, references and grants have to agree with
it. Reads pages of programs and changes nothing.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import orjson

from turntree.core.canonical import digest_from_raw
from turntree.core.errors import TurntreeError
from turntree.core.event import Event, from_json
from turntree.core.ids import Digest
from turntree.core.program import ProgramState, fold, list_references
from turntree.db.database import Row
from turntree.db.sql import load_statements
from turntree.integrity.turn_checker import UNREADABLE, Complaint
from turntree.programs.lifecycles import LIFECYCLES

SQL = load_statements(__file__)

PAGE_PROGRAMS_MAX: Final = 500
OTHERWISE: Final = "it is otherwise than its events tell"
UNTOLD: Final = "its events cannot be those of a program"
UNLAWFUL: Final = "its lifecycle does not allow the move"
REFERENCES: Final = "what it names is not what stands beside it"
CONFIG: Final = "its config cannot be read"
Fetch = Callable[..., Awaitable[list[Row]]]


@dataclass(slots=True)
class StoredProgram:
    """The events, versions, references and grants of one program."""

    events: list[Event] = field(default_factory=list[Event])
    is_readable: bool = True
    digests: dict[int, Digest] = field(default_factory=dict[int, Digest])
    named: set[tuple[int, str, str | None]] = field(
        default_factory=set[tuple[int, str, str | None]]
    )
    """References in the configs: version, member, name."""
    refs: set[tuple[int, str, str | None]] = field(default_factory=set[tuple[int, str, str | None]])
    """References in the rows."""
    grants: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    has_config: bool = True


async def examine_programs(fetch: Fetch) -> list[Complaint]:
    """Return the complaints about programs."""
    complaints: list[Complaint] = []
    after = UUID(int=0)
    while rows := await fetch(SQL["fsck_programs"], after=after, limit=PAGE_PROGRAMS_MAX):
        ids = [UUID(row[0]) for row in rows]
        stored = gather(
            await fetch(SQL["fsck_program_events"], programs=ids),
            await fetch(SQL["fsck_program_versions"], programs=ids),
            await fetch(SQL["fsck_program_refs"], programs=ids),
            await fetch(SQL["fsck_program_grants"], programs=ids),
        )
        for row in rows:
            complaints += _judge(row, stored[row[0]])
        after = ids[-1]
    return complaints


def gather(
    events: Sequence[Row], versions: Sequence[Row], refs: Sequence[Row], grants: Sequence[Row]
) -> dict[str, StoredProgram]:
    """Return the events, versions, references and grants of programs, by id."""
    found: defaultdict[str, StoredProgram] = defaultdict(StoredProgram)
    for id, _, body in events:
        try:
            found[id].events.append(from_json(orjson.loads(body)))
        except UNREADABLE:
            found[id].is_readable = False
    for id, version, digest, data in versions:
        found[id].digests[version] = digest_from_raw(bytes(digest))
        try:
            named = list_references(orjson.loads(data))
        except (*UNREADABLE, TypeError):
            found[id].has_config = False
            continue
        found[id].named |= {(version, one.member, one.name) for one in named}
    for id, version, member, name in refs:
        found[id].refs.add((version, member, name))
    for id, grantee, right in grants:
        found[id].grants.add((grantee, right))
    return found


def find_otherwise(row: Row | None, stored: StoredProgram) -> ProgramState | None:
    """Return the fold of a program's events if its rows differ or are missing, else None.

    Also None if there is no fold: its events are not those of a program, or name missing versions.
    """
    if not stored.is_readable:
        return None
    try:
        state = fold(stored.events)
    except (TurntreeError, *UNREADABLE):
        return None
    if state is None or dict(enumerate(state.digests, start=1)) != stored.digests:
        return None
    return None if row is not None and _is_told(row, stored, state) else state


def _judge(row: Row, stored: StoredProgram) -> Iterator[Complaint]:
    id: str = row[0]
    if not stored.has_config:
        yield "I57", CONFIG, id
    elif stored.named != stored.refs:
        yield "I57", REFERENCES, id
    if not stored.is_readable:
        return  # ``event_checker`` reports it.
    try:
        state = fold(stored.events)
    except (TurntreeError, *UNREADABLE):
        # A history that does not fold cannot be compared with the rows derived from it.
        yield "I59", UNTOLD, id
        return
    if state is None:
        yield "I59", UNTOLD, id
        return
    yield from _check_steps(id, state)
    if not _is_told(row, stored, state):
        yield "I59", OTHERWISE, id


def _is_told(row: Row, stored: StoredProgram, state: ProgramState) -> bool:
    # The stream of a session is checked with the session.
    is_numbered = row[1] == "session" or row[-1] == len(stored.events)
    return _told(state) == _standing(row, stored, state) and is_numbered


def _check_steps(id: str, state: ProgramState) -> Iterator[Complaint]:
    lifecycle = LIFECYCLES.get(state.kind)
    if lifecycle is None:
        return  # A third-party kind, whose lifecycle is unknown here.
    for seq, before, after in state.steps:
        if after not in lifecycle.moves.get(before, ()):
            yield "I58", UNLAWFUL, f"{id} at {seq}"


def _told(state: ProgramState) -> tuple[Any, ...]:
    versions = dict(enumerate(state.digests, start=1))
    return (
        state.kind, state.name, state.owner, state.state, state.visibility, state.number,
        dict(state.details), versions, set(state.grants),
    )  # fmt: skip


def _standing(row: Row, stored: StoredProgram, told: ProgramState) -> tuple[Any, ...]:
    id, kind, name, owner, state, visibility, version, details, _ = row
    # A row that was restored while another program had its name uses its id as a name.
    return (
        kind, told.name if name == id else name, owner, state, visibility, version,
        orjson.loads(details), stored.digests, stored.grants,
    )  # fmt: skip
