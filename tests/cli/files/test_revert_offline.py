"""Taking turns back while the database is stopped, and what the ledger says when it is back."""

import json
import os
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from click.testing import CliRunner

from tests.cli.conftest import Call
from tests.cli.files.test_revert import CART, edited, look
from tests.cli.project import Project
from turntree.api import Tree
from turntree.boot.offline import journal_in, recorder_on
from turntree.boot.open import open_tree
from turntree.cli.root import root
from turntree.hooks.spool import FOLDER as SPOOL
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.offline.journal import SUFFIX
from turntree.resources.plans.plan import PlanState

NOWHERE = "postgresql://nobody:secret@127.0.0.1:1/nothing"
Stop = Callable[[], AbstractContextManager[None]]
T = TypeVar("T")


@pytest.fixture
def shop(project: Project) -> Project:
    project.write({".git/HEAD": "ref: refs/heads/main\n", "cart.py": CART})
    return project


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """Returns a block in which the database refuses connections."""

    @contextmanager
    def stop() -> Generator[None]:
        with monkeypatch.context() as patch:
            patch.setenv("TURNTREE_DATABASE_URL", NOWHERE)
            yield

    return stop


def on_tree(shop: Project, act: Callable[[Tree], Awaitable[T]]) -> T:
    """Return what is true in the ledger."""

    async def work() -> T:
        async with open_tree(shop.settings) as tree:
            return await act(tree)

    return anyio.run(work)


def remember(shop: Project) -> None:
    """Have this machine remember the folder, as it does when hooks have recorded a turn."""

    async def act(tree: Tree) -> None:
        (resource,) = await tree.resources.list_around(str(shop.folder))
        await recorder_on(tree, shop.settings).remember(resource)

    on_tree(shop, act)


def list_plans(shop: Project) -> list[PlanState]:
    """Return the ledger's plans, oldest first."""

    async def act(tree: Tree) -> list[PlanState]:
        return list(reversed(await tree.plans.list_newest()))

    return on_tree(shop, act)


def take_turns(shop: Project) -> Sequence[str]:
    """Take three turns of two sessions, with edits by hand in between."""
    turns = [shop.turn("First", {"cart.py": edited(_3="three"), "new.txt": "new\n"})]
    shop.write({"cart.py": edited(_3="three", _10="by hand")})
    middle = {"cart.py": edited(_3="three", _10="by hand", _7="seven", _16="late")}
    turns.append(shop.turn("Middle", middle, session="codex"))
    turns.append(shop.turn("Last", {"cart.py": middle["cart.py"] + "end\n", "new.txt": None}))
    remember(shop)
    return turns


def test_everything_about_a_revert_works_while_the_database_is_stopped(
    turntree: Call, shop: Project, stopped: Stop
) -> None:
    first, middle, last = take_turns(shop)
    present = look(shop.folder)
    with stopped():
        listed = turntree("revert", "--json").documents
        assert [one["title"] for one in listed] == ["Last", "Middle", "First"]
        preview = turntree("revert", middle, "--dry-run")
        assert "-seven" in preview.out
        assert look(shop.folder) == present
        assert turntree("revert", middle, "--yes").code == 0
        without = edited(_3="three", _10="by hand") + "end\n"
        assert (shop.folder / "cart.py").read_text(encoding="utf-8") == without
        assert [one["reverted"] for one in turntree("revert", "--json").documents] == [
            False, True, False,
        ]  # fmt: skip
        assert turntree("undo", "--yes").code == 0
        assert look(shop.folder) == present
        assert turntree("redo", "--yes").code == 0
        assert (shop.folder / "cart.py").read_text(encoding="utf-8") == without
        assert turntree("undo", "--yes").code == 0
        assert turntree("revert", last, "--yes", "--", "new.txt").code == 0
        assert (shop.folder / "new.txt").read_text(encoding="utf-8") == "new\n"
        assert turntree("undo", "--yes").code == 0
        asked = CliRunner().invoke(root, ["revert", middle, "-p", "--yes"], input="n\ny\n")
        assert asked.exit_code == 0, asked.output
        one_hunk = edited(_3="three", _10="by hand", _7="seven") + "end\n"
        assert (shop.folder / "cart.py").read_text(encoding="utf-8") == one_hunk
        assert turntree("undo", "--yes").code == 0
        shop.write({"cart.py": edited(_3="drei")})
        refused = turntree("revert", first, "--yes")
        assert refused.code == 1
        assert "outside any turn" in refused.err
        assert turntree("revert", first, "--yes", "--keep").code == 0
        kept = look(shop.folder)
    assert list_plans(shop) == [], "the ledger was not there"
    turntree("log")
    recorded = list_plans(shop)
    assert [state.end for state in recorded] == ["completed"] * len(recorded)
    assert [state.plan.kind for state in recorded] == ["revert"] * 8
    assert journal_in(shop.settings.home).list_plans() == []
    turntree("log")
    assert list_plans(shop) == recorded, "nothing is recorded twice"
    assert look(shop.folder) == kept
    assert turntree("undo", "--yes").code == 0, "what was done then can be undone now"
    assert turntree("fsck").code == 0


