"""Conversations of Cursor, of our own making: the editor's fields, and words of ours."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

SCHEMA = """
CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
"""
HEADERS = """
CREATE TABLE composerHeaders (composerId TEXT PRIMARY KEY, workspaceId TEXT, createdAt INTEGER,
  lastUpdatedAt INTEGER, isArchived INTEGER, isSubagent INTEGER, recency INTEGER,
  checkpointAt INTEGER, value TEXT, subagentTypeName TEXT);
"""
START = 1_780_000_000_000


def write(folder: Path, rows: Mapping[str, Any], *, items: Mapping[str, Any] | None = None) -> Path:
    """Write a database as the editor does; a document becomes JSON, anything else stays."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "state.vscdb"
    fresh = not file.exists()
    with closing(sqlite3.connect(file)) as connection, connection:
        if fresh:
            connection.executescript(SCHEMA)
        for table, told in (("cursorDiskKV", rows), ("ItemTable", items or {})):
            for key, value in told.items():
                data = orjson.dumps(value).decode() if isinstance(value, dict) else value
                statement = f"INSERT INTO {table} (key, value) VALUES (?, ?)"  # noqa: S608
                connection.execute(statement, (key, data))
    return file


def conversation(id: str, *bubbles: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the rows of the third generation: headers, and a row for each bubble."""
    told = [
        {**bubble, "bubbleId": bubble.get("bubbleId", f"b{n}")} for n, bubble in enumerate(bubbles)
    ]
    headers = [{"bubbleId": bubble["bubbleId"], "type": bubble.get("type")} for bubble in told]
    document = {
        "_v": 17,
        "composerId": id,
        "createdAt": START,
        "fullConversationHeadersOnly": headers,
        **more,
    }
    return {
        f"composerData:{id}": document,
        **{f"bubbleId:{id}:{bubble['bubbleId']}": bubble for bubble in told},
    }


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"_v": 3, "type": 1, "text": text, **more}


def said(text: str = "", **more: Any) -> dict[str, Any]:
    return {"_v": 3, "type": 2, "text": text, **more}


def called(name: str, call_id: str = "call-a", **more: Any) -> dict[str, Any]:
    tool = {"name": name, "toolCallId": call_id, "status": "completed", "tool": 5, **more}
    return said(toolFormerData=tool)


def transcript(file: Path, *lines: dict[str, Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return file


def line(role: str, *content: Any) -> dict[str, Any]:
    blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
    return {"role": role, "message": {"content": blocks}}


def write_sample(folder: Path) -> Path:
    """Write a database with everything a conversation may hold, and a subagent's beside it."""
    used = {"inputTokens": 90, "outputTokens": 7}
    patch = {"rawArgs": '{"target_file": "a.py"}', "params": '{"relativeWorkspacePath": "a.py"}',
             "result": '{"diff": {"chunks": []}}', "userDecision": "accepted"}  # fmt: skip
    context = {"fileSelections": [{"uri": {"fsPath": "/shop/a.py"},
                                   "range": {"selectionStartLineNumber": 3}}]}  # fmt: skip
    task = called("task_v2", "call-t", params='{"prompt": "Count."}',
                  additionalData={"subagentComposerId": "c2"})  # fmt: skip
    rows = conversation(
        "c1",
        user("Look.", context=context, createdAt="2026-06-01T10:00:00.000Z"),
        said("I look.", thinking={"text": "hm", "signature": "s"}, tokenCount=used),
        called("read_file", "call-a", **patch),
        called("edit_file", "call-b", **{**patch, "status": "error", "error": '{"message": "no"}'}),
        said("Done.", modelInfo={"modelName": "m"}, codeBlocks=[
            {"uri": {"path": "/shop/a.py"}, "content": "x = 1", "languageId": "python"}]),
        user("Ask another.", images=[{"path": "/x.png"}]),
        task,
        said("Four.", usageUuid="u1", timingInfo={"clientStartTime": START, "clientEndTime": START},
             approximateLintErrors=[{"message": "m", "uri": {"path": "/a"}}]),
        name="Shop", modelConfig={"modelName": "m"}, subagentComposerIds=["c2"],
        latestConversationSummary={"summary": {"summary": "s"}, "lastBubbleId": "b4"},
    )  # fmt: skip
    rows |= conversation("c2", user("Count."), said("Four."), subagentInfo={
        "parentComposerId": "c1", "toolCallId": "call-t"})  # fmt: skip
    rows |= {"bubbleId:c1:orphan": user("Nobody points here."), "checkpointId:c1:k": {"files": []}}
    return write(folder, rows, items={"composer.composerData": {"allComposers": []}})
