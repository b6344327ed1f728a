"""Export a session that Gemini CLI can continue: a file for ``gemini --session-file``.

Knows the records of Gemini CLI: one per message, with the model's calls and their results in one
record. Gemini CLI copies the file into a session of its own, so none of its indexes has to be
written. Thoughts are left out: a session holds no signatures for them.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turntree.core.canonical import digest_bytes
from turntree.core.message import Media, Text, ToolResult, ToolUse
from turntree.models.portable_thread import PortableMessage, fit, note_of, text_of
from turntree.transcripts.exporter import HandoffFiles, HandoffRequest, NewFile
from turntree.transcripts.exporters.shared import (
    arguments_of,
    find_data,
    json_lines,
    mark_of,
    marked_id,
    spoken,
    tool_name,
)
from turntree.transcripts.importer import ToolPaths

PROVIDER: Final = "google"
CALL_PREFIX: Final = "call_"


class GeminiExporter:
    """Writes sessions for Gemini CLI. See ``exporter``."""

    tool = "gemini"
    program = "gemini"
    install = "npm install -g @google/gemini-cli"

    def plan(
        self, told: Sequence[PortableMessage], order: HandoffRequest, places: ToolPaths
    ) -> HandoffFiles:
        """Return the session's file and the command that continues it."""
        named = places.environ.get("GEMINI_CLI_HOME")
        home = (Path(named) if named else places.home) / ".gemini"
        path = home / "turntree" / f"session-{order.session}.jsonl"
        records = list(render(told, order))
        ids = [record["id"] for record in records if "id" in record]
        return HandoffFiles(
            session=order.session,
            files=(NewFile(path, json_lines(records)),),
            resume=(self.program, "--session-file", str(path)),
            mark=mark_of(order) if ids else None,
            last=ids[-1] if ids else None,
        )


def render(told: Sequence[PortableMessage], order: HandoffRequest) -> Iterator[dict[str, Any]]:
    """Yield the records of a session, in order. Pure: equal input, equal records."""
    yield {
        "sessionId": order.session,
        "projectHash": digest_bytes(str(order.folder).encode()).removeprefix("sha256:"),
        "startTime": order.at,
        "lastUpdated": order.at,
        "kind": "main",
    }
    fitted = fit(told, provider=PROVIDER, call_prefix=CALL_PREFIX)
    results = {
        part.call_id: part for said in fitted for part in said.parts if isinstance(part, ToolResult)
    }
    for place, said in enumerate(fitted):
        if said.role == "tool":
            continue  # Its results are in the records of their calls.
        yield {"id": marked_id(order, place), "timestamp": said.at, **_message(said, results)}


def _message(said: PortableMessage, results: Mapping[str, ToolResult]) -> dict[str, Any]:
    content = [_part(part) for part in spoken(said).parts if isinstance(part, Text | Media)]
    if said.role != "assistant":
        return {"type": "user", "content": content}
    calls = [_call(part, results, said) for part in said.parts if isinstance(part, ToolUse)]
    document = {"type": "gemini", "content": content, "model": said.model or "unknown"}
    return {**document, "toolCalls": calls} if calls else document


def _part(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    data = find_data(part.url)
    if data is None:
        return {"text": note_of(part)}
    return {"inlineData": {"mimeType": data[0], "data": data[1]}}


def _call(use: ToolUse, results: Mapping[str, ToolResult], said: PortableMessage) -> dict[str, Any]:
    result = results[use.call_id]
    name, text = tool_name(use.tool), text_of(result.output)
    answer = {"output": text} if result.status == "ok" else {"error": text or result.status}
    response = {"id": use.call_id, "name": name, "response": answer}
    return {
        "id": use.call_id,
        "name": name,
        "args": arguments_of(use.args),
        "result": [{"functionResponse": response}],
        "status": "success" if result.status == "ok" else "error",
        "timestamp": said.at,
    }
