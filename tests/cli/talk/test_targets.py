"""What a message can be sent to: sessions, turns, agents, senders, and wherever it fits."""

import pytest

from tests.cli.conftest import Call
from tests.cli.talker import furnish

ATLAS = {"when": "who", "replies": [{"text": "I am Atlas."}]}


@pytest.fixture
def talk(turntree: Call) -> Call:
    furnish(turntree, [ATLAS])
    turntree("agent", "create", "atlas", "--prompt", "You are Atlas.", "--model", "echo")
    return turntree


def read_prompt(talk: Call, turn: str) -> str:
    """Return what a model was shown, as text."""
    return talk("context", turn).out


def test_an_agent_answers_in_its_main_session(talk: Call) -> None:
    first = talk("send", "@(atlas)", "hello", "--json").document
    assert (first["session"], first["agent"]) == ("atlas:main", "atlas")
    assert first["route"]["target"] == "persona"
    assert "You are Atlas." in read_prompt(talk, first["turn"])
    shown = talk("show", first["turn"], "--json").document
    assert (shown["by"]["kind"], shown["by"]["id"]) == ("agent", "atlas")
    assert shown["by"]["on_behalf_of"]["kind"] == "human"
    second = talk("send", "atlas:main", "again", "--json").document
    assert (second["agent"], second["route"]) == ("atlas", None)
    assert "You are Atlas." in read_prompt(talk, second["turn"])


def test_the_owner_of_a_session_answers_in_it(talk: Call) -> None:
    talk("session", "create", "desk", "--owner", "atlas")
    told = talk("send", "desk", "hello", "--json").document
    assert told["agent"] == "atlas"
    assert "You are Atlas." in read_prompt(talk, told["turn"])


def test_a_turn_is_answered_in_a_named_fork(talk: Call) -> None:
    first = talk("send", "@(atlas)", "one", "--json").document
    talk("send", "@(atlas)", "two")
    answer = talk("send", first["digest"].removeprefix("sha256:")[:10], "other")
    assert (answer.code, answer.out) == (0, "other\n")
    assert "to atlas:main-fork, answered by @(atlas)" in answer.err
    titles = [one["title"] for one in talk("log", "atlas:main-fork", "--json").documents]
    assert titles == ["other", "one"]
    # The agent stays with the thread, under any name of the fork.
    talk("fork", "atlas:main", "side")
    assert talk("send", "side", "go on", "--json").document["agent"] == "atlas"


def test_a_head_is_a_turn_too(talk: Call) -> None:
    first = talk("send", "main", "one", "--json").document
    assert talk("send", first["turn"], "two", "--json").document["session"] == "main-fork"


def test_a_sender_has_a_session(talk: Call) -> None:
    told = talk("send", "channel:telegram:42", "hello", "--json").document
    assert (told["session"], told["route"]["target"]) == ("channel:telegram:42", "sender")
    assert talk("send", "entity:ana", "hello").code == 0


def test_the_text_decides_where_a_message_fits(talk: Call) -> None:
    talk("send", "pump", "the irrigation pump leaks at its valve")
    talk("send", "train", "a timetable for the railway")
    answer = talk("send", "the valve of the irrigation pump again")
    assert answer.code == 0
    assert "to pump: the session pump fits best" in answer.err
    run = talk("log", "pump", "--json").documents[0]["id"]
    started = f"SELECT body FROM turntree.events WHERE stream_id = '{run}' AND seq = 0"  # noqa: S608
    assert "fits best" in talk("sql", started).out


def test_what_is_missing_is_said(talk: Call) -> None:
    assert talk("send", "@(unknown)", "hello").code == 3
    assert talk("send", "main").code == 2
    looks = talk("send", "deadbeef99", "hello")
    assert looks.code == 3
    assert "looks like a turn" in looks.err


def test_the_same_key_forks_once(talk: Call) -> None:
    first = talk("send", "main", "one", "--json").document
    talk("send", "main", "two")
    told = [
        talk("send", first["turn"], "other", "--idempotency-key", "k", "--json").document
        for _ in range(2)
    ]
    assert told[0]["turn"] == told[1]["turn"]
    assert told[0]["session"] == told[1]["session"] == "main-fork"


def test_a_trigger_addresses_an_agent_unless_it_names_a_session_or_a_turn(talk: Call) -> None:
    talk("session", "create", "atlas")
    fired = talk("send", "atlas", "it is seven", "--source", "cron", "--json").document
    assert (fired["session"], fired["agent"]) == ("atlas:main", "atlas")
    assert fired["route"]["target"] == "persona"
    # A person who names a session means the session.
    assert talk("send", "atlas", "hello", "--json").document["session"] == "atlas"
    fired = talk("send", "main", "it is eight", "--source", "trigger", "--json").document
    assert (fired["session"], fired["agent"]) == ("main", None)
    at = talk("send", fired["turn"], "what now?", "--source", "event", "--json").document
    assert at["session"] == "main-fork"
    assert talk("log", "main-fork", "--json").documents[0]["parent"] == fired["turn"]
