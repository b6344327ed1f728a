"""Changes of programs, each with its event.

A change is a value: the new state, and the data of its event, from which ``program.fold`` derives
the same state. Several changes are committed together. This module never applies one.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest, Label, ProgramId, SessionId
from turntree.core.program import Program, Right, Visibility, a_kind, version_of
from turntree.core.value import value
from turntree.notifications.notice import NoticeKind
from turntree.programs.kind import Kind


@value
class NextVersion:
    """A config that becomes the newest version, and the programs it refers to."""

    number: int
    digest: Digest
    data: bytes
    refs: tuple[tuple[str, ProgramId], ...] = ()


@value
class CreateEmptySession:
    """Creates an empty session for a program that will need one."""

    session: SessionId
    label: Label


@value
class CreateProgram:
    """Creates a program."""

    program: ProgramId
    kind: str
    name: str
    owner: str
    state: str
    visibility: Visibility
    version: NextVersion
    details: Mapping[str, Json]
    event: str
    data: Mapping[str, Json]


@value
class ChangeProgram:
    """An event of a program, with the changes it makes."""

    program: ProgramId
    right: Right
    """The access that the principal needs."""
    event: str
    data: Mapping[str, Json]
    step: tuple[str, str] | None = None
    sets: Mapping[str, Json] | None = None
    version: NextVersion | None = None
    visibility: Visibility | None = None


@value
class SetGrant:
    """Grants or revokes access."""

    program: ProgramId
    grantee: str
    right: Right
    on: bool
    data: Mapping[str, Json]


@value
class AddNotice:
    """Tells a person something. Its text is for that person, so no event has it."""

    person: str
    kind: NoticeKind
    text: str
    refs: Mapping[str, Json]
    key: str
    """Of the same key there is one notice."""
    by: str | None = None
    """Who says it, if that is another than the one who changes the program."""


Change: TypeAlias = CreateEmptySession | CreateProgram | ChangeProgram | SetGrant | AddNotice


def next_version(
    number: int, config: Mapping[str, Json], refs: Sequence[tuple[str, ProgramId]]
) -> NextVersion:
    """Return a config as the given version.

    Raises:
        InvalidOperation: It contains a secret, or it is too large.
    """
    version, data = version_of(number, config)
    return NextVersion(number, version.digest, data, tuple(refs))


def begin(
    kind: Kind,
    id: ProgramId,
    name: str,
    version: NextVersion,
    *,
    owner: str,
    by: str,
    visibility: Visibility = "public",
    sets: Mapping[str, Json] | None = None,
) -> CreateProgram:
    """Return the creation of a program, in the first state of its kind."""
    state = kind.lifecycle.initial
    data: dict[str, Json] = {
        "by": by,
        "config": version.digest,
        "kind": kind.name,
        "name": name,
        "owner": owner,
        "state": state,
        "version": version.number,
        "visibility": visibility,
    }
    if sets:
        data["details"] = dict(sets)
    return CreateProgram(
        id, kind.name, name, owner, state, visibility, version, sets or {}, kind.created, data
    )


def tell(
    program: Program,
    event: str,
    *,
    by: str,
    right: Right = "configure",
    to: str | None = None,
    sets: Mapping[str, Json] | None = None,
    version: NextVersion | None = None,
    more: Mapping[str, Json] | None = None,
) -> ChangeProgram:
    """Return an event of a program: a state change, a new version, new details, or just the event.

    The caller checks first that the program's lifecycle allows the change.

    Raises:
        InvalidOperation: The event is not one of its kind.
    """
    own = (f"{program.kind}.", "mcp.") if program.kind == "connector" else f"{program.kind}."
    if not event.startswith(own):
        raise InvalidOperation(
            f"what is told of {a_kind(program.kind)} begins with {program.kind}., not {event}"
        )
    data: dict[str, Json] = {**(more or {}), "by": by}
    if to is not None:
        data |= {"from": program.state, "to": to}
    if sets:
        data["details"] = dict(sets)
    if version is not None:
        data |= {"config": version.digest, "version": version.number}
    step = None if to is None else (program.state, to)
    return ChangeProgram(program.id, right, event, data, step, sets, version)


def show(program: Program, visibility: Visibility, *, by: str) -> ChangeProgram:
    """Return the change of a program's visibility."""
    data: dict[str, Json] = {"by": by, "visibility": visibility}
    return ChangeProgram(
        program.id, "configure", "program.visibility_changed", data, visibility=visibility
    )


def grant(program: Program, grantee: str, right: Right, *, on: bool, by: str) -> SetGrant:
    """Return the grant or revocation of access to a program."""
    data: dict[str, Json] = {"access": right, "by": by, "to": grantee}
    return SetGrant(program.id, grantee, right, on, data)
