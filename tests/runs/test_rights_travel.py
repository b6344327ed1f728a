"""The rights of a sender travel with the message: to the run, over a crash, to any process."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

import turntree
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Permissions, actions, tools
from turntree.boot.open import Settings
from turntree.core.canonical import Json
from turntree.core.ids import RunId, Timestamp
from turntree.core.principal import Principal
from turntree.core.run import options_of

pytestmark = pytest.mark.anyio

LATER = Timestamp("2099-01-01T00:00:00.000Z")
SOON_S = 60.0
DIED = 9
SCOPES = Permissions((*tools("look"), *actions("read", "invoke")))
REPLIES: list[Json] = [
    {"tools": [{"tool": "look", "args": {}}]},
    {"tools": [{"tool": "wipe", "args": {}}]},
    {"text": "Done."},
]
WORKER = f"""
import asyncio, os, sys
from pathlib import Path

import turntree
from turntree.boot.open import Settings
from turntree.tools.functions import tool

folder = Path(sys.argv[1])

@tool(is_repeatable=True)
def look() -> str:
    "Look around."
    if not (folder / "looked").exists():
        (folder / "looked").touch()
        os._exit({DIED})
    return "all quiet"

@tool
def wipe() -> str:
    "Delete everything."
    (folder / "wiped").touch()
    return "gone"

async def main() -> None:
    settings = Settings(folder, database_url=sys.argv[2], workspace="shared", user="owner")
    async with turntree.open(settings, worker=True, tools=[look, wipe]):
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def owner(conninfo: str, tmp_path: Path) -> AsyncGenerator[Tree, None]:
    """A workspace with a model that looks and then wipes; this process serves nothing."""
    settings = Settings(tmp_path, database_url=conninfo, workspace="shared", user="owner")
    async with turntree.open(settings) as tree:
        rules: list[Json] = [{"when": "", "replies": REPLIES}]
        script: dict[str, Json] = {"provider_type": "scripted", "rules": rules}
        await tree.programs.create("provider", "script", script)
        model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
        await tree.programs.create("model", "keen", model)
        yield tree


async def with_key(owner: Tree) -> Tree:
    """The workspace as a program sees it that has a narrowed key of its owner."""
    _, text = await owner.keys.create("watcher", scopes=SCOPES, expires_at=LATER)
    verified = await owner.keys.verify(text)
    return owner.act_as(ExecutionContext(verified.chain))


@asynccontextmanager
async def a_worker(folder: Path, conninfo: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A worker in a process of its own, which has both tools."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(folder), conninfo
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def list_denied(tree: Tree, run: RunId) -> list[Json]:
    facts = await tree.ledger.facts(run)
    return [
        fact.event.data["permission"] for fact in facts if fact.event.kind == "permission.denied"
    ]


async def test_no_worker_does_what_the_key_may_not(
    owner: Tree, conninfo: str, tmp_path: Path
) -> None:
    """The first worker dies in the middle of the run. The second one continues with no more."""
    narrow = await with_key(owner)
    posted = await narrow.runs.post("talk", "Look, and then wipe.", model="keen")
    async with a_worker(tmp_path, conninfo) as first:
        with anyio.fail_after(SOON_S):
            assert await first.wait() == DIED
    async with a_worker(tmp_path, conninfo):
        placed = await narrow.runs.wait(posted.run, timeout_s=SOON_S)
        assert placed.turn.header.outcome == "completed"
        assert placed.turn.header.by.person == Principal("human", "owner")
        (started, *_) = await owner.ledger.facts(posted.run)
        assert options_of(started.event.data)["chain"] == narrow.authority.own.links
        assert not (tmp_path / "wiped").exists()
        assert await list_denied(owner, posted.run) == ["tool:wipe"]
        assert [row.right for row in (await owner.authority.audit()).denied] == ["tool:wipe"]
        # The same words with all rights: the tool is there, and works.
        wide = await owner.runs.post("other", "Look, and then wipe.", model="keen")
        await owner.runs.wait(wide.run, timeout_s=SOON_S)
        assert (tmp_path / "wiped").exists()
        assert await list_denied(owner, wide.run) == []


async def test_a_sender_who_names_itself_keeps_its_rights(owner: Tree) -> None:
    narrow = await with_key(owner)
    posted = await narrow.runs.post("talk", "Wipe.", by=Principal("human", "owner"))
    waiting = await owner.runs.find_waiting(posted.run)
    assert waiting is not None
    assert waiting.options["chain"] == narrow.authority.own.links


async def test_a_recorded_chain_gives_no_more_than_the_sender_has(owner: Tree) -> None:
    narrow = await with_key(owner)
    wide = ExecutionContext.begin(Principal("human", "owner")).chain.to_json()
    posted = await narrow.runs.post("talk", "Wipe.", by=Principal("human", "owner"), chain=wide)
    waiting = await owner.runs.find_waiting(posted.run)
    assert waiting is not None
    links = waiting.options["chain"]
    assert isinstance(links, list)
    assert links[-1] == {
        "kind": "human", "id": "owner", "rights": narrow.authority.own.rights.to_json()
    }  # fmt: skip
