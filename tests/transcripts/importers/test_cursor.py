"""Cursor's conversations, from databases that this file makes: they are synthetic throughout."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from proofs.transcripts.cursor import (
    HEADERS,
    START,
    called,
    conversation,
    line,
    said,
    transcript,
    user,
    write,
)
from proofs.transcripts.mangle import mangled
from turntree.core.message import (
    Media,
    Message,
    OpaquePart,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
)
from turntree.core.message_context import TouchedFile, files_of
from turntree.core.principal import Principal
from turntree.ledger.raw_codec import RawRecord
from turntree.testing.contracts.importer import check_importer
from turntree.transcripts.drafts import Projection, seal_drafts
from turntree.transcripts.importer import ToolPaths
from turntree.transcripts.importers.cursor.importer import CursorImporter


def told(path: Path, id: str = "c1") -> Projection:
    importer = CursorImporter()
    bundle = next(bundle for bundle in importer.open(path) if bundle.id == id)
    return importer.project(bundle, list(importer.read(bundle)))


def one(tmp_path: Path, *bubbles: dict[str, Any], **more: Any) -> Projection:
    return told(write(tmp_path, conversation("c1", *bubbles, **more)))


def first_reply(projection: Projection) -> Message:
    return projection.turns[0].reply[0]


def test_a_bubble_of_a_person_begins_a_turn_and_all_up_to_the_next_answers_it(
    tmp_path: Path,
) -> None:
    projection = one(tmp_path, user("one"), said("a"), said("b"), user("two"), said("c"))
    first, second = projection.turns
    assert [m.text for m in (*first.query, *first.reply)] == ["one", "a", "b"]
    assert [m.text for m in (*second.query, *second.reply)] == ["two", "c"]
    assert second.parent == first.key
    assert first.query[0].source == "human"
    assert [(s.id, s.label, s.head) for s in projection.sessions] == [("c1", "cursor/c1", "c1/b3")]
    assert [turn.outcome for turn in projection.turns] == ["completed", "completed"]


def test_the_headers_give_the_order_and_the_type_where_a_bubble_has_none(tmp_path: Path) -> None:
    rows = conversation("c1", user("first", bubbleId="z"), said("second", bubbleId="a"))
    del rows["bubbleId:c1:z"]["type"]
    projection = told(write(tmp_path, rows))
    assert projection.turns[0].query[0].text == "first"


def test_bubbles_outside_the_headers_are_orphans_and_stay_records(tmp_path: Path) -> None:
    rows = conversation("c1", user("kept"), said("kept"))
    rows["bubbleId:c1:edited-away"] = user("gone")
    importer = CursorImporter()
    (bundle,) = importer.open(write(tmp_path, rows))
    records = list(importer.read(bundle))
    projection = importer.project(bundle, records)
    assert [records[place].data.split(b"\n")[0] for place in projection.orphans] == [
        b"bubbleId:c1:edited-away"
    ]
    assert len(projection.turns) == 1


def test_an_inline_conversation_of_an_older_generation_is_read(tmp_path: Path) -> None:
    capabilities = [
        {"type": 15, "data": {"bubbleDataMap": '{"b1": {"name": "grep", "toolCallId": "t", '
                                               '"status": "completed", "result": "3 hits"}}'}},
    ]  # fmt: skip
    row = {
        "_v": 1,
        "composerId": "c1",
        "createdAt": START,
        "conversation": [
            {"bubbleId": "b0", "type": 1, "text": "find it"},
            {"bubbleId": "b1", "type": 2, "text": ""},
            {"bubbleId": "b2", "type": 2, "text": "found"},
        ],
        "capabilities": capabilities,
    }
    (turn,) = told(write(tmp_path, {"composerData:c1": row})).turns
    assert [m.role for m in turn.reply] == ["assistant", "tool", "assistant"]
    assert turn.reply[1].parts == (ToolResult("t", "ok", "3 hits"),)
    assert turn.records == (0,)


def test_a_workspace_that_holds_its_conversations_itself_is_read(tmp_path: Path) -> None:
    place = tmp_path / "User/workspaceStorage/abc"
    entry = {"composerId": "old", "name": "Old one", "conversation": [user("hi"), said("hello")]}
    tab = {"tabId": "tab", "chatTitle": "A tab",
           "bubbles": [{"type": "user", "text": "q"}, {"type": "ai", "rawText": "a"}]}  # fmt: skip
    write(place, {}, items={
        "composer.composerData": {"allComposers": [entry, {"composerId": "elsewhere"}]},
        "workbench.panel.aichat.view.aichat.chatdata": {"tabs": [tab]},
    })  # fmt: skip
    (place / "workspace.json").write_text('{"folder": "file:///home/ana/my%20app"}')
    projections = {
        bundle.id: CursorImporter().project(bundle, list(CursorImporter().read(bundle)))
        for bundle in CursorImporter().open(tmp_path)
    }
    assert sorted(projections) == ["old", "tab"]
    assert [s.title for p in projections.values() for s in p.sessions] == ["Old one", "A tab"]
    assert projections["old"].sessions[0].details["cwd"] == "/home/ana/my app"
    assert projections["tab"].turns[0].reply[0].text == "a"


def test_a_conversation_finds_its_workspace_in_each_generation(tmp_path: Path) -> None:
    users = tmp_path / "User"
    rows = {
        **conversation("v2", user("q"), said("a")),
        **conversation("v3", user("q"), said("a")),
        **conversation("pane", user("q"), said("a")),
        **conversation("table", user("q"), said("a")),
        **conversation("own", user("q"), said("a"),
                       workspaceIdentifier={"id": "x", "uri": {"fsPath": "/own"}}),
    }  # fmt: skip
    file = write(users / "globalStorage", rows)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executescript(HEADERS)
        head = orjson.dumps({"name": "From the table", "unifiedMode": "agent"}).decode()
        connection.execute(
            "INSERT INTO composerHeaders VALUES ('table', 'w4', 1, 2, 0, 0, 2, 0, ?, NULL)", (head,)
        )
    pane = "workbench.panel.composerChatViewPane.1"
    places: dict[str, dict[str, Any]] = {
        "w1": {"composer.composerData": {"allComposers": [{"composerId": "v2", "name": "Two"}]}},
        "w2": {"composer.composerData": {"selectedComposerIds": ["v3"]}},
        "w3": {pane: {"workbench.panel.aichat.view.pane": {"collapsed": False}}},
        "w4": {"composer.composerData": {"hasMigratedComposerData": True}},
    }
    for name, items in places.items():
        write(users / "workspaceStorage" / name, {}, items=items)
        (users / "workspaceStorage" / name / "workspace.json").write_text(
            f'{{"folder": "file:///{name}"}}'
        )
    sessions = {id: told(users, id).sessions[0] for id in ("v2", "v3", "pane", "table", "own")}
    assert {id: session.details["cwd"] for id, session in sessions.items()} == {
        "v2": "/w1", "v3": "/w2", "pane": "/w3", "table": "/w4", "own": "/own",
    }  # fmt: skip
    assert (sessions["v2"].title, sessions["table"].title) == ("Two", "From the table")


def test_times_that_count_from_the_start_of_a_window_are_not_taken(tmp_path: Path) -> None:
    iso = "2026-06-01T10:00:00.000Z"
    projection = one(
        tmp_path,
        user("a", timingInfo={"clientStartTime": 12_345.6, "clientEndTime": START + 5}),
        said("b", timingInfo={"clientStartTime": 99.0}),
        user("c", createdAt=iso),
        said("d", createdAt="no time"),
        user("e"),
        said("f"),
    )
    first, second, third = projection.turns
    assert first.started_at == "2026-05-28T20:26:40.005Z"
    assert first.reply[0].at is None
    assert (second.started_at, second.sealed_at) == (iso, iso)
    assert third.started_at == iso, "the time before stands for one that nobody wrote down"


def test_a_call_has_its_arguments_from_text_its_result_and_its_status(tmp_path: Path) -> None:
    tool: dict[str, Any] = {
        "toolIndex": 2, "params": '{"command": "ls"}', "rawArgs": '{"command":"no"}',
        "result": '{"output": "a.py"}', "userDecision": "accepted", "additionalData": {"x": 1},
    }  # fmt: skip
    projection = one(
        tmp_path,
        user("go"),
        called("run_terminal_cmd", **tool),
        called(
            "grep", "call-a", params="", rawArgs='{"q": 1}', status="error", error='{"m": "no"}'
        ),
        called("edit", "call-c", params="not json", status="cancelled"),
        called("wait", "call-d", status="loading"),
        said("done"),
    )
    (turn,) = projection.turns
    parts = [part for message in turn.reply for part in message.parts]
    assert parts == [
        ToolUse("call-a", "run_terminal_cmd", {"command": "ls"}),
        ToolResult("call-a", "ok", {"output": "a.py"}),
        ToolUse("call-a#1", "grep", {"q": 1}),
        ToolResult("call-a#1", "error", {"m": "no"}),
        ToolUse("call-c", "edit", "not json"),
        ToolResult("call-c", "canceled", None),
        ToolUse("call-d", "wait", {}),
        Text("done"),
    ]
    assert turn.reply[0].meta == {
        "cursor": {"tool_number": 5, "tool_index": 2, "user_decision": "accepted"}
    }


def test_the_shell_of_a_call_is_none(tmp_path: Path) -> None:
    empty = said(toolFormerData={"additionalData": {"status": "error"}})
    nameless = said(toolFormerData={"tool": 7, "toolCallId": "t", "status": "completed"})
    (turn,) = one(tmp_path, user("go"), empty, nameless).turns
    assert [use.tool for message in turn.reply for use in message.tool_uses] == ["tool_7"]


def test_a_turn_that_still_runs_is_open_and_one_that_was_stopped_is_not(tmp_path: Path) -> None:
    running = one(tmp_path / "1", user("a"), said("b"), user("c"), called("x", status="loading"))
    assert [(t.open, t.outcome) for t in running.turns] == [
        (False, "completed"), (True, "interrupted"),
    ]  # fmt: skip
    generating = one(tmp_path / "2", user("a"), said("half"), status="generating")
    assert [(t.open, t.outcome) for t in generating.turns] == [(True, "interrupted")]
    unanswered = one(tmp_path / "3", user("a"), user("b"))
    assert [(t.open, t.outcome) for t in unanswered.turns] == [
        (False, "interrupted"), (True, "interrupted"),
    ]  # fmt: skip
    stopped = one(tmp_path / "4", user("a"), called("x", status="cancelled"), status="aborted")
    assert [(t.open, t.outcome) for t in stopped.turns] == [(False, "canceled")]


def test_what_changes_about_a_conversation_changes_no_turn_of_it(tmp_path: Path) -> None:
    bubbles = (user("a"), said("b", modelInfo={"modelName": "sonnet"}))
    before = one(tmp_path / "1", *bubbles, modelConfig={"modelName": "gpt"}, status="completed")
    after = one(tmp_path / "2", *bubbles, modelConfig={"modelName": "opus"}, status="aborted",
                lastUpdatedAt=START + 9, name="Another name")  # fmt: skip
    assert before.turns == after.turns
    assert (before.turns[0].model, before.turns[0].provider) == ("sonnet", "cursor")
    assert after.sessions[0].details["model"] == "opus"


def test_thoughts_keep_their_signature(tmp_path: Path) -> None:
    projection = one(
        tmp_path,
        user("a"),
        said(thinking={"text": "hm", "signature": "sig", "redactedThinking": "xx"},
             thinkingDurationMs=40, capabilityType=30),
        said("b", thinking='{"text": "as text"}'),
    )  # fmt: skip
    assert first_reply(projection).parts == (
        Reasoning("hm", "sig"),
        OpaquePart({"kind": "cursor/redactedThinking", "value": "xx"}),
    )
    assert first_reply(projection).meta == {
        "cursor": {"capabilityType": 30, "thinkingDurationMs": 40}
    }
    assert projection.turns[0].reply[1].parts == (Reasoning("as text"), Text("b"))


def test_lints_stand_in_the_context_as_the_view_reads_them(tmp_path: Path) -> None:
    span = {"startPosition": {"line": 3, "column": 1}, "endPosition": {"line": 4, "column": 9}}
    asked = user(
        "fix it",
        multiFileLinterErrors=[{
            "relativeWorkspacePath": "src/a.py", "fileContents": "…",
            "errors": [{"message": "unused", "range": span, "source": "ruff", "severity": 2,
                        "isStale": True, "relatedInformation": [{"message": "here"}]}],
        }],
        approximateLintErrors=[{"message": "odd", "value": "x = 1", "startLine": 7, "endLine": 8,
                                "startColumn": 0, "endColumn": 4}],
        lints=[{"lints": [{"message": "third", "severity": "DIAGNOSTIC_SEVERITY_ERROR"}],
                "chatCodeblockModelValue": "…"}],
    )  # fmt: skip
    context = one(tmp_path, asked, said("ok")).turns[0].query[0].context
    assert context is not None
    assert context["lints"] == [
        {"path": "src/a.py", "message": "unused", "source": "ruff", "line_start": 3,
         "column_start": 1, "line_end": 4, "column_end": 9, "severity": "warning", "stale": True,
         "related": [{"message": "here"}]},
        {"message": "odd", "value": "x = 1", "line_start": 7, "line_end": 8, "column_start": 0,
         "column_end": 4},
        {"message": "third", "severity": "error"},
    ]  # fmt: skip


def test_files_are_attached_referenced_read_or_written(tmp_path: Path) -> None:
    chunk = {"relativeWorkspacePath": "src/a.py", "startLineNumber": 10, "lines": ["x", "y", "z"],
             "languageIdentifier": "python", "intent": 1}  # fmt: skip
    uri = {"path": "/w/b.py", "_fsPath": "/w/b.py", "_formatted": "file:///w/b.py"}
    span = {"selectionStartLineNumber": 2, "positionLineNumber": 5}
    projection = one(
        tmp_path,
        user("look", attachedCodeChunks=[chunk], relevantFiles=["rel.py"],
             recentlyViewedFiles=[{"relativeWorkspacePath": "seen.py", "startLineNumber": 1}],
             context={"fileSelections": [{"uri": uri}], "folderSelections": [{"uri": "file:///d"}],
                      "selections": [{"uri": uri, "range": span, "rawText": "…"}],
                      "terminalSelections": [{"text": "$ ls"}]}),
        called("read_file", "1", params='{"target_file": "r.py", "startLineOneIndexed": 3, '
                                        '"endLineOneIndexedInclusive": 9}'),
        called("edit_file", "2", params='{"relativeWorkspacePath": "w.py"}'),
        called("read_file_v2", "3", params='{"path": "/p.py", "offset": 5, "limit": 10}'),
        said("see", suggestedCodeBlocks=[{"relativeWorkspacePath": "s.py"}],
             userResponsesToSuggestedCodeBlocks=[
                 {"userResponseType": "ACCEPT", "filePath": "s.py"},
                 {"userResponseType": "REJECT", "filePath": "n.py"}]),
    )  # fmt: skip
    (turn,) = projection.turns
    assert list(files_of(turn.query[0])) == [
        TouchedFile("attached", "src/a.py", 10, 12),
        TouchedFile("attached", "/w/b.py"),
        TouchedFile("attached", "/w/b.py", 2, 5),
        TouchedFile("attached", "/d"),
        TouchedFile("referenced", "rel.py"),
        TouchedFile("referenced", "seen.py", 1),
    ]
    assert [file for said in turn.reply for file in files_of(said)] == [
        TouchedFile("read", "r.py", 3, 9),
        TouchedFile("written", "w.py"),
        TouchedFile("read", "/p.py", 5, 14),
        TouchedFile("referenced", "s.py"),
        TouchedFile("written", "s.py"),
    ]
    kinds = [part.document["kind"] for part in turn.query[0].parts if isinstance(part, OpaquePart)]
    assert kinds == [
        "cursor/attachedCodeChunks", "cursor/selections", "cursor/terminalSelections",
    ]  # fmt: skip


def test_code_beside_the_words_is_fenced_once(tmp_path: Path) -> None:
    blocks = [
        {"content": "x = 1", "languageId": "python", "uri": {"path": "src/a.py"}},
        {"content": "y = 2", "languageId": "python"},
    ]
    projection = one(tmp_path, user("a"), said("Here:\n```python\ny = 2\n```", codeBlocks=blocks))
    assert first_reply(projection).text == (
        "Here:\n```python\ny = 2\n```\n\n```python src/a.py\nx = 1\n```"
    )


def test_rich_text_stands_in_for_words_and_images_are_named(tmp_path: Path) -> None:
    rich = {"root": {"children": [
        {"type": "paragraph", "children": [{"type": "text", "text": "see "},
                                           {"type": "mention", "text": "@a.py"}]},
        {"type": "paragraph", "children": [{"type": "text", "text": "please"},
                                           {"type": "linebreak"}]},
    ]}}  # fmt: skip
    images = [{"path": "/tmp/shot.PNG", "uuid": "u"}, {"data": "…"}]  # noqa: S108
    asked = user("", richText=orjson.dumps(rich).decode(), images=images, cursorRules=[{"n": "r"}])
    (turn,) = one(tmp_path, asked, said("ok"), user("", richText="plain"), said("ok")).turns[:1]
    assert turn.query[0].parts == (
        Text("see @a.py\nplease\n"),
        Media("image", "image/png", name="/tmp/shot.PNG"),  # noqa: S108
        OpaquePart({"kind": "cursor/image", "value": {"data": "…"}}),
    )
    assert turn.query[0].context == {"cursor": {"cursorRules": [{"n": "r"}]}}


def test_tokens_are_a_model_call_where_they_are_counted(tmp_path: Path) -> None:
    counted = said("b", tokenCount={"inputTokens": 7, "outputTokens": 3}, usageUuid="u")
    projection = one(tmp_path, user("a", tokenCount={"inputTokens": 0, "outputTokens": 0}), counted)
    (call,) = projection.turns[0].calls
    assert (call.usage.input, call.usage.output, call.call_id) == (7, 3, "b1")


def test_a_checkpoint_is_told_with_its_bubble_without_its_id(tmp_path: Path) -> None:
    rows = conversation("c1", user("a", checkpointId="k"), said("b"))
    rows["checkpointId:c1:k"] = {
        "files": [{"uri": {"path": "/w/a.py"}, "originalModelDiffWrtV0": []}],
        "nonExistentFiles": [], "newlyCreatedFolders": [{"uri": {"path": "/w/new"}}],
        "activeInlineDiffs": [],
    }  # fmt: skip
    rows["messageRequestContext:c1:b0"] = {"projectLayouts": []}
    (turn,) = told(write(tmp_path, rows)).turns
    assert turn.query[0].meta == {
        "cursor": {"checkpoint": {"files": ["/w/a.py"], "newlyCreatedFolders": ["/w/new"]}}
    }
    assert len(turn.records) == 4


def test_a_summary_between_two_turns_is_a_compaction(tmp_path: Path) -> None:
    summary = said(capabilityType=22, conversationSummary={"summary": "we did much"})
    before = one(tmp_path / "1", user("a"), said("b"), user("c"), summary, said("d"))
    assert [(t.kind, t.parent) for t in before.turns] == [
        ("normal", None), ("compaction", "c1/b0"), ("normal", "c1/b3"),
    ]  # fmt: skip
    assert before.turns[1].reply[0].text == "we did much"
    after = one(tmp_path / "2", user("a"), said("b"), summary, user("c"), said("d"))
    assert [turn.kind for turn in after.turns] == ["normal", "compaction", "normal"]
    within = one(tmp_path / "3", user("a"), said("b"), summary, said("d"))
    assert [turn.kind for turn in within.turns] == ["normal"]
    assert within.turns[0].reply[1].parts == (
        OpaquePart({"kind": "cursor/conversationSummary", "value": {"summary": "we did much"}}),
    )


def test_subagents_are_sessions_begun_by_a_call(tmp_path: Path) -> None:
    rows = {
        **conversation(
            "c1", user("go"),
            called("task", "t1", params='{"description": "look"}', result='{"agentId": "named"}'),
            called("task", "t2", params='{"prompt": "write"}'),
            called("task", "t3"), said("done"),
            subagentComposerIds=["named", "numbered", "c1", "gone"],
        ),
        **conversation("named", user("look"), said("seen")),
        **conversation("numbered", user("write"), said("written")),
        **conversation("knows", user("x"), said("y"),
                       subagentInfo={"parentComposerId": "c1", "toolCallId": "t3"}),
    }  # fmt: skip
    file = write(tmp_path, rows)
    assert [bundle.id for bundle in CursorImporter().open(file)] == ["c1"]
    projection = told(file)
    spawns = {s.id: s.spawn and (s.spawn.call_id, s.spawn.task) for s in projection.sessions}
    assert spawns == {
        "c1": None, "named": ("t1", "look"), "numbered": ("t2", "write"), "knows": ("t3", None),
    }  # fmt: skip
    assert projection.sessions[0].id == "c1"


def test_composers_that_call_each_other_subagents_are_still_found(tmp_path: Path) -> None:
    rows = {
        **conversation("x", user("q"), said("a"), subagentComposerIds=["y"]),
        **conversation("y", user("q"), said("a"), subagentComposerIds=["x"]),
    }
    file = write(tmp_path, rows)
    assert [bundle.id for bundle in CursorImporter().open(file)] == ["x"]
    assert [session.id for session in told(file, "x").sessions] == ["x", "y"]


def test_what_is_known_of_a_whole_conversation_is_a_detail_of_its_session(tmp_path: Path) -> None:
    projection = one(
        tmp_path, user("a"), said("b"), name="Title", unifiedMode="agent", isAgentic=True,
        contextTokensUsed=5, contextTokenLimit=10, todos=[{"content": "x"}],
        totalLinesAdded=4, totalLinesRemoved=2, newlyCreatedFiles=[{"uri": {"path": "/n.py"}}],
        originalFileStates={"file:///o.py": {"content": ""}}, subComposerIds=["s"],
        isBestOfNParent=True, trackedGitRepos=[{"repoPath": "/w"}], usageData={"d": 1},
    )  # fmt: skip
    (session,) = projection.sessions
    assert session.title == "Title"
    assert session.details == {
        "created_ms": START, "version": 17, "mode": "agent", "agentic": True, "context_tokens": 5,
        "context_tokens_max": 10, "todos": [{"content": "x"}], "lines_added": 4,
        "lines_removed": 2, "files_created": ["/n.py"], "files_changed": ["/o.py"],
        "parts": ["s"], "best_of_n": True, "repositories": [{"repoPath": "/w"}], "usage": {"d": 1},
    }  # fmt: skip


def test_null_blob_and_broken_values_never_raise(tmp_path: Path) -> None:
    rows = conversation("c1", user("a"), said("b"), said("c"), said("d"), said("e"))
    rows["bubbleId:c1:b1"] = None
    rows["bubbleId:c1:b2"] = orjson.dumps(said("from a blob"))
    rows["bubbleId:c1:b3"] = '{"type": 2, "text": "cut'
    rows["bubbleId:c1:b4"] = '{"type": 2, "text": "half \\ud83d and \\u0000"}'
    rows["composerData:empty"] = None
    rows["composerData:draft"] = {"composerId": "draft", "fullConversationHeadersOnly": []}
    file = write(tmp_path, rows)
    assert [bundle.id for bundle in CursorImporter().open(file)] == ["c1", "draft"]
    projection = told(file)
    assert [m.text for m in projection.turns[0].reply] == ["from a blob", "half ? and \x00"]
    assert projection.broken == 1
    assert told(file, "draft").sessions == []


def test_ids_that_differ_in_case_are_two(tmp_path: Path) -> None:
    rows = {**conversation("AB", user("upper"), said("x")), **conversation("ab", user("lower"))}
    file = write(tmp_path, rows)
    assert told(file, "AB").turns[0].query[0].text == "upper"
    assert len(told(file, "AB").turns) == 1


def test_keys_nobody_knows_are_counted(tmp_path: Path) -> None:
    importer = CursorImporter()
    (bundle,) = importer.open(write(tmp_path, conversation("c1", user("a"), said("b"))))
    records = [
        *importer.read(bundle),
        RawRecord("state.vscdb/cursorDiskKV", 99, b"newThing:c1:x\n{}"),
    ]
    assert importer.project(bundle, records).unknown == {"newThing": 1}


def test_a_stamp_changes_with_every_message_of_its_own_and_with_no_other(tmp_path: Path) -> None:
    rows = {**conversation("c1", user("a"), said("b")), **conversation("c2", user("a"), said("b"))}
    file = write(tmp_path, rows)
    before = stamps(file)
    write(tmp_path, {"bubbleId:c1:b1": said("c")})
    after = stamps(file)
    assert before["c1"] != after["c1"]
    assert before["c2"] == after["c2"]


def test_a_database_in_use_is_read_with_what_was_just_written(tmp_path: Path) -> None:
    file = write(tmp_path, conversation("c1", user("a"), said("b")))
    with closing(sqlite3.connect(file)) as editor:
        editor.execute("PRAGMA journal_mode = wal")
        bubble = orjson.dumps(said("just now")).decode()
        editor.execute("INSERT INTO cursorDiskKV VALUES ('bubbleId:c1:b1', ?)", (bubble,))
        editor.commit()
        editor.execute("BEGIN IMMEDIATE")
        assert told(file).turns[0].reply[0].text == "just now"


def test_reading_leaves_no_file_behind(tmp_path: Path) -> None:
    file = write(tmp_path, conversation("c1", user("a"), said("b")))
    told(file)
    assert [path.name for path in tmp_path.iterdir()] == ["state.vscdb"]


def test_what_is_no_database_of_cursor_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "state.vscdb").write_text("not a database")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    (tmp_path / "cut.db").write_bytes(b"SQLite format 3\x00" + b"\x00" * 50)
    for name in ("state.vscdb", "other.db", "cut.db", "missing", "."):
        assert list(CursorImporter().open(tmp_path / name)) == []


@pytest.mark.parametrize(
    ("below", "environ"),
    [
        (".config/Cursor/User", {}),
        ("Library/Application Support/Cursor/User", {}),
        ("roaming/Cursor/User", {"APPDATA": "roaming"}),
        ("xdg/Cursor/User", {"XDG_CONFIG_HOME": "xdg"}),
    ],
)
def test_the_editors_folder_is_found_on_every_system(
    tmp_path: Path, below: str, environ: dict[str, str]
) -> None:
    write(tmp_path / below / "globalStorage", conversation("c1", user("a"), said("b")))
    told_of = {name: str(tmp_path / value) for name, value in environ.items()}
    (bundle,) = CursorImporter().discover(ToolPaths(tmp_path, told_of))
    assert bundle.id == "c1"
    assert next(CursorImporter().read(bundle)).file == "globalStorage/state.vscdb/cursorDiskKV"


@pytest.mark.slow
def test_more_subagents_than_one_statement_is_given_keys_are_all_read(tmp_path: Path) -> None:
    ids = [f"s{n}" for n in range(450)]
    rows = conversation("c1", user("a"), said("b"), subagentComposerIds=ids)
    for id in ids:
        rows |= conversation(id, user("a"), said("b"))
    file = write(tmp_path, rows)
    assert len(told(file).sessions) == 451


def test_transcripts_of_the_command_line_are_read(tmp_path: Path) -> None:
    use = {"type": "tool_use", "name": "Read", "input": {"path": "a.py"}}
    task = {"type": "tool_use", "name": "Task", "input": {}}
    ended = {"type": "turn_ended", "status": "success"}
    folder = tmp_path / ".cursor/projects/home-ana/agent-transcripts"
    transcript(
        folder / "agent/agent.jsonl", line("user", "q"), line("assistant", "I read", use),
        line("assistant", use, task), ended, line("user", "more"), line("assistant", "half"),
        {"type": "new"},
    )  # fmt: skip
    transcript(folder / "agent/subagents/sub.jsonl", line("user", "s"), line("assistant", "t"))
    transcript(folder / "known.jsonl", line("user", "q"), line("assistant", "a"))
    known = conversation("known", user("q"), said("a"))
    write(tmp_path / ".config/Cursor/User/globalStorage", known)
    importer = CursorImporter()
    bundles = {bundle.id: bundle for bundle in importer.discover(ToolPaths(tmp_path, {}))}
    assert sorted(bundles) == ["agent", "known"]
    assert bundles["known"].files[0].name == "state.vscdb", "a database knows more"
    agent = bundles["agent"]
    projection = importer.project(agent, list(importer.read(agent)))
    first, second, below = projection.turns
    assert [part for message in first.reply for part in message.parts] == [
        Text("I read"),
        ToolUse("call", "Read", {"path": "a.py"}),
        ToolUse("call#1", "Read", {"path": "a.py"}),
        ToolUse("call#2", "Task", {}),
    ]
    assert [(t.outcome, t.open) for t in (first, second)] == [
        ("completed", False), ("interrupted", True),
    ]  # fmt: skip
    assert below.query[0].text == "s"
    (_, subagent) = projection.sessions
    assert subagent.spawn is not None
    assert (subagent.id, subagent.spawn.call_id) == ("sub", "call#2")
    assert projection.unknown == {"new": 1}
    assert len(check_importer(importer, folder)) == 4


def test_nothing_that_makes_no_sense_raises(tmp_path: Path) -> None:
    chunk = {"relativeWorkspacePath": "a.py", "startLineNumber": 1, "lines": ["x"]}
    errors = [{"message": "m", "range": {"startPosition": {"line": 1}}, "severity": 1}]
    rows = {
        **conversation(
            "c1",
            user("a", attachedCodeChunks=[chunk], images=[{"path": "/x.png"}], checkpointId="k",
                 multiFileLinterErrors=[{"relativeWorkspacePath": "a", "errors": errors}],
                 context={"fileSelections": [{"uri": {"path": "/a"}}], "selections": [chunk]},
                 richText={"root": {"children": [{"text": "x"}]}}),
            said("b", thinking={"text": "x", "signature": "y"}, codeBlocks=[{"content": "c"}],
                 modelInfo={"modelName": "m"}, tokenCount={"inputTokens": 1, "outputTokens": 2},
                 timingInfo={"clientStartTime": START}),
            called("task", "t", params='{"prompt": "p"}', additionalData={"x": 1}),
            said("s", capabilityType=22, conversationSummary={"summary": "s"}),
            user("c"), called("read_file", "t", params='{"path": "/x"}', result="{}"),
            subagentComposerIds=["c2"], workspaceIdentifier={"uri": {"fsPath": "/w"}},
            capabilities=[{"type": 15, "data": {"bubbleDataMap": {"b0": {"name": "n"}}}}],
            newlyCreatedFiles=[{"uri": "/n"}], originalFileStates={"file:///o": {}},
        ),
        **conversation("c2", user("x"), said("y"), subagentInfo={"parentComposerId": "c1"}),
        "checkpointId:c1:k": {"files": [{"uri": {"path": "/a"}}]},
    }  # fmt: skip
    importer = CursorImporter()
    (bundle,) = importer.open(write(tmp_path, rows))
    for strange in mangled(rows, 400):
        told_of = strange if isinstance(strange, dict) else {}
        records = [
            RawRecord("cursorDiskKV", n, f"{key}\n{json.dumps(value)}".encode())
            for n, (key, value) in enumerate(told_of.items())
        ]
        list(seal_drafts(importer.project(bundle, records), Principal("agent", "cursor")))


def test_the_contract_holds(tmp_path: Path) -> None:
    place = tmp_path / "User/workspaceStorage/w1"
    chats = {
        "allComposers": [{"composerId": "c1"}, {"composerId": "o", "conversation": [user("x")]}]
    }
    write(place, {}, items={"composer.composerData": chats})
    (place / "workspace.json").write_text('{"folder": "file:///w1"}')
    summary = said("sum", capabilityType=22)
    rows = {
        **conversation("c1", said("before"), user("a"), called("task", "t"), called("x", "t"),
                       summary, user("b"), called("y", "z", status="loading"),
                       subagentComposerIds=["c2"]),
        **conversation("c2", user("nul \x00"), said("x" * 20_000), createdAt="1960-01-01"),
    }  # fmt: skip
    rows["bubbleId:c1:b3"]["toolFormerData"]["params"] = "[" * 900 + "]" * 900
    write(tmp_path / "User/globalStorage", rows)
    assert len(check_importer(CursorImporter(), tmp_path)) == 6


def stamps(file: Path) -> dict[str, str]:
    return {bundle.id: bundle.stamp for bundle in CursorImporter().open(file)}


def test_a_database_whose_schema_is_damaged_holds_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, conversation("c1", user("q"), said("a")))
    importer = CursorImporter()
    (bundle,) = importer.open(file)
    file.write_bytes(file.read_bytes().replace(b"TABLE ItemTable (", b"TABLE \xf5temTabl\xf5 ("))
    assert list(importer.open(file)) == []
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CREATE \xf5\xf5BLE"))
    assert list(importer.open(file)) == []
    with pytest.raises(OSError, match="cannot be read"):
        list(importer.read(bundle))
