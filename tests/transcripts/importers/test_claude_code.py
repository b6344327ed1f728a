"""Claude Code's transcripts as turns, on records of our own making.

Every record here is synthetic: it has the fields of the tool's own, and words of ours.
"""

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from proofs.transcripts.claude_code import SLUG, USED, A, B, Tape, call, save, write
from turntree.api import Tree
from turntree.core.canonical import digest_bytes
from turntree.core.ids import TurnId, instant
from turntree.core.message import Media, OpaquePart, Reasoning, Text, ToolResult, ToolUse
from turntree.core.principal import Principal
from turntree.core.revision import check_label
from turntree.core.usage import Usage
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.ledger.raw_codec import RawRecord
from turntree.ledger.session_store import ReflogStore, SessionStore
from turntree.testing.contracts.importer import check_importer
from turntree.testing.fakes import FakeClock
from turntree.transcripts.drafts import DraftTurn, Projection, SealedDraft, seal_drafts
from turntree.transcripts.handoff_store import HandoffStore
from turntree.transcripts.importer import ToolPaths, TranscriptRef
from turntree.transcripts.importers.claude_code.importer import ClaudeCodeImporter
from turntree.transcripts.importers.claude_code.sessions import deletion_due
from turntree.transcripts.imports import ImportService
from turntree.transcripts.store import ImportStore


def project(root: Path, session: str = A) -> Projection:
    check_importer(ClaudeCodeImporter(), root)
    importer = ClaudeCodeImporter()
    bundle = next(b for b in importer.open(root) if b.files[0].stem == session)
    return importer.project(bundle, list(importer.read(bundle)))


def told(tmp_path: Path, tape: Tape) -> Projection:
    save(tmp_path, tape)
    return project(tmp_path, tape.session)


def shape(projection: Projection) -> list[tuple[str, str | None]]:
    return [(turn.key, turn.parent) for turn in projection.turns]


def turn(projection: Projection, key: str) -> DraftTurn:
    return next(turn for turn in projection.turns if turn.key == key)


def sealed(projection: Projection) -> dict[str, SealedDraft]:
    by = Principal("agent", "claude-code")
    return {found.draft.key: found for found in seal_drafts(projection, by)}


def ids(projection: Projection) -> dict[str, TurnId]:
    return {key: found.sealed.turn.id for key, found in sealed(projection).items()}


def attachments(projection: Projection, key: str, place: int = 0) -> list[Any]:
    said = (*turn(projection, key).query, *turn(projection, key).reply)[place]
    return cast("list[Any]", (said.context or {}).get("attachments", []))


# --- One turn


def test_lines_of_one_answer_are_one_message_and_its_usage_counts_once(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "look")
    first = {"usage": {"input_tokens": 3, "output_tokens": 1}, "stop_reason": None}
    tape.answer("a1", "msg_1", {"type": "thinking", "thinking": "", "signature": "sig"},
                message=first)  # fmt: skip
    tape.answer("a2", "msg_1", "Looking.", message=first)
    tape.answer("a3", "msg_1", call("c1", command="ls"))
    tape.result("r1", "c1", "a.py")
    tape.answer("a4", "msg_2", "One file.")
    found = turn(told(tmp_path, tape), "p")
    assert [said.role for said in found.reply] == ["assistant", "tool", "assistant"]
    assert found.reply[0].parts == (
        Reasoning("", "sig"),
        Text("Looking."),
        ToolUse("c1", "Bash", {"command": "ls"}),
    )
    assert [(c.call_id, c.usage) for c in found.calls] == [
        ("msg_1", Usage(3, 5, 7, 11, 2)),
        ("msg_2", Usage(3, 5, 7, 11, 2)),
    ]
    assert (found.model, found.provider, found.outcome) == (
        "claude-opus-5-5",
        "anthropic",
        "completed",
    )
    assert (found.started_at, found.sealed_at) == (
        "2026-11-15T09:00:00.398Z",
        "2026-11-15T09:00:05.398Z",
    )
    assert found.records == (0, 1, 2, 3, 4, 5)


def test_results_of_parallel_calls_are_no_forks(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "look at both")
    tape.answer("a1", "msg_1", call("c1", command="one"))
    tape.answer("a2", "msg_1", call("c2", command="two"))
    tape.result("r2", "c2", after="a2")
    tape.result("r1", "c1", after="a1")
    tape.answer("a3", "msg_2", "Both are fine.")
    tape.exchange("next")
    projection = told(tmp_path, tape)
    assert shape(projection) == [("p", None), ("next?", "p")]
    results = [part.call_id for said in turn(projection, "p").reply for part in said.tool_results]
    assert results == ["c2", "c1"]


def test_nested_numbers_tell_of_cache_writes_when_the_sum_does_not(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "hi")
    nested = {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 9}
    usage = {**USED, "cache_creation_input_tokens": 0, "cache_creation": nested}
    tape.answer("a", "msg_bdrk_1", "Hello.", message={"usage": usage})
    found = turn(told(tmp_path, tape), "p").calls[0]
    assert (found.usage.cache_write, found.provider) == (13, "bedrock")


