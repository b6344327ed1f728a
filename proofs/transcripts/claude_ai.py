"""Exports of Claude.ai, of our own making: the service's fields, and words of ours."""

from pathlib import Path
from typing import Any

import orjson

ROOT = "00000000-0000-4000-8000-000000000000"


def message(id: str, sender: str, *content: Any, parent: str | None = None, **more: Any) -> Any:
    blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
    told = {
        "uuid": id, "sender": sender, "text": "", "content": blocks, "attachments": [],
        "files": [], "created_at": "2026-06-01T10:00:00.000000Z",
    }  # fmt: skip
    return {**told, **({"parent_message_uuid": parent} if parent else {}), **more}


def write(folder: Path, *messages: Any, **more: Any) -> Path:
    conversation = {"uuid": "c1", "name": "A name", "created_at": "2026-06-01T09:00:00Z",
                    "updated_at": "2026-06-01T11:00:00Z", "account": {"uuid": "acc"},
                    "chat_messages": list(messages), **more}  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conversations.json").write_bytes(orjson.dumps([conversation]))
    return folder / "conversations.json"


def write_sample(folder: Path) -> Path:
    """Write a conversation with every kind of content, and a branch."""
    use = {"type": "tool_use", "id": "t1", "name": "artifacts",
           "input": {"command": "create", "path": "a.py", "content": "x"}}  # fmt: skip
    result = {"type": "tool_result", "tool_use_id": "t1", "name": "artifacts", "is_error": False,
              "content": [{"type": "text", "text": "OK"}]}  # fmt: skip
    thinking = {"type": "thinking", "thinking": "hm", "summaries": [{"summary": "s"}]}
    file = {"file_name": "a.txt", "file_type": "txt", "file_size": 2, "extracted_content": "hi"}
    return write(
        folder,
        message("1", "human", "q1", parent=ROOT, attachments=[file], files=[{"file_name": "b"}]),
        message("2", "assistant", thinking, "I look.", use, result, "Done.", parent="1"),
        message("3", "human", "q2", parent="2"),
        message("4", "assistant", "a2", {"type": "token_budget"}, parent="3"),
        message("5", "human", text="q3", parent="2"),
        message("6", "assistant", text="a3", parent="5", content=[]),
        summary="A talk", settings={}, project={"uuid": "p"}, current_leaf_message_uuid="6",
    )  # fmt: skip
