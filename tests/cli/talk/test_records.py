"""What the record of an ordinary turn says, typed on the command line and asked for in SQL."""

import hashlib
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.cli.talker import SUM, TOOLS, furnish
from turntree.core.event import KINDS
from turntree.core.message import SOURCES


@pytest.fixture
def talk(turntree: Call) -> Call:
    furnish(turntree, [SUM])
    return turntree


def ask(turntree: Call, statement: str) -> list[dict[str, Any]]:
    answer = turntree("sql", "--json", "--whole", statement)
    assert answer.code == 0, answer.err
    return answer.documents


def test_every_message_and_every_call_has_times_of_its_own(talk: Call) -> None:
    talk("send", "main", "the sum", "--tools", TOOLS)
    times = [row["said_at"] for row in ask(talk, "SELECT * FROM messages ORDER BY sequence")]
    assert len(times) == 4
    assert times == sorted(times)
    (turn,) = ask(talk, "SELECT started_at, completed_at FROM turns")
    (call,) = ask(talk, "SELECT started_at, completed_at, tool_number FROM tool_calls")
    assert times[1] <= call["started_at"] <= call["completed_at"] <= times[3]
    assert (call["started_at"], call["completed_at"]) != (turn["started_at"], turn["completed_at"])
    assert call["tool_number"] == 1


def test_one_correlation_id_runs_through_a_model_call_and_its_tools(talk: Call) -> None:
    talk("send", "main", "the sum", "--tools", TOOLS)
    rows = ask(talk, "SELECT e.kind, e.correlation_id, e.data FROM turns t, history(t.id) e")
    chains: dict[str, list[str]] = {}
    for row in rows:
        if row["correlation_id"] is not None:
            chains.setdefault(row["correlation_id"], []).append(row["kind"])
    first, second = chains.values()
    assert first == [
        "model_request", "model_response", "tool_call", "tool_result",
    ]  # fmt: skip
    assert second == ["model_request", "model_response"]
    (started,) = [row["data"] for row in rows if row["kind"] == "tool_call"]
    assert started["server"]
    assert started["args_digest"].startswith("sha256:")
    asked = rows[started["requested_by"]["seq"]]
    assert asked["kind"] == "model_response"


def test_every_event_of_a_run_names_the_run_and_the_agent_that_acts(talk: Call) -> None:
    talk("agent", "create", "atlas", "--prompt", "You are atlas.", "--model", "echo")
    assert talk("send", "@(atlas)", "the sum", "--tools", TOOLS).code == 0
    (turn,) = ask(talk, "SELECT id FROM turns")
    rows = ask(talk, "SELECT e.kind, e.run_id, e.agent FROM turns t, history(t.id) e")
    assert len(rows) > 6
    assert {(row["run_id"], row["agent"]) for row in rows} == {(turn["id"], "agent:atlas")}
    moves = ask(talk, "SELECT e.run_id, e.agent FROM sessions s, history(s.id) e")
    assert {(row["run_id"], row["agent"]) for row in moves} == {(None, None)}


def test_a_turn_names_the_event_of_its_message(talk: Call) -> None:
    talk("send", "main", "hello")
    (turn,) = ask(talk, "SELECT id, source_event_id FROM turns")
    told = ask(
        talk,
        "SELECT e.kind, e.digest, e.data FROM sessions s, history(s.id) e"
        " WHERE s.label = 'main' ORDER BY e.seq",
    )
    kinds = [row["kind"] for row in told]
    assert "session.message" in kinds
    (message,) = [row for row in told if row["kind"] == "session.message"]
    assert message["digest"] == turn["source_event_id"]
    assert message["data"]["run"] == turn["id"]


def test_the_first_message_makes_a_session_active_and_a_completed_one_takes_none(
    talk: Call,
) -> None:
    talk("session", "create", "desk", "--model", "echo")
    assert talk("program", "show", "desk", "--json").document["state"] == "created"
    talk("send", "desk", "hello")
    assert talk("program", "show", "desk", "--json").document["state"] == "active"
    assert talk("program", "set-state", "desk", "paused").code == 0
    refused = talk("send", "desk", "again")
    assert refused.code == 1
    assert "desk is paused" in refused.err
    assert talk("program", "set-state", "desk", "active").code == 0
    assert talk("program", "set-state", "desk", "completed").code == 0
    refused = talk("send", "desk", "again")
    assert refused.code == 1
    assert "desk is completed" in refused.err
    assert "turntree fork desk LABEL" in refused.err
    assert talk("fsck").code == 0


def test_a_paused_agent_does_not_answer(talk: Call) -> None:
    talk("agent", "create", "atlas", "--prompt", "You are atlas.", "--model", "echo")
    talk("session", "create", "desk", "--owner", "atlas")
    assert talk("send", "desk", "hello").code == 0
    assert talk("agent", "set-state", "atlas", "paused").code == 0
    refused = talk("send", "desk", "hello")
    assert refused.code == 1
    assert "the agent atlas is paused" in refused.err


