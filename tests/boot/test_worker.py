"""A program that serves: it ends with its block, even if a cancellation is lost."""

import asyncio
import random
from pathlib import Path

import anyio
import pytest

import turntree
from turntree.agents.task_supervisor import TaskSupervisor
from turntree.boot.open import Settings, open_tree

pytestmark = pytest.mark.anyio

SOON_S = 20.0


async def test_a_block_that_raises_ends_even_if_a_cancellation_is_lost(
    conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, lost = asyncio.Event(), asyncio.Event()

    async def oversee(_: TaskSupervisor) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # As asyncio.wait_for does in Python 3.11 if its inner task ends at the same moment.
            lost.set()
        await asyncio.Event().wait()

    async def raise_early() -> None:
        settings = Settings(tmp_path, database_url=conninfo, workspace="serving")
        async with open_tree(settings, worker=True):
            await begun.wait()
            raise KeyError("raised early")

    monkeypatch.setattr(TaskSupervisor, "oversee", oversee)
    program = asyncio.create_task(raise_early())
    await begun.wait()
    ended, _ = await asyncio.wait({program}, timeout=SOON_S)
    program.cancel()
    assert lost.is_set()
    assert ended == {program}
    with pytest.raises(KeyError, match="raised early"):
        await program


@pytest.mark.parametrize(
    "rounds", [pytest.param(10, id="quick"), pytest.param(50, id="full", marks=pytest.mark.slow)]
)
async def test_a_block_that_raises_at_any_moment_ends(
    conninfo: str, tmp_path: Path, rounds: int
) -> None:
    chance = random.Random(rounds)
    settings = Settings(tmp_path, database_url=conninfo, workspace="serving")

    async def run_example(delay_s: float) -> None:
        async with turntree.open(settings, worker=True) as tree:
            with anyio.fail_after(delay_s):
                await tree.programs.ensure("provider", "script", {"provider_type": "scripted"})
                model = {"model_id": "scripted-1", "provider": "@(script)"}
                await tree.programs.ensure("model", "echo", model)
                while True:
                    await tree.ask("talk", "Say this again.")

    for _ in range(rounds):
        delay_s = chance.choice((0.0, chance.uniform(0, 0.05), chance.uniform(0, 0.5)))
        program = asyncio.create_task(run_example(delay_s))
        ended, _ = await asyncio.wait({program}, timeout=SOON_S)
        program.cancel()
        assert ended == {program}, f"hangs after raising at {delay_s} s"
        with pytest.raises(TimeoutError):
            await program
