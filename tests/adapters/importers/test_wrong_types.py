"""Members of other types than they should have: nothing in a file makes an importer raise."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from turntree.adapters.importers.codex.importer import Codex
from turntree.adapters.importers.gemini.importer import Gemini
from turntree.adapters.importers.opencode.importer import Opencode
from turntree.domain.principal import Principal
from turntree.domain.transcript import Record, seal_drafts
from turntree.ports.importers import Bundle, Importer

JUNK: list[Any] = [
    None, True, 0, -1, 2**63, 1.5, "", "x", "\x00", "2026-13-45T99:99:99Z", [], {}, [1], [[[]]],
    ["a", None], {"text": 5}, {"id": []}, {"a": {"b": [{}]}},
]  # fmt: skip
AT = "2026-11-15T05:14:36.754Z"
WORDS = [{"type": "input_text", "text": "Look."}]
USED = {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 3}

CODEX = [
    ("session_meta", {"id": "t", "timestamp": AT, "cwd": "/x", "parent_thread_id": "p",
                      "source": {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}},
                      "history_base": {"thread_id": "b", "end_byte_offset": 1}}),
    ("event_msg", {"type": "task_started", "turn_id": "01a1dda4-1a78-7540-9a00-61a12893c4bb"}),
    ("turn_context", {"turn_id": "1", "model": "m", "sandbox_policy": {"type": "x"}}),
    ("response_item", {"type": "message", "role": "user", "content": WORDS,
                       "internal_chat_message_metadata_passthrough":
                       {"turn_id": "1", "create_time": 1.5, "content_item_kinds": ["user.text"]}}),
    ("response_item", {"type": "reasoning", "summary": [{"text": "a"}], "encrypted_content": "b"}),
    ("response_item", {"type": "function_call", "name": "n", "namespace": "s", "call_id": "c",
                       "arguments": '{"message": "go"}'}),
    ("event_msg", {"type": "item_completed", "started_at_ms": 1, "completed_at_ms": 2, "item":
                   {"type": "CommandExecution", "id": "c", "exit_code": 1, "duration": {"secs": 1},
                    "parsed_cmd": [{"type": "read", "path": "/a"}]}}),
    ("event_msg", {"type": "patch_apply_end", "call_id": "c", "changes": {"/a": {"add": {}}}}),
    ("response_item", {"type": "function_call_output", "call_id": "c",
                       "output": '{"output":"x","metadata":{"exit_code":1}}'}),
    ("response_item", {"type": "web_search_call", "status": "ok", "action": {"query": "q"}}),
    ("event_msg", {"type": "token_count",
                   "info": {"total_token_usage": USED, "last_token_usage": USED}}),
    ("token_usage_record", {"response_id": "r", "usage": USED}),
    ("compacted", {"message": "m", "replacement_history": [{"type": "message"}]}),
    ("inter_agent_communication", {"author": "a", "recipient": "b", "content": "Go."}),
    ("response_item", {"type": "message", "role": "assistant", "phase": "p", "content":
                       [{"type": "output_text", "text": "Done."}]}),
    ("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
    ("event_msg", {"type": "task_complete", "turn_id": "1", "error": {"message": "m"}}),
]  # fmt: skip
CALL = {
    "id": "c", "name": "write_file", "args": {"file_path": "/a", "paths": ["/b"]},
    "status": "success", "timestamp": AT, "agentId": "s", "resultDisplay": {"filePath": "/a"},
    "result": [{"functionResponse": {"id": "c", "response": {"output": "x"}}}],
}  # fmt: skip
ASKED = {"id": "u", "timestamp": AT, "type": "user", "content": [{"text": "Look."}]}
ANSWER = {
    "id": "g", "timestamp": AT, "type": "gemini", "model": "m", "toolCalls": [CALL],
    "content": [{"text": "a", "thought": True}, {"inlineData": {"mimeType": "image/png"}}, "b"],
    "thoughts": [{"subject": "a", "description": "b"}], "tokens": {"input": 5, "cached": 2},
}  # fmt: skip
GEMINI: list[Any] = [
    {"sessionId": "t", "projectHash": "h", "kind": "main"}, ASKED, ANSWER, {"$rewindTo": "g"},
    {"$set": {"messages": [ASKED, ANSWER], "summary": "s"}},
    {"id": "i", "timestamp": AT, "type": "info", "content": "note"},
]  # fmt: skip
OPENCODE = [
    ("session", {"id": "t", "title": "x", "slug": "y",
                 "revert": {"messageID": "a", "partID": "5"}}),
    ("message", {"id": "u", "session_id": "t", "data":
                 {"role": "user", "time": {"created": 1794720621000}, "model": {"modelID": "m"}}}),
    ("message", {"id": "a", "session_id": "t", "data":
                 {"role": "assistant", "parentID": "u", "time": {"created": 1794720622000,
                  "completed": 1794720623000}, "summary": True, "error": {"name": "n"},
                  "tokens": {"input": 1, "cache": {"read": 2}}}}),
    ("part", {"id": "1", "message_id": "u", "session_id": "t", "data":
              {"type": "file", "mime": "image/png", "url": "data:,", "source": {"path": "/a",
               "range": {"start": {"line": 1}, "end": {"line": 2}}}}}),
    ("part", {"id": "2", "message_id": "u", "session_id": "t", "data":
              {"type": "compaction", "auto": True, "tail_start_id": "u"}}),
    ("part", {"id": "3", "message_id": "a", "session_id": "t", "data":
              {"type": "reasoning", "text": "t", "metadata": {"p": {"signature": "s"}}}}),
    ("part", {"id": "4", "message_id": "a", "session_id": "t", "data":
              {"type": "tool", "callID": "c", "tool": "task", "state": {"status": "completed",
               "input": {"prompt": "p"}, "output": "o", "metadata": {"sessionId": "s", "exit": 1},
               "time": {"start": 1, "end": 2}, "attachments": [{}]}}}),
    ("part", {"id": "5", "message_id": "a", "session_id": "t", "data":
              {"type": "patch", "files": ["/a"]}}),
]  # fmt: skip


def rows_of(rng: random.Random) -> Iterator[tuple[Importer, list[Record]]]:
    codex: list[Any] = [{"timestamp": AT, "type": t, "ordinal": 1, "payload": p} for t, p in CODEX]
    yield Codex(), [Record("t.jsonl", n, spoiled(line, rng)) for n, line in enumerate(codex)]
    yield Gemini(), [Record("t.jsonl", n, spoiled(line, rng)) for n, line in enumerate(GEMINI)]
    rows = [(kind, row | {"data": spoiled(row["data"], rng).decode()} if "data" in row else row)
            for kind, row in OPENCODE]  # fmt: skip
    yield Opencode(), [Record(f"o.db/{k}", n, spoiled(r, rng)) for n, (k, r) in enumerate(rows)]


def spoiled(value: Any, rng: random.Random) -> bytes:
    """Return a document in which, one time in three, a member is another than it should be."""
    value = deepcopy(value)
    if rng.random() < 1 / 3:
        *way, last = rng.choice([place for place in places_in(value) if place])
        within = value
        for step in way:
            within = within[step]
        within[last] = deepcopy(rng.choice(JUNK))
    return json.dumps(value).encode()


def places_in(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    steps = value.items() if isinstance(value, dict) else ()
    for step, member in enumerate(value) if isinstance(value, list) else steps:
        yield from places_in(member, (*way, step))


@pytest.mark.parametrize("seed", range(300))
def test_a_member_of_another_type_raises_nothing(seed: int) -> None:
    rng = random.Random(seed)
    for importer, records in rows_of(rng):
        bundle = Bundle(importer.origin, "t", (Path("t"),), "", 0)
        if rng.random() < 1 / 4:
            rng.shuffle(records)
        projection = importer.project(bundle, records)
        list(seal_drafts(projection, Principal("agent", importer.origin)))