def test_what_was_done_online_is_undone_offline(
    turntree: Call, shop: Project, stopped: Stop
) -> None:
    turn = shop.turn("Edit", {"cart.py": edited(_2="two")})
    turntree("revert", turn, "--yes")
    assert look(shop.folder)["cart.py"][1] == CART.encode()
    with stopped():
        assert turntree("undo", "--yes").code == 0
        assert look(shop.folder)["cart.py"][1] == edited(_2="two").encode()
        assert "there is nothing to undo" not in turntree("redo", "--dry-run").err
    assert turntree("redo", "--yes").code == 0
    assert look(shop.folder)["cart.py"][1] == CART.encode()


def cut(shop: Project, lines: int, more: int = 0) -> None:
    """Have the process of the last operation die before it wrote its last lines."""
    journal = journal_in(shop.settings.home)
    path = journal.folder / f"{journal.list_plans()[-1]}{SUFFIX}"
    written = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(written[:-lines]) + written[-lines][:more])


def test_a_plan_that_was_only_not_committed_is_finished_by_the_next_one(
    turntree: Call, shop: Project, stopped: Stop
) -> None:
    first = shop.turn("First", {"cart.py": edited(_2="two")})
    second = shop.turn("Second", {"cart.py": edited(_2="two", _18="late")})
    remember(shop)
    present = look(shop.folder)
    with stopped():
        turntree("revert", first, "--yes")
        cut(shop, 1, more=40)
        turntree("revert", second, "--yes")
        assert look(shop.folder)["cart.py"][1] == CART.encode()
        turntree("undo", "--yes")
        turntree("undo", "--yes")
        assert look(shop.folder) == present
    turntree("log")
    assert [state.end for state in list_plans(shop)] == ["completed"] * 4


def test_a_plan_that_may_have_changed_files_is_rolled_back_by_the_next_one(
    turntree: Call, shop: Project, stopped: Stop
) -> None:
    first = shop.turn("First", {"cart.py": edited(_2="two")})
    second = shop.turn("Second", {"cart.py": edited(_2="two", _18="late")})
    remember(shop)
    with stopped():
        turntree("revert", first, "--yes")
        # It is not known how far the restore got.
        cut(shop, 2)
        assert "has changed since" in turntree("revert", second, "--yes").err
        assert turntree("revert", second, "--yes").code == 0
        assert look(shop.folder)["cart.py"][1] == edited(_2="two").encode()
        # This one is left to the ledger.
        turntree("undo", "--yes")
        cut(shop, 2)
    turntree("log")
    assert turntree("revert", first, "--dry-run").code == 0
    ends = [state.end for state in list_plans(shop)]
    assert ends == ["rolled_back", "rolled_back", "completed", None]
    turntree("revert", first, "--yes")
    assert None not in [state.end for state in list_plans(shop)]


def test_what_the_ledger_has_half_of_is_completed(
    turntree: Call, shop: Project, stopped: Stop
) -> None:
    turn = shop.turn("Edit", {"cart.py": edited(_2="two")})
    remember(shop)
    journal = journal_in(shop.settings.home)
    with stopped():
        turntree("revert", turn, "--yes")
    (plan,) = journal.list_plans()
    path = journal.folder / f"{plan}{SUFFIX}"
    whole = path.read_bytes()
    turntree("log")
    recorded = list_plans(shop)
    # A crash after the commit and before the file was removed.
    path.write_bytes(whole)
    turntree("log")
    assert list_plans(shop) == recorded
    assert not path.exists()


