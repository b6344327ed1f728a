"""The format of an archive: JSON lines that hold a whole workspace, and the checks of each.

The first line says what the file is, the last one counts the lines and holds the digest of all
bytes before it. In between, objects, events and turns carry the digests that prove them. Every
other line is a row of one table; the events say what it has to be.

Pure: the caller reads and writes the lines.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, cast
from uuid import UUID

import orjson

from turntree.core.canonical import Json, canonical, digest_bytes, is_digest
from turntree.core.errors import InvalidOperation, InvalidRevision, NotCanonical
from turntree.core.ids import Digest, TurnId
from turntree.core.revision import check_label
from turntree.core.turn import verify
from turntree.core.value import value

FORMAT: Final = "archive/1"
FIRST: Final = b'{"kind":"archive",'
"""How every archive starts: the members of canonical JSON are sorted."""


@value
class Section:
    """Lines of one kind: the rows of one table."""

    kind: str
    table: str
    key: tuple[str, ...]
    """The columns that a message names a row by."""
    digests: tuple[str, ...] = ()
    """Columns that hold a digest."""
    stream: str | None = None
    """The column with the id of the stream whose events decide what the row is; it may change."""
    is_compared: bool = True
    """Whether a row that is there already has to be the same."""


SECTIONS: Final = (
    # In the order in which they can be inserted: what a row refers to comes before it.
    Section("erased_call", "tool_calls", ("turn_id", "sequence"), is_compared=False),
    Section("erased_file", "message_files", ("turn_id", "message"), is_compared=False),
    Section("program", "programs", ("name",), stream="id"),
    Section("program_version", "program_versions", ("program_id", "version"), ("digest",)),
    Section("program_reference", "program_refs", ("program_id", "path")),
    Section("grant", "program_grants", ("program_id", "grantee"), stream="program_id"),
    Section("session", "sessions", ("id",), stream="id"),
    Section("name", "session_names", ("name",), stream="session_id"),
    Section("move", "session_history", ("session_id", "version")),
    Section("spawn", "spawns", ("session_id",)),
    Section("tag", "tags", ("node_id", "tag"), stream="node_id"),
    Section("idempotency_key", "idempotency_keys", ("by", "idempotency_key")),
    Section("run", "runs", ("id",)),
    Section("queued_message", "queued_messages", ("session_id", "seq"), ("digest",)),
    Section("conversation", "conversations", ("id",), stream="id"),
    Section("participant", "participants", ("conversation_id", "number"), stream="conversation_id"),
    Section("post", "posts", ("conversation_id", "seq"), ("digest",), stream="conversation_id"),
    Section("bound_session", "bound_sessions", ("session_id",)),
    Section(
        "post_decision", "post_decisions", ("conversation_id", "seq"), stream="conversation_id"
    ),
    Section(
        "post_delivery",
        "post_deliveries",
        ("conversation_id", "seq", "session_id", "message_seq"),
    ),
    Section(
        "approval",
        "approvals",
        ("id",),
        ("args_digest", "allowed_digest", "policy"),
        is_compared=False,
    ),
    Section(
        "raw_block", "raw_blocks", ("digest",), ("digest", "current_digest"), is_compared=False
    ),
    Section("source", "turn_sources", ("turn_id",), is_compared=False),
    Section(
        "import_cursor",
        "import_cursors",
        ("origin", "transcript"),
        ("prefix_digest",),
        is_compared=False,
    ),
    Section("handoff", "handoffs", ("tool", "tool_session_id")),
    Section("resource", "resources", ("kind", "location")),
    Section("snapshot", "snapshots", ("id",)),
    Section("handle", "handles", ("id",)),
    Section(
        "attachment", "resource_attachments", ("session_id", "resource_id"), stream="session_id"
    ),
    Section("turn_snapshot", "turn_snapshots", ("turn_id", "resource_id")),
    Section("plan", "plans", ("id",)),
    Section("session_plan", "session_plans", ("session_id", "version")),
    Section("object_writer", "object_writers", ("digest", "by"), ("digest",)),
)
BY_KIND: Final[Mapping[str, Section]] = {section.kind: section for section in SECTIONS}
ORDER: Final = {
    kind: place
    for place, kind in enumerate(
        ("archive", "event", "turn", "object", *BY_KIND, "turn_files", "file", "end")
    )
}  # fmt: skip
"""The order of the kinds in a file."""


SHARED: Final[Mapping[str, str]] = {
    "erased_call": "turn_id",
    "erased_file": "turn_id",
    "tag": "node_id",
    "run": "id",
}
"""The rows that a shared thread may have, each with the column that names its turn.

