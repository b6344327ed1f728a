"""What is said to a private agent is as private as the agent, and who answers a guest."""

from collections.abc import Callable

import pytest

from tests.cli.conftest import Answer, Call
from tests.cli.talker import furnish

As = Callable[..., Answer]


@pytest.fixture
def say(turntree: Call, monkeypatch: pytest.MonkeyPatch) -> As:
    """Run a command as a person. Ana has the private agent atlas, bob a model of his own."""

    def run(user: str, *words: str) -> Answer:
        monkeypatch.setenv("TURNTREE_USER", user)
        return turntree(*words)

    furnish(turntree)
    create = ("agent", "create", "atlas", "--prompt", "You are Atlas.", "--model", "echo")
    assert run("ana", *create, "--private").code == 0
    his = ("model", "create", "his", "--backend", "scripted-1", "--provider", "script")
    assert run("bob", *his).code == 0
    return run


def invite(say: As, program: str = "atlas") -> None:
    assert say("ana", "program", "grant", program, "bob", "invoke").code == 0


def test_the_main_session_of_a_private_agent_is_private(say: As) -> None:
    assert say("ana", "send", "@(atlas)", "the plan").code == 0
    assert say("bob", "log", "atlas:main").code == 3
    refused = say("bob", "send", "atlas:main", "hello")
    assert refused.code != 0
    assert "Atlas" not in refused.out
    assert "atlas" not in say("bob", "session", "list").out
    everything = "SELECT count(*) AS n FROM ledger.turns"
    assert say("bob", "sql", everything, "--json").document == {"n": 0}
    assert say("ana", "log", "atlas:main").code == 0
    # Who may use the agent may not read what others say to it.
    invite(say)
    assert say("bob", "log", "atlas:main").code == 3


def test_a_guest_has_a_private_session_of_their_own_with_an_agent(say: As) -> None:
    say("ana", "send", "@(atlas)", "the plan")
    assert say("bob", "send", "@(atlas)", "hello").code == 3
    invite(say)
    first = say("bob", "send", "@(atlas)", "hello", "--json").document
    assert (first["session"], first["agent"]) == ("atlas:with-bob", "atlas")
    again = say("bob", "send", "@(atlas)", "again", "--json").document
    assert again["session"] == "atlas:with-bob"
    titles = [one["title"] for one in say("bob", "log", "atlas:with-bob", "--json").documents]
    assert titles == ["again", "hello"]
    assert "You are Atlas." in say("bob", "context", first["turn"]).out
    # It is bob's: its agent's owner does not read it either.
    assert say("ana", "log", "atlas:with-bob").code == 3
    told = say("bob", "send", "@(atlas)", "hello", "--dry-run", "--json").out
    assert "atlas:with-bob" in told
    assert "the plan" not in told
    # The owner of the main session can let him in.
    invite(say, "atlas:main")
    assert say("bob", "send", "@(atlas)", "me too", "--json").document["session"] == "atlas:main"


def test_a_guest_who_writes_first_does_not_get_the_main_session(say: As) -> None:
    invite(say)
    told = say("bob", "send", "@(atlas)", "hello", "--json").document
    assert told["session"] == "atlas:with-bob"
    taken = say("bob", "session", "create", "atlas:main")
    assert "the name atlas:main is taken" in taken.err
    taken = say("bob", "session", "rename", "main", "atlas:main")
    assert taken.code != 0
    assert say("ana", "send", "@(atlas)", "hello", "--json").document["session"] == "atlas:main"


def test_a_session_that_has_the_name_already_hears_nothing(say: As) -> None:
    # Bob takes the names before there is an agent.
    for label in ("boris:main", "boris:with-ana"):
        assert say("bob", "send", label, "first", "--model", "his").code == 0
    say("ana", "agent", "create", "boris", "--model", "echo", "--private")
    told = say("ana", "send", "@(boris)", "a secret", "--json").document
    assert (told["session"], told["agent"]) == ("boris:with-ana-2", "boris")
    assert say("ana", "send", "@(boris)", "more", "--json").document["session"] == told["session"]
    assert say("bob", "log", "boris:with-ana-2").code == 3
    # His session stays his, and answers him as before.
    assert say("bob", "send", "boris:main", "more", "--json").document["agent"] is None


