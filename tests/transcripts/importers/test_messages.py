"""Files of messages, of all three shapes; what they say is synthetic."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from proofs.transcripts.mangle import mangled
from proofs.transcripts.messages import ANTHROPIC, CHAT, RESPONSES, write
from turntree.core.message import Media, OpaquePart, Reasoning, Text, ToolResult, ToolUse
from turntree.core.principal import Principal
from turntree.core.usage import ModelCall, Usage
from turntree.ledger.raw_codec import RawRecord
from turntree.testing.contracts.importer import check_importer
from turntree.transcripts.drafts import Projection, seal_drafts
from turntree.transcripts.importers.messages.importer import MessagesImporter


def told(path: Path) -> Projection:
    importer = MessagesImporter()
    (bundle,) = importer.open(path)
    return importer.project(bundle, list(importer.read(bundle)))


def parts_of(projection: Projection) -> list[Any]:
    return [part for turn in projection.turns for said in turn.reply for part in said.parts]


def test_a_list_of_chat_messages_is_a_session(tmp_path: Path) -> None:
    projection = told(write(tmp_path, CHAT))
    first, second = projection.turns
    assert [(m.role, m.text) for m in first.query] == [("system", "be brief"), ("user", "see")]
    assert first.query[1].parts[1:] == (
        Media("image", "image/*", url="https://a/b.png"),
        OpaquePart({"kind": "openai/image_url", "value": CHAT[1]["content"][2]}),
        OpaquePart({"kind": "openai/input_audio", "value": CHAT[1]["content"][3]}),
    )
    assert parts_of(projection) == [
        Reasoning("hm"),
        ToolUse("c1", "ls", {"p": "/"}),
        ToolUse("c1#1", "cat", "not json"),
        ToolUse("c3", "sh", "echo"),
        ToolResult("c1", "ok", "a"),
        ToolResult("c1#1", "ok", [{"type": "text", "text": "b"}]),
        Text("done"),
        ToolUse("c3", "unknown", {}),
        ToolResult("c3", "ok", "late"),
        ToolUse("call_8", "old", {}),
        ToolResult("call_8", "ok", "fine"),
        Text("bye"),
        OpaquePart({"kind": "openai/refusal", "value": "no"}),
    ]
    assert first.reply[-1].meta == {"messages": {"name": "bot"}}
    assert (second.parent, second.provider) == (first.key, "openai")
    assert projection.sessions[0].label == "messages/talk"
    assert len(sealed(projection)) == 2


def test_anthropics_messages_answer_with_results_in_the_users_message(tmp_path: Path) -> None:
    projection = told(write(tmp_path, ANTHROPIC))
    first, second = projection.turns
    assert [(m.role, m.text) for m in first.query] == [("system", "be kind"), ("user", "hi")]
    assert parts_of(projection) == [
        Reasoning("hm", "sig"),
        OpaquePart({"kind": "anthropic/redacted_thinking",
                "value": {"type": "redacted_thinking", "data": "xx"}}),
        Text("I look"),
        OpaquePart({"kind": "anthropic/citations", "value": [{"u": 1}]}),
        ToolUse("t1", "ls", {"p": "/"}),
        ToolResult("t1", "error", "no"),
        Text("sorry"),
        ToolUse("lost", "unknown", {}),
        ToolResult("lost", "ok", "?"),
    ]  # fmt: skip
    assert (first.model, first.provider) == ("claude-y", "anthropic")
    used = Usage(input=5, output=3, cached_input=7, cache_write=2)
    assert first.calls == (ModelCall("claude-y", used, "anthropic", "msg_1"),)
    assert (second.query[0].text, second.outcome, second.open) == ("next", "interrupted", True)
    assert projection.sessions[0].details == {"model": "claude-x", "max_tokens": 5}


def test_items_of_a_response_are_read_and_unknown_ones_kept(tmp_path: Path) -> None:
    projection = told(write(tmp_path, RESPONSES))
    (turn,) = projection.turns
    assert parts_of(projection) == [
        Reasoning("plan", "secret"),
        ToolUse("f1", "ls", {"p": 1}),
        ToolResult("f1", "ok", "a"),
        ToolUse("f2", "sh", "echo"),
        ToolResult("f2", "ok", "b"),
        ToolUse("m", "q", {}),
        ToolResult("m", "error", "bad"),
        OpaquePart({"kind": "openai/web_search_call", "value": RESPONSES["output"][6]}),
        Text("done"),
        OpaquePart({"kind": "openai/annotations", "value": [{"a": 1}]}),
    ]
    used = Usage(input=6, output=6, cached_input=4, reasoning=2)
    assert turn.calls == (ModelCall("gpt-5", used, "openai", "resp_1"),)
    assert turn.started_at == "2026-05-28T20:26:40.000Z"
    assert turn.model == "gpt-5"


def test_lines_are_messages_or_conversations(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(map(orjson.dumps, CHAT)))
    assert len(told(tmp_path / "a.jsonl").turns) == 2
    (tmp_path / "b.jsonl").write_bytes(
        b"\n".join(orjson.dumps({"messages": CHAT}) for _ in range(3)) + b'\n{"messages": [{"cut'
    )
    projection = told(tmp_path / "b.jsonl")
    assert [session.label for session in projection.sessions] == [
        "messages/b-0", "messages/b-1", "messages/b-2",
    ]  # fmt: skip
    assert len({turn.sealed.turn.id for turn in sealed(projection)}) == 2, "equal turns are one"
    assert projection.broken == 1


def test_an_answer_of_chat_completions_counts_its_tokens(tmp_path: Path) -> None:
    answer = {
        "id": "chatcmpl-1", "model": "gpt", "messages": [{"role": "user", "content": "q"}],
        "choices": [{"message": {"role": "assistant", "content": "a"}}],
        "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4},
                  "completion_tokens": 2},
    }  # fmt: skip
    (turn,) = told(write(tmp_path, answer)).turns
    assert turn.calls[0].usage == Usage(input=5, output=2, cached_input=4)


@pytest.mark.parametrize(
    "document",
    [
        [{"mapping": {}, "id": "x"}],
        [{"uuid": "x", "chat_messages": []}],
        {"type": "user", "message": {"role": "user", "content": "x"}, "sessionId": "s"},
        {"role": "user", "message": {"content": []}},
        {"kind": "request", "parts": []},
        {"messages": []},
        {"role": ["user"], "content": ""},
        [],
        7,
    ],
)
def test_a_file_of_another_tool_is_left_alone(tmp_path: Path, document: Any) -> None:
    assert list(MessagesImporter().open(write(tmp_path, document))) == []
    assert list(MessagesImporter().open(write(tmp_path, document, "x.jsonl"))) == []
    assert list(MessagesImporter().open(write(tmp_path, document, "x.txt"))) == []


@pytest.mark.parametrize(
    "document", [CHAT, ANTHROPIC, RESPONSES], ids=["chat", "anthropic", "items"]
)
def test_nothing_that_makes_no_sense_raises(tmp_path: Path, document: Any) -> None:
    importer = MessagesImporter()
    (bundle,) = importer.open(write(tmp_path, document))
    for strange in mangled(document, 300):
        listed = strange if isinstance(strange, list) else [strange]
        records = [
            RawRecord("talk.json", n, json.dumps(one).encode()) for n, one in enumerate(listed)
        ]
        list(seal_drafts(importer.project(bundle, records), Principal("agent", "messages")))


def test_the_contract_holds(tmp_path: Path) -> None:
    for number, document in enumerate((CHAT, ANTHROPIC, RESPONSES)):
        write(tmp_path, document, f"{number}.json")
    (tmp_path / "c.jsonl").write_bytes(b'{"role":"user","content":"\\ud83d \\u0000"}\n{"role":"ass')
    assert len(check_importer(MessagesImporter(), tmp_path)) == 6


def sealed(projection: Projection) -> list[Any]:
    return list(seal_drafts(projection, Principal("agent", "messages")))
