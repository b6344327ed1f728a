"""The questions that the ledger answers as a graph, asked in SQL about a story that was typed."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.cli.talker import SUM, TOOLS, furnish


@pytest.fixture
def talk(turntree: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    furnish(turntree, [SUM])
    return turntree


def ask(talk: Call, statement: str) -> list[dict[str, Any]]:
    answer = talk("sql", "--json", "--whole", statement)
    assert answer.code == 0, answer.err
    return answer.documents


def test_history_calls_and_lineage_of_a_turn_are_found(talk: Call) -> None:
    talk("send", "main", "hello")
    talk("send", "main", "the sum", "--tools", TOOLS)
    first, second = ask(talk, "SELECT id FROM turns ORDER BY depth")
    kinds = [row["kind"] for row in ask(talk, f"SELECT kind FROM history('{second['id']}')")]  # noqa: S608
    assert kinds == [
        "run_started", "model_request", "model_response", "tool_call.judged", "tool_call",
        "tool_result", "model_request", "model_response", "run_finished",
    ]  # fmt: skip
    (call,) = ask(talk, f"SELECT * FROM calls('{second['id']}')")  # noqa: S608
    assert (call["tool"], call["status"]) == ("add", "ok")
    assert (call["call_event"], call["result_event"]) == (
        f"{second['id']}/event/4", f"{second['id']}/event/5",
    )  # fmt: skip
    steps = ask(talk, f"SELECT how, to_id FROM lineage('{second['id']}')")  # noqa: S608
    assert {"how": "follows", "to_id": first["id"]} in steps


def test_a_folder_is_held_from_its_snapshot_on_and_a_fork_knows_its_ancestry(talk: Call) -> None:
    talk("send", "main", "hello")
    assert talk("snapshot").code == 0
    held = "SELECT kind FROM resources_at({}) ORDER BY kind"
    now = "(extract(epoch FROM now()) * 1000)::bigint"
    before = "(SELECT min(valid_from) - 1 FROM edges WHERE kind = 'ATTACHED_TO')"
    assert [row["kind"] for row in ask(talk, held.format(now))] == ["ATTACHED_TO", "OWNS_RESOURCE"]
    assert ask(talk, held.format(before)) == []
    talk("fork", "main", "side")
    (came,) = ask(
        talk, "SELECT a.* FROM sessions s, ancestry(s.id) a WHERE s.label = 'side'"
    )  # fmt: skip
    assert (came["kind"], came["by"]) == ("FORKED_FROM", "human:ana")


def test_a_thread_names_the_persona_and_the_prompt_of_its_head(talk: Call) -> None:
    talk("agent", "create", "atlas", "--prompt", "You are Atlas.", "--model", "echo")
    talk("send", "@(atlas)", "hello")
    talk("send", "main", "hello")
    told = ask(
        talk,
        "SELECT t.persona_id, t.system_prompt_hash, t.thread_key, t.turn_id, t.depth"
        " FROM sessions s JOIN threads t ON t.turn_id = s.thread_id ORDER BY s.label",
    )
    atlas, plain = told
    assert atlas["persona_id"] == "atlas"
    assert atlas["system_prompt_hash"].startswith("sha256:")
    assert (plain["persona_id"], plain["system_prompt_hash"]) == (None, None)
    assert {one["thread_key"] for one in told} == {f"turn:{one['turn_id']}" for one in told}


def test_a_message_that_joins_another_is_an_event_of_their_run(talk: Call) -> None:
    run = talk("send", "main", "one", "--no-wait", "--json").document["run"]
    talk("send", "main", "two", "--no-wait", "--join")
    assert talk("send", "main", "three").code == 0
    (joined,) = ask(talk, f"SELECT seq, data FROM history('{run}') WHERE kind = 'history_append'")  # noqa: S608
    assert (joined["seq"], joined["data"]["by"]) == (1, "human:ana")
    said = ask(
        talk, f"SELECT content FROM messages WHERE turn_id = '{run}' AND role = 'user'"  # noqa: S608
    )  # fmt: skip
    assert [one["content"] for one in said] == ["one", "two"]
