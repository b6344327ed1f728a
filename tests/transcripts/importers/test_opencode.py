"""Sessions of opencode, as written here by hand: every part and every trap that is known."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from proofs.transcripts.opencode import BEGINNING, Talk, tool, write_files, write_rows
from turntree.core.message import Media, Reasoning, Text, ToolResult, ToolUse
from turntree.core.message_context import TouchedFile, files_of
from turntree.core.principal import Principal
from turntree.core.usage import Usage
from turntree.testing.contracts.importer import check_importer
from turntree.transcripts.drafts import DraftTurn, Projection, seal_drafts
from turntree.transcripts.importer import ToolPaths, TranscriptRef
from turntree.transcripts.importers.opencode.importer import OpencodeImporter


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "opencode"


@pytest.fixture(autouse=True)
def contract(folder: Path) -> Iterator[None]:
    """Whatever a test has written must keep the contract too."""
    yield
    if folder.exists():
        check_importer(OpencodeImporter(), folder)


def project(path: Path) -> dict[str, Projection]:
    opencode = OpencodeImporter()
    return {b.id: opencode.project(b, list(opencode.read(b))) for b in opencode.open(path)}


def ids(projection: Projection) -> list[str]:
    by = Principal("agent", "opencode")
    return [draft.sealed.turn.id for draft in seal_drafts(projection, by)]


def words(turn: DraftTurn) -> tuple[str, str]:
    asked, came = ("".join(m.text for m in said) for said in (turn.query, turn.reply))
    return asked, came


def test_a_question_and_its_answers_are_a_turn(folder: Path) -> None:
    talk = Talk(slug="crisp-cabin")
    talk.ask("Look.", system="Be brief.")
    tokens = {"input": 11, "output": 32, "reasoning": 9, "cache": {"read": 4000, "write": 5}}
    signed = {"anthropic": {"signature": "sig"}}
    talk.answer(
        {"type": "reasoning", "text": "Two.", "metadata": signed, "time": {"start": BEGINNING}},
        "Let me look.", tool("c1"), tool("c2", metadata={"exit": 3}, output="no"),
        {"type": "step-finish", "reason": "tool-calls", "tokens": tokens, "snapshot": "tree1"},
        finish="tool-calls", tokens=tokens,
    )  # fmt: skip
    talk.answer("Fine.")
    told = project(write_rows(folder, talk))["ses_1"]
    (turn,) = told.turns
    assert words(turn) == ("Be brief.Look.", "Let me look.Fine.")
    assert [said.role for said in turn.query] == ["system", "user"]
    assert turn.reply[0].parts == (
        Reasoning("Two.", "sig"), Text("Let me look."),
        ToolUse("c1", "bash", {"command": "ls"}), ToolUse("c2", "bash", {"command": "ls"}),
    )  # fmt: skip
    assert turn.reply[0].meta == {"snapshots": ["tree1"]}
    assert turn.reply[1].parts == (ToolResult("c1", "ok", "fine"),)
    assert turn.reply[2].parts == (ToolResult("c2", "error", "no"),)
    assert turn.reply[2].meta == {"exit_code": 3, "duration_ms": 40}
    (call,) = turn.calls
    usage = Usage(input=11, output=41, cached_input=4000, cache_write=5, reasoning=9)
    assert (call.usage, call.model, call.provider) == (usage, "opus", "anthropic")
    assert (turn.outcome, turn.model, turn.provider) == ("completed", "opus", "anthropic")
    (session,) = told.sessions
    assert (session.label, session.title, session.head) == (
        "opencode/crisp-cabin", "A talk", turn.key,
    )  # fmt: skip
    assert session.details["directory"] == "/shop"
    assert (told.unknown, told.orphans, told.broken) == ({}, [], 0)


def test_files_and_rows_tell_the_same(folder: Path, tmp_path: Path) -> None:
    talk = Talk()
    talk.exchange("1")
    talk.ask("Go.")
    talk.answer(tool("c1"), "Gone.")
    rows = project(write_rows(folder, talk))
    storage = write_files(tmp_path / "old" / "opencode", talk)
    assert ids(project(storage)["ses_1"]) == ids(rows["ses_1"])
    assert ids(project(storage.parent)["ses_1"]) == ids(rows["ses_1"])
    # What was moved into the database is not told twice.
    write_files(folder, talk, Talk("ses_2"))
    assert sorted(project(folder)) == ["ses_1", "ses_2"]


def test_what_was_attached_and_what_the_harness_added_stand_beside_the_words(folder: Path) -> None:
    talk = Talk()
    span = {"start": {"line": 4, "character": 0}, "end": {"line": 8, "character": 0}}
    talk.ask(
        "See this.", {"type": "text", "text": "Called the Read tool", "synthetic": True},
        {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AA", "filename": "a",
         "source": {"type": "symbol", "path": "/shop/a.py", "range": span}},
        {"type": "agent", "name": "scout"},
    )  # fmt: skip
    talk.answer("Seen.")
    (turn,) = project(write_rows(folder, talk))["ses_1"].turns
    said = turn.query[0]
    url = "data:image/png;base64,AA"
    assert said.parts == (Text("See this."), Media("image", "image/png", url=url, name="a"))
    assert said.context is not None
    assert said.context["harness"] == [{"kind": "synthetic", "text": "Called the Read tool"}]
    assert list(files_of(said)) == [TouchedFile("attached", "/shop/a.py", 5, 9)]


def test_each_state_of_a_tool_has_its_status(folder: Path) -> None:
    talk = Talk()
    talk.ask("Go.")
    talk.answer(
        tool("ok"), tool("error", status="error", error="File not found"),
        tool("rejected", status="error", error="The user rejected permission"),
        tool("aborted", status="error", error="Tool execution aborted"),
        tool("pending", status="pending"), tool("running", status="running"),
        tool("kept", attachments=[{"type": "file", "url": "data:,x"}]),
        error={"name": "MessageAbortedError", "data": {}},
    )  # fmt: skip
    told = project(write_rows(folder, talk))["ses_1"]
    (turn,) = told.turns
    results = {p.call_id: p for m in turn.reply for p in m.parts if isinstance(p, ToolResult)}
    assert {id: result.status for id, result in results.items()} == {
        "ok": "ok", "error": "error", "rejected": "canceled", "aborted": "interrupted",
        "kept": "ok",
    }  # fmt: skip
    assert results["kept"].output == {
        "output": "fine", "attachments": [{"type": "file", "url": "data:,x"}],
    }  # fmt: skip
    assert (turn.outcome, turn.open) == ("interrupted", True)
    assert len(ids(told)) == 1


def test_files_that_were_touched_are_known(folder: Path) -> None:
    talk = Talk()
    talk.ask("Go.")
    talk.answer(
        tool("r", "read", input={"filePath": "/a"}), tool("w", "write", input={"filePath": "/b"}),
        tool("e", "edit", input={"filePath": "/c"}, status="error", error="no"),
        {"type": "patch", "hash": "h", "files": ["/b"]},
    )  # fmt: skip
    talk.answer("Done.")
    (turn,) = project(write_rows(folder, talk))["ses_1"].turns
    found = [(file.kind, file.path) for said in turn.reply for file in files_of(said)]
    assert found == [("written", "/b"), ("read", "/a"), ("written", "/b"), ("referenced", "/c")]


def test_an_error_of_the_provider_is_a_failure(folder: Path) -> None:
    talk = Talk()
    talk.ask("Go.")
    talk.answer(error={"name": "APIError", "data": {"message": "no"}})
    (turn,) = project(write_rows(folder, talk))["ses_1"].turns
    assert (turn.outcome, turn.open) == ("failed", False)


def test_an_answer_belongs_to_the_question_it_names(folder: Path) -> None:
    talk = Talk()
    first = talk.ask("One?")
    talk.ask("Two?")
    talk.answer("To two.")
    talk.answer("To one.", parentID=first)
    told = project(write_rows(folder, talk))["ses_1"]
    assert [words(turn) for turn in told.turns] == [("One?", "To one."), ("Two?", "To two.")]


def test_a_fork_that_copies_shares_its_turns(folder: Path) -> None:
    talk = Talk()
    talk.exchange("1")
    talk.ask("Go.")
    talk.answer(tool("c1"), "Gone.", tokens={"input": 100, "output": 10})
    copy = Talk("ses_2", prefix="f")
    copy.exchange("1")
    copy.ask("Go.")
    copy.answer(tool("c1"), "Gone.", tokens={"input": 100, "output": 10})
    copy.exchange("2")
    talk.exchange("3")
    told = project(write_rows(folder, talk, copy))
    assert ids(told["ses_1"])[:2] == ids(told["ses_2"])[:2]
    assert ids(told["ses_1"])[2] != ids(told["ses_2"])[2]
    assert [told[id].usage_told for id in ("ses_1", "ses_2")] == [110, 110], "both tell of it"


@pytest.mark.parametrize("auto", [True, False])
def test_a_compaction_is_a_turn_that_keeps_the_end(folder: Path, *, auto: bool) -> None:
    talk = Talk()
    talk.exchange("1")
    kept, _ = talk.exchange("2")
    talk.ask({"type": "compaction", "auto": auto, "tail_start_id": kept})
    talk.answer("We talked.", summary=True, mode="compaction")
    talk.exchange("3")
    told = project(write_rows(folder, talk))["ses_1"]
    first, second, compaction, last = told.turns
    assert (compaction.kind, compaction.parent, last.parent) == (
        "compaction", second.key, compaction.key,
    )  # fmt: skip
    assert compaction.compaction is not None
    assert compaction.compaction.first_kept == second.key
    assert compaction.compaction.trigger == ("context_limit" if auto else "manual")
    assert len(ids(told)) == 4
    assert first.parent is None


def test_a_compaction_that_keeps_everything_or_fails_is_told_as_well(folder: Path) -> None:
    talk = Talk()
    kept, _ = talk.exchange("1")
    talk.ask({"type": "compaction", "auto": True, "tail_start_id": kept})
    talk.answer("We talked.", summary=True)
    talk.ask({"type": "compaction", "auto": True})
    talk.answer(error={"name": "ContextOverflowError"})
    told = project(write_rows(folder, talk))["ses_1"]
    assert [turn.kind for turn in told.turns] == ["normal", "compaction", "normal"]
    assert told.turns[2].outcome == "failed"
    assert len(ids(told)) == 3


def test_what_was_reverted_stays_as_a_branch(folder: Path) -> None:
    talk = Talk()
    talk.exchange("1")
    asked, _ = talk.exchange("2")
    talk.exchange("3")
    talk.told["revert"] = json.dumps({"messageID": asked, "snapshot": "tree"})
    told = project(write_rows(folder, talk))["ses_1"]
    assert len(told.turns) == 3
    assert told.sessions[0].head == told.turns[0].key


def test_a_revert_within_an_answer_stands_at_the_shorter_turn(folder: Path) -> None:
    talk = Talk()
    talk.exchange("1")
    talk.ask("Go.")
    answer = talk.answer("First.", tool("c1"), "Then.")
    talk.told["revert"] = json.dumps({"messageID": answer, "partID": talk.parts[-2][0]})
    told = project(write_rows(folder, talk))["ses_1"]
    assert [words(turn)[1] for turn in told.turns] == ["A1", "First.", "First.Then."]
    assert told.sessions[0].head == told.turns[1].key
    assert told.turns[1].parent == told.turns[2].parent == told.turns[0].key


def test_a_subagent_is_a_session_spawned_by_a_call(folder: Path) -> None:
    talk = Talk()
    talk.ask("Delegate.")
    told = {"description": "Count", "prompt": "Count the files."}
    talk.answer(tool("c1", "task", input=told, metadata={"sessionId": "ses_child"}), "Done.")
    child = Talk("ses_child", prefix="c", parent_id="ses_1")
    child.exchange("7")
    found = project(write_rows(folder, talk, child))
    assert list(found) == ["ses_1"]
    main, sub = found["ses_1"].sessions
    assert (main.spawn, sub.id) == (None, "ses_child")
    assert sub.spawn is not None
    assert (sub.spawn.parent_session, sub.spawn.call_id) == ("ses_1", "c1")
    assert sub.spawn.task == "Count the files."
    assert next(t for t in found["ses_1"].turns if t.key == sub.head).query[0].source == "agent"


def test_a_session_that_is_being_written_to_is_read_and_another_stamp_shows(folder: Path) -> None:
    talk = Talk()
    talk.exchange("1")
    path = write_rows(folder, talk)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = wal")
        (before,) = OpencodeImporter().open(path)
        writer.execute("UPDATE session SET time_updated = time_updated + 1")
        assert [bundle.stamp for bundle in OpencodeImporter().open(path)] == [before.stamp]
        writer.commit()
        assert [bundle.stamp for bundle in OpencodeImporter().open(path)] != [before.stamp]
        assert len(project(path)["ses_1"].turns) == 1


def test_rows_keep_their_number_and_every_column(folder: Path) -> None:
    talk = Talk()
    talk.exchange("1")
    (bundle,) = OpencodeImporter().open(write_rows(folder, talk))
    records = list(OpencodeImporter().read(bundle))
    assert [(record.file, record.offset) for record in records[:3]] == [
        ("opencode.db/session", 1), ("opencode.db/message", 1), ("opencode.db/message", 2),
    ]  # fmt: skip
    row = json.loads(records[1].data)
    assert set(row) == {"id", "session_id", "time_created", "time_updated", "data"}


def test_strange_rows_raise_nothing(folder: Path) -> None:
    talk = Talk()
    talk.exchange("1")
    talk.ask("half \ud800 and \x00", {"type": "hologram"})
    talk.answer(tool("c\x00", input={"big": 2**70, "half": "\udfff"}))
    path = write_rows(folder, talk)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE session SET title = x'ff00'")
        for id, data in (("a", "{cut"), ("b", ""), ("c", b"\xff\xfe"), ("d", "7")):
            connection.execute("INSERT INTO part VALUES (?, 'gone', 'ses_1', 0, 0, ?)", (id, data))
    told = project(path)["ses_1"]
    assert told.unknown == {"part/hologram": 1}
    assert len(told.orphans) == 4
    assert len(ids(told)) == 2


@pytest.mark.slow
def test_a_long_session_is_read_in_one_pass(tmp_path: Path) -> None:
    talk = Talk()
    for number in range(5_000):
        talk.exchange(str(number))
    assert len(project(write_rows(tmp_path / "long", talk))["ses_1"].turns) == 5_000


def test_sessions_are_found_where_the_environment_says(tmp_path: Path) -> None:
    write_rows(tmp_path / ".local" / "share" / "opencode", Talk())
    write_files(tmp_path / "data" / "opencode", Talk("ses_2"))
    opencode = OpencodeImporter()

    def found(environ: dict[str, str]) -> list[str]:
        bundles: list[TranscriptRef] = list(opencode.discover(ToolPaths(tmp_path, environ)))
        return [bundle.id for bundle in bundles]

    assert found({}) == ["ses_1"]
    assert found({"XDG_DATA_HOME": str(tmp_path / "data")}) == ["ses_2"]
    assert found({"XDG_DATA_HOME": str(tmp_path / "nowhere")}) == []


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "opencode.db").write_bytes(b"SQLite format 3\x00 but not really")
    (tmp_path / "a.txt").write_text("hello")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE session (id)")
    for path in (tmp_path, *tmp_path.iterdir()):
        assert list(OpencodeImporter().open(path)) == []
