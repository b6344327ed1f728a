"""What is found on a machine, imports that a browser starts, and following."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from turntree.api import Tree
from turntree.boot.open import importing_on, load_importers
from turntree.db.database import Database
from turntree.server.following import Follower
from turntree.server.importing import ImportJobs
from turntree.server.machine import Machine
from turntree.server.reads.sources import judge, list_sources
from turntree.server.skeleton import read_skeleton
from turntree.testing.fakes import FakeClock
from turntree.transcripts.importer import ToolPaths
from turntree.wire.stream import ImportJob

pytestmark = pytest.mark.anyio
SECONDS_MAX = 60
SESSION = "11111111-1111-4111-8111-111111111111"
LINE = (
    '{{"type":"{role}","uuid":"{id}","parentUuid":{parent},"sessionId":"' + SESSION + '",'
    '"cwd":"/srv/shop","timestamp":"2026-01-01T00:00:{at:02d}.000Z","isSidechain":false,'
    '"version":"2.1.0","message":{message}}}\n'
)


def write_turn(home: Path, number: int) -> None:
    """Append a turn to the transcript of a session."""
    folder = home / ".claude" / "projects" / "-srv-shop"
    folder.mkdir(parents=True, exist_ok=True)
    asked, said = f"a{number}", f"b{number}"
    question = f'{{"role":"user","content":"question {number}"}}'
    answer = (
        f'{{"id":"msg_{number}","type":"message","role":"assistant","model":"claude-sonnet-4-5",'
        f'"content":[{{"type":"text","text":"answer {number}"}}],"stop_reason":"end_turn",'
        '"usage":{"input_tokens":1,"output_tokens":1}}'
    )
    before = f'"b{number - 1}"' if number > 1 else "null"
    with (folder / f"{SESSION}.jsonl").open("a") as file:
        file.write(
            LINE.format(role="user", id=asked, parent=before, at=number * 2, message=question)
        )
        file.write(
            LINE.format(
                role="assistant", id=said, parent=f'"{asked}"', at=number * 2 + 1, message=answer
            )
        )


async def no_hooks() -> None:
    return None


@pytest.fixture
def machine(database: Database, world: FakeClock, tmp_path: Path) -> Machine:
    home = tmp_path / "person"
    home.mkdir()
    return Machine(
        tmp_path / "turntree",
        load_importers(),
        ToolPaths(home, {}),
        lambda: importing_on(database, world),
        no_hooks,
    )


async def import_all(tree: Tree, machine: Machine, tell: Callable[[ImportJob], None]) -> None:
    importing = ImportJobs(tree, machine, tell)
    importing.start(["claude-code"])
    with anyio.fail_after(SECONDS_MAX):
        while importing.list_unfinished():
            await anyio.lowlevel.checkpoint()


async def test_sources_count_what_was_found_and_imported(tree: Tree, machine: Machine) -> None:
    for number in (1, 2, 3):
        write_turn(machine.places.home, number)
    found = {one.tool: one for one in await list_sources(machine)}
    assert (found["claude-code"].sessions, found["claude-code"].turns_estimate) == (1, 3)
    assert found["claude-code"].state == "found"
    assert found["codex"].state == "absent"
    assert found["cursor"].folder == str(machine.places.home / ".config/Cursor/User")
    told: list[ImportJob] = []
    await import_all(tree, machine, told.append)
    assert [job.state for job in told if job.state != "running"] == ["waiting", "finished"]
    assert told[-1].turns == 3
    assert told[-1].done == told[-1].total
    found = {one.tool: one for one in await list_sources(machine)}
    assert found["claude-code"].state == "imported"


async def test_following_waits_for_the_first_import(tree: Tree, machine: Machine) -> None:
    following = Follower(tree, machine)
    write_turn(machine.places.home, 1)
    assert await following.look() == 0
    assert await tree.turns.index.count() == 0


async def test_following_imports_new_turns_of_an_imported_tool(
    tree: Tree, machine: Machine
) -> None:
    write_turn(machine.places.home, 1)
    await import_all(tree, machine, lambda _: None)
    following = Follower(tree, machine)
    assert await following.look() == 0
    write_turn(machine.places.home, 2)
    assert await following.look() == 1
    assert await following.look() == 0


@pytest.mark.parametrize(
    ("found", "imported", "state"),
    [(0, 0, "absent"), (3, 0, "found"), (3, 1, "partly"), (3, 3, "imported"), (0, 2, "imported")],
)
def test_state_of_a_source(found: int, imported: int, state: str) -> None:
    assert judge(found, imported) == state


async def test_title_that_a_tool_changes_alone_is_in_the_next_list(
    tree: Tree, machine: Machine
) -> None:
    write_turn(machine.places.home, 1)
    await import_all(tree, machine, lambda _: None)
    before = (await read_skeleton(tree)).sessions[0].title
    transcript = next(machine.places.home.rglob(f"{SESSION}.jsonl"))
    with transcript.open("a") as file:
        file.write(f'{{"type":"custom-title","customTitle":"Depots","sessionId":"{SESSION}"}}\n')
    await import_all(tree, machine, lambda _: None)
    assert before != "Depots"
    assert (await read_skeleton(tree)).sessions[0].title == "Depots"


async def test_title_that_another_process_imports_is_in_the_next_list(
    tree: Tree, conninfo: str, machine: Machine, tmp_path: Path
) -> None:
    folder = machine.places.home / ".claude"

    def run() -> None:
        environment = {
            **os.environ, "TURNTREE_DATABASE_URL": conninfo, "TURNTREE_WORKSPACE": "tests",
            "TURNTREE_HOME": str(tmp_path / "other"), "TURNTREE_USER": "ana",
            "TURNTREE_CONFIG": str(tmp_path / "config.toml"),
        }  # fmt: skip
        words = [sys.executable, "-m", "turntree.cli.main", "import", str(folder)]
        subprocess.run(words, env=environment, check=True, capture_output=True)

    write_turn(machine.places.home, 1)
    await anyio.to_thread.run_sync(run)
    before = (await read_skeleton(tree)).sessions[0].title
    transcript = next(machine.places.home.rglob(f"{SESSION}.jsonl"))
    with transcript.open("a") as file:
        file.write(f'{{"type":"custom-title","customTitle":"Depots","sessionId":"{SESSION}"}}\n')
    await anyio.to_thread.run_sync(run)
    assert before != "Depots"
    assert (await read_skeleton(tree)).sessions[0].title == "Depots"
