"""Lists: sessions, search results and costs."""

from pathlib import Path
from typing import Any

import pytest

from tests.server.reads.conftest import Reader
from tests.server.reads.scenes import say, work
from turntree.api import Tree
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.usage import ModelCall, Usage
from turntree.search.rank import Snippet
from turntree.server.reads.search import browser_marks

pytestmark = pytest.mark.anyio


async def labels(reader: Reader, **query: Any) -> list[str]:
    return [one["label"] for one in (await reader.get("sessions", **query))["sessions"]]


async def test_sessions_lists_newest_first_in_pages(tree: Tree, reader: Reader) -> None:
    for label in ("one", "two", "three"):
        await say(tree, label, f"hello {label}")
    await say(tree, "one", "again")
    page = await reader.get("sessions", limit=2)
    assert [one["label"] for one in page["sessions"]] == ["one", "three"]
    rest = await reader.get("sessions", limit=2, cursor=page["next"])
    assert ([one["label"] for one in rest["sessions"]], rest["next"]) == (["two"], None)
    first = page["sessions"][0]
    assert (first["turns"], first["title"], first["agent"]) == (2, "hello one", "claude-code")
    assert (first["tokens"], first["cost"]) == (8_400, pytest.approx(0.0138))
    assert sum(first["activity"]) == 2
    assert len(first["activity"]) == 14
    brief = (await reader.get("sessions", limit=1, figures="false"))["sessions"][0]
    assert (brief["label"], brief["tokens"], brief["cost"]) == ("one", 0, None)


async def test_sessions_are_filtered(tree: Tree, reader: Reader, tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    await work(tree, "cart", folder, {"a.py": "1\n"})
    await say(tree, "talk", "what is a monad?")
    await say(tree, "old", "gone by")
    await tree.sessions.set_status("old", "archived")
    assert set(await labels(reader)) == {"cart", "talk"}
    assert set(await labels(reader, archived="true")) == {"cart", "talk", "old"}
    assert await labels(reader, project="shop") == ["cart"]
    assert await labels(reader, q="MONAD what") == ["talk"]
    assert await labels(reader, agent="codex") == []


async def test_search_gives_snippets_with_marks(tree: Tree, reader: Reader) -> None:
    turn = await say(tree, "main", "Why does the redirect lose its query?", "It was the resolver.")
    await say(tree, "main", "unrelated")
    found = await reader.get("search", q="redirect")
    (hit,) = found["hits"]
    assert (hit["turn"], hit["depth"], hit["sessions"]) == (turn, 1, ["main"])
    ((start, end),) = hit["marks"]
    assert hit["snippet"][start:end] == "redirect"
    assert (hit["agent"], hit["why"]) == ("claude-code", "redirect (asked)")
    assert (found["total"], found["next"], found["hint"]) == (1, None, None)


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("in:side zebra", {"zebra two"}),
        ("by:claude-code zebra", {"zebra two"}),
        ("model:sonnet zebra", {"zebra two"}),
        ("tool:Bash", {"zebra one"}),
        ("file:db/sql.py", {"zebra one"}),
        ("failed:yes", {"zebra one"}),
    ],
)
async def test_search_understands_operators(
    tree: Tree, reader: Reader, query: str, titles: set[str]
) -> None:
    files = {"files": [{"kind": "written", "path": "src/db/sql.py"}]}
    reply = [
        assistant(ToolUse("c", "Bash", {"command": "false"})),
        tool(ToolResult("c", "error", "no")),
        assistant("done"),
    ]
    asked = user("zebra one")
    await tree.turns.record(
        "main", [type(asked)(asked.role, asked.parts, asked.source, context=files)], reply
    )
    await say(tree, "side", "zebra two")
    found = await reader.get("search", q=query)
    assert {hit["title"] for hit in found["hits"]} == titles