Any other row would be a program, a session or a grant that the reader did not ask for.
"""
DEPTH_MAX: Final = 2**31 - 1
FILE_KINDS: Final = ("directory", "file")
"""The kinds of resources whose files a shared thread may have."""
FILE_NAME_BYTES_MAX: Final = 255
"""What every file system of today takes."""
ATTACH_MODES: Final = ("ro", "rw")
_FINISHED: Final[Mapping[str, Callable[[Mapping[str, Any]], bool]]] = {
    "run": lambda row: row["status"] == "finished",
    "queued_message": lambda row: row["payload"] is None,
    "plan": lambda row: row["outcome"] is not None,
    "approval": lambda row: (
        row["state"] not in ("pending", "approved", "edited") and row["answer"] is None
    ),
}
"""An export leaves out what is under way. A worker would run what a forger adds to an archive."""


@value
class BaseTurn:
    """The turn that an archive continues: it is not in it, and the reader has it already."""

    id: TurnId
    digest: Digest
    depth: int


@value
class SharedThread:
    """What the archive of one thread says about itself in its first line."""

    head: TurnId
    label: str
    """What the thread was called where it was written."""
    base: BaseTurn | None = None
    """None if the thread is complete."""


@value
class TurnLine:
    """A turn of an archive, whose bytes match its digest and its parent's."""

    header: str
    said: str
    is_erased: bool


@value
class ArchiveLine:
    """One line that was verified."""

    kind: str
    document: Mapping[str, Any]
    data: bytes = b""
    """The bytes of an object, a file or an event."""
    turn: TurnLine | None = None


def is_file_name(name: object) -> bool:
    """Return whether a value may be the last part of a path."""
    return (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and not any(char in "/\0" for char in name)
        and len(name.encode()) <= FILE_NAME_BYTES_MAX
    )


def line_of(kind: str, document: Mapping[str, Any]) -> bytes:
    """Return a line of an archive, with its line break."""
    return canonical(cast("Json", {"kind": kind, **document})) + b"\n"


def turn_line(
    id: str, parent: str | None, depth: int, digest: str, header: str, said: str
) -> bytes:
    """Return the line of a turn from its stored bytes, which are canonical already."""
    above = "null" if parent is None else f'"{parent}"'
    messages = said.replace("\n", ",")
    return (
        f'{{"depth":{depth},"digest":"{digest}","header":{header},"id":"{id}","kind":"turn",'
        f'"messages":[{messages}],"parent":{above}}}\n'
    ).encode()


def event_line(id: str, body: str) -> bytes:
    """Return the line of an event from its stored bytes, which are canonical already."""
    return f'{{"event":{body},"id":"{id}","kind":"event"}}\n'.encode()


def bytes_line(kind: str, digest: str, data: bytes) -> bytes:
    """Return the line of an object or of a file's content."""
    return line_of(kind, {"digest": digest, "bytes": b64encode(data).decode()})


def row_to_line(section: Section, row: Mapping[str, Any]) -> bytes:
    """Return the line of a row as PostgreSQL writes it as JSON."""
    shown = {name: _shown(x) if name in section.digests else x for name, x in row.items()}
    # A column may be called ``kind`` too, so the row is a member of its own. A session is not: its
    # line is the same in the export of a thread.
    return line_of(section.kind, shown if section.kind == "session" else {"row": shown})


