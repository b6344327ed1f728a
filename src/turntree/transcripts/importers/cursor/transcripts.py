"""Read Cursor's transcript files: one message per line, without times and results.

The command line stores its conversations here, and the editor a copy of some of its own. Knows the
folders and the lines, not the databases.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from turntree.core.message import Message, ToolUse
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import DraftSession, DraftSpawn, DraftTurn, Projection
from turntree.transcripts.importer import TranscriptRef, stamp_of
from turntree.transcripts.importers.cursor.storage import ORIGIN
from turntree.transcripts.importers.messages.blocks import content_of
from turntree.transcripts.importers.shared.lenient_json import mapping, parse, read_lines, text
from turntree.transcripts.importers.shared.message_tree import NEVER, MessageNode, MessageTree

SUFFIX: Final = ".jsonl"
_FOLDER: Final = "agent-transcripts"
_SUBAGENTS: Final = "subagents"
_ENDED: Final = "turn_ended"
_ID_SHOWN: Final = 8


def transcripts_below(home: Path) -> Iterator[TranscriptRef]:
    """Yield the transcripts of all projects, each with those of its subagents."""
    for folder in sorted(home.glob(f"projects/*/{_FOLDER}")):
        yield from transcripts_in(folder)


def transcripts_in(path: Path) -> Iterator[TranscriptRef]:
    """Yield a transcript, or those of a folder of them."""
    if path.is_file():
        files = [path] if path.suffix == SUFFIX and _is_ours(path) else []
    elif path.name == _FOLDER:
        found = (*path.glob(f"*{SUFFIX}"), *path.glob(f"*/*{SUFFIX}"))
        files = sorted(file for file in found if file.is_file())
    else:
        files = []
    for file in files:
        below = sorted((file.parent / _SUBAGENTS).glob(f"*{SUFFIX}"))
        own = below if file.parent.name == file.stem else []
        stamp, size = stamp_of([file, *own])
        yield TranscriptRef(ORIGIN, file.stem, (file, *own), stamp, size)


def lines_of(bundle: TranscriptRef) -> Iterator[RawRecord]:
    """Yield the lines of a transcript and of its subagents' transcripts."""
    for file in bundle.files:
        yield from read_lines(file, file.name)


def project_lines(id: str, records: Sequence[RawRecord]) -> Projection:
    """Return the projection of the lines; a file is a session."""
    lines: dict[str, list[tuple[int, Mapping[str, Any]]]] = {id: []}
    unknown: dict[str, int] = {}
    broken = 0
    for place, record in enumerate(records):
        document = parse(record.data)
        if document is None:
            broken += 1
        elif _role(document) or document.get("type") == _ENDED:
            name = record.file.removesuffix(SUFFIX)
            lines.setdefault(name, []).append((place, document))
        else:
            kind = (text(document.get("type")) or "no message")[:80]
            unknown[kind] = unknown.get(kind, 0) + 1
    turns: list[DraftTurn] = []
    sessions: list[DraftSession] = []
    own = _tree(id, lines[id])
    for name, told in lines.items():
        tree = own if name == id else _tree(name, told)
        if tree.head is None:
            continue
        spawn = None if name == id or len(lines) > 1 + 1 else _spawn(id, own)
        details = {} if name == id else {"parent_session": id}
        label = f"cursor/{_shown(name)}"
        turns += tree.turns
        sessions.append(DraftSession(name, label, tree.head, spawn=spawn, details=details))
    return Projection(turns, sessions, unknown, broken=broken)


def _tree(name: str, lines: Sequence[tuple[int, Mapping[str, Any]]]) -> MessageTree:
    nodes: dict[str, MessageNode] = {}
    before: str | None = None
    ended = True
    for place, document in lines:
        if (role := _role(document)) is None:
            ended = True
            if before is not None and document.get("status") != "success":
                nodes[before] = replace(nodes[before], unfinished=True)
            continue
        ended = False
        content = mapping(document.get("message")).get("content")
        parts = content_of(content, "anthropic")
        if role == "user":
            plain = tuple(part for part in parts if not isinstance(part, ToolUse))
            said = Message("user", plain, "human")
        else:
            said = Message("assistant", tuple(parts))
        id = f"{name}/{len(nodes)}"
        nodes[id] = MessageNode(id, before, asks=role == "user", messages=(said,), places=(place,))
        before = id
    # Older transcripts never record that a turn ended.
    told = any(_role(document) is None for _, document in lines)
    if before is not None and told and not ended:
        nodes[before] = replace(nodes[before], unfinished=True)
    return MessageTree(nodes, NEVER, before)


def _spawn(parent: str, tree: MessageTree) -> DraftSpawn | None:
    """Return the call that started the subagent; with several, it is unknown which is whose."""
    calls = [
        (turn.key, str(use.call_id))
        for turn in tree.turns
        for said in turn.reply
        for use in said.tool_uses
        if text(use.tool).lower() == "task"
    ]
    return DraftSpawn(parent, *calls[0]) if len(calls) == 1 else None


def _role(document: Mapping[str, Any]) -> str | None:
    role = text(document.get("role"))
    known = role in ("user", "assistant") and isinstance(document.get("message"), dict)
    return role if known else None


def _is_ours(file: Path) -> bool:
    try:
        first = next(iter(read_lines(file, file.name)), None)
    except OSError:
        return False
    document = None if first is None else parse(first.data)
    return document is not None and _role(document) is not None


def _shown(name: str) -> str:
    return (
        "".join(sign for sign in name if sign.isascii() and sign.isalnum())[:_ID_SHOWN] or "unnamed"
    )
