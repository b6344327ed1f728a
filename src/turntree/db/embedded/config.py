"""Writes the settings of the embedded server, and chooses where it listens.

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

from turntree.db.embedded.account import IS_WINDOWS, ServerAccount, ServerError

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
OWN_SETTINGS_FILE: Final = "postgresql.conf"
ACCESS_FILE: Final = "pg_hba.conf"
ACCESS: Final = """# Written at every start.
local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
host all all ::1/128 scram-sha-256
"""
SOCKET_PORT: Final = 5432
SOCKET_PATH_BYTES_MAX: Final = 103 if sys.platform == "darwin" else 107


def write_settings(
    home: Path, account: ServerAccount, extra: Mapping[str, str], *, trusts_superuser: bool = False
) -> Path:
    """Write the settings for the next start: ours, a free address, and ``extra``.

    Returns the file to start with. It is in the home directory, which the server's account cannot
    write. Call it only while no server of the cluster runs.

    Raises:
        ServerError: there is no safe place for the server's socket.
    """
    hba = write_access(home, account, trusts_superuser=trusts_superuser)
    chosen = {"hba_file": str(hba), "password_encryption": "scram-sha-256"}
    settings = {**LOCAL_SETTINGS, **_address(home, account), **chosen, **extra}
    lines = [f"{name} = {_quoted(value)}\n" for name, value in settings.items()]
    first = "include_if_exists 'data/postgresql.conf'\n"
    last = f"include_if_exists '{OWN_SETTINGS_FILE}'\n"
    said = f"# Written at every start. What {OWN_SETTINGS_FILE} beside this file says wins.\n"
    # First what initdb detected about the machine, then ours, then what the user chose: the last
    # one wins.
    return _write(home / SETTINGS_FILE, account, "".join([said, first, *lines, last]))


def write_access(home: Path, account: ServerAccount, *, trusts_superuser: bool = False) -> Path:
    """Write which clients may connect, all of them by password; return the file.

    The superuser of a cluster that was created without passwords is let in once, to set them:
    through a socket that only the server's account and root can reach.
    """
    once = "local all postgres trust\nhost all postgres 127.0.0.1/32 trust\n"
    return _write(home / ACCESS_FILE, account, (once if trusts_superuser else "") + ACCESS)


def _write(path: Path, account: ServerAccount, text: str) -> Path:
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    # The server's account has to read it. It contains no secret.
    mode = 0o644 if account.is_lent else 0o600
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
        if account.is_lent:
            os.fchmod(file.fileno(), mode)
    fresh.replace(path)
    return path


def _address(home: Path, account: ServerAccount) -> dict[str, str]:
    if IS_WINDOWS:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        return {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
    directory = _socket_directory(home, account)
    account.make_private(directory)
    # The directory serves only this home, so no process uses what a dead server left in it.
    for leftover in directory.glob(f".s.PGSQL.{SOCKET_PORT}*"):
        leftover.unlink()
    return {
        "listen_addresses": "",
        "port": str(SOCKET_PORT),
        "unix_socket_directories": str(directory),
    }


def _socket_directory(home: Path, account: ServerAccount) -> Path:
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
