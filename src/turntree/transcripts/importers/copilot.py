"""Import Copilot CLI: one file of events for each session.

A transcript is ``session-state/<id>/events.jsonl`` in the tool's folder. Messages, tool results and
usage are read; the tool's own bookkeeping, such as its hooks, is stored and skipped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turntree.core.canonical import Json, tidy
from turntree.core.ids import Timestamp
from turntree.core.message import Message, Part, Reasoning, Text, ToolResult, ToolUse
from turntree.core.message_context import FileUse, TouchedFile
from turntree.core.usage import ModelCall, Usage
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import DraftSession, Projection
from turntree.transcripts.importer import ToolPaths, TranscriptRef, stamp_of
from turntree.transcripts.importers.shared.lenient_json import (
    entries,
    mapping,
    moment,
    number,
    parse,
    read_lines,
    text,
    word,
)
from turntree.transcripts.importers.shared.message_tree import NEVER, MessageNode, MessageTree

ORIGIN: Final = "copilot"
NAME: Final = "events.jsonl"
PEEK_MAX_BYTES: Final = 4096
TITLE_MAX: Final = 200
_ID_SHOWN: Final = 8
_SLUG_MAX: Final = 60
_PRODUCER: Final = b'"producer":"copilot'
_BOOKKEEPING: Final = re.compile(
    r"(session|hook|assistant|system|tool|skill|subagent|permission|user)[._].*|abort|heartbeat"
)
"""Kinds of events that belong to no turn, beside those that are read."""
_FILE_TOOLS: Final[Mapping[str, FileUse]] = {"create": "written", "edit": "written", "view": "read"}
_UNFIT: Final = re.compile(r"[^A-Za-z0-9-]+")


class CopilotImporter:
    """Reads the sessions of Copilot CLI."""

    origin: Final = ORIGIN
    version: Final = 1

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Yield the sessions of this machine."""
        for folder in self.usual_places(places):
            for file in sorted(folder.glob(f"*/{NAME}")):
                yield _bundle(file)

    def usual_places(self, places: ToolPaths) -> Sequence[Path]:
        """Return the folder of sessions."""
        configured = places.environ.get("COPILOT_HOME")
        root = Path(configured) if configured else places.home / ".copilot"
        return [root / "session-state"]

    def open(self, path: Path) -> Iterator[TranscriptRef]:
        """Yield the sessions of a file, of a session's folder, or of a folder of sessions."""
        folders = (path, path / "session-state", path / ".copilot" / "session-state")
        files = sorted(file for folder in folders for file in folder.glob(f"*/{NAME}"))
        for file in [path] if path.name == NAME else [path / NAME, *files]:
            if not file.is_file():
                continue
            with file.open("rb") as stream:
                if _PRODUCER in stream.read(PEEK_MAX_BYTES).replace(b'": "', b'":"'):
                    yield _bundle(file)

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield the lines of the file."""
        yield from read_lines(bundle.files[0], NAME)

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Return the turns and the session that the events describe."""
        reader = _EventReader()
        for place, record in enumerate(records):
            reader.take(place, parse(record.data))
        tree = MessageTree(reader.nodes, reader.start or NEVER, reader.last)
        session = bundle.id.partition("/")[0]
        slug = _UNFIT.sub("-", reader.cwd).strip("-")[-_SLUG_MAX:] or "unnamed"
        draft = DraftSession(
            session,
            f"{ORIGIN}/{slug}/{_UNFIT.sub('-', session[:_ID_SHOWN])}",
            tree.head,
            word(" ".join(reader.first_prompt.split())[:TITLE_MAX]),
            details=reader.details,
        )
        return Projection(
            tree.turns, [draft], dict(sorted(reader.unknown.items())), broken=reader.broken
        )


