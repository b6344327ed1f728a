"""Chats of Gemini CLI, as written here by hand: every record and every trap that is known."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from proofs.transcripts.gemini import CONTEXT, META, SESSION, Chat, call
from turntree.core.ids import instant
from turntree.core.message import Media, Reasoning, Text, ToolResult, ToolUse
from turntree.core.message_context import files_of
from turntree.core.principal import Principal
from turntree.core.usage import Usage
from turntree.testing.contracts.importer import check_importer
from turntree.transcripts.drafts import DraftTurn, Projection, seal_drafts
from turntree.transcripts.importer import ToolPaths
from turntree.transcripts.importers.gemini.importer import GeminiImporter


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".gemini"


@pytest.fixture(autouse=True)
def contract(home: Path) -> Iterator[None]:
    """Whatever a test has written must keep the contract too."""
    yield
    if home.exists():
        check_importer(GeminiImporter(), home)


@pytest.fixture
def chat() -> Chat:
    return Chat()


def project(path: Path) -> Projection:
    gemini = GeminiImporter()
    (bundle,) = gemini.open(path)
    return gemini.project(bundle, list(gemini.read(bundle)))


def ids(projection: Projection) -> list[str]:
    by = Principal("agent", "gemini")
    return [draft.sealed.turn.id for draft in seal_drafts(projection, by)]


def words(turn: DraftTurn) -> tuple[str, str]:
    asked, came = ("".join(m.text for m in said) for said in (turn.query, turn.reply))
    return asked, came


def test_a_message_that_comes_again_replaces_the_first(home: Path, chat: Chat) -> None:
    chat.ask("u1", "Look.")
    tokens = {"input": 4011, "output": 32, "cached": 4000, "thoughts": 9, "tool": 2, "total": 4054}
    thoughts = [{"subject": "Looking", "description": "At once."}]
    chat.answer("g1", "Let me look.", thoughts=thoughts, tokens=tokens)
    chat.again(toolCalls=[call("c1"), call("c2", status="error")])
    chat.ask("r1", [call("c1")["result"][0], call("c2")["result"][0]])
    chat.answer("g2", "Fine.")
    told = project(chat.write(home))
    (turn,) = told.turns
    assert words(turn) == ("Look.", "Let me look.Fine.")
    assert turn.reply[0].parts == (
        Reasoning("**Looking** At once."), Text("Let me look."),
        ToolUse("c1", "run_shell_command", {"command": "ls"}),
        ToolUse("c2", "run_shell_command", {"command": "ls"}),
    )  # fmt: skip
    results = [part for said in turn.reply for part in said.parts if isinstance(part, ToolResult)]
    assert results == [ToolResult("c1", "ok", "fine"), ToolResult("c2", "error", "fine")]
    (counted,) = turn.calls
    assert counted.usage == Usage(input=13, output=41, cached_input=4000, reasoning=9)
    assert told.usage_told == 2 * counted.usage.total, "both lines of the answer tell it"
    assert (turn.model, turn.provider, turn.outcome) == ("gemini-2.5-flash", "google", "completed")
    assert told.sessions[0].head == turn.key
    assert (told.unknown, told.broken) == ({}, 0)


def test_the_context_of_the_session_is_not_what_somebody_said(home: Path, chat: Chat) -> None:
    chat.exchange("1")
    (turn,) = project(chat.write(home)).turns
    assert turn.query[0].text == "Q1"
    assert turn.query[0].context == {"harness": [{"kind": "session_context", "text": CONTEXT}]}


def test_resuming_tells_everything_again_and_changes_nothing(home: Path, chat: Chat) -> None:
    chat.ask("u1", "Look.")
    chat.answer("g1", "Let me look.", tokens={"input": 1}, toolCalls=[call("c1")])
    chat.ask("r1", [call("c1")["result"][0]])
    chat.answer("g2", "Fine.")
    before = project(chat.write(home))
    chat.clock += 3_600_000
    chat.lines.append({**META, "startTime": instant(chat.clock)})
    context = chat.said("ctx", CONTEXT.replace("chat", "new day"))
    chat.restore([context])
    made = {"functionCall": {"id": "c1", "name": "run_shell_command", "args": {"command": "ls"}}}
    chat.restore([
        context, chat.said("u1", "Look."),
        chat.said("g1", [{"text": "x", "thought": True}, {"text": "Let me look."}, made], "gemini"),
        chat.said("g1_response", [call("c1")["result"][0]]), chat.said("g2", "Fine.", "gemini"),
    ])  # fmt: skip
    chat.exchange("9")
    after = project(chat.write(home))
    assert [words(turn)[0] for turn in after.turns] == ["Look.", "Q9"]
    assert ids(after)[:1] == ids(before)
    assert after.turns[1].parent == after.turns[0].key


def test_a_checkpoint_alone_is_enough(home: Path, chat: Chat) -> None:
    made = {"functionCall": {"id": "c1", "name": "glob", "args": {}}}
    chat.restore([
        chat.said("u1", "Look."), chat.said("g1", [made], "gemini"),
        chat.said("g1_response", [{"functionResponse": {"id": "c1", "response": {"error": "no"}}}]),
        chat.said("g2", "Not fine.", "gemini"),
    ])  # fmt: skip
    (turn,) = project(chat.write(home)).turns
    assert [part for said in turn.reply for part in said.parts][1] == ToolResult(
        "c1", "error", {"error": "no"}
    )


def test_a_rewind_leaves_a_branch(home: Path, chat: Chat) -> None:
    for name in "123":
        chat.exchange(name)
    chat.rewind("u2")
    chat.exchange("4")
    told = project(chat.write(home))
    turns = {words(turn)[0]: turn for turn in told.turns}
    assert turns["Q4"].parent == turns["Q2"].parent == turns["Q1"].key
    assert turns["Q3"].parent == turns["Q2"].key
    assert told.sessions[0].head == turns["Q4"].key
    chat.rewind("u4")
    assert project(chat.write(home)).sessions[0].head == turns["Q1"].key


def test_a_rewind_to_nothing_begins_anew(home: Path, chat: Chat) -> None:
    chat.exchange("1")
    chat.rewind("never")
    chat.exchange("2")
    told = project(chat.write(home))
    assert [turn.parent for turn in told.turns] == [None, None]
    assert told.sessions[0].head == told.turns[1].key


def test_a_summary_in_place_of_the_rest_is_a_compaction(home: Path, chat: Chat) -> None:
    chat.exchange("1")
    summary = chat.said("s", "<state_snapshot>We talked.</state_snapshot>")
    chat.restore([summary, chat.said("ok", "Got it.", "gemini")])
    chat.exchange("2")
    first, compaction, last = project(chat.write(home)).turns
    assert (compaction.kind, compaction.parent) == ("compaction", first.key)
    assert "We talked." in compaction.reply[0].text
    assert (words(last)[0], last.parent) == ("Q2", compaction.key)


def test_files_pictures_and_notices_are_kept(home: Path, chat: Chat) -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    chat.ask("u1", [{"text": "Look: contents"}, picture], displayContent=[{"text": "Look: @a"}])
    chat.lines.append(chat.said("i1", "Careful.", "warning"))
    shown = {"filePath": "/shop/a.py", "fileDiff": ""}
    chat.answer("g1", "", toolCalls=[
        call("c1", "write_file", args={"file_path": "a.py"}, resultDisplay=shown),
        call("c2", "read_file", args={"absolute_path": "/b.py"}),
        call("c3", "replace", args={"file_path": "c.py"}, status="cancelled", result=None),
    ])  # fmt: skip
    chat.answer("g2", "Done.")
    (turn,) = project(chat.write(home)).turns
    assert turn.query[0].parts[1] == Media("image", "image/png", url="data:image/png;base64,AAAA")
    assert turn.query[0].meta == {"shown": "Look: @a"}
    assert turn.query[0].context is not None
    assert turn.query[0].context["notices"] == [{"kind": "warning", "text": "Careful."}]
    found = [(file.kind, file.path) for said in turn.reply for file in files_of(said)]
    assert found == [("written", "/shop/a.py"), ("read", "/b.py"), ("referenced", "c.py")]
    (third,) = turn.reply[3].parts
    assert isinstance(third, ToolResult)
    assert third.status == "canceled"


def test_a_chat_that_ends_in_the_middle_leaves_an_open_turn(home: Path, chat: Chat) -> None:
    chat.exchange("1")
    chat.ask("u2", "Go.")
    chat.answer("g2", "Going.", toolCalls=[call("c", status="executing", result=None)])
    path = chat.write(home)
    path.write_bytes(path.read_bytes()[:-5])
    told = project(path)
    assert told.broken == 1
    assert [(turn.outcome, turn.open) for turn in told.turns] == [
        ("completed", False), ("interrupted", True),
    ]  # fmt: skip


def test_an_error_without_an_answer_is_a_failure(home: Path, chat: Chat) -> None:
    chat.ask("u1", "Go.")
    chat.lines.append(chat.said("e1", "No quota.", "error"))
    (turn,) = project(chat.write(home)).turns
    assert turn.outcome == "failed"


def test_a_subagent_is_a_session_spawned_by_a_call(home: Path, chat: Chat) -> None:
    chat.ask("u1", "Delegate.")
    made = call("c1", "scout", args={"objective": "Count."}, agentId="scout-1")
    chat.answer("g1", "", toolCalls=[made])
    chat.answer("g2", "Counted.")
    path = chat.write(home)
    child = Chat()
    child.lines[0] |= {"sessionId": "scout-1", "kind": "subagent"}
    child.exchange("7")
    child.write(home, f"{SESSION}/scout-1.jsonl")
    told = project(path)
    main, sub = told.sessions
    assert (main.spawn, sub.id) == (None, "scout-1")
    assert sub.spawn is not None
    assert (sub.spawn.parent_session, sub.spawn.call_id, sub.spawn.task) == (
        SESSION,
        "c1",
        "Count.",
    )
    asked = next(turn for turn in told.turns if turn.key == sub.head).query[0]
    assert asked.source == "agent"
    assert len(list(GeminiImporter().open(home))) == 1


def test_a_second_file_of_a_session_without_turns_moves_nothing(home: Path, chat: Chat) -> None:
    chat.exchange("1")
    path = chat.write(home)
    empty = Chat()
    empty.clock += 10**9
    empty.write(home, "session-2026-11-15T06-31-b4048970.jsonl")
    told = project(path)
    assert [words(turn)[0] for turn in told.turns] == ["Q1"]
    assert told.sessions[0].head == told.turns[0].key


def test_files_from_before_there_were_lines_are_one_record(home: Path, chat: Chat) -> None:
    chat.exchange("1")
    old = {**META, "messages": [line for line in chat.lines if "id" in line], "summary": "A chat"}
    path = home / "tmp" / "04ab" / "chats" / "session-2025-09-01T10-00-b4048970.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(old, indent=2))
    told = project(path)
    assert [words(turn) for turn in told.turns] == [("Q1", "A1")]
    assert told.sessions[0].title == "A chat"
    # Resuming an old file writes all of it again, as lines, beside it.
    path.with_suffix(".jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in [META, *old["messages"]])
    )
    assert ids(project(home)) == ids(told)


def test_what_nobody_knows_is_counted_and_strange_signs_raise_nothing(
    home: Path, chat: Chat
) -> None:
    chat.lines += [{"type": "hologram"}, {"no": 1}]
    chat.ask("u\x00", "half \ud800 \x00")
    chat.answer("g1", [None, 7, {"executableCode": {"code": "1"}}, "\udfff"])
    told = project(chat.write(home))
    assert told.unknown == {"hologram": 1, "untyped": 1}
    assert len(ids(told)) == 1


@pytest.mark.slow
def test_a_long_chat_is_read_in_one_pass(tmp_path: Path, chat: Chat) -> None:
    for number in range(10_000):
        chat.exchange(str(number))
    assert len(project(chat.write(tmp_path / "long")).turns) == 10_000


def test_a_chat_that_lost_its_first_record_is_that_of_the_session_that_is_named(
    home: Path, chat: Chat
) -> None:
    chat.exchange("1")
    # Another process deleted the file when it held no message yet, and the chat went on.
    chat.lines[:2] = []
    path, gemini = chat.write(home), GeminiImporter()
    assert list(gemini.open(path)) == []
    (bundle,) = gemini.open_unnamed(path, SESSION)
    told = gemini.project(bundle, list(gemini.read(bundle)))
    assert [words(turn) for turn in told.turns] == [("Q1", "A1")]
    assert [session.id for session in told.sessions] == [bundle.id] == [SESSION]
    assert list(gemini.open_unnamed(path, "b4048971-2c29")) == [], "not what the file is called"
    other = chat.write(home, "session-2026-11-15T06-31-b4048970.jsonl")
    other.write_text('{"role": "user"}\n')
    assert list(gemini.open_unnamed(other, SESSION)) == [], "not a chat"
    other.unlink()
    Chat().write(home)
    assert list(gemini.open_unnamed(path, SESSION)) == [], "the file names its session"


def test_chats_are_found_where_the_environment_says(tmp_path: Path, chat: Chat) -> None:
    chat.exchange("1")
    chat.write(tmp_path / "custom" / ".gemini")
    gemini = GeminiImporter()
    assert list(gemini.discover(ToolPaths(tmp_path, {}))) == []
    environ = {"GEMINI_CLI_HOME": str(tmp_path / "custom")}
    assert [bundle.id for bundle in gemini.discover(ToolPaths(tmp_path, environ))] == [SESSION]


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "session-1.jsonl").write_text('{"type":"user","sessionId":"x"}\n')
    assert list(GeminiImporter().open(tmp_path)) == []
    assert list(GeminiImporter().open(tmp_path / "session-1.jsonl")) == []
