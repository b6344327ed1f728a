"""The account that PostgreSQL runs under, the directories it may use, and programs run as it.

Knows uids, file modes and child processes, but not what the server stores. It never creates an
account: PostgreSQL refuses to run as root, so root assigns each home a uid that no login has. Root
never writes where that uid may write, because a link could redirect it.
"""

import hashlib
import os
import stat
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from turntree.core.errors import TurntreeError
from turntree.core.value import value

IS_WINDOWS: Final = os.name == "nt"
LENT_ID: Final = 65534
"""The uid and gid of the unprivileged Linux account, for systems without a spare uid. It has a
name, which initdb needs and the server does not.
"""
LENT_FIRST: Final = 2_000_000_000
LENT_COUNT: Final = 100_000_000
"""The range of uids for homes; no system assigns accounts in it."""
UID_FILE: Final = "server.uid"
ROOT_HOMES: Final = Path("/var/lib/turntree")
"""Where root's data is, in one folder for each home."""
HOME_ID_CHARS: Final = 12
# A bound on what is read, because the file may not be ours.
FILE_BYTES_MAX: Final = 65536


class ServerError(TurntreeError):
    """The embedded PostgreSQL server cannot be used; the message says what to do."""


@value
class Outcome:
    """The exit code of a program, and everything it printed."""

    code: int
    output: str


@value
class ServerAccount:
    """The account of the server. ``is_lent`` means that this process is root and gives it the
    files.
    """

    uid: int
    gid: int
    is_lent: bool

    def find_wall(self, path: Path) -> Path | None:
        """Return the outermost directory on the way to ``path`` that this account may not enter.

        Checked only for an account that root assigned: for any other the kernel will report it.
        """
        if not self.is_lent:
            return None
        existing = (place for place in (*reversed(path.parents), path) if place.is_dir())
        return next((place for place in existing if not self._may_enter(place)), None)

    def make_private(self, path: Path) -> None:
        """Create ``path`` as a directory that only this account may enter, unless it exists.

        Raises:
            ServerError: it exists and is a link, is another account's, or is open to others.
        """
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            # It may be ours from before. A folder that others prepared is refused.
            self.require_private(path)
        else:
            self.give(path)

    def require_private(self, path: Path) -> None:
        """Require that ``path`` is a directory that only this account may enter.

        Raises:
            ServerError: it is a link, is another account's, or is open to others.
        """
        if IS_WINDOWS:
            return
        # Never follow a link: in a shared directory another account may have planted it.
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
        """Give ``path`` to this account."""
        if self.is_lent:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def take_over(self, folder: Path, before: int) -> None:
        """Give everything in ``folder`` that belongs to the uid ``before`` to this account.

        Raises:
            ServerError: something in it is another account's, or is neither file nor folder.
        """
        for _, folders, files, inside in os.fwalk(folder, follow_symlinks=False):
            for name in (*folders, *files):
                if stat.S_ISLNK(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode):
                    os.chown(name, self.uid, self.gid, dir_fd=inside, follow_symlinks=False)
                    continue
                # Checked and given away through the same descriptor: the name may change in
                # between.
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                self._take(os.open(name, flags, dir_fd=inside), folder / name, before)
        self._take(os.open(folder, os.O_RDONLY | os.O_NOFOLLOW), folder, before)

    def _take(self, descriptor: int, path: Path, before: int) -> None:
        try:
            found = os.fstat(descriptor)
            is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
            if not is_plain or found.st_uid not in (before, self.uid):
                raise ServerError(
                    f"{path} belongs to uid {found.st_uid} or is not a file. Look at it, then"
                    " remove it."
                )
            os.fchown(descriptor, self.uid, self.gid)
        finally:
            os.close(descriptor)

    def act(self, deed: Callable[[], None]) -> None:
        """Do something to files with only this account's privileges.

        Raises:
            ServerError: it failed.
        """
        if not self.is_lent:
            deed()
            return
        with warnings.catch_warnings():
            # The child does nothing but system calls, so another thread's locks do not matter.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            self._become_and_do(deed)
        _, status = os.waitpid(child, 0)
        if status:
            raise ServerError(
                f"uid {self.uid} cannot write its own files. Look for links and files of other"
                " accounts in its data, then try again."
            )

    def _become_and_do(self, deed: Callable[[], None]) -> None:
        failed = True
        try:
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)
            deed()
            failed = False
        finally:
            # No exception may leave the child: it would continue as a second copy of the program.
            os._exit(failed)

    def start(
        self, command: Sequence[str | Path], *, cwd: Path, log: Path
    ) -> "subprocess.Popen[bytes]":
        """Start a program as this account that outlives this process; its output goes to the log.

        Raises:
            ServerError: the program could not be started at all.
        """
        # Opened here, so that the account needs no write access to the directory of the log.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        output = os.open(log, flags, 0o600)
        try:
            return subprocess.Popen(
                [str(word) for word in command],
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
            raise self._cannot_run(command, error) from error
        finally:
            os.close(output)

    def _cannot_run(self, command: Sequence[str | Path], error: OSError) -> ServerError:
        return ServerError(
            f"{command[0]} cannot be run as uid {self.uid}: {error.strerror}."
            " Use a PostgreSQL of your own through its connection URL instead."
        )

    def run(self, command: Sequence[str | Path], *, cwd: Path) -> Outcome:
        """Run a program as this account and wait until it ends.

        Raises:
            ServerError: the program could not be started at all.
        """
        # A file instead of a pipe: a pipe would stay open in the server that pg_ctl starts, and
        # waiting for its end would mean waiting for the server's.
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
                raise self._cannot_run(command, error) from error
            output.seek(0)
            return Outcome(ended.returncode, output.read().decode(errors="replace").strip())

    def _may_enter(self, directory: Path) -> bool:
        found = directory.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def find_account(home: Path) -> ServerAccount:
    """Return the account for the server of a home: this process's own or, for root, an assigned
    one.

    Raises:
        ServerError: the uid that the home records is invalid.
    """
    if IS_WINDOWS:
        return ServerAccount(uid=0, gid=0, is_lent=False)
    if os.geteuid() != 0:
        return ServerAccount(uid=os.geteuid(), gid=os.getegid(), is_lent=False)
    noted = read_plain(home / UID_FILE)
    if noted is None:
        digest = hashlib.sha256(os.fsencode(home)).digest()
        chosen = LENT_FIRST + int.from_bytes(digest[:8], "big") % LENT_COUNT
        return lent_account(chosen if _is_mapped(chosen) else LENT_ID)
    if not noted.strip().isdigit() or int(noted) == 0:
        raise ServerError(f"{home / UID_FILE} does not hold a uid. Remove it, then try again.")
    return lent_account(int(noted))


def make_home(home: Path) -> None:
    """Create a data directory, and the folders above it, so that the server can enter it.

    The first command may be one that needs no server. If root ran it with a umask of 077, a folder
    that it created would keep the server out.
    """
    if not is_root():
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    # The home stays root's: the server only has to pass through it.
    for folder in reversed([home, *home.parents]):
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)


