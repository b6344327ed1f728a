"""What the tables beside the bodies hold of a turn.

Pure, and loads no driver: whoever makes rows in another process starts at once. Must never know a
connection.
"""

from turntree.domain.canonical import digest_raw
from turntree.domain.context import TouchedFile, files_of
from turntree.domain.message import (
    Lifted,
    Media,
    Message,
    ToolResult,
    ToolUse,
    answers_call,
    calls_tool,
)
from turntree.domain.turn import Header, Turn

ACTOR_CHARS_MAX = 200


def actor_of(header: Header) -> str:
    """Return who acted, as a column and an index can hold it."""
    return actor_column(header.by.kind, header.by.id)


def actor_column(kind: str, id: str) -> str:
    """Return a principal as a column holds it: without NUL, and not too long for an index."""
    return f"{kind}:{id}".replace("\0", "\ufffd")[:ACTOR_CHARS_MAX]


def tool_calls(turn: Turn) -> list[tuple[str, str, str]]:
    """Return (call id, tool, status) for each call of a turn, in order."""
    uses: list[tuple[str, str]] = []
    statuses: dict[str, str] = {}
    for said in turn.messages[turn.query_count :]:
        for part in said.parts:
            if isinstance(part, ToolUse | Lifted) and calls_tool(part):
                uses.append((str(part.call_id), str(part.tool)))
            elif isinstance(part, ToolResult | Lifted) and answers_call(part):
                statuses[str(part.call_id)] = str(part.status)
    return [(call_id, tool, statuses[call_id]) for call_id, tool in uses]


def touched_files(turn: Turn) -> list[tuple[int, TouchedFile]]:
    """Return the files a turn's messages touched, each with the message's place."""
    return [(place, file) for place, said in enumerate(turn.messages) for file in files_of(said)]


def referred_objects(turn: Turn) -> list[bytes]:
    """Return the digests of the objects that a turn's messages refer to, each once, in order."""
    referred = {
        digest_raw(part.object)
        for said in turn.messages
        if isinstance(said, Message)
        for part in said.parts
        if isinstance(part, Lifted | Media) and part.object is not None
    }
    return sorted(referred)
