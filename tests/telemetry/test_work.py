"""What waits in a database, counted over all of its workspaces."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from proofs.http_world import OTHER, OWNER, Team, a_team
from tests.databases import as_owner
from tests.server.network import answer_all
from turntree.boot.open import tree_on
from turntree.core.ids import WorkspaceId
from turntree.core.message import user
from turntree.core.viewer import EVERYTHING
from turntree.db.pool import ConnectionPool
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox_store import InboxStore
from turntree.runs.worker_store import WorkCounts, count_work
from turntree.system.clock import SystemClock
from turntree.telemetry.metrics import ProcessMetrics
from turntree.telemetry.work import COUNTED_S, WorkMetrics

pytestmark = pytest.mark.anyio


@pytest.fixture
async def team(conninfo: str, place: Path) -> AsyncGenerator[Team, None]:
    """Two workspaces in one database."""
    async with a_team(as_owner(conninfo), place / "team") as team:
        yield team


async def test_work_of_all_workspaces_is_counted_also_what_is_private(team: Team) -> None:
    assert await count_work(team.database) == WorkCounts(0, 0.0, 0, 0)
    vault = await team.add_vault(1)
    await team.of(OWNER).runs.post(vault.label, "one")
    await team.tree.runs.post("lobby", "two")
    everything = team.database.seen_by(EVERYTHING)
    ids = {name: id for id, name in await everything.list_workspaces()}
    other = team.database.in_workspace(WorkspaceId(ids[OTHER]))
    zoe = tree_on(other, team.settings_of(OTHER, "zoe"), SystemClock())
    session = await zoe.sessions.get("away")
    inbox = InboxStore(zoe.sessions.ledger.database, InlineEngine(other.lend))
    await inbox.post(session.id, user("three"), by="human:zoe", at=SystemClock().now())
    counted = await count_work(team.database)
    assert (counted.waiting, counted.open, counted.parked) == (3, 0, 0)
    assert counted.oldest_s > 0
    # The connection is in the workspace of its lease again, after another one was counted.
    assert (await team.tree.sessions.get("lobby")).label == "lobby"
    await answer_all(team, "lobby")
    await team.of(OWNER).sessions.set_status(vault.label, "archived")
    assert (await count_work(team.database)).waiting == 1


async def test_database_is_asked_once_in_a_while(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = ProcessMetrics("0")
    work = WorkMetrics(metrics, lambda: [(1, team.database)])
    clock = [100.0]
    monkeypatch.setattr("turntree.telemetry.work.time.monotonic", lambda: clock[0])
    await work.refresh()
    await team.tree.runs.post("lobby", "two")
    await work.refresh()
    waiting = "turntree_messages_waiting"
    assert metrics.registry.get_sample_value(waiting, {"shard": "1"}) == 0
    clock[0] += COUNTED_S
    await work.refresh()
    assert metrics.registry.get_sample_value(waiting, {"shard": "1"}) == 1
    assert metrics.registry.get_sample_value("turntree_database_up", {"shard": "1"}) == 1


async def test_pool_tells_what_is_lent(team: Team) -> None:
    pool = team.database.pool
    assert isinstance(pool, ConnectionPool)
    metrics = ProcessMetrics("0")
    WorkMetrics(metrics, lambda: [(1, team.database)])
    used = "turntree_database_connections_used"
    async with team.database.connection(), team.database.connection():
        assert metrics.registry.get_sample_value(used, {"shard": "1"}) == 2
    assert metrics.registry.get_sample_value(used, {"shard": "1"}) == 0
    assert pool.usage.waiting == 0
