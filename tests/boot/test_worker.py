"""A program that serves: it ends with its block, even if a cancellation is lost."""

import asyncio
from pathlib import Path

import pytest

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