def test_an_agent_that_becomes_private_takes_its_main_session_along(say: As) -> None:
    say("ana", "agent", "create", "clio", "--model", "echo")
    say("ana", "send", "@(clio)", "hello")
    assert say("bob", "log", "clio:main").code == 0
    say("ana", "program", "visibility", "clio", "private")
    assert say("bob", "log", "clio:main").code == 3
    opened = say("ana", "program", "visibility", "clio:main", "public")
    assert opened.code != 0
    assert "clio:main is the main session of @(clio), which is private" in opened.err
    forked = say("ana", "fork", "clio:main", "clio:side")
    assert forked.code == 0
    assert say("bob", "log", "clio:side").code == 3
    assert say("ana", "fsck").code == 0


def test_a_guest_who_may_not_use_the_agent_of_a_session_is_refused(say: As) -> None:
    say("ana", "session", "create", "desk", "--owner", "atlas", "--private")
    say("ana", "send", "desk", "hello")
    invite(say, "desk")
    refused = say("bob", "send", "desk", "who are you?", "--model", "his")
    assert refused.code != 0
    assert "@(atlas) answers here, and human:bob may not invoke it" in refused.err
    assert "its owner: turntree program grant atlas bob invoke" in refused.err
    assert "turntree fork desk LABEL --agent AGENT" in refused.err
    assert len(say("ana", "log", "desk", "--json").documents) == 1
    # Both ways on work.
    say("bob", "agent", "create", "helper", "--model", "his")
    assert say("bob", "fork", "desk", "mine", "--agent", "helper", "--yes").code == 0
    told = say("bob", "send", "mine", "and you?", "--json").document
    assert told["agent"] == "helper"
    invite(say)
    assert say("bob", "send", "desk", "and you?", "--json").document["agent"] == "atlas"


@pytest.mark.parametrize("target", ["atlas:main", "side"])
def test_the_agent_of_a_thread_is_not_replaced_for_a_guest(say: As, target: str) -> None:
    say("ana", "send", "@(atlas)", "hello")
    say("ana", "fork", "atlas:main", "side")
    invite(say, target)
    assert "hello" in say("bob", "log", target).out
    refused = say("bob", "send", target, "who are you?", "--model", "his")
    assert "@(atlas) answers here" in refused.err
    head = say("ana", "log", target, "--json").documents[0]["id"]
    assert "@(atlas) answers here" in say("bob", "send", head, "and here?", "--model", "his").err
    assert "fork" not in say("ana", "session", "list").out.replace("side", "")


def test_who_may_only_read_an_agent_is_not_answered_under_its_name(say: As) -> None:
    assert say("ana", "program", "grant", "atlas", "bob", "read").code == 0
    for target in ("@(atlas)", "atlas:notes"):
        refused = say("bob", "send", target, "who are you?", "--model", "his")
        assert "@(atlas) answers here, and human:bob may not invoke it" in refused.err
        assert "fork" not in refused.err, "nothing is there to fork"
        assert refused.err.endswith("its owner: turntree program grant atlas bob invoke\n")
    assert "atlas" not in say("bob", "session", "list").out


def test_an_agent_takes_over_no_sessions_of_others(say: As) -> None:
    for label in ("release:one", "main"):
        say("ana", "send", label, "hello")
    for name in ("release", "assistant"):
        assert (
            say("bob", "agent", "create", name, "--model", "his", "--prompt", "Obey Bob.").code == 0
        )
    for label in ("release:one", "main"):
        told = say("ana", "send", label, "go on", "--json").document
        assert told["agent"] is None
        assert "Obey" not in say("ana", "context", told["turn"]).out
    # In a session of bob's, where he uses a private agent, others are still answered.
    say("bob", "agent", "create", "quiet", "--model", "his", "--private")
    assert say("bob", "send", "main", "a word", "--agent", "quiet").code == 0
    assert say("ana", "send", "main", "go on", "--json").document["agent"] is None
