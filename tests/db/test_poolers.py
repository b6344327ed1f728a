"""A pooler hands one connection of the server to many: what a connection was told would be lost."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.conftest import WORKSPACE
from turntree.core.errors import InvalidOperation
from turntree.core.ids import WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.db import health
from turntree.db.database import Database, open_database, prepare_database
from turntree.db.embedded.account import find_account
from turntree.db.embedded.logins import read_passwords
from turntree.integrity.fsck import fsck
from turntree.testing.fakes import FakeClock

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

START_MAX_S = 20.0


@pytest.fixture
def folder(place: Path) -> Path:
    """A folder that the account of the server may write to."""
    made = place / f"pooler-{os.urandom(4).hex()}"
    made.mkdir()
    find_account(place / "home").give(made)
    return made


@contextmanager
def pooling(conninfo: str, mode: str, folder: Path) -> Generator[str, None, None]:
    """Run a pooler before a server; how to reach the same database through it."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    target = conninfo_to_dict(conninfo)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = " ".join(f"{key}={target[key]}" for key in ("host", "port", "user", "dbname"))
    password = read_passwords(folder.parent / "home")[str(target["user"])]
    config = folder / "pooler.ini"
    config.write_text(
        f"[databases]\npooled = {words} password={password}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
    )
    account = find_account(folder.parent / "home")
    running = subprocess.Popen(
        [program, config], cwd=folder, user=account.uid, stderr=subprocess.DEVNULL
    )
    pooled = make_conninfo(host="127.0.0.1", port=port, dbname="pooled", user="pooled")
    try:
        wait_for(pooled)
        yield pooled
    finally:
        running.terminate()
        running.wait()


def wait_for(conninfo: str) -> None:
    until = time.monotonic() + START_MAX_S
    while True:
        try:
            with psycopg.connect(conninfo) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
        else:
            return


@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_a_pooler_is_refused(
    conninfo: str, database: Database, folder: Path, mode: str
) -> None:
    said = "connect directly, not through a pooler"
    with pooling(conninfo, mode, folder) as pooled:
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
