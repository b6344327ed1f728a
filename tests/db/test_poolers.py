"""A pooler hands one connection of the server to many: what a connection was told would be lost."""

import os
from pathlib import Path

import pytest

from proofs.pooling import MODES, find_pgbouncer, pooling
from tests.conftest import WORKSPACE
from turntree.core.errors import InvalidOperation
from turntree.core.ids import WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.db import health
from turntree.db.database import Database, open_database, prepare_database
from turntree.db.embedded.account import find_account
from turntree.integrity.fsck import fsck
from turntree.testing.fakes import FakeClock

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def folder(place: Path) -> Path:
    """A folder that the account of the server may write to."""
    made = place / f"pooler-{os.urandom(4).hex()}"
    made.mkdir()
    find_account(place / "home").give(made)
    return made


@pytest.mark.parametrize("mode", MODES)
async def test_a_pooler_is_refused(
    conninfo: str, database: Database, folder: Path, mode: str
) -> None:
    said = "connect directly, not through a pooler"
    program = find_pgbouncer()
    if program is None:
        pytest.skip("pgbouncer is not installed")
    with pooling(program, conninfo, mode, folder.parent / "home", folder) as pooled:
        with pytest.raises(InvalidOperation, match=said):
            await prepare_database(pooled, WORKSPACE, FakeClock().new_id())
        with pytest.raises(InvalidOperation, match=said):
            await health.examine(pooled)
        workspace = WorkspaceId(str(database.workspace))
        with pytest.raises(InvalidOperation, match=said):
            async with open_database(pooled, workspace, sight=EVERYTHING):
                pass
        through = Database(pooled, database.workspace, database.pool, EVERYTHING)
        with pytest.raises(InvalidOperation, match=said):
            await fsck(through)
