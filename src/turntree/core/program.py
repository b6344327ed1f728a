"""Programs: everything that has an address ``@(name)`` and can be invoked.

A program has a config in versions, a state that changes as its lifecycle allows, and a stream of
events; everything else about it is the fold of those. This module has the rules that all kinds
share. It must not know what a single kind does, and never sees the value of a secret.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, Literal

from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.event import Event
from turntree.core.ids import Digest, ProgramId, Timestamp, find_long_id
from turntree.core.manifest import ManifestEntry
from turntree.core.redaction import find_keys
from turntree.core.secret_refs import NAMED
from turntree.core.value import value

Visibility = Literal["public", "private"]
"""public: the whole workspace. private: the owner and grantees."""

Right = Literal["read", "invoke", "configure"]
"""Access that may be granted; each level includes those before it."""

RIGHTS: Final[tuple[Right, ...]] = ("read", "invoke", "configure")
NAME_CHARS_MAX: Final = 200
# Each change of a config stores a whole version.
CONFIG_BYTES_MAX: Final = 1_000_000
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,199}")
_REFERENCE: Final = re.compile(r"@\(([^()]+)\)")


@value
class Lifecycle:
    """The legal states of a kind of program, and the legal changes between them."""

    initial: str
    moves: Mapping[str, tuple[str, ...]]

    @property
    def states(self) -> tuple[str, ...]:
        """All states, the initial one first."""
        return tuple(self.moves)

    def find_step(self, state: str, target: str) -> str | None:
        """Return the first change on the shortest path from one state to another, or None."""
        ways: dict[str, str] = {}
        left = [(follower, follower) for follower in self.moves.get(state, ())]
        for at, first in left:
            if at not in ways:
                ways[at] = first
                left += [(follower, first) for follower in self.moves.get(at, ())]
        return ways.get(target)

    def check(self, state: str, target: str) -> None:
        """Refuse a change of state that is not legal.

        Raises:
            InvalidOperation: It is not; the message names the legal ones.
        """
        if target not in self.moves:
            raise InvalidOperation(f"{target} is not a state: there are {', '.join(self.moves)}")
        lawful = self.moves.get(state, ())
        if target not in lawful:
            ways = f"only to {' or '.join(lawful)}" if lawful else "nowhere: it is the end"
            raise InvalidOperation(f"from {state} it does not go to {target}, {ways}")


@value
class Reference:
    """A member of a config that names another program."""

    member: str
    """The path of the member: ``provider``, ``tools/0``."""
    name: str


@value
class ProgramVersion:
    """A config at one time; it never changes."""

    number: int
    config: Mapping[str, Json]
    digest: Digest
    by: str = field(default="", compare=False)
    """The principal who wrote it, not always the owner; empty before it is stored."""
    hidden: frozenset[str] = field(default=frozenset(), compare=False)
    """Members that name programs which the reader may not see."""

    @property
    def shown(self) -> Mapping[str, Json]:
        """The config as its reader may see it: a member that names a hidden program is absent."""
        shown = _without(self.config, "", self.hidden) if self.hidden else self.config
        assert isinstance(shown, Mapping), "a config is a document"
        return shown


@value
class Program:
    """A program in its current state, with its newest config."""

    id: ProgramId
    kind: str
    name: str
    owner: str
    """A principal: ``human:ana``."""
    state: str
    visibility: Visibility
    version: ProgramVersion
    details: Mapping[str, Json]
    """Other values that its events have set: an agent's current task, a task's session."""
    created_at: Timestamp
    updated_at: Timestamp
    tags: tuple[str, ...] = ()

    @property
    def config(self) -> Mapping[str, Json]:
        """The newest config, as its reader may see it; ``version`` has what is stored."""
        return self.version.shown

    @property
    def address(self) -> str:
        """How a config refers to it."""
        return address_of(self.name)

    @property
    def is_system(self) -> bool:
        """Whether it belongs to the system and not to a person."""
        return self.owner.startswith("system:")


@value
class VersionPin:
    """The version of a program that a turn used."""

    program: ProgramId
    number: int
    digest: Digest
    address: str

    @property
    def entry(self) -> ManifestEntry:
        """The entry of a turn's manifest that names this version."""
        return ManifestEntry("program", self.address, self.digest)


def check_name(name: str) -> str:
    """Return a name if it can be used in an address.

    Raises:
        InvalidOperation: It cannot.
    """
    if not _NAME.fullmatch(name):
        raise InvalidOperation(
            f"{name[:NAME_CHARS_MAX]!r} is not a program name: letters, digits and _.:/+-,"
            f" at most {NAME_CHARS_MAX}, and a letter or a digit first"
        )
    if find_long_id(name) is not None:
        raise InvalidOperation(f"{name} could be an id: a program's name is a word")
    return name


def name_from(title: str, *, prefix: str = "") -> str:
    """Return a name made of a title's words."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    if not words:
        raise InvalidOperation("a title has at least one letter or digit, to make a name of")
    return check_name("-".join([*([prefix] if prefix else []), *words])[:80].rstrip("-"))


def a_kind(kind: str) -> str:
    """Return a kind with its article, for use in a sentence."""
    noun = f"{kind} program" if kind in ("code", "information") else kind  # These have no plural.
    return f"an {noun}" if noun[:1] in "aeiou" else f"a {noun}"


def address_of(name: str) -> str:
    """Return how a config refers to a program of this name."""
    return f"@({name})"


def name_in(text: str) -> str:
    """Return the name in a text, whether it is written as an address or not."""
    match = _REFERENCE.fullmatch(text)
    return text if match is None else match[1]


def list_references(config: Json) -> list[Reference]:
    """Return the programs that a config refers to, in order: each text that is just an address."""
    return [
        Reference(member, match[1])
        for member, text in _walk(config, "")
        if (match := _REFERENCE.fullmatch(text))
    ]


def rename_references(config: Json, names: Mapping[str, str]) -> Json:
    """Return the config with each address written with the program's current name."""
    match config:
        case str():
            match = _REFERENCE.fullmatch(config)
            return config if match is None else address_of(names.get(match[1], match[1]))
        case list():
            return [rename_references(item, names) for item in config]
        case Mapping():
            return {name: rename_references(value, names) for name, value in config.items()}
        case _:
            return config