def test_anything_may_start_a_turn_and_its_message_has_the_role_of_a_user(talk: Call) -> None:
    for source in SOURCES:
        sent = talk("send", "main", f"from {source}", "--source", source)
        assert (sent.code, sent.out) == (0, f"from {source}\n")
    said = ask(talk, "SELECT role, content, source FROM messages ORDER BY said_at, sequence")
    assert [(one["role"], one["source"]) for one in said if one["role"] != "assistant"] == [
        ("user", source) for source in SOURCES
    ]
    assert {one["source"] for one in said if one["role"] == "assistant"} == {None}
    reasons = ask(
        talk,
        "SELECT m.source, e.data ->> 'reason' AS reason FROM turns t, history(t.id) e, messages m"
        " WHERE e.kind = 'run_started' AND m.turn_id = t.id AND m.sequence = 0",
    )
    told = {one["source"]: one["reason"] for one in reasons}
    assert (told["human"], told["cron"], told["agent"]) == ("user", "schedule", "subagent")
    assert talk("send", "main", "hello", "--source", "moon").code == 2


def test_a_deprecated_model_still_answers_and_says_so(talk: Call) -> None:
    talk("session", "configure", "main", "--model", "echo")
    for state in ("published", "deprecated"):
        assert talk("model", "set-state", "echo", state).code == 0
    answer = talk("send", "main", "hello")
    assert (answer.code, answer.out) == (0, "hello\n")
    assert "@(echo) is deprecated; choose another model with --model" in answer.err


def test_who_asks_a_person_that_is_away_is_told_so(talk: Call) -> None:
    talk("human", "create", "ana", "--permission", "approve")
    assert "state" not in talk("human", "ask", "ana", "May we?", "--json").document
    assert talk("human", "set-state", "ana", "away").code == 0
    assert talk("human", "ask", "ana", "May we still?", "--json").document["state"] == "away"
    assert "ana is away; it waits in their inbox" in talk("human", "notify", "ana", "Done.").err
    assert talk("human", "set-state", "ana", "available").code == 0
    assert "is away" not in talk("human", "notify", "ana", "Back?").err


def test_the_id_of_a_turn_is_its_own_and_it_knows_no_session(talk: Call) -> None:
    for label in ("main", "other"):
        assert talk("send", label, "hello").code == 0
    turns = ask(talk, "SELECT * FROM turns")
    assert len({turn["id"] for turn in turns}) == 2
    assert not {name for name in turns[0] if "session" in name}
    said = ask(talk, "SELECT turn_id, id, content FROM messages WHERE role = 'user'")
    assert [row["content"] for row in said] == ["hello", "hello"]
    assert {row["id"] for row in said} == {f"{turn['id']}/0" for turn in turns}
    talk("session", "rename", "other", "another")
    talk("fork", "another", "third")
    heads = {row["label"]: row["thread_id"] for row in ask(talk, "SELECT * FROM sessions")}
    assert heads.keys() == {"main", "another", "third"}
    assert heads["another"] == heads["third"] != heads["main"]
    assert ask(talk, "SELECT * FROM turns") == turns


def test_a_thread_names_its_persona_its_prompt_and_its_key(talk: Call) -> None:
    talk("agent", "create", "atlas", "--prompt", "You are atlas.", "--model", "echo")
    for said in ("one", "two"):
        talk("send", "@(atlas)", said)
    first, second = ask(talk, "SELECT * FROM threads ORDER BY depth")
    assert [first["ancestry"], second["ancestry"]] == [
        [first["turn_id"]], [first["turn_id"], second["turn_id"]],
    ]  # fmt: skip
    assert (second["depth"], second["persona_id"]) == (2, "atlas")
    assert second["total_tokens"] > first["total_tokens"] > 0
    assert second["thread_key"] == f"turn:{second['turn_id']}"
    prompt = hashlib.sha256(b"You are atlas.").hexdigest()
    assert second["system_prompt_hash"] == f"sha256:{prompt}"


def test_a_request_that_was_too_long_and_its_replacement_are_both_kept(turntree: Call) -> None:
    furnish(turntree, [], "--set", "prompt_chars_max=6000")
    essay = "One word after the other. " * 160
    assert turntree("send", "main", essay).code == 0
    assert turntree("send", "main", "And in short?").code == 0
    rows = ask(turntree, "SELECT e.kind, e.seq, e.data FROM turns t, history(t.id) e")
    (told,) = [row["data"] for row in rows if row["kind"] == "substitution"]
    assert told["reason"] == "too_long"
    assert told["original"]["seq"] < told["replacement"]["seq"]
    (edge,) = ask(turntree, "SELECT from_id, to_id FROM edges WHERE kind = 'SUBSTITUTES'")
    assert edge["from_id"].endswith(f"/event/{told['replacement']['seq']}")
    assert edge["to_id"].endswith(f"/event/{told['original']['seq']}")
    assert turntree("fsck").code == 0


