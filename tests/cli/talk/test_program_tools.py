"""Programs as tools of an agent: each is invoked for the run, and leaves its own record."""

from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.cli.talker import SUM, TOOLS, furnish


def calling(when: str, tool: str, message: str | None = None, **args: Any) -> dict[str, Any]:
    """A rule by which a model calls a tool, and then says so."""
    given = args if message is None else {"message": message}
    return {
        "when": when,
        "replies": [{"tools": [{"tool": tool, "args": given}]}, {"text": f"{tool} was called."}],
    }


RULES = [
    calling("manage", "helper", "six times seven"),
    calling("delegate", "helper", "the sum"),
    SUM,
    calling("circle", "atlas", "manage"),
    calling("consult", "echo", "a word"),
    calling("tell the desk", "desk", "news"),
    calling("tell yourself", "atlas_main", "news"),
    calling("look it up", "capital"),
    calling("begin", "chore", action="start"),
    calling("tell bob", "bob", "Lunch is ready."),
    calling("notify", "bob", decide="r1", approve=True),
    {"when": "six", "replies": [{"text": "42"}]},
]


@pytest.fixture
def talk(turntree: Call) -> Call:
    furnish(turntree, RULES)
    turntree("human", "create", "bob")
    turntree("information", "create", "capital", "--type", "fact", "--content", '"Paris"')
    turntree("agent", "create", "helper", "--model", "echo", "--prompt", "You calculate.")
    return turntree


def create(talk: Call, *tools: str) -> None:
    """Create the agent atlas with some tools."""
    listed = [word for tool in tools for word in ("--tool", tool)]
    made = talk("agent", "create", "atlas", "--model", "echo", *listed)
    assert made.code == 0, made.err


def call_of(talk: Call, agent: str, text: str) -> dict[str, Any]:
    """Send an agent a message, and return the result of the call that it made."""
    sent = talk("send", f"@({agent})", text, "--json")
    assert sent.code == 0, sent.err
    return result_in(talk, sent.document["turn"])


def result_in(talk: Call, turn: str) -> dict[str, Any]:
    """Return the result of the only tool call in a turn, with the turn's id."""
    shown = talk("show", turn, "--json").document
    (result,) = [
        part
        for message in shown["messages"]
        for part in message["parts"]
        if part["kind"] == "tool_result"
    ]
    return {**result, "in": shown["id"]}


def test_an_agent_asks_another_one(talk: Call) -> None:
    create(talk, "helper")
    result = call_of(talk, "atlas", "manage this")
    assert (result["status"], result["output"]["text"]) == ("ok", "42")
    child = talk("show", result["output"]["turn"], "--json").document
    assert child["by"]["id"] == "helper"
    assert child["by"]["on_behalf_of"]["id"] == "atlas"
    assert child["by"]["on_behalf_of"]["on_behalf_of"]["id"] == "ana"
    assert "You calculate." in talk("context", child["id"]).out
    # The child knows what spawned it, and its tokens are counted once.
    row = talk(
        "sql", "SELECT is_subagent, parent_session_label, parent_turn_id, spawn_tool_call_id,"
        " task_description, task_status FROM ledger.sessions WHERE is_subagent", "--json",
    ).document  # fmt: skip
    assert row == {
        "is_subagent": True,
        "parent_session_label": "atlas:main",
        "parent_turn_id": result["in"],
        "spawn_tool_call_id": result["call_id"],
        "task_description": "six times seven",
        "task_status": "completed",
    }
    assert sum(one["calls"] for one in talk("stats", "--json").documents) == 3
    assert "spawned" in talk("why", child["id"]).out
    edges = "SELECT count(*) AS n FROM ledger.edges WHERE kind = 'SPAWNED_FROM'"
    assert talk("sql", edges, "--json").document == {"n": 1}
    events = "SELECT count(*) AS n FROM turntree.events WHERE kind = 'session.spawned'"
    assert talk("sql", events, "--json").document == {"n": 1}
    assert talk("fsck").code == 0


def test_an_agent_that_waits_cannot_be_asked(talk: Call) -> None:
    talk("agent", "create", "atlas", "--model", "echo", "--tool", "helper")
    talk("agent", "configure", "helper", "--tool", "atlas")
    outer = call_of(talk, "helper", "circle")
    assert outer["output"]["text"] == "helper was called."
    inner = result_in(talk, outer["output"]["turn"])
    assert inner["output"] == "@(helper) waits for this answer and cannot be asked"
    turns = "SELECT count(*) AS n FROM turntree.turns"
    assert talk("sql", turns, "--json").document == {"n": 2}


