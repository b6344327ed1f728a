"""Two people push to one remote at the same moment: nothing is lost, both heads stay visible."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.databases import Databases, as_owner
from turntree.api import Tree
from turntree.boot.open import Settings, open_tree
from turntree.boot.remotes import open_remote, pull, push
from turntree.core.message import assistant, user
from turntree.db.embedded.logins import CONSOLE, as_login
from turntree.integrity.fsck import fsck

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROUNDS = 2
POLL_S = 0.02
PEOPLE = ("ana", "bob")


@dataclass(frozen=True, slots=True)
class Person:
    """One of them, with a ledger and a home of their own."""

    name: str
    environment: dict[str, str]

    @asynccontextmanager
    async def tree(self) -> AsyncGenerator[Tree]:
        """Open the ledger."""
        async with open_tree(self.settings) as opened:
            yield opened

    @property
    def settings(self) -> Settings:
        """How the ledger is opened."""
        told = self.environment
        return Settings(
            Path(told["TURNTREE_HOME"]), told["TURNTREE_DATABASE_URL"], user=told["TURNTREE_USER"]
        )


@pytest.fixture
def people(
    databases: Databases, template: str, tmp_path: Path
) -> Generator[dict[str, Person], None, None]:
    """Ana, Bob, and the ledger that they push to."""
    with ExitStack() as stack:
        found: dict[str, Person] = {}
        for name in (*PEOPLE, "team"):
            lent = stack.enter_context(databases.lend(template))
            found[name] = Person(name, {
                **os.environ,
                "TURNTREE_DATABASE_URL": as_owner(lent),
                "TURNTREE_CONSOLE_URL": as_login(lent, CONSOLE),
                "TURNTREE_HOME": str(tmp_path / name),
                "TURNTREE_CONFIG": str(tmp_path / f"{name}.toml"),
                "TURNTREE_USER": name,
            })  # fmt: skip
        yield found


@pytest.fixture(params=["folder", "database"])
def remote(request: pytest.FixtureRequest, people: dict[str, Person], tmp_path: Path) -> str:
    """The place that both push to."""
    if request.param == "folder":
        return str(tmp_path / "shared")
    told = conninfo_to_dict(people["team"].environment["TURNTREE_DATABASE_URL"])
    return f"postgresql:///?{urlencode(told)}"


def push_at_once(
    people: dict[str, Person],
    tmp_path: Path,
    remote: str,
    sessions: dict[str, str],
    *flags: str,
) -> None:
    """Have both push in each round."""
    signals = tmp_path / "signals"
    signals.mkdir()
    running = {
        name: subprocess.Popen(
            [sys.executable, "-m", "tests.transfer.pusher", remote, signals, name, other,
             sessions[name], str(ROUNDS), *flags],
            env=people[name].environment, stderr=subprocess.PIPE, text=True,
        )
        for name, other in zip(PEOPLE, reversed(PEOPLE), strict=True)
    }  # fmt: skip
    # One that fails leaves the other waiting, which says nothing more.
    while all(process.poll() is None for process in running.values()):
        time.sleep(POLL_S)
    if any(process.poll() for process in running.values()):
        for process in running.values():
            process.kill()
    ended = {name: process.communicate(timeout=60)[1] for name, process in running.items()}
    faults = {name: err for name, err in ended.items() if running[name].returncode}
    assert not faults, "\n".join(f"{name}: {err}" for name, err in faults.items())


async def said_in(tree: Tree, label: str) -> list[str]:
    """Return what a session was told, oldest first."""
    session = await tree.sessions.get(label)
    assert session.head is not None
    threads = tree.threads.threads
    depth = (await threads.get_turn(session.head)).depth
    turns = await threads.list_range(session.head, low=1, high=depth)
    return [one.turn.title or "" for one in turns]


async def test_first_pushes_to_a_new_folder_create_it_once(
    people: dict[str, Person], tmp_path: Path
) -> None:
    place = str(tmp_path / "new-ROUND")
    push_at_once(people, tmp_path, place, {name: f"{name}-ROUND" for name in PEOPLE})
    async with people["team"].tree() as reader:
        for number in range(ROUNDS):
            there = place.replace("ROUND", str(number))
            async with open_remote(there, people["team"].settings) as it:
                pulled = await pull(reader, it, f"r{number}")
            assert {one.session for one in pulled.heads} == {f"{who}-{number}" for who in PEOPLE}
        assert await fsck(reader.archives.database) == []


@pytest.mark.parametrize("remote", ["database"], indirect=True)
async def test_sessions_of_their_own_arrive_whole(
    people: dict[str, Person], remote: str, tmp_path: Path
) -> None:
    push_at_once(people, tmp_path, remote, {name: name for name in PEOPLE})
    async with AsyncExitStack() as stack:
        trees = {name: await stack.enter_async_context(people[name].tree()) for name in PEOPLE}
        for name, other in zip(PEOPLE, reversed(PEOPLE), strict=True):
            async with open_remote(remote, people[name].settings) as it:
                await pull(trees[name], it, "team")
            wanted = [f"{other} {number}" for number in range(ROUNDS)]
            assert await said_in(trees[name], f"team/{other}") == wanted
            assert await fsck(trees[name].archives.database) == []


@pytest.mark.parametrize("second", ["bob", "ana"], ids=["two people", "one on two machines"])
async def test_both_heads_of_one_session_stay_visible(
    people: dict[str, Person], remote: str, tmp_path: Path, second: str
) -> None:
    people["bob"].environment["TURNTREE_USER"] = second
    async with people["ana"].tree() as ana, people["bob"].tree() as bob:
        await ana.turns.record("plan", [user("begin")], [assistant("yes")])
        async with open_remote(remote, people["ana"].settings) as it:
            await push(ana, it, "team", "plan")
        async with open_remote(remote, people["bob"].settings) as it:
            await pull(bob, it, "team")
    push_at_once(people, tmp_path, remote, {"ana": "plan", "bob": "team/plan"})
    for name, other in zip(PEOPLE, reversed(PEOPLE), strict=True):
        async with people[name].tree() as tree, AsyncExitStack() as stack:
            it = await stack.enter_async_context(open_remote(remote, people[name].settings))
            heads = await it.list_heads()
            pulled = await pull(tree, it, "team")
            assert len(heads) == len(PEOPLE), heads
            theirs = [await said_in(tree, one.label) for one in pulled.heads]
            wanted = ["begin", *(f"{other} {number}" for number in range(ROUNDS))]
            assert wanted in theirs
            assert await fsck(tree.archives.database) == []


async def test_the_same_turns_of_both_arrive_once(
    people: dict[str, Person], remote: str, tmp_path: Path
) -> None:
    async with people["ana"].tree() as ana, people["bob"].tree() as bob:
        between = str(tmp_path / "between")
        for number in range(ROUNDS):
            label = f"plan-{number}"
            await ana.turns.record(label, [user("begin")], [assistant("yes")])
            async with open_remote(between, people["ana"].settings) as it:
                await push(ana, it, "team", label)
        async with open_remote(between, people["bob"].settings) as it:
            await pull(bob, it, "team")
    sessions = {"ana": "plan-ROUND", "bob": "team/plan-ROUND"}
    push_at_once(people, tmp_path, remote, sessions, "--as-it-is")
    async with people["ana"].tree() as ana, open_remote(remote, people["ana"].settings) as it:
        heads = await it.list_heads()
        assert {one.session for one in heads} == {f"plan-{number}" for number in range(ROUNDS)}
        await pull(ana, it, "team")
        assert len([one async for one in ana.sessions.list_all()]) == ROUNDS
        assert await fsck(ana.archives.database) == []