def lent_account(uid: int) -> ServerAccount:
    """Return the account that root assigns under a uid."""
    return ServerAccount(uid=uid, gid=uid, is_lent=True)


def is_root() -> bool:
    """Whether this process has to assign its server an account."""
    return not IS_WINDOWS and os.geteuid() == 0


def read_plain(path: Path) -> str | None:
    """Return the content of a small file, or None if there is none.

    A link is not followed and a pipe is not waited for: another account may have put it there.

    Raises:
        ServerError: it is not a regular file.
        PermissionError: this process may not read it.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        raise
    except OSError as error:
        raise ServerError(f"{path} is not a regular file. Look at it, then remove it.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ServerError(f"{path} is not a regular file. Look at it, then remove it.")
        return os.read(descriptor, FILE_BYTES_MAX).decode(errors="replace")
    finally:
        os.close(descriptor)


def _is_mapped(uid: int) -> bool:
    """Whether the uid is mapped here; a container may have only a few thousand."""
    maps = (read_plain(Path(f"/proc/self/{kind}_map")) for kind in ("uid", "gid"))
    return all(text is not None and _holds(text, uid) for text in maps)


def _holds(text: str, uid: int) -> bool:
    rows = [[int(word) for word in line.split()] for line in text.splitlines()]
    return any(first <= uid < first + count for first, _, count in rows)


def _clean_environment() -> dict[str, str] | None:
    # The server outlives this process, so it must not inherit its API keys, and no PGDATA, PGPORT
    # or TZ of the shell may affect it. Windows programs do not start without their environment.
    return None if IS_WINDOWS else {"LC_ALL": "C", "PATH": os.defpath}


def default_home() -> Path:
    """Return the default home of an account's server.

    Never below root's own home, which the account that root assigns to the server cannot enter.
    Root may work with several homes (sudo, containers with a shared volume), so each has a folder.
    """
    if is_root():
        # Resolved, so that a link to a home is the same home.
        home = hashlib.sha256(os.fsencode(Path.home().resolve())).hexdigest()
        return ROOT_HOMES / home[:HOME_ID_CHARS]
    import platformdirs

    return platformdirs.user_data_path("turntree", appauthor=False)
