"""Claude.ai's export, from conversations that this file makes: they are synthetic throughout."""

import json
from pathlib import Path
from typing import Any

from proofs.transcripts.claude_ai import ROOT, message, write
from proofs.transcripts.mangle import mangled
from turntree.core.message import Media, OpaquePart, Reasoning, Text, ToolResult, ToolUse
from turntree.core.message_context import TouchedFile, files_of
from turntree.core.principal import Principal
from turntree.ledger.raw_codec import RawRecord
from turntree.testing.contracts.importer import check_importer
from turntree.transcripts.drafts import Projection, seal_drafts
from turntree.transcripts.importers.chatgpt.importer import ChatGptImporter
from turntree.transcripts.importers.claude_ai import ClaudeAiImporter


def told(path: Path) -> Projection:
    importer = ClaudeAiImporter()
    (bundle,) = importer.open(path)
    return importer.project(bundle, list(importer.read(bundle)))


def test_without_parents_a_message_follows_the_one_before_it(tmp_path: Path) -> None:
    projection = told(
        write(
            tmp_path,
            message("1", "human", "q1"),
            message("2", "assistant", "a1"),
            message("3", "human", text="q2"),
            message("4", "assistant", text="a2"),
        )
    )
    first, second = projection.turns
    assert (second.parent, second.query[0].text, second.reply[0].text) == (first.key, "q2", "a2")
    assert projection.sessions[0].head == "4"
    assert projection.sessions[0].title == "A name"
    assert first.provider == "anthropic"


def test_parents_make_a_tree_and_the_current_leaf_is_the_head(tmp_path: Path) -> None:
    projection = told(
        write(
            tmp_path,
            message("1", "human", "q", parent=ROOT),
            message("2", "assistant", "a", parent="1"),
            message("3", "assistant", "again", parent="1"),
            message("4", "human", "edited", parent=ROOT),
            message("5", "assistant", "b", parent="4"),
            current_leaf_message_uuid="3",
        )
    )
    assert {turn.key: turn.parent for turn in projection.turns} == {"2": None, "3": None, "5": None}
    assert projection.sessions[0].head == "3"


def test_every_block_is_kept(tmp_path: Path) -> None:
    result = {"type": "tool_result", "name": "search", "is_error": False, "content": [{"n": 1}]}
    stop = "2026-06-01T10:05:00Z"
    answer = message(
        "2", "assistant",
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "tool_use", "name": "search", "input": {"q": 1}},
        result,
        {"type": "tool_use", "id": "x", "name": "fetch", "input": {}},
        {"type": "tool_result", "tool_use_id": "x", "is_error": True, "content": "no"},
        {"type": "tool_result", "name": "lost", "content": "out of nowhere"},
        {"type": "token_budget", "remaining": 5},
        {"type": "text", "text": "done", "citations": [{"url": "u"}], "stop_timestamp": stop},
    )  # fmt: skip
    (turn,) = told(write(tmp_path, message("1", "human", "q"), answer)).turns
    assert [part for said in turn.reply for part in said.parts] == [
        Reasoning("hm", "sig"),
        ToolUse("call_2_0", "search", {"q": 1}),
        ToolResult("call_2_0", "ok", [{"n": 1}]),
        ToolUse("x", "fetch", {}),
        ToolResult("x", "error", "no"),
        ToolUse("call_2_2", "lost", {}),
        ToolResult("call_2_2", "ok", "out of nowhere"),
        OpaquePart(
            {"kind": "claude-ai/token_budget", "value": {"type": "token_budget", "remaining": 5}}
        ),
        Text("done"),
        OpaquePart({"kind": "claude-ai/citations", "value": [{"url": "u"}]}),
    ]
    assert turn.sealed_at == "2026-06-01T10:05:00.000Z"


def test_attachments_and_files_are_kept(tmp_path: Path) -> None:
    attached: dict[str, Any] = {
        "file_name": "a.txt",
        "file_size": 3,
        "file_type": "txt",
        "extracted_content": "abc",
    }
    files = [{"file_name": "b.png"}, {"file_uuid": "u"}]
    asked = message("1", "human", "q", attachments=[attached], files=files)
    (turn,) = told(write(tmp_path, asked, message("2", "assistant", "a"))).turns
    assert turn.query[0].parts == (
        Text("q"),
        OpaquePart({"kind": "claude-ai/attachment", "value": attached}),
        Media("file", "application/*", name="b.png"),
        Media("file", "application/*", name="u"),
    )
    assert list(files_of(turn.query[0])) == [
        TouchedFile("attached", name) for name in ("a.txt", "b.png", "u")
    ]


def test_the_two_exports_are_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path, message("1", "human", "q"))
    assert list(ChatGptImporter().open(path)) == []
    assert told(path).turns[0].open


def test_nothing_that_makes_no_sense_raises(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{}]}
    messages = [
        message("1", "human", "q", parent=ROOT, attachments=[{"file_name": "a"}], files=[{}]),
        message(
            "2", "assistant", {"type": "thinking", "thinking": "x"}, use, result, "a", parent="1"
        ),
        message("3", "assistant", use, use, result, result, result, parent="1"),
        message("4", "assistant", use, result, "b", parent="3"),
    ]
    path = write(tmp_path, *messages, current_leaf_message_uuid="2")
    importer = ClaudeAiImporter()
    (bundle,) = importer.open(path)
    for strange in mangled(json.loads(path.read_bytes())[0], 500):
        records = [RawRecord("conversations.json", 0, json.dumps(strange).encode())]
        list(seal_drafts(importer.project(bundle, records), Principal("agent", "claude-ai")))


def test_the_contract_holds(tmp_path: Path) -> None:
    odd = message("3", "robot", "?")
    path = write(tmp_path, message("1", "human", "nul \x00"), odd, message("2", "assistant", "a"))
    assert told(path).unknown == {"sender robot": 1}
    assert len(check_importer(ClaudeAiImporter(), path)) == 1
