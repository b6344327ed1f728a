"""``show sha256:…``: what a viewer may see, what an erasure leaves, and what a terminal is sent."""

import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import psycopg
import pytest

from tests.cli.conftest import Call, forging
from tests.cli.project import Project
from turntree.api import Tree
from turntree.boot.open import open_tree
from turntree.core.ids import Digest
from turntree.core.message import ObjectRef, ToolResult, ToolUse, assistant, tool, user

T = TypeVar("T")
WORD = "xyzzyplugh"
LONG = f"{WORD} opens the long text. " + "It goes on and on. " * 1000
ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[31m\u202e\x9b2J"


def on_tree(project: Project, act: Callable[[Tree], Awaitable[T]]) -> T:
    async def run() -> T:
        async with open_tree(project.settings) as tree:
            return await act(tree)

    return anyio.run(run)


@pytest.fixture
def objects(project: Project) -> list[Digest]:
    """A turn whose query and tool result are objects; their digests."""

    async def record(tree: Tree) -> list[Digest]:
        reply = [
            assistant(ToolUse("c1", "read", {"path": "a"})),
            tool(ToolResult("c1", "ok", LONG + "from a tool")),
            assistant("done"),
        ]
        placed = await tree.turns.record("main", [user(LONG)], reply)
        return [
            part.object
            for message in placed.turn.messages
            for part in message.parts
            if isinstance(part, ObjectRef)
        ]

    return on_tree(project, record)


def test_show_of_an_object_of_a_private_session_is_not_found_for_others(
    turntree: Call, objects: list[Digest], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert turntree("program", "visibility", "main", "private").code == 0
    assert all(WORD in turntree("show", digest).out for digest in objects)
    monkeypatch.setenv("TURNTREE_USER", "bob")
    for digest in objects:
        for words in (("show", digest), ("show", digest, "--json"), ("show", digest, "--full")):
            answer = turntree(*words)
            assert answer.code == 3
            assert WORD not in answer.out + answer.err
    assert WORD not in turntree("log", "--all").out
    assert turntree("search", WORD).code == 1


def test_erasing_a_large_message_leaves_none_of_it(
    turntree: Call, objects: list[Digest], project: Project
) -> None:
    assert WORD in turntree("log", "main").out, "the excerpt is the title"
    assert turntree("search", WORD).code == 0
    for number in (0, 2):
        assert turntree("erase", f"main:msg/{number}", "--yes").code == 0
    for words in (("log", "main"), ("show", "main", "--full"), ("show", "main", "--raw"),
                  ("show", "main", "--json"), ("show", "main:tool/1"), ("export", "main"),
                  ("session", "list"), ("reflog", "main"), ("why", "main")):  # fmt: skip
        answer = turntree(*words)
        assert WORD not in answer.out + answer.err, words
    assert turntree("search", WORD).code == 1
    for digest in objects:
        assert turntree("show", digest).code == 3

    async def restore(tree: Tree) -> str:
        return str(await tree.turns.restore([await tree.turns.get("main")]))

    assert WORD not in on_tree(project, restore)
    with psycopg.connect(forging()) as owner:
        tables = owner.execute(
            "SELECT c.oid::regclass::text FROM pg_class c"
            " WHERE c.relnamespace = 'turntree'::regnamespace AND c.relkind = 'r'"
        ).fetchall()
        for (table,) in tables:
            query = f"SELECT count(*) FROM {table} t WHERE t::text ILIKE %s"  # noqa: S608
            row = owner.execute(query.encode(), (f"%{WORD}%",)).fetchone()
            assert row == (0,), table


@pytest.mark.parametrize(
    "data",
    [
        ESCAPES.encode(),
        json.dumps({"type": "text", "text": ESCAPES * 3}).encode(),
        json.dumps({"type": "text"}).encode(),
        json.dumps({"type": ESCAPES, "x": ESCAPES}).encode(),
        json.dumps({"type": "tool_use", "call_id": 1, "tool": None, "args": ESCAPES}).encode(),
        json.dumps({"type": "tool_result", "call_id": "c", "status": ESCAPES}).encode(),
        json.dumps({"type": "object", "of": "text", "object": "x", "size": "y"}).encode(),
        json.dumps({"type": "media", "kind": {}, "media_type": 7}).encode(),
        json.dumps({"type": "text", "text": 5}).encode(),
        json.dumps({"type": "text", "text": {"a": [1]}}).encode(),
        json.dumps({"type": "reasoning", "text": None}).encode(),
        b"[]", b"null", b"7", b'"text"', b"", b"\xff\xfe\x00", b"{" * 5000, b"[" * 100_000,
        b'{"type":"text","text":"\\ud800"}', b'{"type":"text","text":"a\\u0000b"}',
        b"NaN", b'{"type": []}', b'{"type": {"a": 1}}',
    ],
    ids=range(24),
)  # fmt: skip
def test_show_of_an_odd_object_prints_nothing_that_a_terminal_obeys(
    turntree: Call, project: Project, data: bytes
) -> None:
    digest = on_tree(project, lambda tree: tree.ledger.put_object(data))
    for words in (("show", digest), ("show", digest, "--full")):
        answer = turntree(*words)
        assert answer.code == 0, answer.err
        assert not any(sign in answer.out + answer.err for sign in "\x1b\x07\u202e\x9b\x00")
    document = turntree("show", digest, "--json")
    assert document.code == 0
    json.loads(document.out)
    assert not any(sign in document.out for sign in "\x1b\x07\u202e\x9b\x00")
