"""Sessions in the tools' own formats; whether the tools continue them is `proofs/handoff.py`'s."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings

from tests.transcripts.exporters.threads import COMPACTED, ORDER, SESSION, told
from turntree.core.canonical import canonical
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest
from turntree.core.message import ObjectRef, Part, Text, ToolResult, ToolUse, part_to_json
from turntree.core.thread import ThreadTurn
from turntree.core.turn import SealedTurn
from turntree.models.portable_thread import hand_over
from turntree.testing.strategies import turns
from turntree.transcripts.exporter import Exporter, NewFile
from turntree.transcripts.exporters import claude_code, codex, gemini, opencode
from turntree.transcripts.exporters.anthropic import to_anthropic
from turntree.transcripts.exporters.claude_code import ClaudeCodeExporter, project_folder
from turntree.transcripts.exporters.codex import CodexExporter
from turntree.transcripts.exporters.gemini import GeminiExporter
from turntree.transcripts.exporters.html import to_html
from turntree.transcripts.exporters.markdown import to_markdown
from turntree.transcripts.exporters.openai import to_chat
from turntree.transcripts.exporters.opencode import OpencodeExporter
from turntree.transcripts.exporters.shared import json_line, write_new
from turntree.transcripts.importer import ToolPaths

HOME = Path("/home/ana")
ALL: list[Exporter] = [ClaudeCodeExporter(), CodexExporter(), GeminiExporter(), OpencodeExporter()]


def places(**environ: str) -> ToolPaths:
    return ToolPaths(HOME, environ)


def claude_messages(thread: Any = None) -> list[dict[str, Any]]:
    records = list(claude_code.render(told(thread) if thread else told(), ORDER))
    return [record for record in records if record["type"] in ("user", "assistant")]


def codex_items(thread: Any = None) -> list[dict[str, Any]]:
    records = codex.render(told(thread) if thread else told(), ORDER)
    return [record["payload"] for record in records if record["type"] == "response_item"]


def test_claudes_records_form_one_chain() -> None:
    records = claude_messages()
    assert records[0]["parentUuid"] is None
    for before, record in pairwise(records):
        assert record["parentUuid"] == before["uuid"]
    assert {record["sessionId"] for record in records} == {SESSION}
    assert {record["cwd"] for record in records} == {"/home/ana/my project"}


def test_claude_is_told_calls_and_results_as_blocks() -> None:
    system, asked, looked, listed, *_ = claude_messages()
    assert system["isMeta"]
    assert "Be brief." in system["message"]["content"]
    assert [block["type"] for block in asked["message"]["content"]] == [
        "text", "image", "image", "text",
    ]  # fmt: skip
    thinking, words, first, second = looked["message"]["content"]
    assert thinking == {"type": "thinking", "thinking": "Two at once.", "signature": "c2ln"}
    assert words == {"type": "text", "text": "Let me look."}
    assert (first["id"], first["name"], first["input"]) == ("toolu_a", "Bash", {"command": "ls"})
    assert second["name"] == "fs_read"
    assert second["id"].startswith("toolu_")
    results = listed["message"]["content"]
    assert [block["tool_use_id"] for block in results] == ["toolu_a", second["id"]]
    assert [block["content"] for block in results] == ["a.txt", "hello"]
    assert looked["message"]["stop_reason"] == "tool_use"


def test_claude_is_not_told_what_openai_encrypted() -> None:
    assert "Z3B0" not in json.dumps(claude_messages())


def test_claude_is_asked_to_restore_no_model_but_its_own() -> None:
    said = [record["message"] for record in claude_messages() if record["type"] == "assistant"]
    assert [message["model"] for message in said] == [
        "claude-sonnet-4-5", "claude-sonnet-4-5", "<synthetic>", "<synthetic>",
    ]  # fmt: skip


def test_claude_is_told_that_a_summary_is_one() -> None:
    summary, asked, *_ = claude_messages(COMPACTED)
    assert summary["isCompactSummary"]
    assert "We looked." in summary["message"]["content"]
    assert asked["message"]["content"] == "Patch it."


def test_claudes_file_lies_where_claude_looks() -> None:
    plan = ClaudeCodeExporter().plan(told(), ORDER, places())
    folder = HOME / ".claude/projects/-home-ana-my-project"
    assert plan.files[0].path == folder / f"{SESSION}.jsonl"
    assert plan.resume == ("claude", "--resume", SESSION)
    elsewhere = ClaudeCodeExporter().plan(told(), ORDER, places(CLAUDE_CONFIG_DIR="/etc/claude"))
    assert elsewhere.files[0].path.is_relative_to("/etc/claude/projects")


def test_a_folder_with_a_long_name_is_found_by_its_beginning(tmp_path: Path) -> None:
    folder, here = Path("/" + "a" * 300), ToolPaths(tmp_path, {})
    with pytest.raises(InvalidOperation, match="too long"):
        project_folder(folder, here)
    there = tmp_path / ".claude/projects" / f"-{'a' * 199}-x7"
    there.mkdir(parents=True)
    assert project_folder(folder, here) == there


def test_codex_is_told_calls_and_results_as_items() -> None:
    items = codex_items()
    assert [item["type"] for item in items] == [
        "message", "message", "message", "function_call", "function_call", "function_call_output",
        "function_call_output", "message", "message", "reasoning", "custom_tool_call",
        "custom_tool_call_output", "message",
    ]  # fmt: skip
    assert items[0]["role"] == "developer"
    assert items[3]["call_id"] == items[5]["call_id"]
    assert items[3]["call_id"].startswith("call_")
    assert json.loads(items[3]["arguments"]) == {"command": "ls"}
    assert items[9]["encrypted_content"] == "Z3B0"
    assert items[10] == {
        "type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch",
        "call_id": "call_p",
    }  # fmt: skip
    assert items[11]["output"] == "[error]"
    assert "c2ln" not in json.dumps(items)


def test_codexs_file_lies_where_codex_looks() -> None:
    plan = CodexExporter().plan(told(), ORDER, places(CODEX_HOME="/c"))
    name = f"rollout-2026-11-15T09-30-00-{SESSION}.jsonl"
    assert plan.files[0].path == Path("/c/sessions/2026/11/15") / name
    assert plan.resume == ("codex", "resume", SESSION)
    meta = json.loads(plan.files[0].text.splitlines()[0])
    assert (meta["type"], meta["payload"]["id"]) == ("session_meta", SESSION)


@pytest.mark.parametrize(
    ("config", "provider"),
    [
        (None, "openai"),
        ('model = "gpt-5.2"', "openai"),
        ('model_provider = "azure"', "azure"),
        ('profile = "work"\nmodel_provider = "azure"\n[profiles.work]\nmodel_provider = "proxy"',
         "proxy"),
        ('profile = "gone"\nmodel_provider = "azure"', "azure"),
        ('profile = "work"\nprofiles = 3', "openai"),
        ('profile = ["work"]\n[profiles.work]\nmodel_provider = "proxy"', "openai"),
        ("model_provider = ", "openai"),
    ],
)  # fmt: skip
def test_codex_session_names_the_provider_that_codex_is_configured_to_use(
    tmp_path: Path, config: str | None, provider: str
) -> None:
    if config is not None:
        (tmp_path / "config.toml").write_text(config)
    plan = CodexExporter().plan(told(), ORDER, places(CODEX_HOME=str(tmp_path)))
    meta = json.loads(plan.files[0].text.splitlines()[0])
    assert meta["payload"]["model_provider"] == provider


def test_codex_shows_what_was_said() -> None:
    records = list(codex.render(told(), ORDER))
    shown = [r["payload"]["message"] for r in records if r["type"] == "event_msg"]
    assert shown[1:] == ["Let me look.", "One file.", "Patch it.", "It failed."]


def test_gemini_has_results_beside_their_calls() -> None:
    meta, system, asked, looked, *_ = gemini.render(told(), ORDER)
    assert meta["sessionId"] == SESSION
    assert system["type"] == asked["type"] == "user"
    assert asked["content"][1] == {"inlineData": {"mimeType": "image/png", "data": "cG5n"}}
    first, second = looked["toolCalls"]
    answer = first["result"][0]["functionResponse"]
    assert (answer["id"], answer["response"]) == (first["id"], {"output": "a.txt"})
    assert second["args"] == {"path": "a.txt"}


def test_gemini_and_opencode_get_a_file_that_they_read_themselves() -> None:
    plan = GeminiExporter().plan(told(), ORDER, places())
    assert plan.resume == ("gemini", "--session-file", str(plan.files[0].path))
    plan = OpencodeExporter().plan(told(), ORDER, places(XDG_DATA_HOME="/d"))
    assert plan.prepare == ("opencode", "import", str(plan.files[0].path))
    assert plan.resume == ("opencode", "--session", plan.session)
    assert plan.files[0].path == Path("/d/opencode/turntree") / f"{plan.session}.json"


def test_opencodes_ids_sort_in_the_order_of_what_was_said() -> None:
    document = opencode.render(told(), ORDER)
    ids = [message["info"]["id"] for message in document["messages"]]
    assert ids == sorted(ids)
    looked = document["messages"][2]
    assert [part["type"] for part in looked["parts"]] == ["text", "tool", "tool"]
    assert looked["parts"][1]["state"]["output"] == "a.txt"
    failed = document["messages"][5]["parts"][0]["state"]
    assert (failed["status"], failed["error"]) == ("error", "error")
    assert looked["info"]["parentID"] == ids[1]


@pytest.mark.parametrize("exporter", ALL, ids=lambda exporter: exporter.tool)
def test_equal_threads_give_equal_files(exporter: Exporter) -> None:
    assert exporter.plan(told(), ORDER, places()) == exporter.plan(told(), ORDER, places())


@settings(max_examples=40, deadline=None)
@given(turns())
def test_no_turn_is_too_odd_for_any_tool(sealed: SealedTurn) -> None:
    lifted = [p for said in sealed.turn.messages for p in said.parts if isinstance(p, ObjectRef)]
    # An object is one part's document, and drawn digests may be the same for two.
    assume(len({part.object for part in lifted}) == len(lifted))
    thread = [ThreadTurn(sealed.turn, 1, None)]
    objects = _objects(sealed)
    handed = hand_over(thread, objects)
    json.dumps([to_chat(handed), to_anthropic(handed)])
    assert to_html(thread, objects)
    assert to_markdown(thread, objects)
    for exporter in ALL:
        (file,) = exporter.plan(handed, ORDER, places()).files
        for line in file.text.removesuffix("\n").split("\n"):
            json.loads(line)


def test_a_file_that_exists_is_never_written(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "new" / "a", tmp_path / "b"
    theirs.write_text("theirs")
    with pytest.raises(InvalidOperation, match="exists"):
        write_new([NewFile(mine, "mine"), NewFile(theirs, "mine")])
    assert theirs.read_text() == "theirs"
    assert not mine.exists()


def test_nobody_else_can_read_what_was_written(tmp_path: Path) -> None:
    write_new([NewFile(tmp_path / "new" / "a", "mine")])
    assert (tmp_path / "new" / "a").stat().st_mode & 0o077 == 0


def test_half_a_sign_does_not_stop_a_file() -> None:
    assert json_line({"text": "\ud83d"}) == '{"text":"\\ud83d"}'


def _objects(sealed: SealedTurn) -> dict[Digest, bytes]:
    lifted = (
        part for said in sealed.turn.messages for part in said.parts if isinstance(part, ObjectRef)
    )
    return {part.object: canonical(part_to_json(_whole(part))) for part in lifted}


def _whole(part: ObjectRef) -> Part:
    if part.of == "tool_use":
        return ToolUse(part.call_id or "", part.tool or "", {})
    if part.of == "tool_result":
        return ToolResult(part.call_id or "", part.status or "ok", "whole")
    return Text("whole")
