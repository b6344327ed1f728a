"""An older release and this one on one database: the newer rules stand."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import turntree
from tests.conftest import WORKSPACE
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import NotFound
from turntree.core.message import assistant, user
from turntree.db import schema
from turntree.db.database import Database
from turntree.testing.fakes import FakeClock

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WALL = (
    "('turns', 'sessions',"
    " 'NOT turntree.is_turn_hidden(workspace_id, id, segment_id, depth, turntree.viewer())'),"
)
FIND_WALL = "SELECT FROM pg_policies WHERE tablename = 'turns' AND policyname = 'visible'"
COMMAND = "from turntree.cli.main import main; main()"
RULES = """
SELECT md5(string_agg(concat(tablename, policyname, roles, qual), ',' ORDER BY tablename,
  policyname)) FROM pg_policies WHERE schemaname = 'turntree'
UNION ALL SELECT md5(string_agg(pg_get_functiondef(oid), '' ORDER BY oid)) FROM pg_proc
 WHERE pronamespace = 'turntree'::regnamespace
"""


def copy_older_release(place: Path) -> Path:
    """Copy the package with a lower schema number and without the wall before turns."""
    source = place / "src"
    shutil.copytree(
        Path(turntree.__file__).parent,
        source / "turntree",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    policies = source / "turntree/db/functions/95_row_security.sql"
    text = policies.read_text(encoding="utf-8")
    assert WALL in text
    policies.write_text(text.replace(WALL, ""), encoding="utf-8")
    number = source / "turntree/db/schema.py"
    lowered, times = re.subn(
        r"^NUMBER: Final = .*$",
        f"NUMBER: Final = {schema.NUMBER - 1}",
        number.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert times == 1
    number.write_text(lowered, encoding="utf-8")
    return source


def call_older(source: Path, conninfo: str, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        **os.environ,
        "PYTHONPATH": str(source),
        "TURNTREE_DATABASE_URL": conninfo,
        "TURNTREE_WORKSPACE": WORKSPACE,
        "TURNTREE_USER": "bob",
        "TURNTREE_HOME": str(source.parent / "home"),
        "TURNTREE_CONFIG": str(source.parent / "config.toml"),
    }
    line = [sys.executable, "-c", COMMAND, *words]
    return subprocess.run(
        line,
        env=environment,
        cwd=source.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def rules_of(conninfo: str) -> list[tuple[object, ...]]:
    with psycopg.connect(conninfo) as connection:
        return connection.execute(RULES.encode()).fetchall()


async def test_beside_an_older_release_the_newer_rules_stand(
    conninfo: str, database: Database, tree: Tree, tmp_path: Path
) -> None:
    said = await tree.turns.record("quiet", [user("ana's secret")], [assistant("kept")])
    await tree.programs.create("session", "quiet", {}, visibility="private")
    source = copy_older_release(tmp_path)
    before = rules_of(conninfo)
    assert all(found for (found,) in before)
    for words in (("session", "list"), ("log",), ("show", said.turn.id), ("fsck",), ("status",)):
        ended = call_older(source, conninfo, *words)
        assert "secret" not in ended.stdout
        if words != ("status",):
            assert ended.returncode != 0, words
            assert "upgrade turntree" in ended.stderr, (words, ended.stderr)
    assert rules_of(conninfo) == before
    bob = tree_on(database, Settings(tmp_path, user="bob"), FakeClock(3))
    with pytest.raises(NotFound):
        await bob.turns.get(said.turn.id)


async def test_the_older_release_would_have_shown_it(server: str, tmp_path: Path) -> None:
    """Says that the test above would fail: where no newer rules are, these are in force."""
    name = f"older_{os.urandom(6).hex()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            conninfo = make_conninfo(server, dbname=name)
            ended = call_older(copy_older_release(tmp_path), conninfo, "session", "list")
            assert ended.returncode == 0, ended.stderr
            with psycopg.connect(conninfo) as older:
                assert older.execute(FIND_WALL.encode()).fetchone() is None
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
