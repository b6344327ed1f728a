"""Every command answers to whoever may not read a private session as if there were none."""

from pathlib import Path

import anyio
import pytest

from tests.cli.conftest import Call
from turntree.boot import Settings, open_tree
from turntree.domain.message import assistant, user
from turntree.domain.usage import ModelCall, Usage

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
    ("compare", "main", "SESSION"),
    ("export", "SESSION"),
    ("checkout", "SESSION", "--as", "codex"),
    ("resume", "SESSION"),
    ("files", "SESSION"),
    ("replay", "TURN"),
    ("rerun", "TURN"),
    ("worktree", "SESSION"),
    ("context", "SESSION"),
    ("why", "TURN"),
    ("verify", "SESSION"),
    ("fork", "SESSION", "mine"),
    ("fork", "TURN", "mine"),
    ("switch", "SESSION"),
    ("rewind", "TURN"),
    ("undo", "SESSION"),
    ("cancel", "SESSION"),
    ("route", "--to", "SESSION", "hello"),
    ("similar", "TURN"),
    ("tag", "add", "TURN", "mine"),
    ("reflog", "SESSION"),
    ("session", "rename", "SESSION", "mine"),
    ("session", "archive", "SESSION"),
    ("audit", "--session", "SESSION"),
    ("program", "get", "SESSION"),
)
LISTED: tuple[tuple[str, ...], ...] = (
    ("session", "list", "--all"),
    ("log", "--all"),
    ("search", "lantern"),
    ("stats",),
    ("stats", "--by", "session"),
    ("tag", "list"),
    ("nodes",),
    ("program", "list"),
    ("export", "--all"),
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
    answer = turntree("send", "secret", "hello")
    assert answer.code == 3
    assert "there is no session 'secret'" in answer.err
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert turntree("show", "secret", "--json").document["id"] == words["TURN"]
