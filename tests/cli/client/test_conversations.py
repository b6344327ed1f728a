"""Conversations over a server, typed: the commands print what they print at the database."""

import pytest

from tests.cli.client.conftest import Served
from tests.cli.client.test_commands import both, run

pytestmark = pytest.mark.slow


def test_a_conversation_is_held_over_a_server(served: Served) -> None:
    served.here()
    run(served, "member", "add", "bob")
    run(served, "agent", "create", "bot", "--display-name", "Bot")
    served.there()
    assert "no conversations yet" in run(served, "conversation", "list").out
    begun = run(served, "conversation", "create", "launch", "--title", "The launch")
    assert begun.lines[0] == "launch begins: private, 1 participant"
    answer = run(served, "conversation", "post", "launch", "hello there", "--to", "bot")
    assert "hello there" in answer.out
    assert answer.lines[0].startswith("Bot")
    later = run(served, "conversation", "post", "launch", "on we go", "--no-wait", "--json")
    assert later.document["post"] == 3
    said = run(served, "conversation", "post", "launch", "and you?", "--to", "bob")
    assert "next: turntree conversation add launch bob" in said.err
    run(served, "conversation", "add", "launch", "bob")
    for words in (("list",), ("show", "launch"), ("log", "launch"), ("log", "launch", "--json")):
        here, there = both(served, "conversation", *words)
        assert here == there
    for number in (1, 3):
        here, there = both(served, "why", f"launch#{number}")
        assert here == there
        assert there[0].startswith(f"launch#{number}")
    forked = run(served, "conversation", "fork", "launch", "other", "--at", "2", "--json")
    assert forked.document["forked_seq"] == 2
    run(served, "conversation", "remove", "launch", "bob")
    erased = run(served, "conversation", "erase", "launch", "3", "--yes", "--json")
    assert erased.document["erased"] is True
    posts = run(served, "conversation", "log", "launch", "--json").documents
    assert [one["content"] is None for one in posts] == [False, False, True, False]


def test_what_a_server_refuses_is_said_plainly(served: Served) -> None:
    served.here()
    run(served, "agent", "create", "botanist")
    served.there()
    run(served, "conversation", "create", "launch")
    unknown = served.turntree("conversation", "post", "launch", "well?", "--to", "botan")
    assert (unknown.code, "did you mean botanist?" in unknown.err) == (3, True)
    refused = served.turntree("conversation", "post", "launch", "hi", "--tools", "tools.py:add")
    assert "does not work over a server" in refused.err
    hidden = served.turntree("conversation", "log", "elsewhere")
    assert "there is no conversation elsewhere" in hidden.err
    archived = run(served, "conversation", "set-state", "launch", "archived")
    assert archived.lines[0] == "launch is archived   (it was active)"
    closed = served.turntree("conversation", "post", "launch", "still here?")
    assert "the conversation launch is archived" in closed.err
