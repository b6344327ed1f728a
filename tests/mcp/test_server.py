"""The tools that an agent asks, through the official client."""

import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer
from mcp.types import CallToolResult, TextContent

from tests.databases import as_owner
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.message_context import TouchedFile
from turntree.db.database import Database
from turntree.mcp.server import make_server
from turntree.memory.answer import TOKENS_MAX
from turntree.models.token_estimate import estimate_text, estimate_value
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

TOOLS = {"search", "read", "list", "blame", "fork", "diff", "send", "why"}
LIST_TOKENS_MAX = 2_000


@pytest.fixture
async def client(tree: Tree) -> AsyncGenerator[Client, None]:
    async with Client(serve(tree)) as client:
        yield client


def serve(tree: Tree) -> MCPServer[None]:
    @asynccontextmanager
    async def open_tree() -> AsyncGenerator[Tree, None]:
        yield tree

    return make_server(open_tree, "0")


def words(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert estimate_text(content.text) <= TOKENS_MAX
    assert result.structured_content is None, "it would be paid for twice"
    return content.text


async def ask(client: Client, name: str, **arguments: object) -> str:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    return words(result)


def citation(text: str) -> str:
    found = re.search(r"\[([0-9a-f]{12})\]", text)
    assert found is not None, text
    return found[1]


async def plant(tree: Tree, lines: int = 3_000) -> None:
    log = [f"line {n}: nothing to see" for n in range(lines)]
    log[lines // 2] = "the staging database listens on port 6543"
    call = ToolUse("c", "bash", {"command": "cat log"})
    result = ToolResult("c", "ok", "\n".join(log))
    await tree.turns.record(
        "main", [user("read the log")], [assistant(call), tool(result), assistant("done")]
    )
    await tree.turns.record("main", [user("bake bread")], [assistant("it is in the oven")])


async def test_list_of_tools_is_short(client: Client) -> None:
    listed = (await client.list_tools()).tools
    assert {one.name for one in listed} == TOOLS
    document = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed]
    assert estimate_value(json.loads(json.dumps(document))) <= LIST_TOKENS_MAX
    hints = {one.name: one.annotations for one in listed}
    changing = {name for name, hint in hints.items() if not (hint and hint.read_only_hint)}
    assert changing == {"fork", "send"}


async def test_agent_finds_reads_and_forks_a_fact_in_a_tool_result(
    client: Client, tree: Tree
) -> None:
    await plant(tree)
    found = await ask(client, "search", query="which port does the staging database use?")
    assert "listens on port 6543" in found
    turn = citation(found)
    assert "port 6543" in await ask(client, "read", turn=turn, near="staging port")
    forked = await ask(client, "fork", turn=turn, label="again")
    assert "undo with: turntree session archive again" in forked
    assert (await tree.turns.get("again")).turn.digest.removeprefix("sha256:").startswith(turn)
    assert turn in await ask(client, "why", turn="main")
    assert "again (1 turns" in await ask(client, "list")


async def test_pages_of_a_turn_make_up_the_whole(client: Client, tree: Tree) -> None:
    await plant(tree, lines=200)
    start, seen = 0, ""
    while True:
        text = await ask(client, "read", turn="main~1", start=start)
        more = re.search(r"\nmore: start=(\d+) of \d+$", text)
        seen += text[text.index("\n") : None if more is None else more.start()]
        if more is None:
            break
        assert int(more[1]) > start
        start = int(more[1])
    assert [f"line {n}:" for n in range(200) if n != 100 and f"line {n}:" not in seen] == []
    assert seen.rstrip().endswith("assistant: done")


async def test_turns_and_hits_are_paged(client: Client, tree: Tree) -> None:
    for n in range(40):
        await tree.turns.record("main", [user(f"water the tulips {n}")], [assistant("done " * 30)])
    for name, arguments in (("search", {"query": "tulips"}), ("list", {"session": "main"})):
        skip, seen = 0, list[str]()
        while True:
            text = await ask(client, name, **arguments, skip=skip)
            seen += re.findall(r"\[[0-9a-f]{12}\]", text)
            more = re.search(r"more: skip=(\d+)$", text)
            if more is None:
                break
            skip = int(more[1])
        assert len(seen) == len(set(seen)) == 40, name


async def test_text_without_spaces_stays_within_the_bound(client: Client, tree: Tree) -> None:
    await tree.turns.record("main", [user("漢字" * 4_000)], [assistant("{[(" * 4_000)])
    await ask(client, "read", turn="main")
    await ask(client, "list", session="main")


async def test_words_and_files_of_two_turns_are_compared(client: Client, tree: Tree) -> None:
    await plant(tree, lines=10)
    text = await ask(client, "diff", left="main~1", right="main")
    assert "-user: read the log" in text
    assert "+user: bake bread" in text
    missing = await client.call_tool("diff", {"left": "main~1", "right": "main", "files": True})
    assert missing.is_error


async def test_turns_that_used_a_file_are_listed(client: Client, tree: Tree) -> None:
    files = {"files": [TouchedFile("written", "src/cart.py").to_json()]}
    said = user("write the cart")
    await tree.turns.record("main", [said], [assistant("done")])
    touching = replace(user("change the cart"), context=files)
    await tree.turns.record("main", [touching], [assistant("done")])
    text = await ask(client, "blame", path="cart.py")
    assert "change the cart" in text
    assert "write the cart" not in text
    assert (await client.call_tool("blame", {"path": "/nowhere/cart.py:3"})).is_error


async def test_error_says_what_is_wrong(client: Client) -> None:
    result = await client.call_tool("read", {"turn": "nowhere"})
    assert result.is_error
    assert "nowhere" in words(result)


async def test_server_shows_only_what_its_user_may_see(
    tree: Tree, database: Database, world: FakeClock, place: Path
) -> None:
    await tree.programs.create("session", "main", {}, visibility="private")
    await plant(tree)
    bob = tree_on(database, Settings(place, user="bob"), world)
    async with Client(serve(bob)) as stranger:
        for query in ("staging database port", "bread"):
            assert "nothing was found" in await ask(stranger, "search", query=query)
        assert (await stranger.call_tool("read", {"turn": "main"})).is_error
        assert "main" not in await ask(stranger, "list")


async def test_command_serves_over_standard_input(conninfo: str, tmp_path: Path) -> None:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "turntree", "mcp"],
        env={
            "TURNTREE_HOME": str(tmp_path / "home"),
            "TURNTREE_DATABASE_URL": as_owner(conninfo),
            "TURNTREE_WORKSPACE": "tests",
            "TURNTREE_USER": "ana",
        },
    )
    async with Client(command) as client:
        assert {one.name for one in (await client.list_tools()).tools} == TOOLS
        assert "nothing was found" in await ask(client, "search", query="anything")
        # A message waits for a worker, and the answer of the tool does not.
        assert "queued for main" in await ask(client, "send", to="main", message="look at this")
        assert "main (0 turns" in await ask(client, "list")
