"""Codex's rollouts, as written here by hand: every record and every trap that is known."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proofs.transcripts.codex import BEGINNING, CHILD, OTHER, THREAD, Rollout
from turntree.core.ids import instant
from turntree.core.message import Media, Message, OpaquePart, Reasoning, Text, ToolResult, ToolUse
from turntree.core.message_context import TouchedFile, files_of
from turntree.core.principal import Principal
from turntree.core.usage import Usage
from turntree.testing.contracts.importer import check_importer
from turntree.transcripts.drafts import DraftTurn, Projection, seal_drafts
from turntree.transcripts.importer import ToolPaths
from turntree.transcripts.importers.codex.importer import CodexImporter


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".codex"


@pytest.fixture(autouse=True)
def contract(home: Path) -> Iterator[None]:
    """Whatever a test has written must keep the contract too."""
    yield
    if home.exists():
        check_importer(CodexImporter(), home)


def project(path: Path) -> dict[str, Projection]:
    codex = CodexImporter()
    return {b.id: codex.project(b, list(codex.read(b))) for b in codex.open(path)}


def project_one(rollout: Rollout, home: Path) -> Projection:
    return project(rollout.write(home))[rollout.thread]


def ids(projection: Projection) -> list[str]:
    by = Principal("agent", "codex")
    return [draft.sealed.turn.id for draft in seal_drafts(projection, by)]


def words(turn: DraftTurn) -> tuple[str, str]:
    said = [m.text for m in turn.query if m.role == "user"]
    return " ".join(said), " ".join(m.text for m in turn.reply if m.text)


def only(turn: DraftTurn, kind: type) -> list[Any]:
    return [part for said in turn.reply for part in said.parts if isinstance(part, kind)]


# One thread.


def test_a_turn_has_what_was_asked_and_what_came_back(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.ask("Look at two things.")
    rollout.item("reasoning", summary=[{"text": "Two."}], content=None, encrypted_content="gAAA")
    rollout.answer("Let me look.")
    rollout.call("c1", cmd="true")
    rollout.call("c2", cmd="false")
    rollout.done("CommandExecution", id="c2", exit_code=1, status="failed",
                 duration={"secs": 2, "nanos": 5_000_000})  # fmt: skip
    rollout.result("c1", "fine")
    rollout.result("c2", "not so")
    rollout.answer("One is fine.", phase="final_answer")
    rollout.complete()
    told = project_one(rollout, home)
    (turn,) = told.turns
    assert words(turn) == ("Look at two things.", "Let me look. One is fine.")
    assert [said.role for said in turn.reply] == ["assistant", "tool", "tool", "assistant"]
    assert turn.reply[0].parts == (
        Reasoning("Two.", "gAAA"), Text("Let me look."),
        ToolUse("c1", "shell", {"cmd": "true"}), ToolUse("c2", "shell", {"cmd": "false"}),
    )  # fmt: skip
    assert turn.reply[2].parts == (ToolResult("c2", "error", "not so"),)
    assert turn.reply[2].meta == {"exit_code": 1, "duration_ms": 2005}
    assert turn.reply[3].meta == {"phase": "final_answer"}
    assert (turn.outcome, turn.model, turn.provider) == ("completed", "gpt-6", "openai")
    assert turn.query[-1].source == "human"
    assert turn.started_at < turn.sealed_at
    assert turn.records == tuple(range(1, len(rollout.lines)))
    (session,) = told.sessions
    assert (session.id, session.head) == (THREAD, turn.key)
    assert session.details["cwd"] == "/home/ann/shop"
    assert session.details["git"] == {"branch": "main", "commit_hash": "abc"}


def test_what_events_tell_a_second_time_is_told_once(home: Path) -> None:
    rollout = Rollout(meta={"history_mode": "legacy"})
    rollout.start()
    rollout.ask("Hello.")
    rollout.event("user_message", message="Hello.")
    rollout.event("agent_reasoning", text="Hm.")
    rollout.event("agent_message", message="Hello yourself.")
    rollout.answer("Hello yourself.")
    rollout.done("AgentMessage", id="m", content=[{"type": "Text", "text": "Hello yourself."}])
    rollout.complete()
    told = project_one(rollout, home)
    assert [words(turn) for turn in told.turns] == [("Hello.", "Hello yourself.")]
    assert told.unknown == {}


def test_the_harness_speaks_in_the_context_and_developers_as_the_system(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.item("message", role="developer", content=[{"type": "input_text", "text": "Be brief."}])
    rollout.ask("<environment_context>\n<cwd>/x</cwd></environment_context>")
    rollout.ask("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nTabs.\n</INSTRUCTIONS>")
    kinds = {"turn_id": rollout.turn, "content_item_kinds": ["host_skills.list", "user.text"]}
    rollout.item(
        "message", role="user", internal_chat_message_metadata_passthrough=kinds,
        content=[{"type": "input_text", "text": "Skills: none"},
                 {"type": "input_text", "text": "<environment_context> is what, please?"}],
    )  # fmt: skip
    rollout.answer("A tag.")
    rollout.complete()
    (turn,) = project_one(rollout, home).turns
    assert [(said.role, said.text) for said in turn.query] == [
        ("system", "Be brief."),
        ("user", "<environment_context> is what, please?"),
    ]
    context = turn.query[1].context
    assert context is not None
    harness: Any = context["harness"]
    assert [entry["kind"] for entry in harness] == [
        "environment_context", "agents_md", "host_skills.list",
    ]  # fmt: skip
    assert context["settings"] == {"approval_policy": "never"}


def test_what_the_harness_says_in_the_middle_ends_no_turn(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.ask("Go.")
    rollout.call("c1")
    rollout.result("c1", "done")
    rollout.item("message", role="developer", content=[{"type": "input_text", "text": "Hurry."}])
    rollout.ask("<subagent_notification>done</subagent_notification>")
    rollout.answer("Gone.")
    rollout.complete()
    (turn,) = project_one(rollout, home).turns
    context = turn.query[0].context
    assert context is not None
    harness: Any = context["harness"]
    assert [entry["kind"] for entry in harness] == ["developer", "subagent_notification"]


def test_somebody_who_speaks_in_the_middle_begins_another_turn(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.ask("Count.")
    rollout.call("c1")
    rollout.ask("In French.")
    rollout.result("c1", "2")
    rollout.answer("Deux.")
    rollout.ask("And on?")
    rollout.answer("Trois.")
    rollout.complete()
    told = project_one(rollout, home)
    assert [words(turn) for turn in told.turns] == [
        ("Count.", ""), ("In French.", "Deux."), ("And on?", "Trois."),
    ]  # fmt: skip
    assert [turn.outcome for turn in told.turns] == ["completed"] * 3
    assert only(told.turns[0], ToolResult) == [ToolResult("c1", "ok", "2")]


def test_each_way_of_calling_a_tool_is_a_call(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.ask("Use everything.")
    rollout.item("local_shell_call", call_id="l", status="completed",
                 action={"type": "exec", "command": ["ls"]})  # fmt: skip
    rollout.result("l", json.dumps({"output": "a", "metadata": {"exit_code": 2}}).replace(" ", ""))
    rollout.item("custom_tool_call", call_id="u", name="apply_patch", input="*** Begin Patch")
    rollout.item("custom_tool_call_output", call_id="u", output="Success")
    rollout.item("function_call", call_id="m", namespace="mcp__docs", name="find", arguments="{}")
    rollout.event("mcp_tool_call_end", call_id="m", invocation={"server": "docs", "tool": "find"},
                  duration={"secs": 0, "nanos": 7_000_000}, result={"Err": "no"})  # fmt: skip
    rollout.result("m", [{"type": "input_text", "text": "no"}])
    rollout.item("web_search_call", status="completed", action={"type": "search", "query": "q"})
    rollout.item("web_search_call", status="failed", action={"type": "search", "query": "r"})
    rollout.item("tool_search_call", call_id="t", execution="client", arguments={"query": "x"})
    rollout.item("tool_search_output", call_id="t", status="ok", execution="client", tools=[])
    rollout.item("image_generation_call", id="i", status="completed", revised_prompt="p", result="")
    rollout.item("function_call", call_id="b", name="odd", arguments="not json")
    rollout.result("b", {"content": "bad", "success": False})
    rollout.answer("All used.")
    rollout.complete()
    told = project_one(rollout, home)
    (turn,) = told.turns
    assert [(use.tool, use.args) for use in only(turn, ToolUse)] == [
        ("local_shell", {"type": "exec", "command": ["ls"]}),
        ("apply_patch", "*** Begin Patch"),
        ("mcp__docs__find", {}),
        ("web_search", {"type": "search", "query": "q"}),
        ("web_search", {"type": "search", "query": "r"}),
        ("tool_search", {"query": "x"}),
        ("image_generation", {"prompt": "p"}),
        ("odd", "not json"),
    ]
    assert [result.status for result in only(turn, ToolResult)] == [
        "error", "ok", "error", "ok", "error", "ok", "ok", "error",
    ]  # fmt: skip
    assert turn.reply[5].meta == {
        "mcp": {"server": "docs", "tool": "find"}, "duration_ms": 7,
    }  # fmt: skip
    assert told.orphans == []


def test_files_are_known_from_reports_and_else_from_the_patch(home: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n*** Add File: c.py\n"
    rollout = Rollout()
    rollout.start()
    rollout.ask("Change.")
    for id in ("told", "untold", "refused"):
        rollout.item("custom_tool_call", call_id=id, name="apply_patch", input=patch)
    rollout.done("FileChange", id="told", status="completed",
                 changes={"/x/a.py": {"update": {}}, "/x/c.py": {"add": {}}})  # fmt: skip
    rollout.event("patch_apply_end", call_id="refused", success=False, changes={"/x/a.py": {}})
    for id in ("told", "untold", "refused"):
        rollout.item("custom_tool_call_output", call_id=id, output="so")
    rollout.call("in-shell", command=["bash", "-lc", f"apply_patch <<'E'\n{patch}E"])
    rollout.result("in-shell", "ok")
    rollout.call("cat", cmd="cat d.py")
    rollout.done("CommandExecution", id="cat", exit_code=0, status="completed",
                 parsed_cmd=[{"type": "read", "path": "d.py"}, {"type": "search"}])  # fmt: skip
    rollout.result("cat", "x")
    rollout.answer("Done.")
    rollout.complete()
    (turn,) = project_one(rollout, home).turns
    found = {
        said.parts[0].call_id: [(file.kind, file.path) for file in files_of(said)]
        for said in turn.reply
        if isinstance(said.parts[0], ToolResult)
    }
    patched = [("written", "a.py"), ("written", "b.py"), ("written", "c.py")]
    assert found == {
        "told": [("written", "/x/a.py"), ("written", "/x/c.py")],
        "untold": patched,
        "refused": [("referenced", "/x/a.py")],
        "in-shell": patched,
        "cat": [("read", "d.py")],
    }


def test_pictures_and_attached_files_are_kept(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    url = "data:image/png;base64,AAAA"
    rollout.item("message", role="user", content=[{"type": "input_image", "image_url": url}])
    rollout.done("UserMessage", id="u", content=[{"type": "local_image", "path": "/x/a.png"}])
    rollout.answer("A picture.")
    rollout.complete()
    (turn,) = project_one(rollout, home).turns
    assert turn.query[0].parts == (Media("image", "image/png", url=url),)
    assert list(files_of(turn.query[0])) == [TouchedFile("attached", "/x/a.png")]


def test_what_only_the_provider_can_read_is_kept_unread(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.ask("Think.")
    rollout.item("reasoning", summary=[], content=None, encrypted_content="gAAA")
    rollout.item("compaction", encrypted_content="gBBB")
    rollout.answer("Thought.")
    rollout.complete()
    (turn,) = project_one(rollout, home).turns
    kinds = [part.document["kind"] for part in only(turn, OpaquePart)]
    assert kinds == ["codex.reasoning", "codex.compaction"]


# How turns end.


def test_an_aborted_turn_is_interrupted_and_its_call_gets_a_result(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.ask("Go.")
    rollout.call("c1")
    rollout.event("turn_aborted", turn_id=rollout.turn, reason="interrupted")
    rollout.exchange("Again.", "Gone.")
    told = project_one(rollout, home)
    assert [(turn.outcome, turn.open) for turn in told.turns] == [
        ("interrupted", False), ("completed", False),
    ]  # fmt: skip
    assert told.turns[1].parent == told.turns[0].key
    assert len(ids(told)) == 2


def test_a_turn_that_ended_in_an_error_has_failed(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.ask("Go.")
    rollout.complete(error={"message": "no quota"})
    (turn,) = project_one(rollout, home).turns
    assert turn.outcome == "failed"


def test_a_transcript_that_ends_in_the_middle_leaves_an_open_turn(home: Path) -> None:
    rollout = Rollout()
    rollout.exchange("One.", "Two.")
    rollout.start()
    rollout.ask("Three?")
    rollout.call("c1")
    path = rollout.write(home)
    path.write_bytes(path.read_bytes()[:-9])
    told = project(path)[THREAD]
    assert told.broken == 1
    assert [(turn.outcome, turn.open) for turn in told.turns] == [
        ("completed", False), ("interrupted", True),
    ]  # fmt: skip


def test_a_rollback_leaves_a_branch(home: Path) -> None:
    rollout = Rollout(meta={"history_mode": "legacy"})
    for number in range(4):
        rollout.exchange(f"Q{number}", f"A{number}")
    rollout.event("thread_rolled_back", num_turns=2)
    rollout.exchange("Q4", "A4")
    told = project_one(rollout, home)
    q = {words(turn)[0]: turn for turn in told.turns}
    assert len(told.turns) == 5
    assert q["Q4"].parent == q["Q1"].key == q["Q2"].parent
    assert told.sessions[0].head == q["Q4"].key
    rollout.event("thread_rolled_back", num_turns=99)
    assert project_one(rollout, home).sessions[0].head is None


# Tokens.


def test_tokens_are_counted_once_and_input_without_what_was_cached(home: Path) -> None:
    def used(input: int, cached: int, output: int) -> dict[str, int]:
        return {"input_tokens": input, "cached_input_tokens": cached, "output_tokens": output,
                "reasoning_output_tokens": 1, "cache_write_input_tokens": 5}  # fmt: skip

    rollout = Rollout()
    rollout.start()
    rollout.ask("One.")
    rollout.answer("Two.")
    total = {"total_token_usage": used(100, 80, 10), "last_token_usage": used(100, 80, 10)}
    rollout.event("token_count", info=total)
    rollout.event("token_count", info=total, rate_limits={"primary": None})
    rollout.event("token_count", info=None)
    total = {"total_token_usage": used(300, 200, 30), "last_token_usage": used(200, 120, 20)}
    rollout.event("token_count", info=total)
    rollout.complete()
    rollout.start()
    rollout.ask("Three?")
    rollout.answer("Four.")
    rollout.add("token_usage_record", {"response_id": "resp_1", "usage": used(50, 40, 5)})
    rollout.event("token_count", info={"total_token_usage": used(350, 240, 35),
                                       "last_token_usage": used(50, 40, 5)})  # fmt: skip
    rollout.complete()
    told = project_one(rollout, home)
    one, two = told.turns
    once = sum(call.usage.total for turn in told.turns for call in turn.calls)
    assert told.usage_told == once + one.calls[0].usage.total, "one count stands there twice"
    assert [call.usage for call in one.calls] == [
        Usage(input=15, cached_input=80, cache_write=5, output=10, reasoning=1),
        Usage(input=75, cached_input=120, cache_write=5, output=20, reasoning=1),
    ]
    (call,) = two.calls
    assert (call.call_id, call.model, call.usage.input) == ("resp_1", "gpt-6", 5)


# Compaction.


def test_a_compaction_is_a_turn_that_keeps_the_new_context(home: Path) -> None:
    rollout = Rollout()
    rollout.exchange("One.", "Two.")
    rollout.start()
    rollout.answer("We counted.")
    rollout.add("token_usage_record", {"response_id": "resp_c", "usage": {"input_tokens": 900}})
    rollout.add("compacted", {"message": "A summary follows: We counted.", "window_number": 2,
                              "replacement_history": [{"type": "compaction"}]})  # fmt: skip
    rollout.complete()
    rollout.exchange("Three?", "Four.")
    first, compaction, last = project_one(rollout, home).turns
    assert (compaction.kind, compaction.parent, last.parent) == (
        "compaction", first.key, compaction.key,
    )  # fmt: skip
    assert compaction.reply[0].text == "A summary follows: We counted."
    (opaque,) = only(compaction, OpaquePart)
    assert opaque.document["items"] == [{"type": "compaction"}]
    assert [call.call_id for call in compaction.calls] == ["resp_c"]
    assert compaction.compaction is not None
    assert (compaction.compaction.trigger, compaction.compaction.tokens_before) == ("manual", 900)


def test_a_compaction_in_the_middle_cuts_the_turn_in_two(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.ask("Long work.")
    rollout.call("c1")
    rollout.result("c1", "much")
    rollout.add("compacted", {"message": "Much was done."})
    rollout.answer("Finished.")
    rollout.complete()
    before, compaction, after = project_one(rollout, home).turns
    assert [words(before)[0], compaction.kind, words(after)] == [
        "Long work.", "compaction", ("", "Finished."),
    ]  # fmt: skip
    assert after.query == (Message("user", (), "event"),)
    assert compaction.compaction is not None
    assert compaction.compaction.trigger == "context_limit"


def test_a_compaction_of_nothing_is_an_ordinary_turn(home: Path) -> None:
    rollout = Rollout()
    rollout.add("compacted", {"message": "Something was, elsewhere.", "window_id": 3})
    rollout.exchange("On.", "Yes.")
    told = project_one(rollout, home)
    assert [turn.kind for turn in told.turns] == ["normal", "normal"]


# Forks.


def test_a_fork_by_reference_shares_its_turns(home: Path) -> None:
    base = Rollout()
    base.exchange("One.", "Two.")
    cut, ordinal = base.size, base.ordinal
    base.exchange("Three?", "Four.")
    base.write(home)
    fork = Rollout(OTHER, meta={
        "forked_from_id": THREAD, "forked_from_ordinal_exclusive": ordinal,
        "history_base": {"thread_id": THREAD, "end_ordinal_exclusive": ordinal,
                         "end_byte_offset": cut},
    })  # fmt: skip
    fork.event("thread_settings_applied", thread_settings={"model": "gpt-6"})
    path = fork.write(home)
    assert len(fork.lines) == 2
    (bundle,) = CodexImporter().open(path)
    assert bundle.id == OTHER
    assert [file.name for file in bundle.files][1:] == [base.write(home).name]
    records = list(CodexImporter().read(bundle))
    assert max(r.offset for r in records if THREAD in r.file and OTHER not in r.file) < cut
    told = project(home)
    assert ids(told[OTHER]) == ids(told[THREAD])[:1]
    assert told[OTHER].sessions[0].head == told[OTHER].turns[0].key
    assert [session.id for session in told[OTHER].sessions] == [OTHER]


@pytest.mark.parametrize("offset", [True, False])
def test_a_fork_of_a_fork_goes_back_to_the_first_root(home: Path, *, offset: bool) -> None:
    def base_at(rollout: Rollout) -> dict[str, Any]:
        at = {"thread_id": rollout.thread, "end_ordinal_exclusive": rollout.ordinal}
        return {"history_base": at | {"end_byte_offset": rollout.size if offset else 0}}

    one = Rollout()
    one.exchange("One.", "Two.")
    two = Rollout(OTHER, meta=base_at(one), ordinal=one.ordinal)
    two.exchange("Three?", "Four.")
    three = Rollout(CHILD, meta=base_at(two), ordinal=two.ordinal)
    three.exchange("Five?", "Six.")
    two.exchange("Elsewhere?", "Yes.")
    for rollout, packed in ((one, False), (two, True), (three, False)):
        rollout.write(home, packed=packed)
    told = project(home)
    assert [words(turn)[0] for turn in told[CHILD].turns] == ["One.", "Three?", "Five?"]
    assert ids(told[CHILD])[:2] == ids(told[OTHER])[:2]
    assert ids(told[OTHER])[:1] == ids(told[THREAD])


def test_a_fork_that_copies_shares_its_turns_although_the_times_are_new(home: Path) -> None:
    base = Rollout(meta={"history_mode": "legacy"})
    base.exchange("One.", "Two.")
    base.exchange("Three?", "Four.")
    base.write(home)
    fork = Rollout(
        OTHER, meta={"forked_from_id": THREAD, "history_mode": "legacy"}, clock=BEGINNING + 9**8
    )
    for line in base.lines[: len(base.lines) // 2 + 1]:
        fork.add(line["type"], line["payload"])
    fork.exchange("Otherwise?", "Yes.")
    fork.write(home)
    told = project(home)
    assert [words(turn)[0] for turn in told[OTHER].turns] == ["One.", "Otherwise?"]
    assert ids(told[OTHER])[0] == ids(told[THREAD])[0]


@pytest.mark.parametrize("copying", [True, False])
def test_a_fork_that_copies_tells_its_tokens_again(home: Path, *, copying: bool) -> None:
    def exchange(rollout: Rollout, asked: str) -> None:
        rollout.start()
        rollout.ask(asked)
        rollout.answer("Yes.")
        used = {"input_tokens": 100, "output_tokens": 10}
        rollout.add("token_usage_record", {"response_id": f"to {asked}", "usage": used})
        rollout.complete()

    base = Rollout(meta={"history_mode": "legacy"})
    exchange(base, "One?")
    at = {"thread_id": THREAD, "end_ordinal_exclusive": base.ordinal, "end_byte_offset": base.size}
    fork = Rollout(OTHER, meta={"forked_from_id": THREAD} if copying else {"history_base": at})
    for line in base.lines if copying else ():
        fork.add(line["type"], line["payload"])
    exchange(fork, "Two?")
    base.write(home)
    fork.write(home)
    told = project(home)
    assert told[THREAD].usage_told == 110
    assert told[OTHER].usage_told == (220 if copying else 110)


def test_a_revert_is_a_branch_of_the_same_session(home: Path) -> None:
    first = Rollout()
    first.exchange("One.", "Two.")
    cut, ordinal = first.size, first.ordinal
    first.exchange("Three?", "Four.")
    first.write(home)
    second = Rollout(id=OTHER, clock=BEGINNING + 600_000, meta={
        "history_base": {"thread_id": THREAD, "end_ordinal_exclusive": ordinal,
                         "end_byte_offset": cut}})  # fmt: skip
    second.exchange("Five?", "Six.")
    second.write(home)
    told = project(home)
    assert list(told) == [THREAD]
    turns = {words(turn)[0]: turn for turn in told[THREAD].turns}
    assert turns["Five?"].parent == turns["One."].key == turns["Three?"].parent
    assert [s.head for s in told[THREAD].sessions] == [turns["Five?"].key]


def test_a_packed_file_holds_the_same_records(home: Path, tmp_path: Path) -> None:
    rollout = Rollout()
    rollout.exchange("One.", "Two.")
    codex = CodexImporter()
    (plain,) = codex.open(rollout.write(home))
    (packed,) = codex.open(rollout.write(tmp_path / "packed", packed=True))
    assert list(codex.read(plain)) == list(codex.read(packed))
    rollout.write(home, packed=True)
    assert len(list(codex.open(home))) == 1


def test_a_file_whose_packing_is_damaged_is_read_up_to_there(home: Path) -> None:
    rollout = Rollout()
    rollout.exchange("One.", "Two.")
    path = rollout.write(home, packed=True)
    path.write_bytes(path.read_bytes()[:-40])
    assert len(project(path)) == 1
    path.write_bytes(b"never packed")
    assert [len(told.turns) for told in project(path).values()] == [0]


# Subagents.


def test_a_subagent_is_a_session_spawned_by_a_call(home: Path) -> None:
    parent = Rollout()
    parent.start()
    parent.ask("Delegate.")
    parent.call("s1", "spawn_agent", message="Count the files.")
    parent.result("s1", json.dumps({"agent_id": CHILD, "nickname": "Ada"}))
    parent.answer("Delegated.")
    parent.complete()
    parent.write(home)
    spawned = {"parent_thread_id": THREAD, "depth": 1, "agent_nickname": "Ada"}
    child = Rollout(CHILD, meta={"source": {"subagent": {"thread_spawn": spawned}}})
    child.exchange("Count the files.", "Two.")
    child.write(home)
    told = project(home)
    assert list(told) == [THREAD]
    main, sub = told[THREAD].sessions
    assert (main.id, main.spawn, sub.id) == (THREAD, None, CHILD)
    assert sub.spawn is not None
    assert (sub.spawn.parent_session, sub.spawn.parent_turn) == (THREAD, told[THREAD].turns[0].key)
    assert (sub.spawn.call_id, sub.spawn.mode, sub.spawn.task) == (
        "s1",
        "fresh",
        "Count the files.",
    )
    asked = next(t for t in told[THREAD].turns if t.key == sub.head).query[0]
    assert (asked.text, asked.source) == ("Count the files.", "agent")


@pytest.mark.parametrize("report", [
    {"type": "CollabAgentToolCall", "id": "s1", "tool": "spawn_agent",
     "receiver_thread_ids": [CHILD]},
    {"type": "SubAgentActivity", "id": "s1", "kind": "started", "agent_thread_id": CHILD},
])  # fmt: skip
def test_a_subagent_may_begin_with_its_parent_s_history(home: Path, report: dict[str, Any]) -> None:
    parent = Rollout()
    parent.exchange("One.", "Two.")
    cut, ordinal = parent.size, parent.ordinal
    parent.start()
    parent.ask("Delegate.")
    parent.call("s1", "spawn_agent", message="Go.")
    parent.event("item_completed", item=report, turn_id=parent.turn)
    parent.result("s1", "ok")
    parent.answer("Delegated.")
    parent.complete()
    parent.write(home)
    child = Rollout(CHILD, ordinal=ordinal, meta={
        "parent_thread_id": THREAD, "subagent_history_start_ordinal": ordinal + 1,
        "history_base": {"thread_id": THREAD, "end_ordinal_exclusive": ordinal,
                         "end_byte_offset": cut}})  # fmt: skip
    child.add("inter_agent_communication", {"author": "/root", "recipient": "/root/ada",
                                            "content": "Go."})  # fmt: skip
    child.answer("Gone.")
    child.write(home)
    told = project(home)[THREAD]
    _, sub = told.sessions
    assert sub.spawn is not None
    assert (sub.spawn.call_id, sub.spawn.mode) == ("s1", "fork")
    turns = {words(turn)[0]: turn for turn in told.turns}
    assert turns["Go."].parent == turns["One."].key
    assert turns["One."].query[0].source == "human"
    assert turns["Go."].query[0].source == "agent"


def test_a_subagent_may_begin_with_a_copy_of_its_parent_s_history(home: Path) -> None:
    parent = Rollout(meta={"history_mode": "legacy"})
    parent.exchange("One.", "Two.")
    copied = [*parent.lines]
    parent.start()
    parent.ask("Delegate.")
    parent.call("s1", "spawn_agent", message="Go.")
    parent.result("s1", json.dumps({"agent_id": CHILD}))
    parent.answer("Delegated.")
    parent.complete()
    told = {"forked_from_id": THREAD, "parent_thread_id": THREAD, "history_mode": "legacy"}
    child = Rollout(CHILD, meta=told, clock=BEGINNING + 70_000)
    for line in copied:
        child.add(line["type"], line["payload"])
    child.exchange("Go.", "Gone.")
    for rollout in (parent, child):
        for line in rollout.lines:
            del line["ordinal"]
        rollout.write(home)
    found = project(home)[THREAD]
    turns = {words(turn)[0]: turn for turn in found.turns}
    assert len(found.turns) == 3
    assert turns["Go."].parent == turns["One."].key
    assert (turns["One."].query[0].source, turns["Go."].query[0].source) == ("human", "agent")
    assert found.sessions[1].spawn is not None
    assert found.sessions[1].spawn.mode == "fork"


def test_a_subagent_without_its_parent_is_a_session_of_its_own(home: Path) -> None:
    child = Rollout(CHILD, meta={"parent_thread_id": THREAD, "agent_role": "scout"})
    child.exchange("Count.", "Two.")
    (session,) = project_one(child, home).sessions
    assert session.spawn is None
    assert session.details["parent_thread_id"] == THREAD


# Old, strange and large files.


def test_lines_from_before_there_were_types_are_read(home: Path) -> None:
    rollout = Rollout()
    rollout.lines = [
        {"id": THREAD, "timestamp": instant(BEGINNING), "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "One."}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Two."}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "B"}]},
    ]
    path = home / "sessions" / f"rollout-2025-05-07T17-24-21-{THREAD}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(rollout.text())
    told = project(path)[THREAD]
    assert [words(turn) for turn in told.turns] == [("One.", "A"), ("Two.", "B")]
    assert [turn.outcome for turn in told.turns] == ["completed", "completed"]
    assert (told.unknown, told.broken, told.orphans) == ({}, 0, [])


def test_what_nobody_knows_is_counted_and_what_retired_is_not(home: Path) -> None:
    rollout = Rollout()
    rollout.exchange("One.", "Two.")
    rollout.add("hologram", {})
    rollout.event("confetti")
    rollout.item("telepathy")
    rollout.item("ghost_snapshot")
    rollout.event("undo_completed")
    rollout.event("guardian_assessment")
    told = project_one(rollout, home)
    assert told.unknown == {"hologram": 1, "event_msg/confetti": 1, "response_item/telepathy": 1}


def test_strange_signs_and_results_of_nothing_raise_nothing(home: Path) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.ask("half \ud800 and \x00")
    rollout.call("c\x00", cmd="\udfff", big=2**70)
    rollout.result("c\x00", "nul \x00")
    rollout.result("never-asked", "x")
    rollout.answer("\ud83d")
    rollout.complete()
    told = project_one(rollout, home)
    assert len(ids(told)) == 1
    assert len(told.orphans) == 1


@pytest.mark.slow
def test_a_long_and_deep_thread_is_read_in_one_pass(tmp_path: Path) -> None:
    rollout = Rollout()
    for number in range(10_000):
        rollout.exchange(f"Q{number}", f"A{number}")
    told = project_one(rollout, tmp_path / "deep")
    assert len(told.turns) == 10_000
    assert sum((call.usage for turn in told.turns for call in turn.calls), Usage()) == Usage()


# Where it looks.


def test_threads_are_found_where_the_environment_says(tmp_path: Path) -> None:
    at_home, elsewhere = Rollout(), Rollout(OTHER)
    at_home.write(tmp_path / ".codex", folder="archived_sessions")
    elsewhere.write(tmp_path / "custom")
    codex = CodexImporter()
    assert [b.id for b in codex.discover(ToolPaths(tmp_path, {}))] == [THREAD]
    environ = {"CODEX_HOME": str(tmp_path / "custom")}
    assert [b.id for b in codex.discover(ToolPaths(tmp_path, environ))] == [OTHER]
    assert list(codex.discover(ToolPaths(tmp_path / "nobody", {}))) == []


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"type":"user","sessionId":"x"}\n')
    (tmp_path / "b.txt").write_text("hello")
    assert list(CodexImporter().open(tmp_path)) == []
    assert list(CodexImporter().open(tmp_path / "a.jsonl")) == []


def test_a_call_after_somebody_spoke_belongs_to_what_they_began(home: Path) -> None:
    told = Rollout()
    told.start()
    told.ask("Look.")
    told.answer("I looked.")
    told.ask("And there?")
    told.item("web_search_call", status="completed", action={"type": "search", "query": "q"})
    told.complete()
    first, second = project_one(told, home).turns
    assert (words(first), words(second)[0]) == (("Look.", "I looked."), "And there?")
    assert len(only(second, ToolUse)) == len(only(second, ToolResult)) == 1
