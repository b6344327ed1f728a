"""What the embedded server's account can reach: its own data, and neither root nor the user."""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.databases import as_superuser
from turntree.boot.open import Settings, open_tree
from turntree.core.message import assistant, user
from turntree.db.embedded.account import (
    LENT_ID,
    UID_FILE,
    ServerError,
    find_account,
    lent_account,
)
from turntree.db.embedded.installation import find_installation
from turntree.db.embedded.logins import PASSWORDS_FILE
from turntree.db.embedded.postmaster import disown
from turntree.db.embedded.server import EmbeddedServer, explain_initdb

pytestmark = pytest.mark.slow

IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root lends an account")
POWERS = ("pg_execute_server_program", "pg_read_server_files", "pg_write_server_files")


@pytest.fixture(scope="module")
def folder() -> Generator[Path]:
    path = Path(tempfile.mkdtemp(prefix="tt-")).resolve()
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def server(folder: Path) -> Generator[EmbeddedServer]:
    server = EmbeddedServer(folder / "home", {"fsync": "off"})
    server.ensure_running()
    yield server
    server.stop(mode="immediate")


@pytest.fixture
def victim(folder: Path) -> Path:
    """A file that is root's alone."""
    path = folder / "victim"
    path.write_text("precious")
    path.chmod(0o600)
    return path


def as_server(server: EmbeddedServer, *words: str) -> None:
    """Do something as the account that the server runs under."""
    account = find_account(server.home)
    subprocess.run(words, check=True, user=account.uid, group=account.gid, extra_groups=[])


def test_who_connects_is_no_superuser_and_runs_no_program(server: EmbeddedServer) -> None:
    with psycopg.connect(server.ensure_running(), autocommit=True) as connection:
        row = connection.execute(
            "SELECT session_user, rolsuper, rolbypassrls,"
            " (SELECT count(*) FROM unnest(%s::text[]) p WHERE pg_has_role(p::name, 'MEMBER'))"
            " FROM pg_roles WHERE rolname = session_user",
            (list(POWERS),),
        ).fetchone()
        assert row == ("turntree", False, False, 0)
        for statement in (
            b"COPY (SELECT 1) TO PROGRAM 'true'",
            b"COPY (SELECT 1) TO '/tmp/turntree-written'",
            b"SELECT pg_read_file('/etc/passwd')",
            b"SET ROLE postgres",
            b"SET ROLE turntree_engine",
            b"ALTER ROLE turntree SUPERUSER",
            b"GRANT pg_execute_server_program TO turntree",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


@pytest.mark.parametrize("login", ["postgres", "turntree", "turntree_console", "turntree_engine"])
def test_without_the_password_file_there_is_no_way_in(server: EmbeddedServer, login: str) -> None:
    told = conninfo_to_dict(server.ensure_running())
    bare = make_conninfo(
        host=told["host"], port=told["port"], user=login, dbname="turntree", passfile="/dev/null"
    )
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(bare)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(bare, password="guessed")
    psycopg.connect(bare, passfile=str(told["passfile"])).close()


def test_passwords_are_in_no_address_and_in_no_process_list(server: EmbeddedServer) -> None:
    path = server.home / PASSWORDS_FILE
    found = path.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.geteuid())
    assert not path.resolve().is_relative_to(server.home / "data")
    words = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    for line in path.read_text().splitlines():
        password = line.rsplit(":", 1)[1]
        assert len(password) == 64
        assert password not in server.ensure_running()
        assert password not in words
        assert password not in server.state().log.read_text()


def test_the_lock_is_not_for_other_accounts(server: EmbeddedServer) -> None:
    lock = server.home / "server.lock"
    lock.chmod(0o644)
    server.stop()
    server.ensure_running()
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600


@needs_root
def test_root_writes_its_settings_where_the_server_cannot(
    server: EmbeddedServer, victim: Path
) -> None:
    for name in ("turntree.conf", "turntree.conf.new", "pg_hba.conf", "postgresql.auto.conf.new"):
        link = str(server.home / "data" / name)
        as_server(server, "ln", "-sf", str(victim), link)
    server.stop()
    server.ensure_running()
    assert victim.read_text() == "precious"
    assert (server.home / "turntree.conf").stat().st_uid == 0
    with pytest.raises(subprocess.CalledProcessError):
        as_server(server, "touch", str(server.home / "turntree.conf"))


@needs_root
@pytest.mark.parametrize("trap", ["link", "pipe", "folder"])
def test_root_follows_no_trap_in_the_lock_file(
    server: EmbeddedServer, victim: Path, trap: str
) -> None:
    pid = server.home / "data/postmaster.pid"
    server.stop()
    made = {"link": ("ln", "-s", str(victim)), "pipe": ("mkfifo",), "folder": ("mkdir",)}[trap]
    as_server(server, *made, str(pid))
    try:
        with pytest.raises(ServerError, match="not a regular file"):
            server.ensure_running()
        with pytest.raises(ServerError):
            disown(pid.parent, find_account(server.home))
    finally:
        as_server(server, "rm", "-rf", str(pid))
    assert victim.read_text() == "precious"
    server.ensure_running()


