"""A worker's folder is its user's: criteria of others neither read it nor run there unasked."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, engine_on, run_on, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import Hint, PermissionDenied
from turntree.core.program import Visibility
from turntree.db.database import Database
from turntree.programs.execution_host import LocalFolder
from turntree.programs.service import Programs
from turntree.sandbox.bubblewrap import Bubblewrap
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

SECRET = "DB_PASSWORD=hunter2"
SPEC: dict[str, Json] = {
    "success_criteria": [
        {"kind": "command", "cmd": "cat .env; false"},
        {"kind": "file_exists", "path": ".env"},
        {"kind": "word_count", "path": ".env", "min": 5},
        {"kind": "json_schema", "path": "keys.json", "schema": {"type": "string"}},
    ]
}
TASK: dict[str, Json] = {"title": "Look around", "spec": SPEC}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of ana's with secrets in it."""
    (tmp_path / ".env").write_text(SECRET)
    (tmp_path / "keys.json").write_text('{"hunter2": 1}')
    return tmp_path


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Programs:
    """The registry, as bob works with it."""
    return tree_on(database, Settings(place, user="bob"), world).programs


def in_folder(tree: Tree, folder: Path, say: Callable[[str], None], *, is_lent: bool) -> Programs:
    """Programs of ana's process in her folder."""
    return replace(tree.programs, workplace=LocalFolder(folder, say, Bubblewrap, is_lent))


async def test_criteria_of_another_are_not_checked_in_a_folder_that_is_not_lent(
    tree: Tree, bob: Programs, folder: Path
) -> None:
    heard: list[str] = []
    hers = in_folder(tree, folder, heard.append, is_lent=False)
    task = await bob.create("task", "look", TASK)
    await bob.invoke("look", {"action": "start"})
    await bob.grant("look", "ana", "configure")
    with pytest.raises(PermissionDenied, match="may not use this folder") as refused:
        await hers.invoke("look", {"action": "report"})
    assert refused.value.hint == Hint("worker.lend_folder")
    assert "verdicts" not in (await bob.get("look")).details
    facts = await tree.ledger.facts(task.id)
    assert "hunter2" not in str([fact.event.data for fact in facts]) + "".join(heard)


async def test_criteria_that_another_once_wrote_stay_anothers(
    tree: Tree, bob: Programs, folder: Path
) -> None:
    hers = in_folder(tree, folder, lambda _: None, is_lent=False)
    await hers.create("task", "mine", {"title": "Mine"})
    await hers.grant("mine", "bob", "configure")
    await bob.configure("mine", {"spec": SPEC})
    await hers.configure("mine", {"description": "written by ana, with what bob said before"})
    await hers.invoke("mine", {"action": "start"})
    with pytest.raises(PermissionDenied, match="may not use this folder"):
        await hers.invoke("mine", {"action": "report"})


@pytest.mark.skipif(Bubblewrap().find_fault() is not None, reason="no sandbox starts here")
async def test_their_author_learns_whether_they_are_met_and_the_folders_owner_what_was_seen(
    tree: Tree, bob: Programs, folder: Path
) -> None:
    heard: list[str] = []
    hers = in_folder(tree, folder, heard.append, is_lent=True)
    task = await bob.create("task", "look", TASK)
    await bob.grant("look", "ana", "configure")
    await hers.invoke("look", {"action": "start"})
    told = await hers.invoke("look", {"action": "report"})
    verdicts: Any = told["verdicts"]
    assert [(one["kind"], one["seen"]) for one in verdicts] == [
        ("command", "failed"),
        ("file_exists", "passed"),
        ("word_count", "failed"),
        ("json_schema", "failed"),
    ]
    facts = await tree.ledger.facts(task.id)
    assert "hunter2" not in str([fact.event.data for fact in facts])
    assert SECRET in "".join(heard)


@pytest.mark.skipif(Bubblewrap().find_fault() is not None, reason="no sandbox starts here")
@pytest.mark.parametrize("visibility", ["public", "private"])
async def test_the_author_of_both_is_shown_what_was_seen_and_others_whether_it_is_met(
    tree: Tree, folder: Path, visibility: Visibility
) -> None:
    hers = in_folder(tree, folder, lambda _: None, is_lent=False)
    task = await hers.create("task", "mine", TASK, visibility=visibility)
    await hers.invoke("mine", {"action": "start"})
    assert SECRET in str(await hers.invoke("mine", {"action": "report"}))
    kept = str([fact.event.data for fact in await tree.ledger.facts(task.id)])
    assert ("hunter2" in kept) == (visibility == "private")
    assert "hunter2" not in str((await hers.get("mine")).details) or visibility == "private"


async def test_an_overseer_asks_no_model_for_a_task_that_it_cannot_judge(
    database: Database, world: FakeClock, bob: Programs, folder: Path
) -> None:
    settings, engine = Settings(folder, user="ana"), engine_on(database)
    tree = tree_on(database, settings, world, workplace=LocalFolder(folder), engine=engine)
    running = run_on(database, tree, settings, world, engine)
    await bob.create("agent", "clerk", {})
    await bob.create("task", "look", TASK)
    await bob.assign("look", "clerk")
    await bob.invoke("look", {"action": "start"})
    task = await bob.get("look")
    with pytest.raises(PermissionDenied, match="may not use this folder"):
        await running.assignments.take(task)
    assert (await bob.get("look")).state == "active"
    assert await tree.runs.list_waiting("clerk:look") == []
    await running.aclose()
