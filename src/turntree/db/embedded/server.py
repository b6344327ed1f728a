"""Runs a real PostgreSQL with pgvector, from a Python wheel, next to the user's programs.

Knows the wheel's binaries and the files below one home directory. Must never know Turntree's
tables, nor read the environment: the caller chooses the home.

    home/data             the cluster, owned by the server's account
    home/run              its socket, unless that path is too long for one
    home/passwords        the passwords of its logins, readable only by the home's owner
    home/turntree.conf    the settings it is started with
    home/pg_hba.conf      who may connect: clients with a password
    home/postgresql.conf  the user's own settings, if there are any
    home/server.uid       the uid that root assigned to it
    home/server.log       its log
    home/server.lock      held while a process starts or stops it

Deliberately absent: upgrades to another major version, and a stop when the last client leaves.
"""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Final, Literal

import psycopg

from turntree.core.value import value
from turntree.db.embedded.account import (
    IS_WINDOWS,
    LENT_ID,
    ROOT_HOMES,
    UID_FILE,
    ServerAccount,
    ServerError,
    default_home,
    find_account,
    is_root,
    lent_account,
    make_home,
    read_plain,
)
from turntree.db.embedded.config import write_access, write_settings
from turntree.db.embedded.installation import Installation, find_installation
from turntree.db.embedded.logins import (
    DATABASE,
    LOGINS,
    OWNER,
    PASSWORDS_FILE,
    SUPERUSER,
    new_passwords,
    read_passwords,
    verifier_of,
    write_passwords,
)
from turntree.db.embedded.postmaster import PID_FILE, Postmaster, disown, find_postmaster

__all__ = ["EmbeddedServer", "ServerError", "ServerState", "default_home"]

# After a crash the server first replays its log, which can take a minute.
START_TIMEOUT_S: Final = 120
STOP_TIMEOUT_S: Final = 60
ORPHANS_TIMEOUT_S: Final = 10
LOCK_TIMEOUT_S: Final = START_TIMEOUT_S + STOP_TIMEOUT_S
POLL_S: Final = 0.05
LOG_LINES_MAX: Final = 12


@value
class ServerState:
    """The state of the server. ``stale`` means that it crashed or was killed."""

    name: Literal["absent", "stopped", "running", "stale"]
    pid: int | None
    data: Path
    log: Path
    version: str | None
    """The major version of PostgreSQL that wrote the data."""


def _say_nothing(_: str) -> None:
    pass


