"""Chats of Gemini CLI, of our own making: the tool's fields, and words of ours."""

import json
from pathlib import Path
from typing import Any

from turntree.core.ids import instant

BEGINNING = 1_794_719_676_000
SESSION = "b4048970-2c29-48b5-8b5c-32516ea07851"
CONTEXT = "<session_context>\nThis is a chat.\n</session_context>"
META = {"sessionId": SESSION, "projectHash": "04", "startTime": instant(BEGINNING), "kind": "main"}


class Chat:
    """Writes a chat line by line, each message a second after the one before."""

    def __init__(self, step_ms: int = 1000) -> None:
        self.step_ms = step_ms
        self.lines: list[dict[str, Any]] = [{**META, "lastUpdated": instant(BEGINNING)}]
        self.clock = BEGINNING
        self.restore([self.said("ctx", CONTEXT)])

    def said(self, id: str, words: object, kind: str = "user", **more: Any) -> dict[str, Any]:
        self.clock += self.step_ms
        content = [{"text": words}] if kind == "user" and isinstance(words, str) else words
        return {
            "id": id,
            "timestamp": instant(self.clock),
            "type": kind,
            "content": content,
            **more,
        }

    def ask(self, id: str, words: object, **more: Any) -> None:
        self.lines.append(self.said(id, words, **more))

    def answer(self, id: str, words: object, **more: Any) -> None:
        told = self.said(id, words, "gemini", model="gemini-2.5-flash", **more)
        self.lines.append(told)
        self.lines.append({"$set": {"lastUpdated": told["timestamp"]}})

    def again(self, **more: Any) -> None:
        """Write the last message anew, with more in it."""
        last = next(line for line in reversed(self.lines) if "id" in line)
        self.lines.append({**last, **more})

    def exchange(self, name: str) -> None:
        self.ask(f"u{name}", f"Q{name}")
        self.answer(f"g{name}", f"A{name}")

    def restore(self, messages: list[dict[str, Any]]) -> None:
        self.lines.append({"$set": {"messages": messages, "lastUpdated": instant(self.clock)}})

    def rewind(self, id: str) -> None:
        self.lines.append({"$rewindTo": id})

    def write(self, home: Path, name: str = "session-2026-11-15T05-31-b4048970.jsonl") -> Path:
        path = home / "tmp" / "shop" / "chats" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path


def call(id: str, name: str = "run_shell_command", **more: Any) -> dict[str, Any]:
    response = {"functionResponse": {"id": id, "name": name, "response": {"output": "fine"}}}
    return {
        "id": id, "name": name, "args": {"command": "ls"}, "result": [response],
        "status": "success", "timestamp": instant(BEGINNING + 9_000), **more,
    }  # fmt: skip


def write_sample(folder: Path) -> Path:
    """Write a chat with everything one may hold, and a subagent's beside it."""
    chat = Chat()
    chat.exchange("one")
    chat.ask("u2", [{"text": "Look."}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}])
    tokens = {"input": 40, "output": 3, "cached": 9, "thoughts": 9, "tool": 2, "total": 54}
    thoughts = [{"subject": "Looking", "description": "At once."}]
    chat.answer("g2", [{"text": "a", "thought": True}, "b"], thoughts=thoughts, tokens=tokens)
    wrote = {"args": {"file_path": "/a", "paths": ["/b"]}, "resultDisplay": {"filePath": "/a"}}
    chat.again(toolCalls=[call("c1"), call("c2", "write_file", **wrote, status="error"),
                          call("c3", "delegate", agentId="sub")])  # fmt: skip
    chat.ask("r1", [call("c1")["result"][0], call("c2")["result"][0]])
    chat.answer("g3", "Fine.")
    chat.exchange("three")
    chat.rewind("uthree")
    chat.lines.append(chat.said("i1", "a note", "info"))
    chat.exchange("four")
    chat.lines.append({"$set": {"summary": "A talk"}})
    chat.write(folder)
    sub = Chat()
    sub.lines[0] = {**META, "sessionId": "sub", "kind": "subagent"}
    sub.exchange("five")
    sub.write(folder, f"{SESSION}/sub.jsonl")
    return folder