def test_what_a_tool_answered_has_a_status(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "do it")
    refused = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    cases = [
        ("c1", "fine", {}, {}, "ok"),
        ("c2", "boom", {"is_error": True}, {}, "error"),
        ("c3", refused, {"is_error": True}, {}, "canceled"),
        ("c4", "Command timed out after 2m", {"is_error": True}, {}, "timeout"),
        ("c5", "part", {}, {"toolUseResult": {"interrupted": True}}, "interrupted"),
    ]
    tape.answer("a", "msg_1", *[call(case[0], command="x") for case in cases])
    for id, content, block, members, _ in cases:
        tape.result(f"r{id}", id, content, block=block, **members)
    tape.answer("b", "msg_2", "So.")
    reply = turn(told(tmp_path, tape), "p").reply
    results = [part for said in reply for part in said.parts if isinstance(part, ToolResult)]
    assert [(r.call_id, r.status) for r in results] == [(case[0], case[4]) for case in cases]


def test_who_allowed_a_call_and_how_long_it_took_stand_beside_its_result(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "do it", permissionMode="plan")
    tape.answer("a", "msg_1", call("c1", command="x"))
    decision = {"decision": "accept", "source": "hook", "reasonType": "rule"}
    tape.result("r", "c1", permissionDecision=decision, toolUseResult={"durationMs": 42})
    tape.answer("b", "msg_2", "So.")
    projection = told(tmp_path, tape)
    found = turn(projection, "p")
    assert found.query[0].meta == {"permission_mode": "plan"}
    assert found.reply[1].meta == {"permission": decision, "duration_ms": 42}
    assert projection.sessions[0].details["permission_mode"] == "plan"


def test_pictures_and_documents_are_parts(tmp_path: Path) -> None:
    tape = Tape()
    picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}
    paper = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    tape.prompt("p", [
        {"type": "text", "text": "what is this?"},
        {"type": "image", "source": picture},
        {"type": "document", "source": paper, "title": "a paper"},
        {"type": "document", "source": {"type": "text", "data": "plain"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}},
    ])  # fmt: skip
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    tape.answer("a", "msg_1", redacted, {"type": "text", "text": "See.", "citations": [{"n": 1}]})
    found = turn(told(tmp_path, tape), "p")
    assert found.query[0].parts == (
        Text("what is this?"),
        Media("image", "image/png", url="data:image/png;base64,iVBORw0="),
        Media(
            "file", "application/pdf", url="data:application/pdf;base64,JVBERi0=", name="a paper"
        ),
        Text("plain"),
        Media("image", "image/*", url="https://example.org/x.png"),
    )
    assert found.reply[0].parts == (
        OpaquePart({"kind": "anthropic.block", "block": redacted}),
        Text("See."),
        OpaquePart({"kind": "anthropic.citations", "citations": [{"n": 1}]}),
    )


def test_a_large_picture_is_kept_as_an_object_and_a_broken_one_as_it_came(tmp_path: Path) -> None:
    raw = bytes(range(256)) * 100
    good, bad = b64encode(raw).decode(), "!" * 9000
    tape = Tape()
    tape.prompt("p", [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
        for data in (good, bad)
    ])  # fmt: skip
    tape.answer("a", "msg_1", "Seen.")
    found = sealed(told(tmp_path, tape))["p"]
    assert found.objects == (raw,)
    assert found.sealed.turn.query[0].parts == (
        Media("image", "image/png", object=digest_bytes(raw)),
        Media("image", "image/png", url=f"data:image/png;base64,{bad}"),
    )


# --- How a turn ends


