"""What is stored of programs, compared with what their events amount to.

The events are folded as the domain folds them; rows, versions, references and grants have to be
what comes out. Reads pages of programs and changes nothing.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import orjson

from turntree.domain.canonical import digest_from_raw
from turntree.domain.errors import TurntreeError
from turntree.domain.event import Event, from_json
from turntree.domain.ids import Digest
from turntree.domain.lifecycles import LIFECYCLES
from turntree.domain.program import ProgramState, fold, list_references
from turntree.store.database import Row
from turntree.store.stored_turn import UNREADABLE, Complaint

PAGE_PROGRAMS_MAX: Final = 500
OTHERWISE: Final = "it is otherwise than its events tell"
UNTOLD: Final = "its events cannot be those of a program"
UNLAWFUL: Final = "its lifecycle does not allow the move"
REFERENCES: Final = "what it names is not what stands beside it"
CONFIG: Final = "its config cannot be read"
Fetch = Callable[..., Awaitable[list[Row]]]


@dataclass(slots=True)
class _Stored:
    """What lies beside the row of one program."""

    events: list[Event] = field(default_factory=list[Event])
    is_readable: bool = True
    digests: dict[int, Digest] = field(default_factory=dict[int, Digest])
    named: set[tuple[int, str, str | None]] = field(
        default_factory=set[tuple[int, str, str | None]]
    )
    """What the configs name: version, member, name."""
    refs: set[tuple[int, str, str | None]] = field(default_factory=set[tuple[int, str, str | None]])
    """The same by the rows."""
    grants: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    has_config: bool = True


async def examine_programs(fetch: Fetch) -> list[Complaint]:
    """Return what is wrong with programs."""
    complaints: list[Complaint] = []
    after = UUID(int=0)
    while rows := await fetch("fsck_programs", after=after, limit=PAGE_PROGRAMS_MAX):
        ids = [UUID(row[0]) for row in rows]
        stored = await _read(fetch, ids)
        for row in rows:
            complaints += _judge(row, stored[row[0]])
        after = ids[-1]
    return complaints


async def _read(fetch: Fetch, ids: Sequence[UUID]) -> dict[str, _Stored]:
    found: defaultdict[str, _Stored] = defaultdict(_Stored)
    for id, _, body in await fetch("fsck_program_events", programs=ids):
        try:
            found[id].events.append(from_json(orjson.loads(body)))
        except UNREADABLE:
            found[id].is_readable = False
    for id, version, digest, data in await fetch("fsck_program_versions", programs=ids):
        found[id].digests[version] = digest_from_raw(bytes(digest))
        try:
            named = list_references(orjson.loads(data))
        except (*UNREADABLE, TypeError):
            found[id].has_config = False
            continue
        found[id].named |= {(version, one.member, one.name) for one in named}
    for id, version, member, name in await fetch("fsck_program_refs", programs=ids):
        found[id].refs.add((version, member, name))
    for id, grantee, right in await fetch("fsck_program_grants", programs=ids):
        found[id].grants.add((grantee, right))
    return found


def _judge(row: Row, stored: _Stored) -> Iterator[Complaint]:
    id: str = row[0]
    if not stored.has_config:
        yield "I57", CONFIG, id
    elif stored.named != stored.refs:
        yield "I57", REFERENCES, id
    if not stored.is_readable:
        return  # Whoever reads every event says so.
    try:
        state = fold(stored.events)
    except (TurntreeError, *UNREADABLE):
        yield "I59", UNTOLD, id
        return
    if state is None:
        yield "I59", UNTOLD, id
        return
    yield from _check_steps(id, state)
    # A session's stream is numbered by the session, which is asked elsewhere.
    is_numbered = row[1] == "session" or row[-1] == len(stored.events)
    if _told(state) != _standing(row, stored) or not is_numbered:
        yield "I59", OTHERWISE, id


def _check_steps(id: str, state: ProgramState) -> Iterator[Complaint]:
    lifecycle = LIFECYCLES.get(state.kind)
    if lifecycle is None:
        return  # A kind that somebody else brought: its machine is not ours to know.
    for seq, before, after in state.steps:
        if after not in lifecycle.moves.get(before, ()):
            yield "I58", UNLAWFUL, f"{id} at {seq}"


def _told(state: ProgramState) -> tuple[Any, ...]:
    versions = dict(enumerate(state.digests, start=1))
    return (
        state.kind, state.name, state.owner, state.state, state.visibility, state.number,
        dict(state.details), versions, set(state.grants),
    )  # fmt: skip


def _standing(row: Row, stored: _Stored) -> tuple[Any, ...]:
    _, kind, name, owner, state, visibility, version, details, _ = row
    return (
        kind, name, owner, state, visibility, version, orjson.loads(details), stored.digests,
        stored.grants,
    )  # fmt: skip
