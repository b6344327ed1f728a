"""One worker for all workspaces of a database, or for some of them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import psycopg
import pytest

import turntree
from turntree.api import Tree
from turntree.boot.open import Settings, connect, engine_on, run_on, tree_on
from turntree.boot.shared_worker import SharedService, serve_workspaces
from turntree.core.canonical import Json
from turntree.core.errors import Conflict, NotFound
from turntree.core.ids import RunId
from turntree.system.clock import SystemClock

pytest.importorskip("dbos")
pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SOON_S = 60.0
SCRIPT: dict[str, Json] = {"provider_type": "scripted"}
ECHO: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
HANG: dict[str, Json] = {
    "provider_type": "scripted",
    "rules": [{"when": "", "replies": [{"tools": [{"tool": "hang", "args": {}}]}]}],
}


@pytest.fixture
def settings(conninfo: str, tmp_path: Path) -> Settings:
    return Settings(tmp_path, database_url=conninfo, workspace="one", user="ana")


@asynccontextmanager
async def a_workspace(settings: Settings, name: str) -> AsyncGenerator[Tree, None]:
    """A workspace as a process sees it that only sends; a model there repeats what it is told."""
    async with turntree.open(replace(settings, workspace=name)) as tree:
        await tree.programs.ensure("provider", "script", SCRIPT)
        await tree.programs.ensure("model", "echo", ECHO)
        yield tree


@asynccontextmanager
async def a_worker(
    settings: Settings, *only: str, name: str | None = None, tools: Sequence[object] = ()
) -> AsyncGenerator[SharedService, None]:
    """A worker of all workspaces, or of those named."""
    world = SystemClock()
    async with connect(settings, world) as database, AsyncExitStack() as stack:
        engine = engine_on(database)
        stack.push_async_callback(engine.close)
        tree = tree_on(database, settings, world, engine=engine)
        running = run_on(database, tree, settings, world, engine, tools)
        stack.push_async_callback(running.aclose)
        service = serve_workspaces(running, settings, only=only, name=name)
        yield await stack.enter_async_context(service)


async def send(tree: Tree, session: str = "talk", model: str = "echo") -> RunId:
    return (await tree.runs.post(session, "Say this again.", model=model)).run


async def is_answered(tree: Tree, run: RunId) -> bool:
    placed = await tree.runs.wait(run, timeout_s=SOON_S)
    return placed.turn.header.outcome == "completed"


async def test_one_worker_answers_in_every_workspace(settings: Settings, conninfo: str) -> None:
    async with (
        a_workspace(settings, "one") as one,
        a_workspace(settings, "two") as two,
        a_worker(settings) as service,
    ):
        assert (service.is_all, set(service.workspaces)) == (True, {"one", "two", "tests"})
        for tree in (one, two):
            assert await is_answered(tree, await send(tree))
            assert await tree.runs.workers.list_workers() == [service.worker]
        # In a workspace that did not exist when the worker began.
        async with a_workspace(settings, "three") as three:
            assert await is_answered(three, await send(three))
        with psycopg.connect(conninfo) as owner:
            shared = owner.execute("SELECT name FROM turntree.shared_workers").fetchall()
            own = owner.execute("SELECT name FROM turntree.workers").fetchall()
        assert (shared, own) == ([(service.worker,)], [])
    async with a_workspace(settings, "two") as two:
        assert await two.runs.workers.list_workers() == []


async def test_worker_of_some_workspaces_leaves_the_others_alone(settings: Settings) -> None:
    async with a_workspace(settings, "one") as one, a_workspace(settings, "two") as two:
        async with a_worker(settings, "one") as service:
            assert (service.is_all, service.workspaces) == (False, ("one",))
            waiting = await send(two)
            assert await is_answered(one, await send(one))
            assert await one.runs.workers.list_workers() == [service.worker]
            assert await two.runs.workers.list_workers() == []
            assert await two.runs.status(waiting) == "waiting"
        # The wake-up is gone: the next worker finds the session by itself, and soon.
        async with a_worker(settings):
            with anyio.fail_after(SOON_S):
                assert await is_answered(two, waiting)


async def test_wake_up_that_reached_the_wrong_worker_is_handed_on(
    settings: Settings, conninfo: str
) -> None:
    async with a_workspace(settings, "one"), a_workspace(settings, "two") as two:
        # Another process serves the second workspace, as far as the database knows.
        await two.runs.workers.lease("other")
        async with a_worker(settings, "one"):
            run = await send(two)
            with anyio.fail_after(SOON_S):
                while count_wakes(conninfo) < 3:  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            assert await two.runs.status(run) == "waiting"
        await two.runs.workers.leave("other")


def count_wakes(conninfo: str) -> int:
    with psycopg.connect(conninfo) as owner:
        row = owner.execute("SELECT max(wakeup_number) FROM turntree.session_queues").fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


async def test_run_of_any_workspace_can_be_canceled(settings: Settings) -> None:
    begun = anyio.Event()

    async def hang() -> str:
        """Wait for ever."""
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with a_workspace(settings, "one"), a_workspace(settings, "two") as two:
        await two.programs.create("provider", "slow-script", HANG)
        slow: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(slow-script)"}
        await two.programs.create("model", "slow", slow)
        async with a_worker(settings, tools=[hang]):
            run = await send(two, model="slow")
            with anyio.fail_after(SOON_S):
                await begun.wait()
                assert await two.runs.cancel("talk") == run
                placed = await two.runs.wait(run)
            assert placed.turn.header.outcome == "canceled"


async def test_a_name_is_one_workers_in_all_workspaces(settings: Settings) -> None:
    async with a_workspace(settings, "two") as two:
        async with a_worker(settings, name="w1"):
            with pytest.raises(Conflict, match="already running"):
                await two.runs.workers.lease("w1")
        await two.runs.workers.lease("w1")
        await two.runs.workers.leave("w1")


async def test_unknown_workspace_is_refused(settings: Settings) -> None:
    async with a_workspace(settings, "one"):
        with pytest.raises(NotFound, match="there is no workspace 'nowhere'"):
            async with a_worker(settings, "nowhere"):
                pass