@value
class EmbeddedServer:
    """The PostgreSQL server of a home directory, shared by all processes that use that home."""

    home: Path
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings that override the local ones at the next start."""

    def ensure_running(self, report: Callable[[str], None] = _say_nothing) -> str:
        """Start the server if necessary, and return a libpq conninfo for it.

        The conninfo names the ledger's owner, who is not a superuser, and the file with the
        password. Any number of processes may call this at once: one starts the server, the others
        wait. The server outlives them all.

        Raises:
            ServerError: it cannot be started; the message says why and what to do.
        """
        if (conninfo := self.find_ready()) is not None:
            return conninfo
        account = find_account(self._root)
        try:
            self._make_home(account)
            with self._alone():
                return self._conninfo(self._start_once(account, report))
        except OSError as error:
            raise ServerError(
                f"{error.filename or self.home} cannot be used: {error.strerror}."
                " Choose another home for the data, or give this account access to it."
            ) from error

    def find_ready(self) -> str | None:
        """Return a conninfo if the server is running and set up, else None."""
        found = find_postmaster(self._data)
        if found and found.is_ready and found.is_running() and self._is_provisioned():
            return self._conninfo(found)
        return None

    def stop(self, *, mode: Literal["fast", "immediate", "smart"] = "fast") -> bool:
        """Stop the server and wait until it has ended. Return whether one was running.

        Raises:
            ServerError: it does not stop in time, or is out of this process's reach.
        """
        if not self._data.exists():
            return False
        with self._alone():
            found = find_postmaster(self._data)
            if found is None or not found.is_running():
                return False
            # pg_ctl signals any process with that pid, so the pid must be right.
            if not found.owns_process():
                raise ServerError(
                    f"the server of {self._data} answers, but runs in another container or"
                    " namespace. Stop it from there."
                )
            account = (
                lent_account(self._data.lstat().st_uid) if is_root() else find_account(self._root)
            )
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
        """Return a conninfo of the running server, or None."""
        found = find_postmaster(self._data)
        return self._conninfo(found) if found and found.is_running() else None

    def _conninfo(self, found: Postmaster, user: str = OWNER, database: str = DATABASE) -> str:
        passwords = self._root / PASSWORDS_FILE
        return found.conninfo(user=user, database=database, passwords=passwords)

    def _is_provisioned(self) -> bool:
        return set(LOGINS) <= read_passwords(self._root).keys()

    def state(self) -> ServerState:
        """Return the state of the server; changes nothing."""
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
        # The same home by another path must be the same server, also in its process's command line.
        return self.home.expanduser().resolve()

    @property
    def _data(self) -> Path:
        return self._root / "data"

    @property
    def _log(self) -> Path:
        return self._root / "server.log"

    @contextmanager
    def _alone(self) -> Generator[None]:
        from filelock import FileLock, Timeout

        lock = self._root / "server.lock"
        try:
            # Another account that can open the lock could hold it, and each start would wait for
            # it.
            if lock.exists() and not IS_WINDOWS:
                lock.chmod(0o600)
            with FileLock(lock, timeout=LOCK_TIMEOUT_S, mode=0o600):
                yield
        except Timeout as error:
            raise ServerError(
                f"another process has been starting or stopping the server for"
                f" {LOCK_TIMEOUT_S} s and holds {lock}. See {self._log}, end it and try again."
            ) from error

    def _make_home(self, account: ServerAccount) -> None:
        if any(not char.isprintable() for char in str(self._root)):
            raise ServerError(
                f"the path {str(self._root)!r} has a line break or another control character in it."
                " Choose another home."
            )
        make_home(self._root)
        wall = account.find_wall(self._root)
        if wall is not None:
            raise ServerError(
                f"PostgreSQL does not run as root, and uid {account.uid}, which it runs as"
                f" instead, cannot enter {wall} on the way to {self._root}."
                f" Choose a home such as {default_home()}, or run: chmod o+x '{wall}'"
            )
        if account.is_lent:
            self._require_own_home()

    def _require_own_home(self) -> None:
        # An account with write access could make root write through a link.
        found = self._root.stat()
        if found.st_uid != 0 or found.st_mode & 0o022:
            raise ServerError(
                f"{self._root} can be changed by accounts other than root."
                f" Run: chown root '{self._root}' && chmod 755 '{self._root}'"
            )

    def _start_once(self, account: ServerAccount, report: Callable[[str], None]) -> Postmaster:
        if not self._data.exists():
            self._initialise(account, report)
        found = self._settled()
        if found is None:
            found = self._start_anew(account, report)
        if not self._is_provisioned():
            self._provision(found, account, report)
        return found

    def _start_anew(self, account: ServerAccount, report: Callable[[str], None]) -> Postmaster:
        self._adopt(account, report)
        installation = self._installation(account, report)
        if (self._data / PID_FILE).exists():
            report("the last server did not shut down cleanly; recovering its data")
            disown(self._data, account)
        is_open = SUPERUSER not in read_passwords(self._root)
        settings = write_settings(self._root, account, self.settings, trusts_superuser=is_open)
        report(f"starting PostgreSQL {installation.major}")
        self._start(account, installation, settings)
        started = find_postmaster(self._data)
        if started is None:
            raise ServerError(f"PostgreSQL ended right after it started.{self._last_words()}")
        return started

    def _adopt(self, account: ServerAccount, report: Callable[[str], None]) -> None:
        """Give data that an earlier release stored under the shared unprivileged uid to this home's
        uid.
        """
        if account.is_lent:
            if account.uid != LENT_ID and self._data.lstat().st_uid == LENT_ID:
                report(f"giving the data to uid {account.uid}, which no other program uses")
                for folder in filter(Path.is_dir, (self._data, self._root / "run")):
                    account.take_over(folder, LENT_ID)
            (self._root / UID_FILE).write_text(f"{account.uid}\n")
        account.require_private(self._data)

    def _initialise(self, account: ServerAccount, report: Callable[[str], None]) -> None:
        # The lock is held, so whatever is unfinished here was left by a crash.
        for leftover in self._root.glob("unfinished-*"):
            shutil.rmtree(leftover)
        # initdb looks up the name of the account that runs it; a uid of our choice has none.
        maker = lent_account(LENT_ID) if account.is_lent else account
        installation = find_installation().within_reach(maker, self._root, report)
        report(f"initialising a new PostgreSQL {installation.major} cluster in {self._root}")
        if self._root.parent == ROOT_HOMES and (ROOT_HOMES / "data").is_dir():
            # Before the first release all homes of root shared one ledger.
            report(
                f"the data of an earlier version stays in {ROOT_HOMES}, unused; to use it, set"
                f" TURNTREE_HOME={ROOT_HOMES}"
            )
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=self._root))
        maker.give(unfinished)
        passwords = {SUPERUSER: new_passwords()[SUPERUSER]}
        write_passwords(self._root, passwords)
        with tempfile.NamedTemporaryFile("w", dir=self._root, prefix="initial-") as file:
            # The verifier, not the password itself.
            file.write(verifier_of(passwords[SUPERUSER]))
            file.flush()
            maker.give(Path(file.name))
            outcome = maker.run(
                [installation.program("initdb"), *_initdb_words(unfinished, Path(file.name))],
                cwd=self._root,
            )
        if outcome.code:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise ServerError(explain_initdb(outcome.output, self._root))
        if account != maker:
            account.take_over(unfinished, maker.uid)
        unfinished.rename(self._data)

    def _provision(
        self, found: Postmaster, account: ServerAccount, report: Callable[[str], None]
    ) -> None:
        from turntree.db.embedded.provision import provision

        known = read_passwords(self._root)
        passwords = {**new_passwords(), **known}
        report("setting up its logins")
        try:
            provision(self._conninfo(found, SUPERUSER, "postgres"), passwords)
        except psycopg.OperationalError as error:
            raise ServerError(
                f"the server of {self._data} was started by an earlier release or its passwords"
                f" were lost. Stop it, then try again. (It says: {error})"
            ) from error
        write_passwords(self._root, passwords)
        if SUPERUSER not in known:
            write_access(self._root, account)
            with psycopg.connect(self._conninfo(found, SUPERUSER, "postgres")) as connection:
                connection.execute("SELECT pg_reload_conf()")

    def _installation(self, account: ServerAccount, report: Callable[[str], None]) -> Installation:
        version = self._find_version()
        if version is None:
            raise ServerError(
                f"{self._data} is not a PostgreSQL cluster. Move it away, or choose another home."
            )
        return find_installation(int(version)).within_reach(account, self._root, report)

    def _find_version(self) -> str | None:
        version = read_plain(self._data / "PG_VERSION")
        return None if version is None else version.strip()

    def _settled(self) -> Postmaster | None:
        """Return the server once it is ready, or None if there is none. Waits while it starts or
        stops.
        """
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

    def _start(self, account: ServerAccount, installation: Installation, settings: Path) -> None:
        attempts_left = int(ORPHANS_TIMEOUT_S / POLL_S)
        read_before = self._log.stat().st_size if self._log.exists() else 0
        while (problem := self._try_start(account, installation, settings)) and attempts_left:
            # The backends of a killed server take a while to notice and to end.
            if b"is still in use" not in self._log.read_bytes()[read_before:]:
                break
            read_before = self._log.stat().st_size
            attempts_left -= 1
            time.sleep(POLL_S)
        if problem:
            raise ServerError(f"PostgreSQL did not start: {problem}{self._last_words()}")

    def _try_start(
        self, account: ServerAccount, installation: Installation, settings: Path
    ) -> str | None:
        """Start the server and wait until it is ready; return why it is not, else None."""
        if IS_WINDOWS:
            # pg_ctl drops the rights of an administrator first: the server refuses to run with
            # them.
            command: list[str | Path] = [installation.program("pg_ctl"), "start", "-w"]
            command += ["-D", self._data, "-l", self._log, "-t", str(START_TIMEOUT_S)]
            command += ["-o", f'-c config_file="{settings}"']
            outcome = account.run(command, cwd=self._root)
            return outcome.output if outcome.code else None
        # Not by pg_ctl, which passes the paths through a shell.
        words: list[str | Path] = [
            installation.program("postgres"),
            "-D",
            self._data,
            "-c",
            f"config_file={settings}",
        ]
        process = account.start(words, cwd=self._root, log=self._log)
        for _ in range(int(START_TIMEOUT_S / POLL_S)):
            if process.poll() is not None:
                return f"it ended with code {process.returncode}"
            found = find_postmaster(self._data)
            if found and found.is_ready and found.pid == process.pid:
                _let_go(process)
                return None
            time.sleep(POLL_S)
        _let_go(process)
        return f"it is not ready after {START_TIMEOUT_S} s; it may be recovering much data"

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(["", f"The last lines of {self._log}:", *lines[-LOG_LINES_MAX:]])


def explain_initdb(output: str, home: Path) -> str:
    """Return why initdb failed and what to do, from what it printed."""
    found = re.search(r"could not look up effective user ID (\d+)", output)
    if found:
        return (
            f"initdb asks for the name of uid {found[1]}, which has none on this system. Give it"
            f' one when the image is built (echo "turntree:x:{found[1]}:0::/:/bin/false" >>'
            " /etc/passwd), or use a PostgreSQL of your own through its connection URL."
        )
    return (
        f"initdb could not make a cluster in {home}:\n{output}\n"
        "Look for a full disk or a read-only file system, then try again."
    )


def _initdb_words(data: Path, password: Path) -> list[str | Path]:
    words: list[str | Path] = ["-D", data, "-U", SUPERUSER, "-A", "scram-sha-256"]
    words += ["--pwfile", password, "--data-checksums"]
    # PostgreSQL's builtin C.UTF-8 sorts the same on every system, whatever locales are installed.
    words += ["-E", "UTF8", "--locale=C", "--locale-provider=builtin"]
    return [*words, "--builtin-locale=C.UTF-8", "--no-instructions"]


def _let_go(process: "subprocess.Popen[bytes]") -> None:
    # The server outlives this process on purpose. Without this, Python warns about a child that was
    # not waited for.
    process.returncode = 0
