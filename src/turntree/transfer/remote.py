"""What a remote holds: heads of sessions by owner, and parts of threads as archives.

A *part* is the archive of some turns in a row, without the objects that it refers to: these are
stored once, each under its digest. Pure: the caller reads and writes the bytes.
"""

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast
from uuid import UUID

import orjson

from turntree.core.canonical import Json, canonical, is_digest, parse_digest
from turntree.core.errors import InvalidOperation, TurntreeError
from turntree.core.ids import Digest, Timestamp, TurnId, is_instant
from turntree.core.revision import check_label
from turntree.core.value import value
from turntree.transfer.archive import ArchiveWriter, bytes_line, line_of

FORMAT: Final = "remote/1"
OWNER_CHARS_MAX: Final = 200
_ID_BYTES: Final = 16
_BYTES: Final = b'{"bytes":"'
_DIGEST: Final = b'{"digest":"'
"""How the lines of objects and files start, with and without their bytes."""


@value
class RemoteHead:
    """Where a session stands in a remote, as one owner left it."""

    session: str
    """The label of the session where it was pushed from, without the name of a remote."""
    owner: str
    head: TurnId | None
    """None if the owner has withdrawn it."""
    digest: Digest | None
    depth: int
    at: Timestamp
    part: str | None = None
    """The part that holds the head, if the remote is a folder."""


@value
class Part:
    """Turns of a thread in a row, ready to be stored in a remote."""

    data: bytes
    """An archive whose objects are named and not included."""
    objects: Mapping[Digest, bytes]
    turns: tuple[TurnId, ...]


@value
class PartOpening:
    """What a part says in its first line."""

    base: TurnId | None
    """The turn that it continues, unless it is the start of a thread."""
    before: str | None
    """The part that holds that turn."""


def head_to_bytes(head: RemoteHead) -> bytes:
    """Return a head as a remote stores it."""
    told: dict[str, Json] = {
        "turntree": FORMAT,
        "session": head.session,
        "owner": head.owner,
        "head": head.head,
        "digest": head.digest,
        "depth": head.depth,
        "at": head.at,
        "part": head.part,
    }
    return canonical(told) + b"\n"


def head_from_bytes(data: bytes) -> RemoteHead:
    """Return a head that a remote holds.

    Raises:
        InvalidOperation: It is not one that this version can have written.
    """
    if not data.endswith(b"\n"):
        raise InvalidOperation("the remote has a head that was cut off")
    told = _document(data)
    if told.get("turntree") != FORMAT:
        raise InvalidOperation(f"the remote has another format: {told.get('turntree')!r}")
    try:
        head = None if told["head"] is None else TurnId(str(UUID(told["head"])))
        digest, depth, part = told["digest"], told["depth"], told["part"]
        is_sound = is_instant(told["at"]) and isinstance(depth, int) and depth >= 0
        is_sound &= digest is None if head is None else is_digest(digest) and is_part_name(part)
        session, owner = check_label(told["session"]), check_owner(told["owner"])
    except (TurntreeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidOperation("the remote has a head that cannot be read") from error
    if not is_sound:
        raise InvalidOperation("the remote has a head that cannot be read")
    return RemoteHead(session, owner, head, digest, depth, Timestamp(told["at"]), part)


def check_owner(owner: str) -> str:
    """Return the name of an owner, if it can be a part of a label.

    Raises:
        InvalidRevision: It cannot.
    """
    return check_label(owner[:OWNER_CHARS_MAX])


def is_part_name(name: object) -> bool:
    """Return whether a text names a part: the hexadecimal digits of its digest."""
    return isinstance(name, str) and is_digest(f"sha256:{name}")


def split_archive(data: bytes, turns: tuple[TurnId, ...], before: str | None) -> Part:
    """Return an archive as a part, with its objects beside it."""
    lines, objects = list[bytes](), dict[Digest, bytes]()
    first, *rest = data.splitlines(keepends=True)
    opening = orjson.loads(first)
    share = {**opening["share"], "before": before}
    lines.append(line_of("archive", {**opening, "share": share}))
    # The last line proves an archive. A part is proven by its name, and read as another archive.
    for line in rest[:-1]:
        if not line.startswith(_BYTES):
            lines.append(line)
            continue
        document = orjson.loads(line)
        objects[document["digest"]] = b64decode(document["bytes"])
        lines.append(line_of(document["kind"], {"digest": document["digest"]}))
    return Part(b"".join(lines), objects, turns)


def join_part(
    lines: Iterable[bytes], has: Callable[[str, Digest], bool], get: Callable[[Digest], bytes]
) -> Iterator[bytes]:
    """Yield a part as a complete archive, with the objects that the reader does not have."""
    writer = ArchiveWriter()
    for line in lines:
        document = _document(line) if line.startswith(_DIGEST) else {"pieces": None}
        if "pieces" in document:
            yield writer.add("", line)
            continue
        kind, digest = str(document.get("kind")), parse_digest(str(document.get("digest")))
        if not has(kind, digest):
            yield writer.add(kind, bytes_line(kind, digest, get(digest)))
    yield writer.end()


def read_opening(first: bytes) -> PartOpening:
    """Return what the first line of a part says.

    Raises:
        InvalidOperation: It is not the first line of a part.
    """
    try:
        share = _document(first)["share"]
        before, base = share["before"], share.get("base")
        above = None if base is None else TurnId(str(UUID(base["id"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidOperation("a part of the remote cannot be read") from error
    if (before is None) != (above is None) or not (before is None or is_part_name(before)):
        raise InvalidOperation("a part of the remote cannot be read")
    return PartOpening(above, before)


def turns_to_bytes(turns: tuple[TurnId, ...]) -> bytes:
    """Return the turns of a part as the list beside it, which only pushers read."""
    return b"".join(UUID(turn).bytes for turn in turns)


def turns_from_bytes(data: bytes) -> list[TurnId]:
    """Return the turns of a list; what is cut off at its end is left out."""
    whole = len(data) - len(data) % _ID_BYTES
    return [
        TurnId(str(UUID(bytes=data[place : place + _ID_BYTES])))
        for place in range(0, whole, _ID_BYTES)
    ]


def _document(line: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(line)
    except ValueError as error:
        raise InvalidOperation("a part of the remote cannot be read") from error
    if not isinstance(document, dict):
        raise InvalidOperation("a part of the remote cannot be read")
    return cast("dict[str, Any]", document)