def test_a_model_and_a_session_are_asked(talk: Call) -> None:
    talk("session", "create", "desk", "--owner", "helper")
    create(talk, "echo", "desk", "capital", "bob")
    result = call_of(talk, "atlas", "consult someone")
    assert result["output"]["text"] == "a word"
    child = talk("show", result["output"]["turn"], "--json").document
    assert child["by"]["id"] == "assistant"
    result = call_of(talk, "atlas", "tell the desk")
    assert result["output"]["text"] == "news"
    (turn,) = talk("log", "desk", "--json").documents
    assert (turn["title"], turn["id"]) == ("news", result["output"]["turn"])
    assert talk("show", turn["id"], "--json").document["by"]["id"] == "helper"
    # Programs that leave no turn can be tools too. No model decides for a person.
    assert call_of(talk, "atlas", "look it up")["output"]["content"] == "Paris"
    assert "expected ones: message" in call_of(talk, "atlas", "notify")["output"]


def test_a_session_that_waits_cannot_be_asked(talk: Call) -> None:
    talk("agent", "create", "atlas", "--model", "echo")
    talk("session", "create", "atlas:main", "--owner", "atlas")
    talk("agent", "configure", "atlas", "--tool", "atlas:main")
    result = call_of(talk, "atlas", "tell yourself")
    assert result["output"] == "atlas:main waits for this answer and cannot be asked"


def test_the_rights_of_an_agent_that_is_called_lie_inside_those_of_its_caller(talk: Call) -> None:
    talk("agent", "configure", "helper", "--function", "add")
    create(talk, "helper")
    talk("agent", "configure", "atlas", "--deny", "tool:add")
    sent = talk("send", "@(atlas)", "delegate it", "--tools", TOOLS, "--json")
    child = result_in(talk, sent.document["turn"])["output"]["turn"]
    assert "there is no tool 'add'" in result_in(talk, child)["output"]
    granted = f"SELECT permissions_granted FROM ledger.turns WHERE id = '{child}'"  # noqa: S608
    assert '"deny": ["add"]' in talk("sql", granted).out
    # A worker does not ask others, unless it is allowed to.
    talk(
        "agent", "configure", "atlas", "--role", "worker", "--toolset", "full", "--allow", "tool:*"
    )
    assert "there is no tool 'helper'" in call_of(talk, "atlas", "manage again")["output"]


def test_a_role_decides_the_toolset_and_whether_agents_are_called(talk: Call) -> None:
    create(talk, "helper")
    asked = "SELECT role, toolset_name FROM ledger.turns ORDER BY started_at DESC LIMIT 1"
    # The toolset of a worker has no agents in it, and that of a manager only what delegates.
    for role, toolset in (("worker", "worker"), ("manager", "manager")):
        talk("agent", "configure", "atlas", "--role", role)
        assert "there is no tool 'helper'" in call_of(talk, "atlas", "manage it")["output"]
        assert talk("sql", asked, "--json").document == {"role": role, "toolset_name": toolset}
    # With a toolset that has it, a manager calls an agent; a worker needs the right to spawn.
    talk("agent", "configure", "atlas", "--toolset", "full")
    assert call_of(talk, "atlas", "manage it")["status"] == "ok"
    talk("agent", "configure", "atlas", "--role", "worker")
    assert "there is no tool 'helper'" in call_of(talk, "atlas", "manage it")["output"]
    talk("agent", "configure", "atlas", "--allow", "action:spawn", "--allow", "tool:*")
    assert call_of(talk, "atlas", "manage it")["status"] == "ok"


def test_a_task_is_started_and_a_person_is_told(
    talk: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk("task", "create", "Wash up", "--name", "chore")
    create(talk, "chore", "bob")
    assert call_of(talk, "atlas", "begin")["status"] == "ok"
    assert talk("task", "show", "chore", "--json").document["state"] == "active"
    result = call_of(talk, "atlas", "tell bob")
    assert (result["status"], result["output"]["reached"]) == ("ok", True)
    monkeypatch.setenv("TURNTREE_USER", "bob")
    (told,) = talk("inbox", "--json").documents
    assert (told["text"], told["by"]) == ("Lunch is ready.", "agent:atlas")
    assert set(told["refs"]) == {"run", "call_id"}
