"""A thread as a page for another person: its name, what is in it, and what was removed."""

from pathlib import Path

import pytest

from tests.server.reads.conftest import Reader
from tests.server.reads.scenes import say, work
from turntree.api import Tree

pytestmark = pytest.mark.anyio

KEY = "sk-ant-api03-" + "Ab1" * 20


async def test_share_names_the_page_after_the_session_at_its_head(
    tree: Tree, reader: Reader
) -> None:
    first = await say(tree, "shop/cart", "Why is the total off?")
    last = await say(tree, "shop/cart", "Round it once.")
    shared = await reader.get("turns", last, "share", session="shop/cart")
    assert shared["name"] == "shop-cart.html"
    assert shared["turns"] == 2
    assert shared["bytes"] == len(shared["page"].encode())
    assert "Round it once." in shared["page"]
    assert shared["command"] == "turntree share shop/cart -o shop-cart.html"
    assert shared["command_to_import"] == "turntree import shop-cart.html"
    earlier = await reader.get("turns", first, "share", session="shop/cart")
    assert earlier["turns"] == 1
    assert "Round it once." not in earlier["page"]
    assert earlier["name"].startswith("shared-")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    return project


async def test_share_tells_what_was_removed(tree: Tree, reader: Reader, folder: Path) -> None:
    turn = await work(tree, "main", folder, {".env": f"KEY={KEY}\n", "a.py": "one\n"})
    shared = await reader.get("turns", turn, "share")
    assert KEY not in shared["page"]
    removed = shared["removed"]
    assert removed["files"] == [{"path": ".env", "secrets": 1}]
    assert removed["secrets"] == 1
    assert removed["messages"] == []


async def test_share_without_secrets_says_none(tree: Tree, reader: Reader) -> None:
    turn = await say(tree, "main", "hello")
    assert (await reader.get("turns", turn, "share"))["removed"]["secrets"] == 0