def test_a_turn_that_only_the_spool_has_gets_its_address_later(
    turntree: Call, shop: Project, stopped: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(shop.settings.home.parent))
    transcript = shop.settings.home.parent / ".claude/projects/-work/s1.jsonl"
    write_transcript(transcript, shop.folder)
    leave(shop, "begin", 1_000, transcript)
    shop.write({"cart.py": edited(_2="two")})
    leave(shop, "end", 9_000, transcript)
    with stopped():
        (listed,) = turntree("revert", "--json").documents
        assert (listed["title"], listed["by"]) == ("Change two", "claude-code")
        assert turntree("revert", listed["digest"], "--yes").code == 0
        assert look(shop.folder)["cart.py"][1] == CART.encode()
        assert turntree("revert", "--json").document["reverted"]
    turntree("session", "list")
    (found,) = turntree("revert", "--json").documents
    assert (found["title"], found["reverted"]) == ("Change two", True)
    assert found["turn"] != listed["turn"]
    (state,) = list_plans(shop)
    assert found["turn"] in str(state.plan.steps[-1])
    assert turntree("undo", "--yes").code == 0
    assert look(shop.folder)["cart.py"][1] == edited(_2="two").encode()
    assert turntree("fsck").code == 0


def test_what_needs_the_database_says_so(turntree: Call, shop: Project, stopped: Stop) -> None:
    turn = shop.turn("Edit", {"cart.py": edited(_2="two")})
    with stopped():
        assert turntree("revert").code != 0, "nothing is known here yet"
    remember(shop)
    with stopped():
        assert turntree("revert").code == 0
        for words in (("revert", "ffffffff"), ("pick", turn), ("log",), ("undo", "main")):
            refused = turntree(*words)
            assert refused.code != 0
            assert "127.0.0.1" in refused.err, words


def test_an_erased_message_is_not_remembered(turntree: Call, shop: Project) -> None:
    turn = shop.turn("A secret plan", {"cart.py": edited(_2="two")})
    remember(shop)
    folder = shop.settings.home / "replica"
    assert any("secret" in path.read_text(encoding="utf-8") for path in folder.rglob("*.json"))
    assert turntree("erase", f"{turn}:msg/0", "--yes").code == 0
    assert not any("secret" in path.read_text(encoding="utf-8") for path in folder.rglob("*.json"))


def leave(shop: Project, kind: str, at_ms: int, transcript: Path) -> None:
    """Leave a hook event with the state of the folder, as the hook daemon does."""
    folder = shop.settings.home / SPOOL
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "version": 1, "tool": "claude-code", "kind": kind, "at_ms": at_ms, "session": "s1",
        "agent": None, "transcript": str(transcript), "place": str(shop.folder), "pid": os.getpid(),
    }  # fmt: skip
    taken = DirectoryDriver(shop.settings.home).snapshot(str(shop.folder))
    state = {
        "external": {"kind": taken.external.kind, "id": taken.external.id}, "size": taken.size,
        "files": taken.files, "stored": taken.stored, "consistency": taken.consistency,
    }  # fmt: skip
    stem = folder / f"{at_ms * 1_000_000:020d}-{kind}"
    stem.with_suffix(".snapshot").write_text(json.dumps(state), encoding="utf-8")
    stem.with_suffix(".event").write_text(json.dumps(told), encoding="utf-8")


def write_transcript(path: Path, folder: Path) -> None:
    """Write what Claude Code writes about a session of one turn; the prompt is "Change two"."""
    path.parent.mkdir(parents=True)
    shared = {"isSidechain": False, "cwd": str(folder), "sessionId": "s1", "version": "2.0.0"}
    told = f"<skills_instructions>{'A skill. ' * 50}</skills_instructions>"
    asked = {"role": "user", "content": f"{told}Change two"}
    reply = {
        "id": "m1", "type": "message", "role": "assistant", "model": "claude-x",
        "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    records = (
        {**shared, "type": "user", "uuid": "u1", "parentUuid": None, "message": asked,
         "timestamp": "1970-01-01T00:00:02.000Z"},
        {**shared, "type": "assistant", "uuid": "a1", "parentUuid": "u1", "message": reply,
         "timestamp": "1970-01-01T00:00:08.000Z"},
    )  # fmt: skip
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
