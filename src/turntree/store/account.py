"""The account PostgreSQL runs under, the places it may use, and the programs run as it.

Knows uids, file modes and child processes. Must never know what the server stores, and never
creates an account: PostgreSQL refuses root, so root lends the server a uid that nobody logs in as.
"""

import os
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turntree.domain.errors import TurntreeError

IS_WINDOWS: Final = os.name == "nt"
LENT_ID: Final = 65534
"""The uid and gid of ``nobody`` on Linux; the kernel does not ask that an account exists."""


class ServerError(TurntreeError):
    """The embedded PostgreSQL server cannot be used; the message says what to do next."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended, and everything it printed."""

    code: int
    output: str


@dataclass(frozen=True, slots=True)
class Account:
    """Who the server is. ``is_lent`` means that root acts and gives away what it makes."""

    uid: int
    gid: int
    is_lent: bool

    def find_wall(self, path: Path) -> Path | None:
        """The outermost directory on the way to ``path`` that this account may not enter.

        Only a lent account is asked: for an ordinary one the kernel answers soon enough.
        """
        if not self.is_lent:
            return None
        existing = (place for place in (*reversed(path.parents), path) if place.is_dir())
        return next((place for place in existing if not self._may_enter(place)), None)

    def make_private(self, path: Path) -> None:
        """``path`` is a directory that only this account may enter.

        Raises:
            ServerError: it exists and is a link, is another account's, or is open to others.
        """
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            self.require_private(path)
        else:
            self.give(path)

    def require_private(self, path: Path) -> None:
        """``path`` is a directory that only this account may enter.

        Raises:
            ServerError: it is a link, is another account's, or is open to others.
        """
        if IS_WINDOWS:
            return
        # A link is never followed: in a shared directory it may be somebody's trap.
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise ServerError(f"{path} is not a directory. Look at it, then remove it.")
        if found.st_uid != self.uid:
            raise ServerError(
                f"{path} belongs to uid {found.st_uid}, but the server would run as uid {self.uid}."
                f" Run as the owner, or choose another home."
            )
        if found.st_mode & 0o077:
            raise ServerError(f"{path} is open to other accounts. Run: chmod 700 '{path}'")

    def give(self, path: Path) -> None:
        """``path`` belongs to this account."""
        if self.is_lent:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def run(self, command: Sequence[str | Path], *, cwd: Path) -> Outcome:
        """Run a program as this account, to its end.

        Raises:
            ServerError: the program could not be started at all.
        """
        # A file instead of a pipe: a pipe would stay open in the server that pg_ctl leaves
        # behind, and waiting for its end would be waiting for the server's.
        with tempfile.TemporaryFile() as output:
            try:
                ended = subprocess.run(
                    [str(word) for word in command],
                    check=False,
                    cwd=cwd,
                    env=_clean_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    user=self.uid if self.is_lent else None,
                    group=self.gid if self.is_lent else None,
                    extra_groups=[] if self.is_lent else None,
                )
            except OSError as error:
                raise ServerError(
                    f"{command[0]} cannot be run as uid {self.uid}: {error.strerror}."
                    " Use a PostgreSQL of your own through its connection URL instead."
                ) from error
            output.seek(0)
            return Outcome(ended.returncode, output.read().decode(errors="replace").strip())

    def _may_enter(self, directory: Path) -> bool:
        found = directory.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def current_account() -> Account:
    """The account a server started by this process runs under: its own, or a lent one for root."""
    if IS_WINDOWS:
        return Account(uid=0, gid=0, is_lent=False)
    if os.geteuid() == 0:
        return Account(uid=LENT_ID, gid=LENT_ID, is_lent=True)
    return Account(uid=os.geteuid(), gid=os.getegid(), is_lent=False)


def _clean_environment() -> dict[str, str] | None:
    # The server outlives this process, so it must not carry this process's API keys in its
    # environment, and no PGDATA, PGPORT or TZ of the shell may steer it. Windows programs do
    # not start without theirs.
    return None if IS_WINDOWS else {"LC_ALL": "C", "PATH": os.defpath}