def test_agents_and_models_record_what_they_do_in_a_run(talk: Call) -> None:
    talk("agent", "create", "atlas", "--prompt", "You are atlas.", "--model", "echo")
    talk("session", "create", "desk", "--owner", "atlas")
    talk("send", "desk", "the sum", "--tools", TOOLS)
    (turn,) = ask(talk, "SELECT id FROM turns")

    def kinds(program: str) -> list[str]:
        id = talk("program", "show", program, "--json").document["id"]
        rows = ask(talk, f"SELECT kind, data FROM history('{id}') ORDER BY seq")  # noqa: S608
        assert all(row["data"].get("run", turn["id"]) == turn["id"] for row in rows)
        return [row["kind"] for row in rows if row["data"]["by"] == "system:runtime"]

    states = ["agent.thinking", "agent.executing", "agent.thinking", "agent.completed"]
    assert kinds("atlas") == states
    assert kinds("echo") == ["model.inference_requested", "model.inference_completed"] * 2
    assert talk("agent", "show", "atlas", "--json").document["state"] == "idle"
    assert talk("fsck").code == 0


def test_an_entry_of_the_history_has_its_request_latency_and_situation(talk: Call) -> None:
    talk("model", "configure", "echo", "--set", 'situations={"coding": {"temperature": 0}}')
    talk("send", "main", "hello", "--situation", "coding")
    asked, replied = talk("log", "main", "--messages", "--json").documents
    assert "latencyMs" not in asked
    assert replied["latencyMs"] >= 0
    assert replied["situation"] == "coding"
    assert "requestId" in replied
    assert asked["timestamp"] <= replied["timestamp"]
    assert (replied["parentUuid"], asked["parentUuid"]) == (asked["uuid"], None)
    assert replied["sessionId"] == asked["sessionId"]
    assert (replied["provider"], replied["message"]["content"]) == ("scripted", "hello")


def test_every_event_of_a_run_says_which_group_it_belongs_to(talk: Call) -> None:
    talk("send", "main", "hello")
    rows = ask(talk, "SELECT e.kind, e.event_group FROM turns t, history(t.id) e ORDER BY e.seq")
    assert [(row["kind"], row["event_group"]) for row in rows] == [
        ("run_started", "intent"),
        ("model_request", "intent"),
        ("model_response", "observation"),
        ("run_finished", "transition"),
    ]
    kinds = ask(
        talk,
        f"SELECT k, event_group(k) AS g FROM unnest(ARRAY{[*KINDS]}) k",  # noqa: S608
    )
    assert {row["k"]: row["g"] for row in kinds} == dict(KINDS)


def test_a_finished_run_names_what_came_of_it(talk: Call) -> None:
    talk("send", "main", "the sum", "--tools", TOOLS)
    rows = ask(talk, "SELECT e.kind, e.data FROM turns t, history(t.id) e ORDER BY e.seq")
    started, finished = rows[0]["data"], rows[-1]["data"]
    assert (started["reason"], finished["outcome"]) == ("user", "completed")
    (reply,) = ask(
        talk,
        "SELECT m.content FROM turns t, message(t.response_message_id) m",
    )
    (turn,) = ask(talk, "SELECT response_message_id FROM turns")
    assert finished["summary_ref"] == turn["response_message_id"]
    assert reply["content"] == "It is 42."


def test_every_turn_has_a_role_and_permissions(talk: Call) -> None:
    talk("agent", "create", "atlas", "--role", "worker", "--model", "echo", "--deny", "tool:add")
    talk("session", "create", "desk", "--owner", "atlas")
    talk("send", "desk", "hello", "--tools", TOOLS)
    talk("send", "main", "the sum", "--tools", TOOLS)
    worker, bare = ask(talk, "SELECT * FROM turns ORDER BY started_at")
    assert (worker["role"], bare["role"]) == ("worker", "unified")
    assert worker["permissions_granted"]["tools"]["deny"] == ["add"]
    assert bare["permissions_granted"]["tools"]["allow"] == ["*"]
    assert (worker["permissions_used"], bare["permissions_used"]) == (None, ["tool:add"])
    assert worker["toolset_name"]
    assert bare["tools_available"]


def test_a_session_tells_the_task_it_was_made_for(talk: Call) -> None:
    talk("agent", "create", "atlas", "--prompt", "You are atlas.", "--model", "echo")
    talk("task", "create", "Say it", "--assignee", "atlas")
    assert talk("agent", "assign", "atlas", "task-say-it").code == 0
    asked = "SELECT task_description, task_status FROM sessions WHERE task_status IS NOT NULL"
    (session,) = ask(talk, asked)
    assert session == {"task_description": "Say it", "task_status": "completed"}
