"""A real PostgreSQL with pgvector, from a Python wheel, that runs beside the user's programs.

Knows the wheel's binaries and the files below one home directory. Must never know Turntree's
tables, nor read the environment: the caller chooses the home.

    home/data         the cluster, owned by the server's account
    home/run          its socket, unless that path is too long for one
    home/server.log   what it has to say
    home/server.lock  held while somebody starts or stops it

Deliberately absent: passwords (only the server's own account and root can enter the socket's
directory), upgrades to another major version, and a stop when the last client leaves.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import platformdirs
from filelock import FileLock, Timeout

from turntree.store.account import Account, ServerError, current_account
from turntree.store.installation import Installation, find_installation
from turntree.store.postmaster import PID_FILE, Postmaster, disown, find_postmaster
from turntree.store.server_settings import include_settings, write_settings

__all__ = ["EmbeddedServer", "ServerError", "ServerState", "default_home"]

START_TIMEOUT_S: Final = 120
STOP_TIMEOUT_S: Final = 60
ORPHANS_TIMEOUT_S: Final = 10
LOCK_TIMEOUT_S: Final = START_TIMEOUT_S + STOP_TIMEOUT_S
POLL_S: Final = 0.05
LOG_LINES_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class ServerState:
    """How the server was found. ``stale`` means that it ended without saying so."""

    name: Literal["absent", "stopped", "running", "stale"]
    pid: int | None
    data: Path
    log: Path
    version: str | None
    """The major version of PostgreSQL that wrote the data."""


def _say_nothing(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """The one PostgreSQL server of a home directory, shared by every process that names it."""

    home: Path
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings of ``postgresql.conf`` that win over the local ones at the next start."""

    def ensure_running(self, report: Callable[[str], None] = _say_nothing) -> str:
        """Where the server accepts connections, as a libpq conninfo; it is started if need be.

        Any number of processes may call it at once: one starts the server, the others wait. The
        server outlives them all.

        Raises:
            ServerError: it cannot be started; the message says why and what to do.
        """
        found = find_postmaster(self._data)
        if found and found.is_ready and found.is_running():
            return found.conninfo()
        account = current_account()
        try:
            self._make_home(account)
            with self._alone():
                return self._start_once(account, report).conninfo()
        except OSError as error:
            raise ServerError(
                f"{error.filename or self.home} cannot be used: {error.strerror}."
                " Choose another home for the data, or give this account access to it."
            ) from error

    def stop(self, *, mode: Literal["fast", "immediate", "smart"] = "fast") -> bool:
        """Whether there was a server to stop. It is gone when this returns.

        Raises:
            ServerError: it does not stop in time, or is out of this process's reach.
        """
        if not self._data.exists():
            return False
        with self._alone():
            found = find_postmaster(self._data)
            if found is None or not found.is_running():
                return False
            # pg_ctl signals whatever process has the number, so the number must be right.
            if not found.owns_process():
                raise ServerError(
                    f"the server of {self._data} answers, but runs in another container or"
                    " namespace. Stop it from there."
                )
            account = current_account()
            pg_ctl = self._installation(account, _say_nothing).program("pg_ctl")
            words: list[str | Path] = [
                "stop",
                "-D",
                self._data,
                "-m",
                mode,
                "-w",
                "-t",
                str(STOP_TIMEOUT_S),
            ]
            outcome = account.run([pg_ctl, *words], cwd=self._root)
            if outcome.code:
                raise ServerError(
                    f"PostgreSQL (pid {found.pid}) did not stop: {outcome.output}\n"
                    "Close its clients, or stop it again in mode fast or immediate."
                )
            return True

    def find_conninfo(self) -> str | None:
        """Where the server accepts connections; None if it does not run."""
        found = find_postmaster(self._data)
        return found.conninfo() if found and found.is_running() else None

    def state(self) -> ServerState:
        """How the server is right now; nothing is changed."""
        found = find_postmaster(self._data)
        version = self._find_version()
        name: Literal["absent", "stopped", "running", "stale"] = "stopped"
        if version is None:
            name = "absent"
        elif found and found.is_running():
            name = "running"
        elif (self._data / PID_FILE).exists():
            name = "stale"
        pid = found.pid if found and name == "running" else None
        return ServerState(name, pid, self._data, self._log, version)

    @property
    def _root(self) -> Path:
        # The same home by another path must be the same server, in its process's words too.
        return self.home.expanduser().resolve()

    @property
    def _data(self) -> Path:
        return self._root / "data"

    @property
    def _log(self) -> Path:
        return self._root / "server.log"

    @contextmanager
    def _alone(self) -> Generator[None]:
        lock = self._root / "server.lock"
        try:
            with FileLock(lock, timeout=LOCK_TIMEOUT_S):
                yield
        except Timeout as error:
            raise ServerError(
                f"another process has been starting or stopping the server for"
                f" {LOCK_TIMEOUT_S} s and holds {lock}. See {self._log}, end it and try again."
            ) from error

    def _make_home(self, account: Account) -> None:
        # Root's home stays root's own: the server only has to pass through it.
        self._root.mkdir(mode=0o755 if account.is_lent else 0o700, parents=True, exist_ok=True)
        wall = account.find_wall(self._root)
        if wall is not None:
            raise ServerError(
                f"PostgreSQL does not run as root, and uid {account.uid}, which it runs as"
                f" instead, cannot enter {wall} on the way to {self._root}."
                f" Choose a home such as {default_home()}, or run: chmod o+x '{wall}'"
            )

    def _start_once(self, account: Account, report: Callable[[str], None]) -> Postmaster:
        if not self._data.exists():
            self._initialise(account, report)
        account.require_private(self._data)
        installation = self._installation(account, report)
        found = self._settled()
        if found:
            return found
        if (self._data / PID_FILE).exists():
            report("the last server ended without a farewell; recovering its data")
            disown(self._data)
        write_settings(self._data, account, self.settings)
        self._log.touch(mode=0o600)
        account.give(self._log)
        report(f"starting PostgreSQL {installation.major}")
        self._start(account, installation)
        started = find_postmaster(self._data)
        if started is None:
            raise ServerError(f"PostgreSQL ended as soon as it began.{self._last_words()}")
        return started

    def _initialise(self, account: Account, report: Callable[[str], None]) -> None:
        # The lock is held, so whatever is unfinished here was left by a crash.
        for leftover in self._root.glob("unfinished-*"):
            shutil.rmtree(leftover)
        installation = find_installation().within_reach(account, self._root, report)
        report(f"initialising a new PostgreSQL {installation.major} cluster")
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=self._root))
        account.give(unfinished)
        words: list[str | Path] = [
            "-D",
            unfinished,
            "-U",
            "postgres",
            "-A",
            "trust",
            "--data-checksums",
        ]
        # PostgreSQL's own C.UTF-8 sorts alike on every system, whatever locales are installed.
        words += ["-E", "UTF8", "--locale=C", "--locale-provider=builtin"]
        words += ["--builtin-locale=C.UTF-8", "--no-instructions"]
        outcome = account.run([installation.program("initdb"), *words], cwd=self._root)
        if outcome.code:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise ServerError(
                f"initdb could not make a cluster in {self._root}:\n{outcome.output}\n"
                "Look for a full disk or a read-only file system, then try again."
            )
        include_settings(unfinished)
        unfinished.rename(self._data)

    def _installation(self, account: Account, report: Callable[[str], None]) -> Installation:
        version = self._find_version()
        if version is None:
            raise ServerError(
                f"{self._data} is not a PostgreSQL cluster. Move it away, or choose another home."
            )
        return find_installation(int(version)).within_reach(account, self._root, report)

    def _find_version(self) -> str | None:
        try:
            return (self._data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            return None

    def _settled(self) -> Postmaster | None:
        """The server when it is ready, or None when there is none: no longer in between."""
        for _ in range(int(START_TIMEOUT_S / POLL_S)):
            found = find_postmaster(self._data)
            if found is None or not found.is_running():
                return None
            if found.is_ready:
                return found
            time.sleep(POLL_S)
        raise ServerError(
            f"PostgreSQL is still starting or stopping after {START_TIMEOUT_S} s; it may be"
            f" recovering much data. Try again later.{self._last_words()}"
        )

    def _start(self, account: Account, installation: Installation) -> None:
        command: list[str | Path] = [installation.program("pg_ctl"), "start", "-w"]
        command += ["-D", self._data, "-l", self._log, "-t", str(START_TIMEOUT_S)]
        attempts_left = int(ORPHANS_TIMEOUT_S / POLL_S)
        read_before = self._log.stat().st_size
        while (outcome := account.run(command, cwd=self._root)).code and attempts_left:
            # The backends of a killed server take a moment to notice and to end.
            if b"is still in use" not in self._log.read_bytes()[read_before:]:
                break
            read_before = self._log.stat().st_size
            attempts_left -= 1
            time.sleep(POLL_S)
        if outcome.code:
            raise ServerError(f"PostgreSQL did not start: {outcome.output}{self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(["", f"The last lines of {self._log}:", *lines[-LOG_LINES_MAX:]])


def default_home() -> Path:
    """Where an account's server lives unless it is told otherwise.

    Never below root's own home, which the account that root lends to the server cannot enter.
    """
    if current_account().is_lent:
        return Path("/var/lib/turntree")
    return platformdirs.user_data_path("turntree", appauthor=False)