@needs_root
def test_a_lock_file_swapped_while_root_looks_changes_nothing_of_roots(
    server: EmbeddedServer, victim: Path
) -> None:
    account, data = find_account(server.home), server.home / "data"
    server.stop()
    pid = data / "postmaster.pid"
    # Whatever the lines are and wherever the name leads, they are written as the server.
    script = (
        'i=0; while [ $i -lt 400 ]; do printf "123\\nroot line\\n" > "$1.a"; mv -T "$1.a" "$1";'
        ' ln -s "$2" "$1.b"; mv -T "$1.b" "$1"; i=$((i+1)); done'
    )
    with subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", str(pid), str(victim)],
        user=account.uid,
        group=account.gid,
        extra_groups=[],
    ) as swapper:
        while swapper.poll() is None:
            try:
                disown(data, account)
            except ServerError:
                continue
    pid.unlink()
    assert victim.read_text() == "precious"
    server.ensure_running()


@needs_root
def test_what_is_another_accounts_is_not_taken_over(folder: Path, victim: Path) -> None:
    data = folder / "planted"
    data.mkdir()
    lent_account(LENT_ID).give(data)
    os.link(victim, data / "innocent")
    with pytest.raises(ServerError, match="belongs to uid 0"):
        find_account(folder).take_over(data, LENT_ID)
    assert victim.stat().st_uid == 0


@needs_root
def test_a_home_that_others_can_write_is_refused(folder: Path) -> None:
    home = folder / "shared"
    home.mkdir()
    home.chmod(0o777)
    with pytest.raises(ServerError, match=r"accounts other than root.*chmod 755"):
        EmbeddedServer(home).ensure_running()


@pytest.mark.parametrize("name", ['a "home"', "$(touch pwned)", "it's `here`; rm x"])
def test_no_shell_reads_the_path_of_a_home(folder: Path, name: str) -> None:
    server = EmbeddedServer(folder / name, {"fsync": "off"})
    try:
        with psycopg.connect(server.ensure_running()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        server.stop(mode="immediate")
    assert not list(folder.rglob("pwned"))


def test_a_home_with_a_line_break_is_refused_with_a_reason(folder: Path) -> None:
    with pytest.raises(ServerError, match=r"control character.*another home"):
        EmbeddedServer(folder / "two\nlines").ensure_running()


@needs_root
def test_a_uid_without_a_name_is_told_what_to_do(folder: Path) -> None:
    nameless = lent_account(54321)
    initdb = find_installation().within_reach(nameless, folder, print).program("initdb")
    output = nameless.run([initdb, "-D", folder / "nameless"], cwd=folder).output
    told = explain_initdb(output, folder)
    assert "the name of uid 54321" in told
    assert "/etc/passwd" in told
    assert "full disk" not in told


@pytest.mark.anyio
async def test_a_home_of_an_earlier_release_is_carried_over(folder: Path) -> None:
    home = folder / "old"
    server = EmbeddedServer(home, {"fsync": "off"})
    settings = Settings(home, user="ana", session="main")
    async with open_tree(settings) as tree:
        await tree.turns.record("main", [user("one")], [assistant("1")])
    make_old(server)
    told: list[str] = []
    reached = server.ensure_running(told.append)
    try:
        assert "setting up its logins" in told
        async with open_tree(settings) as tree:
            await tree.turns.record("main", [user("two")], [assistant("2")])
            assert await tree.turns.index.count() == 2
        with psycopg.connect(reached) as connection:
            strangers = connection.execute(
                "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
                " WHERE nspname IN ('turntree', 'ledger') AND relowner <> 'turntree'::regrole"
            ).fetchall()
            assert strangers == []
        if IS_ROOT:
            assert server.state().data.stat().st_uid == find_account(home).uid != LENT_ID
        with pytest.raises(psycopg.OperationalError, match="no password"):
            psycopg.connect(make_conninfo(as_superuser(reached), passfile="/dev/null"))
    finally:
        server.stop(mode="immediate")


def make_old(server: EmbeddedServer) -> None:
    """Make a home as releases left it whose every process was a superuser."""
    with psycopg.connect(as_superuser(server.ensure_running()), dbname="turntree") as connection:
        for (statement,) in connection.execute(
            "SELECT format('ALTER %s %s OWNER TO postgres', CASE relkind WHEN 'v' THEN 'VIEW'"
            " WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass) FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname IN ('turntree', 'ledger')"
            " AND relkind IN ('r', 'v') UNION ALL"
            " SELECT 'ALTER TABLE public.turntree_migrations OWNER TO postgres'"
        ).fetchall():
            connection.execute(str(statement).encode())
        connection.execute("DROP SCHEMA dbos CASCADE")
        for login in ("turntree_console", "turntree_engine", "turntree"):
            connection.execute(f"REASSIGN OWNED BY {login} TO postgres".encode())
            connection.execute(f"DROP OWNED BY {login} CASCADE".encode())
    with psycopg.connect(as_superuser(server.ensure_running()), autocommit=True) as connection:
        for login in ("turntree_console", "turntree_engine", "turntree"):
            connection.execute(f"REASSIGN OWNED BY {login} TO postgres".encode())
            connection.execute(f"DROP ROLE {login}".encode())
        connection.execute("ALTER ROLE postgres PASSWORD NULL")
    server.stop()
    for name in (PASSWORDS_FILE, "turntree.conf", "pg_hba.conf", UID_FILE):
        (server.home / name).unlink(missing_ok=True)
    if IS_ROOT:
        for part in ("data", "run"):
            lent_account(LENT_ID).take_over(server.home / part, find_account(server.home).uid)
    conf = server.home / "data/turntree.conf"
    conf.write_text("max_connections = '60'\n")
    with (server.home / "data/postgresql.conf").open("a") as file:
        file.write("\ninclude 'turntree.conf'\n")
    if IS_ROOT:
        lent_account(LENT_ID).give(conf)
