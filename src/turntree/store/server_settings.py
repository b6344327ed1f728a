"""The settings the embedded server starts with, and where it listens.

Knows PostgreSQL's settings and the limits of socket paths. Must never start anything.
"""

import hashlib
import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from turntree.store.account import IS_WINDOWS, Account, ServerError

LOCAL_SETTINGS: Final = {
    "fsync": "on",
    "shared_buffers": "128MB",
    "max_connections": "60",
    "max_wal_size": "1GB",
    "autovacuum": "on",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}
SETTINGS_FILE: Final = "turntree.conf"
SOCKET_PORT: Final = 5432
SOCKET_PATH_BYTES_MAX: Final = 103 if sys.platform == "darwin" else 107


def include_settings(data: Path) -> None:
    """The cluster reads our settings, and after them whatever its user adds."""
    with (data / "postgresql.conf").open("a") as settings:
        settings.write(f"\ninclude '{SETTINGS_FILE}'\n")


def write_settings(data: Path, account: Account, extra: Mapping[str, str]) -> None:
    """The next start of the cluster uses the local settings, a free address, and ``extra``.

    Call it only while no server of the cluster runs.

    Raises:
        ServerError: there is no safe place for the server's socket.
    """
    settings = {**LOCAL_SETTINGS, **_address(data.parent, account), **extra}
    lines = [f"{name} = {_quoted(value)}\n" for name, value in settings.items()]
    path = data / SETTINGS_FILE
    path.write_text("# Written at every start: change postgresql.conf instead.\n" + "".join(lines))
    account.give(path)


def _address(home: Path, account: Account) -> dict[str, str]:
    if IS_WINDOWS:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        return {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
    directory = _socket_directory(home, account)
    account.make_private(directory)
    # The directory serves this home alone, so what a dead server left in it is in nobody's use.
    for leftover in directory.glob(f".s.PGSQL.{SOCKET_PORT}*"):
        leftover.unlink()
    return {
        "listen_addresses": "",
        "port": str(SOCKET_PORT),
        "unix_socket_directories": str(directory),
    }


def _socket_directory(home: Path, account: Account) -> Path:
    home_hash = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    shared = Path(tempfile.gettempdir()).resolve() / f"turntree-{account.uid}-{home_hash}"
    for directory in (home / "run", shared):
        path = os.fsencode(directory / f".s.PGSQL.{SOCKET_PORT}")
        # libpq and the server read a comma as the end of one directory.
        fits = len(path) <= SOCKET_PATH_BYTES_MAX and b"," not in path
        if fits and account.find_wall(directory) is None:
            return directory
    raise ServerError(
        f"neither {home} nor {shared.parent} is short and open enough for a socket"
        f" (at most {SOCKET_PATH_BYTES_MAX} bytes). Choose a home with a shorter path."
    )


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
