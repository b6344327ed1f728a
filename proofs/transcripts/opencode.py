"""Sessions of opencode, of our own making: the tool's fields, and words of ours."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

BEGINNING = 1_794_720_621_000
SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, parent_id text, slug text, directory text, title text,
  version text, revert text, model text, time_created integer, time_updated integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer,
  time_updated integer, data text);
CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, time_created integer,
  time_updated integer, data text);
"""


class Talk:
    """A session, message by message; ids carry a prefix, so that a copy can have others."""

    def __init__(self, id: str = "ses_1", *, prefix: str = "", **told: Any) -> None:
        self.id, self.prefix = id, prefix
        self.told = {"directory": "/shop", "title": "A talk", "version": "1.18.33", **told}
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.parts: list[tuple[str, str, dict[str, Any]]] = []
        self.clock = BEGINNING

    def say(self, told: dict[str, Any], parts: list[dict[str, Any]]) -> str:
        self.clock += 1000
        id = f"msg_{self.prefix}{len(self.messages):05}"
        self.messages.append((id, {"time": {"created": self.clock}, **told}))
        for part in parts:
            self.parts.append((f"prt_{self.prefix}{len(self.parts):05}", id, part))
        return id

    def ask(self, *parts: str | dict[str, Any], **more: Any) -> str:
        found = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
        model = {"providerID": "anthropic", "modelID": "opus"}
        return self.say({"role": "user", "agent": "build", "model": model, **more}, found)

    def answer(self, *parts: str | dict[str, Any], **more: Any) -> str:
        asked = next(id for id, told in reversed(self.messages) if told["role"] == "user")
        found = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
        told = {
            "role": "assistant", "parentID": asked, "modelID": "opus", "providerID": "anthropic",
            "finish": "stop", "time": {"created": self.clock, "completed": self.clock + 500},
        }  # fmt: skip
        return self.say({**told, **more}, [{"type": "step-start"}, *found])

    def exchange(self, name: str) -> tuple[str, str]:
        return self.ask(f"Q{name}"), self.answer(f"A{name}")


def tool(id: str, name: str = "bash", *, input: Any = None, **state: Any) -> dict[str, Any]:
    times = {"start": BEGINNING, "end": BEGINNING + 40}
    told = {"status": "completed", "input": input or {"command": "ls"}, "output": "fine",
            "metadata": {"exit": 0}, "time": times}  # fmt: skip
    return {"type": "tool", "callID": id, "tool": name, "state": told | state}


def write_rows(folder: Path, *talks: Talk) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "opencode.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(SCHEMA)
        for talk in talks:
            told = {"parent_id": None, "slug": None, "revert": None, "model": None} | talk.told
            connection.execute(
                "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (talk.id, told["parent_id"], told["slug"], told["directory"], told["title"],
                 told["version"], told["revert"], told["model"], BEGINNING, talk.clock),
            )  # fmt: skip
            connection.executemany(
                "INSERT INTO message VALUES (?, ?, ?, 0, ?)",
                [(id, talk.id, told["time"]["created"], json.dumps(told))
                 for id, told in talk.messages],
            )  # fmt: skip
            connection.executemany(
                "INSERT INTO part VALUES (?, ?, ?, 0, 0, ?)",
                [(id, message, talk.id, json.dumps(told)) for id, message, told in talk.parts],
            )
    return path


def write_files(folder: Path, *talks: Talk) -> Path:
    storage = folder / "storage"
    for talk in talks:
        told = {"parentID": talk.told.get("parent_id"), **talk.told, "id": talk.id}
        put(storage / "session" / "project" / f"{talk.id}.json", told)
        for id, message in talk.messages:
            told = {**message, "id": id, "sessionID": talk.id}
            put(storage / "message" / talk.id / f"{id}.json", told)
        for id, within, part in talk.parts:
            told = {**part, "id": id, "messageID": within, "sessionID": talk.id}
            put(storage / "part" / within / f"{id}.json", told)
    return storage


def put(path: Path, told: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told))


def write_sample(folder: Path) -> Path:
    """Write a session with everything one may hold, and a subagent's beside it."""
    talk = Talk()
    talk.exchange("one")
    source = {"type": "file", "path": "/shop/a.py", "range": {"start": {"line": 1}}}
    talk.ask("Look.", {"type": "file", "mime": "image/png", "url": "data:,x", "source": source})
    talk.answer(
        {"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "s"}}},
        tool("c1", "read", input={"filePath": "/shop/a.py"}),
        tool("c2", "task", input={"prompt": "Count."}, metadata={"sessionId": "ses_2"}),
        tool("c3", status="error", error="no", output=None),
        tool("c4", status="running", output=None),
        {"type": "patch", "hash": "h", "files": ["/shop/a.py"]},
        {"type": "step-finish", "tokens": {"input": 1}},
        tokens={"input": 5, "output": 6, "reasoning": 1, "cache": {"read": 2, "write": 3}},
        error={"name": "MessageAbortedError", "data": {"message": "m"}},
    )
    talk.ask({"type": "compaction", "auto": True, "tail_start_id": "msg_00002"})
    talk.answer("A shop.", summary=True, mode="compaction")
    talk.exchange("two")
    child = Talk("ses_2", prefix="x", parent_id="ses_1")
    child.exchange("three")
    write_rows(folder, talk, child)
    return folder
