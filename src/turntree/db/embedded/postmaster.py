"""Reads the server's lock file ``postmaster.pid``, and decides whether to trust it.

Knows the file's lines, processes and sockets. Must never start or stop anything.

After a crash or a container's restart the file names a process that is dead, or an unrelated one
that got the same pid. A server is considered running if the process is a ``postgres`` of exactly
this data directory, or if the socket accepts connections (the server may run in another container
that shares the disk, where the pid means nothing here).
"""

import os
import re
import shutil
import socket
import stat
import subprocess
from pathlib import Path
from typing import Final

from psycopg.conninfo import make_conninfo

from turntree.core.value import value
from turntree.db.embedded.account import (
    FILE_BYTES_MAX,
    IS_WINDOWS,
    ServerAccount,
    ServerError,
    read_plain,
)

PID_FILE: Final = "postmaster.pid"
DEAD_PID: Final = 2**31 - 1
"""Greater than any pid that Linux, macOS or the BSDs assign."""
ANSWER_TIMEOUT_S: Final = 2.0
_LINES_UNTIL_STATUS: Final = 8


@value
class Postmaster:
    """The content of a complete ``postmaster.pid``."""

    data: Path
    pid: int
    port: int
    socket_directory: str
    address: str
    is_ready: bool

    def is_running(self) -> bool:
        """Whether a server of this data directory is running."""
        return self.owns_process() or self.answers()

    def owns_process(self) -> bool:
        """Whether its pid is the server of this data directory, and so may be ended."""
        return self.answers() if IS_WINDOWS else _is_postgres_of(self.data, self.pid)

    def answers(self) -> bool:
        """Whether a server accepts connections at that address."""
        try:
            with self._connect():
                return True
        except OSError:
            return False

    def conninfo(self, *, user: str, database: str, passwords: Path) -> str:
        """Return the conninfo for clients; libpq reads the password from the file."""
        return make_conninfo(
            host=self.socket_directory or self.address,
            port=self.port,
            user=user,
            dbname=database,
            passfile=str(passwords),
        )

    def _connect(self) -> socket.socket:
        if not self.socket_directory:
            return socket.create_connection((self.address, self.port), timeout=ANSWER_TIMEOUT_S)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(ANSWER_TIMEOUT_S)
            connection.connect(f"{self.socket_directory}/.s.PGSQL.{self.port}")
        except OSError:
            connection.close()
            raise
        return connection


def find_postmaster(data: Path) -> Postmaster | None:
    """Return the content of ``postmaster.pid``; None if it is missing or incomplete.

    Raises:
        ServerError: the data is another account's, or the file is not one.
    """
    try:
        text = read_plain(data / PID_FILE)
    except PermissionError as error:
        raise ServerError(
            f"{data} belongs to another account. Run as that one, or choose another home."
        ) from error
    if text is None:
        return None
    # A server that has just started has not written all lines yet.
    lines = text.splitlines()
    lines += [""] * (_LINES_UNTIL_STATUS - len(lines))
    pid, _, _, port, socket_directory, address, _, status = lines[:_LINES_UNTIL_STATUS]
    # PostgreSQL writes a minus before the pid of a server without clients (``--single``).
    if not (re.fullmatch(r"-?\d{1,10}", pid) and re.fullmatch(r"\d{1,5}", port)):
        return None
    return Postmaster(
        data=data,
        pid=abs(int(pid)),
        port=int(port),
        socket_directory=socket_directory,
        address=address,
        is_ready=status.strip() == "ready",
    )


def disown(data: Path, account: ServerAccount) -> None:
    """Make a stale ``postmaster.pid`` name a dead process, so that a new server may start.

    The file is not removed: it also names the shared memory of the crashed server, by which
    PostgreSQL detects backends that outlived it and still write to the same files.

    Raises:
        ServerError: it is not a regular file that the server's account may write.
    """
    read_plain(data / PID_FILE)  # Raises the precise error, which the account's process cannot.
    account.act(lambda: _disown(data / PID_FILE))


def _disown(path: Path) -> None:
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(path)
        first, newline, rest = os.read(descriptor, FILE_BYTES_MAX).partition(b"\n")
        if newline and first.lstrip(b"-").isdigit():
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, b"%d\n%s" % (DEAD_PID, rest))
        else:
            path.unlink()
    finally:
        os.close(descriptor)


def _is_postgres_of(data: Path, pid: int) -> bool:
    if Path("/proc/self/cmdline").exists():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            # The process ended meanwhile, or belongs to another account: either way it is not our
            # server.
            return False
        return Path(os.fsdecode(words[0])).name == "postgres" and os.fsencode(data) in words
    ps = shutil.which("ps", path=os.defpath)
    if ps is None:
        return False
    output = subprocess.run(
        [ps, "-ww", "-o", "command=", "-p", str(pid)],
        check=False,
        capture_output=True,
    )
    line = os.fsdecode(output.stdout).rstrip("\n")
    return "postgres" in line and f"-D {data} " in f"{line} "