def list_secrets(config: Json) -> list[str]:
    """Return the names of the secrets that a config refers to as ``${NAME}``, each once."""
    names = (name for _, text in _walk(config, "") for name in NAMED.findall(text))
    return list(dict.fromkeys(names))


def _without(value: Json, path: str, hidden: frozenset[str]) -> Json:
    """Return a value without the members at some paths, which are those of ``_walk``."""
    match value:
        case list():
            ways = [
                (f"{path}/{index}" if path else str(index), item)
                for index, item in enumerate(value)
            ]
            return [_without(item, way, hidden) for way, item in ways if way not in hidden]
        case Mapping():
            named = [
                (name, f"{path}/{name}" if path else name, item) for name, item in value.items()
            ]
            return {
                name: _without(item, way, hidden) for name, way, item in named if way not in hidden
            }
        case _:
            return value


def _walk(value: Json, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield path, value
        case list():
            for index, item in enumerate(value):
                yield from _walk(item, f"{path}/{index}" if path else str(index))
        case Mapping():
            for name, item in sorted(value.items()):
                yield from _walk(item, f"{path}/{name}" if path else name)
        case _:
            return


def version_of(number: int, config: Mapping[str, Json]) -> tuple[ProgramVersion, bytes]:
    """Return a version and the bytes that its digest covers.

    Raises:
        InvalidOperation: It contains a secret, or it is too large.
    """
    data = canonical(dict(config))
    if len(data) > CONFIG_BYTES_MAX:
        raise InvalidOperation(
            f"a config has at most {CONFIG_BYTES_MAX} bytes, and this has {len(data)}"
        )
    if any(True for _ in find_keys([data])):
        raise InvalidOperation(
            "a key is never stored: name it as ${NAME}, and it is looked up when needed"
        )
    return ProgramVersion(number, config, digest_bytes(data)), data


def may(program: Program, by: str, right: Right, granted: Iterable[Right] = ()) -> bool:
    """Return whether a principal has access to a program, given what was granted to it."""
    if by == program.owner or by.startswith("system:"):
        return True
    if program.visibility == "public" and right != "configure":
        return True
    return any(RIGHTS.index(level) >= RIGHTS.index(right) for level in granted)


@value
class ProgramState:
    """The state that a program's events add up to."""

    kind: str
    name: str
    owner: str
    state: str
    visibility: Visibility
    number: int
    digests: tuple[Digest, ...]
    """The digests of all versions, oldest first."""
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
    grants: frozenset[tuple[str, str]] = frozenset()
    """Pairs of a grantee and the granted access."""
    steps: tuple[tuple[int, str, str], ...] = ()
    """All changes of its state: position in the stream, old state, new state."""


def fold(events: Sequence[Event]) -> ProgramState | None:
    """Fold the events of a program's stream; return None if none of them creates it.

    Other events may share the stream, as a session's moves do, and change nothing. The members of
    an event say what it changes: ``config``, ``from`` with ``to``, and ``details``.

    Raises:
        InvalidOperation: They cannot be the events of a program.
    """
    state: ProgramState | None = None
    for event in events:
        data: dict[str, Any] = dict(event.data)
        if "config" in data and "owner" in data and event.kind.startswith(f"{data.get('kind')}."):
            if state is not None:
                raise InvalidOperation("a program is created once")
            state = _created(data)
        elif state is not None and event.kind.startswith((f"{state.kind}.", "program.")):
            state = _changed(state, event, data)
    return state


def _created(data: Mapping[str, Any]) -> ProgramState:
    return ProgramState(
        data["kind"],
        data["name"],
        data["owner"],
        data["state"],
        data["visibility"],
        data["version"],
        (data["config"],),
        _merged({}, data.get("details", {})),
    )


def _changed(state: ProgramState, event: Event, data: Mapping[str, Any]) -> ProgramState:
    match event.kind:
        case "program.granted":
            return replace(state, grants=state.grants | {(data["to"], data["access"])})
        case "program.revoked":
            return replace(state, grants=state.grants - {(data["to"], data["access"])})
        case "program.visibility_changed":
            return replace(state, visibility=data["visibility"])
        case _:
            pass
    if "config" in data:
        if data["version"] != state.number + 1:
            raise InvalidOperation(
                f"version {data['version']} cannot follow version {state.number}"
            )
        digests = (*state.digests, data["config"])
        state = replace(state, number=data["version"], digests=digests)
    if "from" in data and "to" in data:
        if data["from"] != state.state:
            raise InvalidOperation(f"it moves from {data['from']} while it is {state.state}")
        steps = (*state.steps, (event.seq, data["from"], data["to"]))
        state = replace(state, state=data["to"], steps=steps)
    return replace(state, details=_merged(state.details, data.get("details", {})))


def _merged(details: Mapping[str, Json], sets: Mapping[str, Json]) -> dict[str, Json]:
    """Return the details with some replaced; one that is set to null is removed."""
    return {name: value for name, value in {**details, **sets}.items() if value is not None}
