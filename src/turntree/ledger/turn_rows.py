"""The rows of a turn in the tables next to its body.

Pure, and loads no driver, so that worker processes that make rows start fast. Must not know a
connection.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from turntree.core.canonical import digest_raw
from turntree.core.ids import Digest, TurnId
from turntree.core.message import (
    Message,
    ObjectRef,
    ToolResult,
    ToolUse,
    answers_call,
    calls_tool,
    list_objects,
)
from turntree.core.message_context import TouchedFile, files_of
from turntree.core.turn import Header, Turn


class TurnSource(NamedTuple):
    """The records of a transcript that a turn was made from, and its key there."""

    origin: str
    bundle: str
    key: str
    first: int
    last: int
    projector: int


class TurnRows(NamedTuple):
    """A turn as rows: everything except its position in the tree.

    Made in worker processes, so it holds plain values only. A named tuple, because those are
    pickled several times as fast as dataclasses.
    """

    id: TurnId
    parent: TurnId | None
    parent_digest: Digest | None
    digest: Digest
    columns: tuple[str | None, ...]
    """Started, sealed, kind, outcome, role, actor, model and provider."""
    header: str
    said: str
    derived: bool
    """Whether its header names what it came from."""
    tool_calls: Sequence[tuple[Any, ...]]
    model_calls: Sequence[tuple[Any, ...]]
    files: Sequence[tuple[Any, ...]]
    facts: Sequence[tuple[Any, ...]]
    compaction: tuple[Any, ...] | None
    objects: Sequence[bytes]
    referred: Sequence[bytes]
    """The digests of the objects that its messages refer to."""
    source: TurnSource | None


ACTOR_CHARS_MAX = 200


def actor_of(header: Header) -> str:
    """Return the actor of a turn, for a column."""
    return actor_column(header.by.kind, header.by.id)


def actor_column(kind: str, id: str) -> str:
    """Return a principal for a column: without NUL, and short enough for an index."""
    return f"{kind}:{id}".replace("\0", "\ufffd")[:ACTOR_CHARS_MAX]


def tool_calls(turn: Turn) -> list[tuple[str, str, str]]:
    """Return (call id, tool, status) for each call of a turn, in order."""
    uses: list[tuple[str, str]] = []
    statuses: dict[str, str] = {}
    for message in turn.messages[turn.query_count :]:
        for part in message.parts:
            if isinstance(part, ToolUse | ObjectRef) and calls_tool(part):
                uses.append((str(part.call_id), str(part.tool)))
            elif isinstance(part, ToolResult | ObjectRef) and answers_call(part):
                statuses[str(part.call_id)] = str(part.status)
    # The message with the result of a call may have been erased.
    return [(call_id, tool, statuses[call_id]) for call_id, tool in uses if call_id in statuses]


def touched_files(turn: Turn) -> list[tuple[int, TouchedFile]]:
    """Return the files that a turn's messages touched, each with the index of its message."""
    return [
        (index, file) for index, message in enumerate(turn.messages) for file in files_of(message)
    ]


def referred_objects(turn: Turn) -> list[bytes]:
    """Return the digests of the objects that a turn's messages refer to, each once, in order."""
    referred = {
        digest_raw(digest)
        for message in turn.messages
        if isinstance(message, Message)
        for part in message.parts
        for digest in list_objects(part)
    }
    return sorted(referred)
