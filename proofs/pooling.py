"""A real pgbouncer before a server of ours, in one of its modes."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from turntree.db.embedded.account import find_account
from turntree.db.embedded.logins import read_passwords

MODES: Final = ("session", "transaction", "statement")
START_MAX_S: Final = 20.0


def find_pgbouncer() -> str | None:
    """Return the path of pgbouncer; None if it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def pooling(
    program: str, conninfo: str, mode: str, home: Path, folder: Path
) -> Generator[str, None, None]:
    """Run a pooler before the embedded server of a home; yield the way to the database through it.

    Its files are in ``folder``, which the account of the server may write to.
    """
    target = conninfo_to_dict(conninfo)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = " ".join(f"{key}={target[key]}" for key in ("host", "port", "user", "dbname"))
    password = read_passwords(home)[str(target["user"])]
    config = folder / f"pooler-{mode}.ini"
    config.write_text(
        f"[databases]\npooled = {words} password={password}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
    )
    running = subprocess.Popen(
        [program, config], cwd=folder, user=find_account(home).uid, stderr=subprocess.DEVNULL
    )
    pooled = make_conninfo(host="127.0.0.1", port=port, dbname="pooled", user="pooled")
    try:
        _wait_for(pooled)
        yield pooled
    finally:
        running.terminate()
        running.wait()


def _wait_for(conninfo: str) -> None:
    until = time.monotonic() + START_MAX_S
    while True:
        try:
            # Without a transaction: in the mode for statements there is none.
            with psycopg.connect(conninfo, autocommit=True) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
        else:
            return
