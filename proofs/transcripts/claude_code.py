"""Sessions of Claude Code, of our own making: the tool's fields, and words of ours."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

A = "aaaaaaaa-0000-4000-8000-000000000001"
B = "bbbbbbbb-0000-4000-8000-000000000002"
SLUG = "-home-ada-engine"
USED = {
    "input_tokens": 3,
    "output_tokens": 5,
    "cache_read_input_tokens": 7,
    "cache_creation_input_tokens": 11,
    "output_tokens_details": {"thinking_tokens": 2},
}


class Tape:
    """Writes down a session as the tool does: each record follows the one before."""

    def __init__(self, session: str = A, **envelope: Any) -> None:
        self.records: list[dict[str, Any]] = []
        self.session = session
        self.last: str | None = None
        self._envelope = {"isSidechain": False, "cwd": "/home/ada/engine", "version": "2.1.325",
                          "gitBranch": "main", "entrypoint": "cli", **envelope}  # fmt: skip

    def add(self, kind: str, uuid: str, **members: Any) -> str:
        parent = members.pop("after", self.last)
        self.records.append({
            "parentUuid": parent, "type": kind, "uuid": uuid, "sessionId": self.session,
            "timestamp": f"2026-11-15T09:00:{len(self.records):02d}.398Z",
            **self._envelope, **members,
        })  # fmt: skip
        self.last = uuid
        return uuid

    def prompt(self, uuid: str, words: Any, **members: Any) -> str:
        return self.add("user", uuid, message={"role": "user", "content": words}, **members)

    def answer(self, uuid: str, id: str, *blocks: Any, **members: Any) -> str:
        content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        asks = any(block["type"] == "tool_use" for block in content)
        message = {
            "id": id, "role": "assistant", "model": "claude-opus-5-5", "content": content,
            "stop_reason": "tool_use" if asks else "end_turn", "usage": USED,
            **members.pop("message", {}),
        }  # fmt: skip
        return self.add("assistant", uuid, message=message, **members)

    def result(self, uuid: str, call: str, content: Any = "done", **members: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        block |= members.pop("block", {})
        return self.prompt(uuid, [block], **members)

    def exchange(self, name: str, words: str = "", **members: Any) -> str:
        self.prompt(f"{name}?", words or name, **members)
        return self.answer(f"{name}!", f"msg_{name}", f"{name} is done")

    def note(self, kind: str, **members: Any) -> None:
        self.records.append({"type": kind, "sessionId": self.session, **members})

    def copy(self, session: str) -> "Tape":
        """Return what ``--fork-session`` writes: the same uuids under other names."""
        other = Tape(session)
        other.records = [
            {**record, "sessionId": session, **({"promptId": "p2"} if "promptId" in record else {})}
            for record in self.records
        ]
        other.last = self.last
        return other


def call(id: str, name: str = "Bash", **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": args}


def save(root: Path, tape: Tape, *, agent: str = "", meta: Mapping[str, Any] | None = None) -> Path:
    project = root / "projects" / SLUG
    file = project / f"{tape.session}.jsonl"
    if agent:
        file = project / tape.session / "subagents" / f"agent-{agent}.jsonl"
    return write(file, tape.records, meta)


def write(
    file: Path, records: Sequence[Mapping[str, Any]], meta: Mapping[str, Any] | None = None
) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    if meta is not None:
        file.with_suffix(".meta.json").write_text(json.dumps(meta), encoding="utf-8")
    return file


def write_sample(folder: Path) -> Path:
    """Write a session with everything a session may hold: tools, a fork, a subagent, a summary."""
    tape = Tape()
    tape.note("summary", summary="A talk about engines", leafUuid="d!")
    tape.prompt("a?", "Look at `engine.py`.", promptId="p1", permissionMode="default")
    thought = {"type": "thinking", "thinking": "Both at once.", "signature": "c2ln"}
    tape.answer("a1", "msg_a", thought)
    tape.answer("a2", "msg_a", call("t1", "Read", file_path="/home/ada/engine/engine.py"))
    first = tape.answer("a3", "msg_a", call("t2", "Edit", file_path="/home/ada/engine/x.py"))
    told = {"type": "update", "filePath": "/home/ada/engine/x.py", "structuredPatch": []}
    tape.result("r1", "t1", [{"type": "text", "text": "wheels"}], after="a2")
    tape.result("r2", "t2", "no", block={"is_error": True}, after=first, toolUseResult=told)
    tape.answer("a4", "msg_b", "Done.", requestId="req_1")
    tape.exchange("b")
    tape.exchange("c", after="a4")
    tape.prompt("d?", [{"type": "text", "text": "Ask another."}, {
        "type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
    }])  # fmt: skip
    tape.answer("d1", "msg_d", call("t3", "Task", prompt="Count the wheels.", description="count"))
    tape.result("d2", "t3", "four", toolUseResult={"agentId": "a9", "status": "completed"})
    tape.answer("d!", "msg_e", "Four.")
    tape.add("system", "s1", subtype="compact_boundary", after=None, logicalParentUuid="d!",
             compactMetadata={"trigger": "auto", "preTokens": 900})  # fmt: skip
    tape.prompt("s2", "This is what was said: wheels.", isCompactSummary=True)
    tape.exchange("e")
    tape.note("file-history-snapshot", messageId="e?", snapshot={"trackedFileBackups": {}})
    tape.note("queue-operation", operation="enqueue", content="later")
    tape.note("custom-title", customTitle="Engines")
    side = Tape(isSidechain=True, agentId="a9")
    side.exchange("x", "Count the wheels.")
    save(folder, side, agent="a9", meta={"agentType": "general", "toolUseId": "t3"})
    save(folder, tape.copy(B))
    save(folder, tape)
    return folder
