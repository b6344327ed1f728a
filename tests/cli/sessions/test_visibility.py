"""Every command answers to whoever may not read a private session as if there were none."""

from pathlib import Path

import anyio
import pytest

from tests.cli.conftest import Call
from tests.cli.hint_runner import HintRunner
from turntree.boot.open import Settings, open_tree
from turntree.core.message import assistant, user
from turntree.core.usage import ModelCall, Usage

WORD = "xylophone"
MISSING = {
    "SESSION": "nowhere",
    "TURN": "01a0c450-0000-7000-8000-000000000000",
    "DIGEST": "0123456789ab",
}

ADDRESSED: tuple[tuple[str, ...], ...] = (
    ("show", "SESSION"),
    ("show", "TURN"),
    ("show", "DIGEST"),
    ("log", "SESSION"),
    ("log", "TURN"),
    ("diff", "main", "SESSION"),
    ("diff", "--stat", "main", "SESSION"),
    ("export", "SESSION"),
    ("handoff", "SESSION", "--to", "codex"),
    ("handoff", "SESSION", "--open"),
    ("files", "SESSION"),
    ("replay", "TURN"),
    ("rerun", "TURN"),
    ("worktree", "SESSION"),
    ("show", "SESSION", "--context"),
    ("why", "TURN"),
    ("verify", "SESSION"),
    ("fork", "SESSION", "mine"),
    ("fork", "TURN", "mine"),
    ("switch", "SESSION"),
    ("rewind", "TURN"),
    ("undo", "SESSION"),
    ("cancel", "SESSION"),
    ("send", "--dry-run", "--to", "SESSION", "hello"),
    ("search", "--like", "TURN"),
    ("tag", "add", "TURN", "mine"),
    ("reflog", "SESSION"),
    ("session", "rename", "SESSION", "mine"),
    ("session", "archive", "SESSION"),
    ("audit", "--session", "SESSION"),
    ("program", "show", "SESSION"),
)
LISTED: tuple[tuple[str, ...], ...] = (
    ("session", "list", "--all"),
    ("log", "--all"),
    ("search", "lantern"),
    ("stats",),
    ("stats", "--by", "session"),
    ("tag", "list"),
    (
        "tag",
        "find",
    ),
    ("program", "list"),
    ("export", "--all"),
    ("sql", "SELECT * FROM sessions"),
    ("sql", "SELECT * FROM session_history"),
    ("sql", "SELECT * FROM turns"),
    ("sql", "SELECT * FROM messages"),
    ("sql", "SELECT * FROM nodes"),
)


@pytest.fixture
def words(turntree: Call, conninfo: str) -> dict[str, str]:
    """What leads to the head of a private session of ana's."""

    async def act() -> None:
        async with open_tree(Settings(Path(), conninfo, workspace="tests", user="ana")) as tree:
            await tree.turns.record("main", [user("hello")], [assistant("hi")])
            said = [user(f"a lantern and a {WORD}")]
            calls = [ModelCall("quiet-model", Usage(1, 2))]
            await tree.turns.record("secret", said, [assistant("yes")], calls=calls)
            await tree.programs.create("session", "secret", {}, visibility="private")
            await tree.turns.tag("secret", "hidden")
            await tree.search.fill()

    anyio.run(act)
    shown = turntree("show", "secret", "--json").document
    return {"SESSION": "secret", "TURN": shown["id"], "DIGEST": shown["digest"][7:19]}


