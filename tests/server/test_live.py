"""What runs beside the requests."""

import anyio
import pytest

from turntree.api import Tree
from turntree.core.message import assistant, user
from turntree.server.live import Live
from turntree.server.skeleton import find_shape, keep_skeleton

pytestmark = pytest.mark.anyio
SECONDS_MAX = 20


async def test_the_shape_is_read_before_a_browser_asks(tree: Tree) -> None:
    await tree.turns.record("main", [user("hello")], [assistant("hi")])
    async with Live.make(tree).running():
        with anyio.fail_after(SECONDS_MAX):
            while not find_shape(tree).tree_projects:
                await anyio.lowlevel.checkpoint()
    kept = await keep_skeleton(tree)
    assert [session.label for session in kept.skeleton.sessions] == ["main"]
