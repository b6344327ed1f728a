"""Files of messages in all three shapes; what they say is of our own making."""

from pathlib import Path
from typing import Any

import orjson

CHAT: list[Any] = [
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "see"},
                                 {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
                                 {"type": "image_url", "image_url": {"url": "data:image/png,x"}},
                                 {"type": "input_audio", "input_audio": {"data": "…"}}]},
    {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"p": "/"}'}},
        {"id": "c1", "type": "function", "function": {"name": "cat", "arguments": "not json"}},
        {"id": "c3", "type": "custom", "custom": {"name": "sh", "input": "echo"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "a"},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "b"}]},
    {"role": "assistant", "content": "done", "name": "bot"},
    {"role": "user", "content": "again"},
    {"role": "tool", "tool_call_id": "c3", "content": "late"},
    {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
    {"role": "function", "name": "old", "content": "fine"},
    {"role": "assistant", "content": "bye", "refusal": "no"},
]  # fmt: skip
ANTHROPIC: dict[str, Any] = {
    "model": "claude-x", "system": [{"type": "text", "text": "be kind"}], "max_tokens": 5,
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "xx"},
            {"type": "text", "text": "I look", "citations": [{"u": 1}]},
            {"type": "tool_use", "id": "t1", "name": "ls", "input": {"p": "/"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no"}]},
        {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-y",
         "content": [{"type": "text", "text": "sorry"}], "stop_reason": "end_turn",
         "usage": {"input_tokens": 5, "cache_read_input_tokens": 7,
                   "cache_creation_input_tokens": 2, "output_tokens": 3}},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "lost", "content": "?"},
            {"type": "text", "text": "next"}]},
    ],
}  # fmt: skip
RESPONSES: dict[str, Any] = {
    "id": "resp_1", "model": "gpt-5", "created_at": 1_780_000_000, "instructions": "be brief",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "go"}]}],
    "output": [
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "plan"}],
         "encrypted_content": "secret"},
        {"type": "function_call", "call_id": "f1", "name": "ls", "arguments": '{"p": 1}'},
        {"type": "function_call_output", "call_id": "f1", "output": "a"},
        {"type": "custom_tool_call", "call_id": "f2", "name": "sh", "input": "echo"},
        {"type": "custom_tool_call_output", "call_id": "f2", "output": "b"},
        {"type": "mcp_call", "id": "m", "name": "q", "arguments": "{}", "error": "bad"},
        {"type": "web_search_call", "id": "w", "status": "completed"},
        {"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "done", "annotations": [{"a": 1}]}]},
    ],
    "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4},
              "output_tokens": 6, "output_tokens_details": {"reasoning_tokens": 2}},
}  # fmt: skip


def write(folder: Path, document: Any, name: str = "talk.json") -> Path:
    (folder / name).write_bytes(orjson.dumps(document))
    return folder / name


def write_sample(folder: Path) -> Path:
    """Write a file of each shape."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, CHAT, "chat.json")
    write(folder, ANTHROPIC, "anthropic.json")
    write(folder, RESPONSES, "responses.json")
    lines = b"".join(orjson.dumps({"messages": CHAT[: 2 + n]}) + b"\n" for n in range(6))
    (folder / "lines.jsonl").write_bytes(lines)
    return folder