async def test_search_pages(tree: Tree, reader: Reader) -> None:
    for number in range(5):
        await say(tree, "main", f"zebra {number}")
    first = await reader.get("search", q="zebra", limit=3)
    assert (len(first["hits"]), first["next"], first["total"]) == (3, "3", 5)
    rest = await reader.get("search", q="zebra", limit=3, cursor="3")
    assert (len(rest["hits"]), rest["next"]) == (2, None)


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("redirct", "Did you mean “redirect”?"),
        ("in:fix-logn zebra", "Did you mean in:fix-login?"),
        ("qqqq", "Fewer words find more."),
        ("tool:none zebra", "Nothing matches all of these conditions. Leave one out."),
    ],
)
async def test_search_without_hits_says_what_to_try(
    tree: Tree, reader: Reader, query: str, hint: str
) -> None:
    await say(tree, "fix-login", "why does the redirect lose its query")
    found = await reader.get("search", q=query)
    assert (found["hits"], found["hint"]) == ([], hint)


@pytest.mark.parametrize("typed", ["n", "the", '"keep the', "in:", "after:2026-", "x" * 1001])
async def test_search_explains_what_is_half_typed(reader: Reader, typed: str) -> None:
    found = await reader.get("search", q=typed, typing=True)
    assert found["hits"] == []
    assert found["hint"]
    assert (await reader.get("search", "places", q=typed, typing=True))["hits"] == []
    assert (await reader.send("search", q=typed)).status_code == 422


async def test_search_refuses_unknown_operators(reader: Reader) -> None:
    response = await reader.send("search", q="colour:red")
    assert response.status_code == 422
    assert "there is no operator colour:" in response.json()["detail"]


def test_marks_count_as_browsers_do() -> None:
    snippet = Snippet("asked", 0, "😀 red 😀 red", ((2, 5), (8, 11)))
    assert browser_marks(snippet) == ((3, 6), (10, 13))


async def test_costs_are_rows_with_unknown_prices_apart(
    tree: Tree, reader: Reader, tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    await work(tree, "cart", folder, {"a.py": "1\n"})
    await say(tree, "cart", "how much")
    calls = [ModelCall("nobody-knows-1", Usage(10, 5))]
    await tree.turns.record("talk", [user("hm")], [assistant("ok")], calls=calls)
    found = await reader.get("costs")
    rows = {row["session"]: row for row in found["rows"]}
    priced, unpriced = rows["cart"], rows["talk"]
    assert (priced["agent"], priced["project"], priced["calls"]) == ("claude-code", "shop", 1)
    assert (priced["input"], priced["cached"], priced["output"]) == (1_000, 3_000, 200)
    assert priced["cost"] == pytest.approx(0.0069)
    assert (unpriced["cost"], unpriced["agent"], unpriced["project"]) == (None, "turntree", None)
    assert found["unknown"] == [{"model": "nobody-knows-1", "calls": 1, "tokens": 15}]
    day = priced["day"]
    assert len((await reader.get("costs", since=day, until=day))["rows"]) == 2
    assert (await reader.get("costs", until="2001-01-01"))["rows"] == []
    assert (await reader.send("costs", since="yesterday")).status_code == 422


async def test_costs_without_sessions_are_the_same_sums(tree: Tree, reader: Reader) -> None:
    for number in (1, 2, 3):
        calls = [ModelCall("m", Usage(10 * number, number), "x", f"call-{number}")]
        await tree.turns.record(f"talk-{number}", [user("hm")], [assistant("ok")], calls=calls)
    await tree.sessions.fork("talk-1", "copy")
    whole = await reader.get("costs")
    (row,) = (await reader.get("costs", sessions=False))["rows"]
    assert (row["session"], row["project"], row["calls"]) == (None, None, 3)
    assert {one["session"]: one["input"] for one in whole["rows"]} == {
        "talk-1": 10, "talk-2": 20, "talk-3": 30,
    }  # fmt: skip
    assert row["input"] == 60