def test_an_interrupted_turn_is_interrupted_and_the_next_one_follows_it(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "do it")
    tape.answer("a", "msg_1", call("c1", command="sleep"))
    tape.prompt("s", [{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    tape.exchange("next")
    projection = told(tmp_path, tape)
    assert shape(projection) == [("p", None), ("next?", "p")]
    found = sealed(projection)["p"]
    assert (found.draft.outcome, found.draft.open, found.repaired) == ("interrupted", False, 1)


def test_a_call_that_failed_fails_its_turn(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "do it")
    tape.answer("a", "x1", "API Error: overloaded", isApiErrorMessage=True,
                message={"model": "<synthetic>"})  # fmt: skip
    found = turn(told(tmp_path, tape), "p")
    assert (found.outcome, found.model, found.calls, found.open) == ("failed", None, (), False)
    assert found.reply[0].meta == {"api_error": True}


@pytest.mark.parametrize("ends_after", ["p", "a", "r"])
def test_a_turn_that_the_file_ends_in_is_open(tmp_path: Path, ends_after: str) -> None:
    tape = Tape()
    tape.exchange("before")
    tape.prompt("p", "do it")
    if ends_after != "p":
        tape.answer("a", "msg_1", call("c1", command="x"))
    if ends_after == "r":
        tape.result("r", "c1")
    found = turn(told(tmp_path, tape), "p")
    assert (found.outcome, found.open) == ("interrupted", True)


def test_a_turn_that_others_followed_is_not_open(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "do it")
    tape.answer("a", "msg_1", call("c1", command="x"))
    tape.exchange("next")
    found = sealed(told(tmp_path, tape))["p"]
    assert (found.draft.outcome, found.draft.open, found.repaired) == ("interrupted", False, 1)


def test_what_comes_after_the_last_answer_changes_nothing(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    before = ids(told(tmp_path, tape))
    tape.add("attachment", "late", attachment={"type": "hook_success", "content": "ok"})
    tape.add("system", "took", subtype="turn_duration", durationMs=9)
    assert ids(told(tmp_path, tape)) == before


# --- Forks and resumes


def test_a_session_that_was_resumed_goes_on(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    tape.note("last-prompt", lastPrompt="one", leafUuid="one!")
    tape.note("mode", mode="normal")
    tape.exchange("two")
    projection = told(tmp_path, tape)
    assert shape(projection) == [("one?", None), ("two?", "one?")]
    assert projection.sessions[0].head == "two?"


def test_a_copied_fork_shares_its_prefix(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "look", promptId="p1")
    tape.add("attachment", "x", attachment={"type": "date"}, rendered=[{"content": "today"}])
    tape.answer("a", "msg_1", call("c1", command="ls"), requestRef="q1")
    tape.result("r", "c1", promptId="p1")
    tape.answer("b", "msg_2", "So.")
    fork = tape.copy(B)
    tape.exchange("here")
    fork.exchange("there")
    save(tmp_path, tape)
    save(tmp_path, fork)
    one, two = ids(project(tmp_path, A)), ids(project(tmp_path, B))
    assert one["p"] == two["p"]
    assert one["here?"] != two["there?"]


def test_a_fork_that_renames_its_records_shares_all_but_the_last_turn(tmp_path: Path) -> None:
    tape = compacted(preservedSegment={"headUuid": "three!"})
    tape.exchange("four")
    fork = Tape(B)
    for record in tape.records:
        names = {
            name: f"{record[name]}'"
            for name in ("uuid", "parentUuid", "logicalParentUuid")
            if record.get(name)
        }
        copied = {"sessionId": A, "messageUuid": record["uuid"]}
        fork.records.append({**record, **names, "sessionId": B, "forkedFrom": copied})
    fork.records[-1]["timestamp"] = "2026-11-15T10:00:00.000Z"
    save(tmp_path, tape)
    save(tmp_path, fork)
    one, two = ids(project(tmp_path, A)), ids(project(tmp_path, B))
    assert [one[key] == two[f"{key}'"] for key in one] == [True, True, True, True, False]


def test_a_rewind_leaves_two_siblings_and_the_head_at_the_newer(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    tape.exchange("two")
    tape.exchange("instead", after="one!")
    projection = told(tmp_path, tape)
    assert shape(projection) == [("one?", None), ("two?", "one?"), ("instead?", "one?")]
    assert projection.sessions[0].head == "instead?"


def test_a_fork_from_the_middle_of_a_turn_never_saw_its_rest(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "look")
    tape.answer("a", "msg_1", call("c1", command="ls"))
    tape.result("r", "c1")
    fork = tape.copy(B)
    fork.exchange("elsewhere")
    tape.answer("b", "msg_2", "The rest.")
    tape.exchange("elsewhere", after="r")
    # The copy was written at other times; only the shared part is the same.
    save(tmp_path, tape)
    save(tmp_path, fork)
    projection = project(tmp_path, A)
    assert shape(projection) == [("p", None), ("p@r", None), ("elsewhere?", "p@r")]
    assert [said.role for said in turn(projection, "p@r").reply] == ["assistant", "tool"]
    assert ids(projection)["p@r"] == ids(project(tmp_path, B))["p"]


def test_a_record_that_comes_twice_was_said_once(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    tape.records += tape.records
    projection = told(tmp_path, tape)
    assert shape(projection) == [("one?", None)]
    assert len(projection.turns[0].reply) == 1


def test_a_lost_record_does_not_tear_a_conversation(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    tape.exchange("two", after="lost")
    assert shape(told(tmp_path, tape)) == [("one?", None), ("two?", "one?")]


@pytest.mark.slow
def test_a_deep_conversation_needs_no_stack(tmp_path: Path) -> None:
    tape = Tape()
    for number in range(3000):
        tape.prompt(f"{number}?", "on", timestamp="2026-11-15T09:00:00.000Z")
        tape.answer(f"{number}!", f"m{number}", "x", timestamp="2026-11-15T09:00:00.000Z")
    tape.records.reverse()
    importer = ClaudeCodeImporter()
    bundle = next(iter(importer.open(save(tmp_path, tape))))
    projection = importer.project(bundle, list(importer.read(bundle)))
    assert len(list(seal_drafts(projection, Principal("agent", "x")))) == 3000


# --- Compactions


def compacted(**members: Any) -> Tape:
    tape = Tape()
    tape.exchange("one")
    tape.exchange("two")
    tape.exchange("three")
    tape.add("system", "cut", subtype="compact_boundary", after=None, logicalParentUuid="three!",
             compactMetadata={"trigger": "auto", "preTokens": 900, "postTokens": 90,
                              "durationMs": 12, **members})  # fmt: skip
    tape.prompt("sum", "They counted.\n\nPlease go on.", isCompactSummary=True,
                isVisibleInTranscriptOnly=True)  # fmt: skip
    return tape


def test_a_compaction_follows_what_it_summarises(tmp_path: Path) -> None:
    kept = {"preservedSegment": {"headUuid": "three!", "anchorUuid": "sum", "tailUuid": "three!"}}
    tape = compacted(**kept)
    tape.exchange("four")
    projection = told(tmp_path, tape)
    assert shape(projection)[2:] == [("three?", "two?"), ("cut", "three?"), ("four?", "cut")]
    found = sealed(projection)
    header = found["cut"].sealed.turn.header
    assert header.compaction is not None
    assert found["cut"].sealed.turn.reply[0].text.startswith("They counted.")
    details = header.compaction
    assert (details.trigger, details.tokens_before, details.tokens_after, details.duration_ms) == (
        "context_limit",
        900,
        90,
        12,
    )
    assert details.first_kept == found["three?"].sealed.turn.id
    assert details.summarized_through == found["two?"].sealed.turn.id
    assert details.turns_summarized == 2


@pytest.mark.parametrize("head", ["one!", "never-heard-of"])
def test_a_compaction_that_kept_nothing_it_could_tell_of_covers_everything(
    tmp_path: Path, head: str
) -> None:
    projection = told(tmp_path, compacted(preservedSegment={"headUuid": head}))
    header = sealed(projection)["cut"].sealed.turn.header
    assert header.compaction is not None
    assert (header.compaction.first_kept, header.compaction.turns_summarized) == (None, 3)


def test_work_that_goes_on_after_a_compaction_is_a_turn_of_its_own(tmp_path: Path) -> None:
    tape = compacted()
    tape.answer("a", "msg_4", call("c1", command="ls"))
    tape.result("r", "c1")
    tape.answer("b", "msg_5", "Went on.")
    projection = told(tmp_path, tape)
    found = turn(projection, "a")
    assert (found.parent, found.query[0].text, found.query[0].source) == (
        "cut",
        "Please go on.",
        "event",
    )
    assert len(turn(projection, "cut").reply) == 1


def test_context_that_a_compaction_brought_back_stands_beside_the_next_words(
    tmp_path: Path,
) -> None:
    tape = compacted()
    tape.prompt("c", "<command-name>/compact</command-name>")
    tape.prompt("d", "<local-command-stdout>Compacted</local-command-stdout>")
    tape.add("attachment", "x", attachment={"type": "date"}, rendered=[{"content": "today"}])
    tape.exchange("four")
    projection = told(tmp_path, tape)
    assert [piece["kind"] for piece in attachments(projection, "four?")] == [
        "command",
        "printed",
        "date",
    ]
    assert turn(projection, "four?").parent == "cut"


def test_a_summary_without_a_boundary_is_a_compaction_too(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    tape.prompt("sum", "All so far.", isCompactSummary=True, after=None)
    tape.exchange("two")
    projection = told(tmp_path, tape)
    assert [(t.key, t.parent, t.kind) for t in projection.turns][1:] == [
        ("sum", "one?", "compaction"),
        ("two?", "sum", "normal"),
    ]


def test_a_compaction_of_nothing_known_is_context(tmp_path: Path) -> None:
    tape = Tape()
    tape.add("system", "cut", subtype="compact_boundary", logicalParentUuid="elsewhere")
    tape.prompt("sum", "All so far.", isCompactSummary=True)
    tape.exchange("one")
    projection = told(tmp_path, tape)
    assert shape(projection) == [("one?", None)]
    assert attachments(projection, "one?") == [{"kind": "summary", "text": "All so far."}]


# --- What is no turn


def test_local_commands_and_their_output_are_no_turns(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("m", "<local-command-caveat>ran here</local-command-caveat>", isMeta=True)
    tape.prompt("c", "<command-name>/model</command-name>\n<command-args></command-args>")
    tape.prompt("o", "<local-command-stdout>Set model</local-command-stdout>")
    tape.answer("n", "x", "No response requested.", message={"model": "<synthetic>"})
    tape.exchange("one")
    tape.prompt("b", "<bash-input>ls</bash-input>")
    tape.prompt("bo", "<bash-stdout>a.py</bash-stdout>")
    projection = told(tmp_path, tape)
    assert shape(projection) == [("one?", None)]
    assert [piece["kind"] for piece in attachments(projection, "one?")] == [
        "printed",
        "command",
        "printed",
    ]


def test_a_command_that_the_model_answers_is_a_turn(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    args = "<command-args>src</command-args>"
    tape.prompt(
        "c", f"<command-message>x</command-message><command-name>/review</command-name>{args}"
    )
    tape.prompt("e", [{"type": "text", "text": "Review with care."}], isMeta=True)
    tape.answer("a", "msg_r", "Reviewed.")
    projection = told(tmp_path, tape)
    assert shape(projection) == [("one?", None), ("c", "one?")]
    assert [(said.text, said.source) for said in turn(projection, "c").query] == [
        ("/review src", "human"),
        ("Review with care.", "event"),
    ]


def test_a_command_that_is_answered_twice_is_one_turn(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    tape.prompt("c", "<command-name>/review</command-name>")
    tape.prompt("e1", "Review.", isMeta=True, after="c")
    tape.prompt("e2", "Review.", isMeta=True, after="c")
    tape.answer("a1", "msg_1", "First.", after="e1")
    tape.answer("a2", "msg_2", "Second.", after="e2")
    projection = told(tmp_path, tape)
    assert shape(projection) == [("one?", None), ("c", "one?")]
    assert [said.text for said in turn(projection, "c").reply] == ["First.", "Second."]


def test_words_put_in_while_tools_run_stand_beside_their_result(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "use the skill")
    tape.answer("a", "msg_1", call("c1", "Skill", skill="x"))
    tape.result("r", "c1")
    tape.prompt("m", [{"type": "text", "text": "The skill says."}], isMeta=True)
    tape.add("attachment", "q", attachment={"type": "queued_command", "prompt": "and hurry"})
    tape.answer("b", "msg_2", "Done.")
    projection = told(tmp_path, tape)
    assert shape(projection) == [("p", None)]
    assert attachments(projection, "p", 2) == [
        {"kind": "injected", "text": "The skill says."},
        {"kind": "queued_command", "text": "and hurry"},
    ]


def test_a_hook_that_sends_a_finished_model_on_begins_a_turn(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    before = ids(told(tmp_path, tape))
    tape.prompt("m", "Stop hook feedback: tests fail", isMeta=True)
    tape.answer("a", "msg_2", "Fixed.")
    projection = told(tmp_path, tape)
    assert shape(projection) == [("one?", None), ("m", "one?")]
    assert turn(projection, "m").query[0].source == "event"
    assert ids(projection)["one?"] == before["one?"]


def test_attachments_are_context_and_copies_of_the_request_are_not(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "look")
    tape.add("attachment", "x1", attachment={"type": "prompt_snapshot", "systemPrompt": ["you"]})
    tape.add("attachment", "x2", attachment={"type": "skill_listing"},
             rendered=[{"content": [{"type": "text", "text": "s" * 5000}]}])  # fmt: skip
    file = {"filePath": "/src/a.py", "startLine": 3, "numLines": 4}
    carried = {"type": "file", "filename": "/src/a.py", "content": {"type": "text", "file": file}}
    tape.add("attachment", "x3", attachment=carried)
    tape.add("progress", "x4", data={"type": "hook_progress"})
    tape.answer("a", "msg_1", "Seen.")
    said = turn(told(tmp_path, tape), "p").query[0]
    assert said.context == {
        "attachments": [{"kind": "skill_listing", "text": "s" * 4000, "length": 5000}],
        "files": [{"kind": "attached", "path": "/src/a.py", "line_start": 3, "line_end": 6}],
    }


@pytest.mark.parametrize(
    ("members", "source"),
    [
        ({"promptSource": "sdk", "turnOrigin": "sdk"}, "human"),
        ({"origin": {"kind": "task-notification"}}, "agent"),
        ({"turnOrigin": "task_notification"}, "agent"),
        ({"turnOrigin": "scheduled"}, "cron"),
        ({"origin": {"kind": "channel"}}, "webhook"),
        ({"origin": {"kind": "auto-continuation"}}, "event"),
    ],
)
def test_a_prompt_says_where_it_came_from(
    tmp_path: Path, members: dict[str, Any], source: str
) -> None:
    tape = Tape()
    tape.exchange("one", **members)
    assert turn(told(tmp_path, tape), "one?").query[0].source == source


# --- Files and lints


def test_files_that_tools_touched_stand_beside_their_results(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "work")
    cases: list[tuple[str, dict[str, Any], Any, list[Any]]] = [
        ("Read", {}, {"type": "text", "file": {"filePath": "/a", "startLine": 5, "numLines": 3}},
         [{"kind": "read", "path": "/a", "line_start": 5, "line_end": 7}]),
        ("Edit", {}, {"filePath": "/b", "structuredPatch": [
            {"newStart": 4, "newLines": 2}, {"newStart": 9, "newLines": 1}]},
         [{"kind": "written", "path": "/b", "line_start": 4, "line_end": 9}]),
        ("Write", {}, {"type": "create", "filePath": "/c", "structuredPatch": []},
         [{"kind": "written", "path": "/c"}]),
        ("NotebookEdit", {}, {"notebook_path": "/n"}, [{"kind": "written", "path": "/n"}]),
        ("Grep", {}, {"mode": "files_with_matches", "filenames": ["/d", "/e"]},
         [{"kind": "referenced", "path": "/d"}, {"kind": "referenced", "path": "/e"}]),
        ("Read", {"file_path": "/f", "offset": 2, "limit": 2}, None,
         [{"kind": "read", "path": "/f", "line_start": 2, "line_end": 3}]),
        ("Write", {"file_path": "/g"}, None, [{"kind": "written", "path": "/g"}]),
        ("Bash", {"command": "ls"}, {"stdout": ""}, []),
    ]  # fmt: skip
    for number, (name, args, result, _) in enumerate(cases):
        tape.answer(f"a{number}", f"msg_{number}", call(f"c{number}", name, **args))
        tape.result(f"r{number}", f"c{number}", toolUseResult=result)
    tape.answer("z", "msg_z", "Done.")
    reply = turn(told(tmp_path, tape), "p").reply
    found = [(said.context or {}).get("files", []) for said in reply if said.role == "tool"]
    assert found == [case[3] for case in cases]


def test_lints_are_read_from_attachments_words_and_editors(tmp_path: Path) -> None:
    tape = Tape()
    seen = "a.ts:\n  ✘ [Line 3:5] Cannot find name 'x'. [2304] (typescript)"
    tape.prompt("p", f"<new-diagnostics>New issues were detected:\n\n{seen}</new-diagnostics>")
    span = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 9}}
    unused = {"message": "unused", "severity": "Warning", "source": "ruff", "range": span}
    files = [{"uri": "file:///src/a%20b.py", "diagnostics": [unused]}]
    tape.add("attachment", "x", attachment={"type": "diagnostics", "files": files, "isNew": True})
    tape.answer("a", "msg_1", call("c1", "mcp__ide__getDiagnostics"))
    tape.result("r", "c1", json.dumps(files))
    tape.answer("b", "msg_2", "Seen.")
    found = turn(told(tmp_path, tape), "p")
    lint = {"path": "/src/a b.py", "message": "unused", "source": "ruff", "severity": "Warning",
            "line_start": 1, "column_start": 5, "line_end": 1, "column_end": 10}  # fmt: skip
    words = {"path": "a.ts", "message": "Cannot find name 'x'.", "source": "typescript",
             "line_start": 3, "column_start": 5}  # fmt: skip
    assert found.query[0].context is not None
    assert found.query[0].context["lints"] == [words, lint]
    assert found.reply[1].context == {"lints": [lint]}


# --- Subagents


def delegating(**result: Any) -> Tape:
    tape = Tape()
    tape.prompt("p", "count them")
    args = {"description": "count", "prompt": "COUNT", "subagent_type": "Explore"}
    tape.answer("a", "msg_1", call("c1", "Agent", **args))
    tape.result("r", "c1", **result)
    tape.answer("b", "msg_2", "Counted.")
    return tape


def working(**envelope: Any) -> Tape:
    tape = Tape(isSidechain=True, **envelope)
    tape.prompt("s", "COUNT")
    tape.answer("t", "msg_s", "Three.")
    return tape


def check_spawn(projection: Projection, id: str) -> None:
    main, child = projection.sessions
    assert (main.id, main.head, main.spawn) == (A, "p", None)
    assert (child.id, child.head, child.title) == (f"{A}/{id}", "s", "count")
    assert child.spawn is not None
    assert (child.spawn.parent_session, child.spawn.parent_turn, child.spawn.call_id) == (
        A,
        "p",
        "c1",
    )
    assert (child.spawn.mode, child.spawn.task) == ("fresh", "count")
    assert turn(projection, "p").agent_role == "manager"
    found = turn(projection, "s")
    assert (found.parent, found.agent_role, found.query[0].source) == (None, "worker", "agent")


def test_a_subagent_in_its_own_folder_is_a_session(tmp_path: Path) -> None:
    save(tmp_path, delegating())
    meta = {"agentType": "Explore", "description": "count", "toolUseId": "c1", "spawnDepth": 1}
    save(tmp_path, working(agentId="ag1"), agent="ag1", meta=meta)
    projection = project(tmp_path)
    check_spawn(projection, "ag1")
    assert projection.sessions[1].details["agent_type"] == "Explore"
    assert projection.sessions[1].label == f"claude-code/{SLUG}/aaaaaaaa/ag1"


def test_a_background_subagent_is_a_session_and_its_notice_a_turn(tmp_path: Path) -> None:
    tape = delegating(toolUseResult={"isAsync": True, "status": "async_launched", "agentId": "ag1"})
    notice = "<task-notification>\n<task-id>ag1</task-id>\n<tool-use-id>c1</tool-use-id>"
    tape.exchange("n", notice, origin={"kind": "task-notification"})
    save(tmp_path, tape)
    save(tmp_path, working(agentId="ag1"), agent="ag1")
    projection = project(tmp_path)
    child = projection.sessions[1]
    assert child.spawn is not None
    assert (child.spawn.call_id, child.spawn.parent_turn) == ("c1", "p")
    assert (turn(projection, "n?").parent, turn(projection, "n?").query[0].source) == ("p", "agent")


def test_an_old_subagent_beside_its_session_is_found(tmp_path: Path) -> None:
    session = save(tmp_path, delegating(toolUseResult={"status": "completed", "agentId": "ag1"}))
    write(session.with_name("agent-ag1.jsonl"), working(agentId="ag1").records)
    check_spawn(project(tmp_path), "ag1")
    assert len(list(ClaudeCodeImporter().open(tmp_path))) == 1


def test_an_old_subagent_whose_session_is_gone_is_a_session_alone(tmp_path: Path) -> None:
    file = tmp_path / "projects" / SLUG / "agent-ag1.jsonl"
    write(file, working(agentId="ag1").records)
    projection = project(tmp_path, "agent-ag1")
    assert [(s.id, s.head, s.spawn) for s in projection.sessions] == [("agent-ag1", "s", None)]
    assert turn(projection, "s").agent_role == "worker"


def test_the_oldest_subagents_stand_in_the_session_and_have_no_name(tmp_path: Path) -> None:
    tape = delegating()
    tape.records[2:2] = working().records
    save(tmp_path, tape)
    check_spawn(project(tmp_path), "s")


def test_progress_ties_a_subagent_to_its_call(tmp_path: Path) -> None:
    tape = delegating()
    tape.add("progress", "g", toolUseID="agent_msg", parentToolUseID="c1",
             data={"type": "agent_progress", "agentId": "ag1"})  # fmt: skip
    save(tmp_path, tape)
    save(tmp_path, working(agentId="ag1"), agent="ag1")
    check_spawn(project(tmp_path), "ag1")


def test_a_subagent_of_a_subagent_comes_after_it(tmp_path: Path) -> None:
    save(tmp_path, delegating())
    middle = Tape(isSidechain=True, agentId="zz")
    middle.prompt("s", "COUNT")
    middle.answer("t", "msg_s", call("c2", "Task", description="deeper", prompt="DEEP"))
    middle.result("u", "c2")
    middle.answer("v", "msg_v", "Three.")
    save(tmp_path, middle, agent="zz", meta={"toolUseId": "c1", "finished": True})
    deep = Tape(isSidechain=True, agentId="aa")
    deep.prompt("x", "DEEP")
    deep.answer("y", "msg_y", "Two.")
    nested = tmp_path / "projects" / SLUG / A / "subagents" / "workflows" / "run1"
    write(nested / "agent-aa.jsonl", deep.records, {"toolUseId": "c2", "parentAgentId": "zz"})
    sessions = project(tmp_path).sessions
    assert [session.id for session in sessions] == [A, f"{A}/zz", f"{A}/aa"]
    assert sessions[2].spawn is not None
    assert (sessions[2].spawn.parent_session, sessions[2].spawn.parent_turn) == (f"{A}/zz", "s")


def test_a_subagent_that_says_it_finished_is_not_open(tmp_path: Path) -> None:
    tape = working(agentId="ag1")
    tape.prompt("more", "again")
    save(tmp_path, delegating())
    save(tmp_path, tape, agent="ag1", meta={"toolUseId": "c1", "finished": True})
    assert not turn(project(tmp_path), "more").open


# --- What is known of a session


def test_the_best_title_wins(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one", "the first words")

    def title() -> str | None:
        return told(tmp_path, tape).sessions[0].title

    assert title() == "the first words"
    tape.note("last-prompt", lastPrompt="the last\nwords", leafUuid="one!")
    assert title() == "the last words"
    tape.note("summary", summary="Of another session", leafUuid="elsewhere")
    assert title() == "the last words"
    tape.note("summary", summary="A summary", leafUuid="one!")
    assert title() == "A summary"
    tape.note("ai-title", aiTitle="A model's title")
    assert title() == "A model's title"
    tape.note("custom-title", customTitle="Mine")
    tape.note("custom-title", customTitle="Mine, newer")
    assert title() == "Mine, newer"


def test_what_is_known_beside_the_conversation_stands_in_the_details(tmp_path: Path) -> None:
    tape = Tape(slug="calm-otter")
    tape.note("queue-operation", operation="enqueue", content="one")
    tape.note("queue-operation", operation="dequeue")
    tape.exchange("one", forkedFrom={"sessionId": B, "messageUuid": "x"})
    tape.records[-1]["gitBranch"] = "topic"
    tape.note("file-history-snapshot", messageId="one?", snapshot={}, isSnapshotUpdate=False)
    tape.note("file-history-snapshot", messageId="one?", snapshot={}, isSnapshotUpdate=True)
    tape.note("permission-mode", permissionMode="acceptEdits")
    tape.note("tag", tag="keep")
    tape.note("pr-link", prNumber=7, prUrl="https://example.org/7")
    tape.note("cost-state", totalCostUSD=0.25,
              modelUsage={"claude-opus-5-5": {"inputTokens": 9, "outputTokens": 8}})  # fmt: skip
    tape.note("api-request-shape", shapeHash="h", shape={"tools": [{"name": "Bash"}]})
    session = told(tmp_path, tape).sessions[0]
    usage = {"input": 9, "output": 8, "cached_input": 0, "cache_write": 0, "reasoning": 0}
    details = dict(session.details)
    assert details.pop("deleted_on")
    assert details == {
        "cwd": "/home/ada/engine", "git_branch": "topic", "version": "2.1.325",
        "entrypoint": "cli", "name": "calm-otter", "forked_from": B,
        "permission_mode": "acceptEdits", "tag": "keep", "pull_request": 7,
        "pull_request_url": "https://example.org/7", "cost_usd": 0.25,
        "usage": {"claude-opus-5-5": usage}, "queued": 1, "file_checkpoints": 1,
        "tools": ["Bash"],
    }  # fmt: skip
    assert session.label == f"claude-code/{SLUG}/aaaaaaaa"
    assert check_label(session.label)


def test_the_request_that_an_answer_came_from_belongs_to_its_turn(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "hi")
    tape.note("api-request", id="q1", shapeHash="h")
    tape.answer("a", "msg_1", "Hello.", requestRef="q1")
    tape.note("api-request", id="q2", shapeHash="h")
    assert turn(told(tmp_path, tape), "p").records == (0, 1, 2)


def test_nothing_that_names_the_session_enters_a_message(tmp_path: Path) -> None:
    tape = delegating(toolUseResult={"agentId": "ag1", "outputFile": f"/var/{A}/out"})
    found = sealed(told(tmp_path, tape))["p"].sealed.body
    assert A not in found
    assert "/home/ada" not in found


def test_the_day_a_file_may_be_deleted_follows_from_its_last_change(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    file = save(tmp_path, tape)
    expected = instant(file.stat().st_mtime_ns // 1_000_000 + 30 * 86_400_000)
    assert project(tmp_path).sessions[0].details["deleted_on"] == expected
    assert deletion_due(0) == "1970-01-31T00:00:00.000Z"


# --- Files nobody can trust


def test_kinds_that_nobody_knows_are_counted(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    tape.note("brand-new")
    tape.note("brand-new")
    tape.add("system", "x", subtype="odd_thing")
    assert told(tmp_path, tape).unknown == {"brand-new": 2, "system/odd_thing": 1}


def test_a_last_line_that_was_cut_off_is_counted(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    file = save(tmp_path, tape)
    with file.open("ab") as stream:
        stream.write(b'{"type":"user","uuid":"u","message":{"content":"tw')
    projection = project(tmp_path)
    assert (projection.broken, len(projection.turns)) == (1, 1)


def test_half_a_surrogate_pair_and_a_nul_are_sealed(tmp_path: Path) -> None:
    tape = Tape()
    tape.prompt("p", "half \ud83d of a face and \x00")
    tape.answer("a", "msg_1", call("c\x00", "Ba\x00sh", command="\udc00 \x00", big=2**80))
    tape.result("r", "c\x00", "\ud800")
    tape.answer("b", "msg_2", "fine")
    found = sealed(told(tmp_path, tape))["p"]
    assert found.repaired == 0
    assert found.sealed.turn.query[0].text == "half ? of a face and \x00"


def test_a_result_of_no_call_is_an_orphan(tmp_path: Path) -> None:
    tape = Tape()
    tape.answer("lost", "msg_0", "answers nothing")
    tape.exchange("one", after=None)
    tape.result("r", "never-made")
    projection = told(tmp_path, tape)
    assert projection.orphans == [0, 3]


def test_a_line_of_many_megabytes_is_read(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one", "x" * 20_000_000)
    importer = ClaudeCodeImporter()
    bundle = next(iter(importer.open(save(tmp_path, tape))))
    projection = importer.project(bundle, list(importer.read(bundle)))
    assert len(projection.turns[0].query[0].text) == 20_000_000
    assert len(sealed(projection)["one?"].objects) == 1


# --- Where things lie


def test_sessions_are_found_where_the_tool_keeps_them(tmp_path: Path) -> None:
    tape = Tape()
    tape.exchange("one")
    save(tmp_path / "home" / ".claude", tape)
    save(tmp_path / "elsewhere", tape.copy(B))
    importer = ClaudeCodeImporter()
    usual = ToolPaths(tmp_path / "home", {})
    moved = ToolPaths(tmp_path / "home", {"CLAUDE_CONFIG_DIR": str(tmp_path / "elsewhere")})
    assert [bundle.id for bundle in importer.discover(usual)] == [f"{SLUG}/{A}"]
    assert [bundle.id for bundle in importer.discover(moved)] == [f"{SLUG}/{B}"]
    assert list(importer.discover(ToolPaths(tmp_path / "nobody", {}))) == []


def test_a_bundle_is_a_session_with_its_subagents(tmp_path: Path) -> None:
    file = save(tmp_path, delegating())
    save(tmp_path, working(agentId="ag1"), agent="ag1", meta={"toolUseId": "c1"})
    for path in (tmp_path, tmp_path / "projects", file.parent, file):
        (bundle,) = ClaudeCodeImporter().open(path)
        assert [found.name for found in bundle.files] == [
            f"{A}.jsonl",
            "agent-ag1.jsonl",
            "agent-ag1.meta.json",
        ]
    (bundle,) = ClaudeCodeImporter().open(bundle.files[1])
    assert bundle.files[0] == file
    assert {record.file for record in ClaudeCodeImporter().read(bundle)} == {
        f"{A}.jsonl",
        f"{A}/subagents/agent-ag1.jsonl",
        f"{A}/subagents/agent-ag1.meta.json",
    }


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    other = {"timestamp": "2026-11-15T09:00:00Z", "type": "session_meta", "payload": {"id": "x"}}
    write(tmp_path / "rollout.jsonl", [other])
    write(tmp_path / "empty.jsonl", [])
    (tmp_path / "notes.txt").write_text("hello")
    importer = ClaudeCodeImporter()
    assert list(importer.open(tmp_path)) == []
    assert list(importer.open(tmp_path / "rollout.jsonl")) == []
    assert list(importer.open(tmp_path / "notes.txt")) == []


def test_kept_records_are_projected_again_without_their_files(tmp_path: Path) -> None:
    save(tmp_path, delegating())
    save(tmp_path, working(agentId="ag1"), agent="ag1", meta={"toolUseId": "c1"})
    importer = ClaudeCodeImporter()
    (bundle,) = importer.open(tmp_path)
    records = list(importer.read(bundle))
    assert importer.project(replace(bundle, files=()), records) == project(tmp_path)


def test_a_stamp_that_tells_no_time_is_no_harm() -> None:
    bundle = TranscriptRef("claude-code", "x", (Path("x.jsonl"),), "kept", 0)
    projection = ClaudeCodeImporter().project(bundle, [RawRecord("x.jsonl", 0, b'{"type":"mode"}')])
    assert "deleted_on" not in projection.sessions[0].details


# --- In the ledger


@pytest.mark.anyio
async def test_a_session_its_fork_and_its_subagent_arrive(
    database: Database, tree: Tree, tmp_path: Path
) -> None:
    tape = delegating()
    fork = tape.copy(B)
    fork.exchange("instead")
    picture = b64encode(bytes(9000)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": picture}
    tape.prompt("pic", [{"type": "image", "source": source}])
    tape.answer("seen", "msg_9", "Seen.")
    save(tmp_path, tape)
    save(tmp_path, fork)
    save(tmp_path, working(agentId="ag1"), agent="ag1", meta={"toolUseId": "c1"})
    importer = ClaudeCodeImporter()
    importing = ImportService(
        ImportStore(database),
        HandoffStore(database),
        SessionStore(database),
        ReflogStore(database),
        FakeClock(99),
    )
    done = await importing.run([(importer, bundle) for bundle in importer.open(tmp_path)])
    assert (done.turns_added, done.turns_known, done.sessions_begun, done.failed) == (4, 1, 3, {})
    session = await tree.sessions.get(f"claude-code/{SLUG}/aaaaaaaa")
    child = await tree.sessions.get(f"claude-code/{SLUG}/aaaaaaaa/ag1")
    assert child.spawn is not None
    assert (child.spawn.parent_session, child.spawn.call_id) == (session.id, "c1")
    assert await fsck(database) == []