def row_from_line(section: Section, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a line, as PostgreSQL reads it from JSON."""
    if section.kind == "session":
        origin: Mapping[str, Any] = document["origin"] or {}
        return {
            "id": document["id"],
            "head_id": document["head"],
            "version": document["version"],
            "event_seq": document["events"],
            "created_at": document["created_at"],
            "updated_at": document["updated_at"],
            "status": document["status"],
            "origin": origin.get("tool"),
            "origin_session_id": origin.get("session_id"),
            "imported_by": document["imported_by"],
        }
    row = document["row"].items()
    return {name: _stored(x) if name in section.digests else x for name, x in row}


def _shown(stored: str | None) -> str | None:
    return None if stored is None else f"sha256:{stored.removeprefix(chr(92) + 'x')}"


def _stored(shown: str | None) -> str | None:
    return None if shown is None else f"\\x{shown.removeprefix('sha256:')}"


class ArchiveWriter:
    """Counts and hashes the lines of an archive that is being written."""

    def __init__(self) -> None:
        """Start with no line."""
        self._hash, self.counts = sha256(), dict[str, int]()

    def add(self, kind: str, line: bytes) -> bytes:
        """Count a line and return it."""
        self._hash.update(line)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return line

    def end(self) -> bytes:
        """Return the last line, which proves those before it."""
        digest = f"sha256:{self._hash.hexdigest()}"
        return line_of("end", {"digest": digest, "lines": sum(self.counts.values())})


class ArchiveReader:
    """Verifies an archive line by line. Holds the turns of two depths, and no more."""

    def __init__(self) -> None:
        """Expect the first line."""
        self._hash, self.counts = sha256(), dict[str, int]()
        self.lines, self.is_ended, self.is_partial = 0, False, False
        self.shared: SharedThread | None = None
        self._streams, self._turns = set[str](), set[str]()
        """The events and the turns of a shared thread."""
        self._place, self._depth = -1, 0
        self._above, self._level = dict[str, str](), dict[str, str]()
        """The digests of the turns at the depth above, and at this one."""

    def read(self, line: bytes) -> ArchiveLine:
        """Return a line that matches its digests and belongs where it is.

        Raises:
            InvalidOperation: It does not.
        """
        self.lines += 1
        if self.is_ended:
            raise self._refusal("there is more after the end")
        try:
            document = orjson.loads(line)
            kind = document["kind"]
            found = self._check(kind, document)
        except (NotCanonical, InvalidRevision) as error:
            raise self._refusal(str(error)) from error
        except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
            raise self._refusal("it cannot be read") from error
        if kind != "end":
            self._hash.update(line)
            self.counts[kind] = self.counts.get(kind, 0) + 1
        return found

    def finish(self) -> None:
        """Raise if the archive is not complete.

        Raises:
            InvalidOperation: It was cut off.
        """
        if not self.is_ended:
            raise InvalidOperation(f"the archive was cut off after line {self.lines}")

    def _check(self, kind: str, document: Mapping[str, Any]) -> ArchiveLine:
        place = ORDER.get(kind)
        if place is None:
            raise self._refusal(f"{kind!r} is not a kind that this version knows")
        if place < self._place or (self.lines == 1) != (kind == "archive"):
            raise self._refusal(f"a line of kind {kind!r} does not belong here")
        self._place = place
        if self.shared is not None:
            self._check_shared(kind, document)
        match kind:
            case "archive" if document["turntree"] != FORMAT:
                raise InvalidOperation(
                    f"this archive has the format {document['turntree']!r}; upgrade to read it"
                )
            case "archive":
                self.is_partial = bool(document.get("partial"))
                if "share" in document:
                    head, label = (str(document["share"][name]) for name in ("head", "label"))
                    # A name from another machine is printed and typed here as any other one is.
                    base = self._read_base(document["share"].get("base"))
                    self.shared = SharedThread(TurnId(str(UUID(head))), check_label(label), base)
            case "turn":
                return self._check_turn(document)
            case "event":
                body = canonical(document["event"])
                self._require(digest_bytes(body) == document["id"], "the event")
                return ArchiveLine(kind, document, body)
            case "object" | "file" if kind == "object" or "pieces" not in document:
                data = b64decode(document["bytes"], validate=True)
                self._require(digest_bytes(data) == document["digest"], f"the {kind}")
                return ArchiveLine(kind, document, data)
            case "turn_files":
                self._check_files(document)
            case "post":
                told, words = (str(document["row"][name]) for name in ("digest", "body"))
                is_erased = words == f'{{"erased":"{told}"}}'
                self._require(is_erased or digest_bytes(words.encode()) == told, "the post")
            case "end":
                self._require(document["digest"] == f"sha256:{self._hash.hexdigest()}", "the file")
                self.is_ended = True
            case _:
                row = document["row"] if kind in BY_KIND and kind != "session" else document
                for name in BY_KIND[kind].digests if kind in BY_KIND else ("digest",):
                    if row[name] is not None and not is_digest(row[name]):
                        raise self._refusal(f"{name} is not a digest")
                if kind in _FINISHED and not _FINISHED[kind](row):
                    raise self._refusal(f"a {kind.replace('_', ' ')} that is not finished")
        return ArchiveLine(kind, document)

    def _read_base(self, given: Mapping[str, Any] | None) -> BaseTurn | None:
        """Return the turn above the first ones; the caller has to compare it with its own."""
        if given is None:
            return None
        id, digest, depth = str(UUID(given["id"])), given["digest"], given["depth"]
        if not is_digest(digest) or not isinstance(depth, int) or not 0 < depth < DEPTH_MAX:
            raise self._refusal("it does not continue a turn")
        self._depth, self._level = depth, {id: digest}
        return BaseTurn(TurnId(id), digest, depth)

    def _check_files(self, row: Mapping[str, Any]) -> None:
        """Refuse states of files that no ledger can have recorded."""
        if not is_digest(row["after"]) or not (row["before"] is None or is_digest(row["before"])):
            raise self._refusal("a state of files is not a digest")
        if row["of"] not in FILE_KINDS:
            raise self._refusal(f"files of the kind {row['of']!r} cannot be shared")
        name = row["name"]
        if not is_file_name(name):
            raise self._refusal(f"{name!r} is not the name of a file or a folder")
        began, ended = (datetime.fromisoformat(row[side]) for side in ("began_at", "ended_at"))
        # Without a time zone a time means another moment on each machine.
        if row["mode"] not in ATTACH_MODES or began.tzinfo is None or began > ended:
            raise self._refusal("a state of files that no turn can have left")
        if str(UUID(row["resource"])) != row["resource"]:
            raise self._refusal(f"{row['resource']!r} is not the id of a resource")

    def _check_shared(self, kind: str, document: Mapping[str, Any]) -> None:
        """Refuse what does not belong to the turns of the thread."""
        match kind:
            case "event":
                self._streams.add(document["event"]["stream"])
            case "turn":
                self._turns.add(document["id"])
            case "object" | "file":
                pass
            case "turn_files":
                self._require_turn(kind, document["turn"])
            case "end":
                for stream in self._streams - self._turns:
                    self._require_turn("event", stream)
                self._require_turn("head", self.shared.head if self.shared else "")
            case _ if kind in SHARED:
                self._require_turn(kind, document["row"][SHARED[kind]])
            case _:
                raise self._refusal(f"a shared thread has no {kind.replace('_', ' ')}")

    def _require_turn(self, kind: str, turn: str) -> None:
        if turn not in self._turns:
            raise self._refusal(f"the {kind.replace('_', ' ')} is of {turn}, which is not in it")

    def _check_turn(self, document: Mapping[str, Any]) -> ArchiveLine:
        id, digest, parent, depth = (document[n] for n in ("id", "digest", "parent", "depth"))
        if depth != self._depth:
            if depth != self._depth + 1:
                raise self._refusal(f"a turn of depth {depth} comes after one of {self._depth}")
            self._above, self._level, self._depth = self._level, {}, depth
        header = canonical(document["header"]).decode()
        said = "\n".join([canonical(message).decode() for message in document["messages"]])
        above = None if parent is None else self._above.get(parent)
        if (parent is None) != (depth == 1) or (parent is not None and above is None):
            raise self._refusal(f"turn {id} comes without its parent")
        finding = verify(f"{header}\n{said}" if said else header, digest, cast("Any", above))
        self._require(finding != "broken" and document["header"]["id"] == id, f"turn {id}")
        self._level[id] = digest
        return ArchiveLine(
            "turn", document, turn=TurnLine(header, said, is_erased=finding == "erased")
        )

    def _require(self, is_proven: bool, what: str) -> None:  # noqa: FBT001 - the condition
        if not is_proven:
            raise self._refusal(f"{what} does not match its digest")

    def _refusal(self, why: str) -> InvalidOperation:
        return InvalidOperation(f"line {self.lines} of the archive: {why}")
