"""Export a session that opencode can continue: a file for ``opencode import``.

Knows the document that ``opencode export`` writes and ``opencode import`` reads: a session, its
messages and their parts, with ids that sort by time. opencode stores its sessions in a database,
and we never write into another tool's database.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from turntree.core.ids import unix_ms
from turntree.core.message import Media, Text, ToolResult, ToolUse
from turntree.models.portable_thread import PortableMessage, fit, note_of, text_of
from turntree.transcripts.exporter import HandoffFiles, HandoffRequest, NewFile
from turntree.transcripts.exporters.shared import (
    arguments_of,
    find_data,
    json_line,
    spoken,
    tool_name,
)
from turntree.transcripts.importer import ToolPaths

PROVIDER: Final = "opencode"
CALL_PREFIX: Final = "call_"
VERSION: Final = "1.18.33"
"""The version that wrote this format."""
AGENT: Final = "build"
PLACES_PER_MS: Final = 0x1000
_TIME_BITS: Final = 48
_ENDING_CHARS: Final = 14
_NO_TOKENS: Final = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


class OpencodeExporter:
    """Writes sessions for opencode. See ``exporter``."""

    tool = "opencode"
    program = "opencode"
    install = "npm install -g opencode-ai"

    def plan(
        self, told: Sequence[PortableMessage], order: HandoffRequest, places: ToolPaths
    ) -> HandoffFiles:
        """Return the document, the command that reads it and the one that continues it."""
        data = places.environ.get("XDG_DATA_HOME")
        root = Path(data) if data else places.home / ".local/share"
        ids = _Ids(order)
        session = ids.session
        path = root / "opencode" / "turntree" / f"{session}.json"
        document = render(told, order)
        messages = [message["info"]["id"] for message in document["messages"]]
        return HandoffFiles(
            session=session,
            files=(NewFile(path, json_line(document) + "\n"),),
            resume=(self.program, "--session", session),
            prepare=(self.program, "import", str(path)),
            mark=ids.ending if messages else None,
            last=messages[-1] if messages else None,
        )


def render(told: Sequence[PortableMessage], order: HandoffRequest) -> dict[str, Any]:
    """Return the document of a session. Pure: equal input, equal document."""
    ids, at = _Ids(order), unix_ms(order.at)
    return {
        "info": {
            "id": ids.session,
            "slug": f"turntree-{order.session[-8:]}",
            "projectID": "global",
            "directory": str(order.folder),
            "title": order.title,
            "version": VERSION,
            "time": {"created": at, "updated": at},
        },
        "messages": list(_messages(told, order, ids)),
    }


@dataclass(slots=True)
class _Ids:
    """Ids as opencode makes them: 48 bits of time and a counter, then a free suffix."""

    order: HandoffRequest
    count: int = 0

    @property
    def session(self) -> str:
        """The session's id; session ids sort in reverse, the newest first."""
        mask = (1 << _TIME_BITS) - 1
        return f"ses_{self._moment(0) ^ mask:012x}{self.ending}"

    def next(self, prefix: str) -> str:
        """Return an id that sorts after all earlier ones."""
        self.count += 1
        return f"{prefix}_{self._moment(self.count):012x}{self.ending}"

    @property
    def ending(self) -> str:
        """The suffix of all ids of this session, and of no others."""
        return self.order.session.replace("-", "")[-_ENDING_CHARS:]

    def _moment(self, count: int) -> int:
        return (unix_ms(self.order.at) * PLACES_PER_MS + count) % (1 << _TIME_BITS)


def _messages(
    told: Sequence[PortableMessage], order: HandoffRequest, ids: _Ids
) -> Iterator[dict[str, Any]]:
    fitted = fit(told, provider=PROVIDER, call_prefix=CALL_PREFIX)
    results = {
        part.call_id: part for said in fitted for part in said.parts if isinstance(part, ToolResult)
    }
    asked = ""
    for said, answer in zip(fitted, _answers(fitted), strict=True):
        if said.role == "tool":
            continue  # Its results are in the parts of their calls.
        id = ids.next("msg")
        frame = {"id": id, "sessionID": ids.session, "agent": AGENT}
        if said.role == "assistant":
            info = {**frame, "parentID": asked, **_answered(said, order)}
        else:
            asked = id
            info = {**frame, **_asked(said, answer)}
        parts = [_part(part, results, unix_ms(said.at)) for part in spoken(said).parts]
        belongs = {"sessionID": ids.session, "messageID": id}
        yield {"info": info, "parts": [{**p, "id": ids.next("prt"), **belongs} for p in parts]}


def _answers(told: Sequence[PortableMessage]) -> list[PortableMessage]:
    """Return, for each message, the answer that follows: it names the model."""
    answers: list[PortableMessage] = []
    for said in reversed(told):
        answers.append(said if said.role == "assistant" or not answers else answers[-1])
    return answers[::-1]


def _asked(said: PortableMessage, answer: PortableMessage) -> dict[str, Any]:
    model = {
        "providerID": answer.provider or "unknown",
        "modelID": answer.model or "unknown",
    }
    return {"role": "user", "time": {"created": unix_ms(said.at)}, "model": model}


def _answered(said: PortableMessage, order: HandoffRequest) -> dict[str, Any]:
    at, folder = unix_ms(said.at), str(order.folder)
    calls = any(isinstance(part, ToolUse) for part in said.parts)
    return {
        "role": "assistant",
        "mode": AGENT,
        "path": {"cwd": folder, "root": folder},
        "cost": 0,
        "tokens": _NO_TOKENS,
        "modelID": said.model or "unknown",
        "providerID": said.provider or "unknown",
        "time": {"created": at, "completed": at},
        "finish": "tool-calls" if calls else "stop",
    }


def _part(part: object, results: Mapping[str, ToolResult], at: int) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolUse(call_id, tool, args):
            state = {"input": arguments_of(args), "time": {"start": at, "end": at}}
            ended = {**state, **_ended(results[call_id], tool)}
            return {"type": "tool", "callID": call_id, "tool": tool_name(tool), "state": ended}
        case Media() as media if find_data(media.url) is not None:
            name = media.name or media.kind
            return {"type": "file", "mime": media.media_type, "filename": name, "url": media.url}
        case Media() as media:
            return {"type": "text", "text": note_of(media)}
        case _:
            raise AssertionError(f"{part} was handed over")


def _ended(result: ToolResult, tool: str) -> dict[str, Any]:
    text = text_of(result.output)
    if result.status != "ok":
        return {"status": "error", "error": text or result.status}
    return {"status": "completed", "output": text, "title": tool, "metadata": {}}