class _EventReader:
    """The events of one session, in order."""

    def __init__(self) -> None:
        self.nodes: dict[str, MessageNode] = {}
        self.last: str | None = None
        self.start: Timestamp | None = None
        self.cwd = ""
        self.first_prompt = ""
        self.details: dict[str, Json] = {}
        self.unknown: dict[str, int] = {}
        self.broken = 0
        self._uses: dict[str, Mapping[str, Any]] = {}
        self._calls: list[tuple[ModelCall, int]] = []
        """Calls whose answer has not come yet, with their records."""

    def take(self, place: int, event: Mapping[str, Any] | None) -> None:
        """Read an event; what is not one is counted."""
        if event is None:
            self.broken += 1
            return
        kind, data = text(event.get("type")), mapping(event.get("data"))
        at = moment(event.get("timestamp"))
        self.start = self.start or at
        match kind:
            case "session.start" | "session.resume":
                self._see(data)
            case "user.message":
                said = text(data.get("content"))
                self.first_prompt = self.first_prompt or said
                asked = Message("user", (Text(said),), "human", at)
                self._add(event, place, at, asked, asks=True)
            case "session.usage_record":
                self._calls.append((_call(event, mapping(data.get("usage"))), place))
            case "assistant.message":
                uses = [mapping(use) for use in entries(data.get("toolRequests"))]
                self._uses |= {text(use.get("toolCallId")): use for use in uses}
                answered = Message("assistant", tuple(_parts(data, uses)), at=at)
                self._add(
                    event, place, at, answered,
                    unfinished=bool(uses), model=word(data.get("model")),
                )  # fmt: skip
            case "tool.execution_complete":
                result = _result(data)
                files = _touched(self._uses.get(result.call_id, {}), is_done=result.status == "ok")
                message = Message("tool", (result,), at=at, context=files)
                self._add(event, place, at, message, unfinished=True)
            case _:
                self._count(kind)

    def _count(self, kind: str) -> None:
        if not _BOOKKEEPING.fullmatch(kind):
            name = word(kind[:80]) or "(no type)"
            self.unknown[name] = self.unknown.get(name, 0) + 1

    def _see(self, data: Mapping[str, Any]) -> None:
        context = mapping(data.get("context"))
        self.cwd = text(context.get("cwd")) or self.cwd
        told = {
            "cwd": word(self.cwd),
            "git_branch": word(context.get("branch")),
            "version": word(data.get("copilotVersion")),
        }
        self.details |= {name: value for name, value in told.items() if value is not None}

    def _add(
        self,
        event: Mapping[str, Any],
        place: int,
        at: Timestamp | None,
        message: Message,
        *,
        asks: bool = False,
        unfinished: bool = False,
        model: str | None = None,
    ) -> None:
        id = word(event.get("id")) or f"event-{place}"
        if id in self.nodes:
            return  # A resumed session may hold an event twice.
        calls = () if message.role != "assistant" else tuple(self._calls)
        if calls:
            self._calls = []
        self.nodes[id] = MessageNode(
            id, self.last, asks, (message,), at=at, model=model, unfinished=unfinished,
            calls=tuple(call for call, _ in calls), places=(*(seat for _, seat in calls), place),
        )  # fmt: skip
        self.last = id


def _bundle(file: Path) -> TranscriptRef:
    stamp, size = stamp_of((file,))
    return TranscriptRef(ORIGIN, f"{file.parent.name}/{file.stem}", (file,), stamp, size)


def _parts(data: Mapping[str, Any], uses: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    if thought := text(data.get("reasoningText")):
        yield Reasoning(thought)
    if said := text(data.get("content")):
        yield Text(said)
    for use in uses:
        if (id := word(use.get("toolCallId"))) is not None:
            yield ToolUse(id, word(use.get("name")) or "tool", tidy(use.get("arguments")))


def _result(data: Mapping[str, Any]) -> ToolResult:
    is_ok = data.get("success") is True
    told = mapping(data.get("result") if is_ok else data.get("error") or data.get("result"))
    output = told.get("content") or told.get("message") or ""
    return ToolResult(word(data.get("toolCallId")) or "", "ok" if is_ok else "error", tidy(output))


def _touched(use: Mapping[str, Any], *, is_done: bool) -> dict[str, Json] | None:
    """Return the file that a call read or wrote, as the context of its result."""
    path = word(mapping(use.get("arguments")).get("path"))
    kind = _FILE_TOOLS.get(text(use.get("name")))
    if path is None or kind is None:
        return None
    return {"files": [TouchedFile(kind if is_done else "referenced", path).to_json()]}


def _call(event: Mapping[str, Any], used: Mapping[str, Any]) -> ModelCall:
    cached, written = number(used.get("cacheReadTokens")), number(used.get("cacheWriteTokens"))
    # Its input includes what came from the cache; ours does not.
    fresh = max(0, number(used.get("inputTokens")) - cached - written)
    usage = Usage(fresh, number(used.get("outputTokens")), cached, written)
    # The provider's id is not unique with every local model.
    return ModelCall(word(used.get("model")) or "unknown", usage, call_id=word(event.get("id")))