@pytest.mark.parametrize("command", ADDRESSED, ids=" ".join)
def test_a_command_finds_nothing(
    turntree: Call,
    words: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    monkeypatch.setenv("TURNTREE_USER", "bob")
    hidden = turntree(*(words.get(word, word) for word in command))
    missing = turntree(*(MISSING.get(word, word) for word in command))
    assert hidden.code == missing.code == 3
    told = hidden.out + hidden.err
    for word, name in words.items():
        told = told.replace(name, MISSING[word])
    assert told == missing.out + missing.err


@pytest.mark.parametrize("command", LISTED, ids=" ".join)
def test_a_list_tells_nothing(
    turntree: Call,
    words: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    traces = (*words.values(), WORD, "quiet-model", "hidden")
    mine = turntree(*command, "--json").out
    assert any(trace in mine for trace in traces)
    monkeypatch.setenv("TURNTREE_USER", "bob")
    for told in (turntree(*command), turntree(*command, "--json")):
        assert [trace for trace in traces if trace in told.out + told.err] == []


def test_nothing_is_sent_to_it(
    turntree: Call, words: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert turntree("tail", "secret").err == turntree("tail", "nowhere").err.replace(
        "nowhere", "secret"
    )
    # Without a model the message would be refused before anything is known of the session.
    rules = '[{"when": "", "replies": [{"text": "Hello."}]}]'
    turntree("provider", "create", "script", "--type", "scripted", "--set", f"rules={rules}")
    turntree("model", "create", "first", "--backend", "scripted-1", "--provider", "script")
    answer = turntree("send", "secret", "hello")
    assert answer.code == 3
    assert "there is no session 'secret'" in answer.err
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert turntree("show", "secret", "--json").document["id"] == words["TURN"]


def test_a_fork_of_it_says_that_it_is_private_and_how_to_open_it(
    turntree: Call, words: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del words
    made = turntree("fork", "secret", "mine")
    assert "it is private; open it with: turntree program visibility mine public" in made.err
    assert "by human:ana, who owns it" in turntree("session", "show", "mine").out
    turntree("program", "grant", "secret", "bob", "read")
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert turntree("show", "mine").code == 3
    assert "it is private: only human:ana opens it" in turntree("fork", "secret", "his").err
    refused = turntree("fork", "secret", "loud", "--public")
    assert (refused.code, "leave out --public" in refused.err) == (4, True)
    monkeypatch.setenv("TURNTREE_USER", "carl")
    assert turntree("session", "list", "--json").documents[0]["label"] == "main"
    assert len(turntree("session", "list", "--json").documents) == 1
    monkeypatch.setenv("TURNTREE_USER", "ana")
    opened = turntree("fork", "secret", "loud", "--public")
    assert "the whole workspace can read it" in opened.err
    assert "undo with: turntree program visibility loud private" in opened.err
    monkeypatch.setenv("TURNTREE_USER", "carl")
    assert WORD in turntree("show", "loud").out
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert turntree("program", "visibility", "loud", "private").code == 0
    assert {one["visibility"] for one in turntree("session", "list", "--json").documents} == {
        "public",
        "private",
    }
    monkeypatch.setenv("TURNTREE_USER", "carl")
    assert turntree("show", "loud").code == 3


def test_who_did_not_begin_a_session_does_not_make_it_theirs(
    turntree: Call, words: dict[str, str], monkeypatch: pytest.MonkeyPatch, hints: HintRunner
) -> None:
    del words
    monkeypatch.setenv("TURNTREE_USER", "bob")
    for command in (
        ("program", "create", "session", "main", "--private"),
        ("program", "configure", "main", "--set", "situation=fast"),
    ):
        refused = turntree(*command)
        assert "human:ana created main and decides about it" in refused.err
        assert "turntree fork main LABEL" in refused.err
        assert refused.code == 4
    hints.follow_in_shell(refused, "turntree fork main LABEL")
    monkeypatch.setenv("TURNTREE_USER", "ana")
    turntree("session", "create", "empty")
    monkeypatch.setenv("TURNTREE_USER", "bob")
    refused = turntree("program", "configure", "empty", "--set", "situation=fast")
    assert "human:ana created empty and decides about it" in refused.err
    assert "turntree session create LABEL" in refused.err
    assert turntree("session", "create", "own", "--private").code == 0
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert turntree("show", "own").code == 3
    assert turntree("program", "configure", "main", "--set", "situation=fast").code == 0
