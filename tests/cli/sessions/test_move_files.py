"""Going back with files, on the command line: shown first, undone, and no more than was asked."""

import hashlib
import os
import shlex
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from psycopg.conninfo import make_conninfo

from proofs.fsck_files import damage_object
from tests.cli.conftest import Call
from tests.cli.hint_runner import HintRunner
from tests.cli.project import Project
from turntree.boot.open import open_tree
from turntree.core.errors import TurntreeError
from turntree.core.event import record
from turntree.core.ids import PlanId
from turntree.core.message import assistant, user
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.plans.plan import plan_started
from turntree.resources.snapshots.repair import ASIDE
from turntree.resources.snapshots.store import ObjectStore
from turntree.system.head_file import write_head


@pytest.fixture
def shop(project: Project) -> Project:
    """Three turns have worked on a small project, in a repository."""
    project.write({".git/HEAD": "ref: refs/heads/main\n", "run.sh": "#!/bin/sh\n", "a.py": "one\n"})
    project.turn("First", {"a.py": "one\ntwo\n"})
    project.turn("Second", {"b.py": "new\n"}, act=lambda at: (at / "run.sh").chmod(0o755))
    project.turn("Third", {"a.py": None, "c/d.py": "deep\n"})
    return project


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a folder but what belongs to the tools."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if inside.parts[0] != ".turntree" and path.is_file():
            found[inside.as_posix()] = stat.S_IMODE(path.stat().st_mode), path.read_bytes()
    return found


def test_a_rewind_takes_back_what_turns_did_and_undo_brings_it_back(
    turntree: Call, shop: Project
) -> None:
    before = state(shop.folder)
    answer = turntree("rewind", "main~2", "--files")
    assert answer.code == 0
    assert "undo with: turntree undo main" in answer.err
    after = state(shop.folder)
    assert after.keys() == {".git/HEAD", "run.sh", "a.py"}
    assert after["a.py"][1] == b"one\ntwo\n"
    assert after["run.sh"][0] == 0o644
    assert turntree("log", "--json").documents[0]["title"] == "First"
    undone = turntree("undo")
    assert undone.code == 0
    assert state(shop.folder) == before
    assert turntree("log", "--json").documents[0]["title"] == "Third"
    assert "--files" in undone.err


def test_a_dry_run_shows_the_difference_and_changes_nothing(turntree: Call, shop: Project) -> None:
    before = state(shop.folder)
    answer = turntree("rewind", "main~1", "--files", "--dry-run")
    assert answer.code == 0
    assert "A a.py" in answer.out
    assert "+two" in answer.lines
    assert answer.err == "nothing was changed\n"
    assert state(shop.folder) == before
    document = turntree("rewind", "main~1", "--files", "--dry-run", "--json").document
    assert document["done"] is False
    (place,) = document["places"]
    assert {one["path"]: one["kind"] for one in place["changes"]} == {
        "a.py": "added", "c/d.py": "removed"
    }  # fmt: skip


def test_what_somebody_else_changed_stays(turntree: Call, shop: Project) -> None:
    shop.write({"notes.txt": "mine\n"})
    answer = turntree("rewind", "main~2", "--files")
    assert answer.code == 0
    assert (shop.folder / "notes.txt").read_text() == "mine\n"
    assert "1 path stays" in answer.out


def test_what_both_changed_is_refused_with_the_two_ways_on(turntree: Call, shop: Project) -> None:
    shop.write({"b.py": "new\nmine\n"})
    before = state(shop.folder)
    answer = turntree("rewind", "main~2", "--files")
    assert answer.code == 1
    assert "b.py" in answer.err
    assert "--exact" in answer.err
    assert answer.err.endswith("--keep\n")
    assert state(shop.folder) == before
    kept = turntree("rewind", "main~2", "--files", "--keep")
    assert kept.code == 0
    assert (shop.folder / "b.py").read_text() == "new\nmine\n"
    assert (shop.folder / "a.py").exists()
    assert turntree("undo").code == 0
    assert state(shop.folder) == before
    assert turntree("rewind", "main~2", "--files", "--exact").code == 0
    assert not (shop.folder / "b.py").exists()
    assert turntree("undo").code == 0
    assert state(shop.folder) == before


def test_an_undo_leaves_alone_what_was_changed_since(turntree: Call, shop: Project) -> None:
    turntree("rewind", "main~1", "--files")
    shop.write({"a.py": "mine\n"})
    refused = turntree("undo")
    assert refused.code == 1
    assert "a.py" in refused.err
    assert turntree("undo", "--keep").code == 0
    assert (shop.folder / "a.py").read_text() == "mine\n"
    assert (shop.folder / "c/d.py").exists()


def test_of_many_sessions_the_one_that_last_worked_here_is_meant(
    turntree: Call, project: Project
) -> None:
    for number in range(3):
        project.say("elsewhere", session=f"old/{number}")
    project.write({"a.py": "one\n"})
    project.turn("First", {"a.py": "two\n"}, session="codex/1")
    project.turn("Second", {"a.py": "three\n"}, session="claude/2")
    assert turntree("status", "--json").document["head"] == "claude/2"
    (project.folder / "deep").mkdir()
    os.chdir(project.folder / "deep")
    assert turntree("show", "--json").document["title"] == "Second"
    os.chdir(project.folder.parent)
    assert turntree("show").code == 3


def test_choices_about_files_need_files(turntree: Call, shop: Project) -> None:
    assert turntree("rewind", "main~1", "--exact").code == 2
    assert turntree("rewind", "main~1", "--files", "--exact", "--keep").code == 2
    assert turntree("session", "reset", "main", "main~1", "--dry-run").code == 2


@pytest.mark.slow
def test_an_undone_move_can_be_made_again_with_its_files(turntree: Call, shop: Project) -> None:
    turntree("rewind", "main~2", "--files")
    then = state(shop.folder)
    undone = turntree("undo")
    command = undone.err.strip().removeprefix("undo with: turntree ")
    assert turntree(*command.split()).code == 0
    assert state(shop.folder) == then


def test_going_nowhere_moves_nothing_unless_everything_is_to_be_as_it_was(
    turntree: Call, shop: Project
) -> None:
    shop.write({"b.py": "mine\n"})
    moves = len(turntree("reflog", "--json").documents)
    idle = turntree("rewind", "main", "--files")
    assert idle.code == 0
    assert "nothing was changed" in idle.err
    assert len(turntree("reflog", "--json").documents) == moves
    assert turntree("rewind", "main", "--files", "--exact").code == 0
    assert (shop.folder / "b.py").read_text() == "new\n"
    assert turntree("undo").code == 0
    assert (shop.folder / "b.py").read_text() == "mine\n"


def test_a_rewind_without_files_leaves_them(turntree: Call, shop: Project) -> None:
    before = state(shop.folder)
    assert turntree("rewind", "main~1").code == 0
    assert state(shop.folder) == before
    assert turntree("undo").code == 0


def test_without_pins_a_rewind_says_how_to_get_them(turntree: Call, project: Project) -> None:
    project.say("one")
    project.say("two")
    answer = turntree("rewind", "main~1", "--files")
    assert answer.code == 3
    assert answer.err.endswith("next: turntree on\n")


def folders(at: Path) -> list[str]:
    """The folders of a project but those that belong to the tools."""
    found = [path.relative_to(at).as_posix() for path in at.rglob("*") if path.is_dir()]
    return sorted(path for path in found if not path.startswith((".git", ".turntree")))


@pytest.mark.slow
def test_undo_removes_the_folders_that_a_rewind_made(turntree: Call, project: Project) -> None:
    project.write({"x/y/a.py": "one\n", "b.py": "b\n"})
    project.turn("First", {"b.py": "2\n"})
    project.turn("Second", {"x/y/a.py": None})
    shutil.rmtree(project.folder / "x")
    assert turntree("rewind", "main~1", "--files").code == 0
    assert (project.folder / "x/y/a.py").exists()
    assert turntree("undo").code == 0
    assert folders(project.folder) == []
    assert turntree("rewind", "main~1", "--files").code == 0
    (project.folder / "x/mine").write_text("by hand")
    assert turntree("undo").code == 0
    assert folders(project.folder) == ["x"]


@pytest.mark.slow
def test_undo_removes_the_place_that_a_rewind_made_anew(turntree: Call, shop: Project) -> None:
    os.chdir(shop.folder.parent)
    shutil.rmtree(shop.folder)
    assert "made anew" in turntree("rewind", "main~1", "--files").out
    assert (shop.folder / "b.py").exists()
    assert "goes" in turntree("undo", "--dry-run").out
    assert turntree("undo").code == 0
    assert not shop.folder.exists()
    turntree("rewind", "main~1", "--files")
    (shop.folder / "b.py").write_text("by hand")
    assert "it was gone before, but has changed since" in turntree("undo").out
    assert (shop.folder / "b.py").read_text() == "by hand"


def test_even_the_first_turn_is_taken_back(turntree: Call, shop: Project) -> None:
    before = state(shop.folder)
    answer = turntree("rewind", "main~2", "--before", "--files")
    assert "to no turn" in answer.out
    assert state(shop.folder) == {
        ".git/HEAD": (0o644, b"ref: refs/heads/main\n"),
        "a.py": (0o644, b"one\n"),
        "run.sh": (0o644, b"#!/bin/sh\n"),
    }
    assert turntree("fsck").code == 0
    assert turntree("undo").code == 0
    assert state(shop.folder) == before
    assert turntree("rewind", "main~2", "--before").code == 0
    assert turntree("undo").code == 0
    assert "Third" in turntree("log", "-n", "1").out


@pytest.mark.slow
@pytest.mark.parametrize("files", [("--files",), ()])
def test_taking_back_the_first_turn_can_be_undone_and_made_again(
    turntree: Call, shop: Project, files: tuple[str, ...]
) -> None:
    turntree("rewind", "main~2", "--before", *files)
    then = state(shop.folder)
    undone = turntree("undo")
    command = undone.err.strip().removeprefix("undo with: turntree ")
    assert turntree(*command.split()).code == 0
    assert turntree("session", "show", "main", "--json").document["head"] is None
    assert state(shop.folder) == then
    assert turntree("undo", "--json").document["undo"] == f"turntree {command}"


def test_before_a_turn_is_what_it_found(turntree: Call, shop: Project) -> None:
    shop.write({"by-hand.txt": "mine\n", "b.py": "changed by hand\n"})
    shop.turn("Fourth", {"b.py": "by the turn\n", "e.py": "e\n"})
    place = shop.folder.parent / "earlier"
    made = turntree("worktree", "main", str(place), "--before")
    assert "holds what" in made.out
    assert " found " in made.out
    assert (place / "b.py").read_text() == "changed by hand\n"
    assert not (place / "e.py").exists()
    assert turntree("rewind", "main", "--before", "--files").code == 0
    assert (shop.folder / "b.py").read_text() == "changed by hand\n"
    assert (shop.folder / "by-hand.txt").read_text() == "mine\n"
    assert not (shop.folder / "e.py").exists()
    assert "Third" in turntree("log", "-n", "1").out


def test_what_turns_pinned_by_hand_did_is_taken_back(turntree: Call, project: Project) -> None:
    for words, files in (
        ("First", {"a.py": "one\n"}),
        ("Second", {"b.py": "two\n"}),
        ("Third", {"b.py": None}),
    ):
        project.say(words)
        project.write(files)
        assert turntree("snapshot", str(project.folder)).code == 0
    # The turn that stays made what the one that goes took away: it is nobody else's.
    assert turntree("rewind", "main~1", "--files").code == 0
    assert (project.folder / "b.py").read_text() == "two\n"


def test_what_nobody_knows_is_not_made_up(turntree: Call, project: Project) -> None:
    project.write({"a.py": "one\n"})
    turn = project.say("First")
    assert turntree("snapshot", str(project.folder)).code == 0
    short = turntree("show", turn, "--json").document["digest"][7:15]
    refused = turntree("rewind", turn, "--before", "--files")
    assert refused.code == 3
    assert "no snapshot shows the files before" in refused.err
    assert f"next: turntree rewind main {short} --files\n" in refused.err
    # Whoever asked for a folder beside the present one must not be told to change this one.
    refused = turntree("worktree", turn, "my there", "--before")
    assert refused.code == 3
    assert f"next: turntree worktree {short} 'my there'\n" in refused.err
    assert turntree("worktree", short, "my there").code == 0


def test_before_a_turn_that_pinned_nothing_is_said_to_be_unpinned(
    turntree: Call, project: Project
) -> None:
    turn = project.say("First")
    refused = turntree("rewind", turn, "--before", "--files")
    assert refused.code == 3
    assert "has a snapshot of its files" in refused.err


def test_a_worktree_stands_beside_the_present(turntree: Call, shop: Project) -> None:
    before = state(shop.folder)
    answer = turntree("worktree", "main~2")
    assert answer.code == 0
    folder = Path(answer.out.split(" holds what ")[0])
    assert folder.parent == shop.folder.parent
    assert state(folder).keys() == {"run.sh", "a.py"}
    assert state(shop.folder) == before
    assert str(folder) in turntree("worktree", "--list").out
    assert turntree("worktree", "--remove", str(folder)).code == 0
    assert not folder.exists()
    assert "next: turntree worktree REV" in turntree("worktree").err


def test_a_worktree_has_a_session_of_its_own(turntree: Call, shop: Project) -> None:
    # Somebody has chosen a session for everything below.
    write_head(shop.folder.parent, "main")
    before, place = state(shop.folder), shop.folder.parent / "trial"
    answer = turntree("worktree", "main", str(place))
    assert "in the session trial" in answer.err
    os.chdir(place)
    assert turntree("session", "list", "--json").documents
    assert turntree("rewind", "HEAD~1", "--files").out.startswith("trial  ")
    assert state(place).keys() == {"run.sh", "a.py", "b.py"}
    assert state(shop.folder) == before
    os.chdir(shop.folder)
    assert turntree("rewind", "HEAD~1", "--files", "--dry-run").out.startswith("main  ")
    again = turntree("worktree", "main~1", str(shop.folder.parent / "other" / "trial"))
    assert "in the session trial-2" in again.err
    assert turntree("fsck").code == 0


def test_a_worktree_with_changes_is_not_removed_lightly(turntree: Call, shop: Project) -> None:
    place = shop.folder.parent / "there"
    assert turntree("worktree", "main~1", str(place)).code == 0
    (place / "mine.txt").write_text("mine")
    refused = turntree("worktree", "--remove", str(place))
    assert refused.code == 1
    assert refused.err.endswith("--force\n")
    assert (place / "mine.txt").exists()
    assert turntree("worktree", "--remove", str(place), "--force").code == 0
    assert not place.exists()


def test_a_worktree_with_what_no_snapshot_holds_is_not_removed_lightly(
    turntree: Call, shop: Project
) -> None:
    place = shop.folder.parent / "trial"
    assert turntree("worktree", "main~1", str(place)).code == 0
    os.mkfifo(place / "pipe")
    refused = turntree("worktree", "--remove", str(place))
    assert refused.code == 1
    assert "no snapshot could restore: pipe" in refused.err
    assert (place / "pipe").exists()
    done = turntree("worktree", "--remove", str(place), "--force")
    assert done.code == 0
    assert "gone for good, as no snapshot held it: pipe\n" in done.err
    back = turntree("worktree", "--restore", str(place))
    assert back.out == f"{place} is back in its last state\n"
    os.mkfifo(place / "pipe")
    (place / "mine").write_text("mine")
    document = turntree("worktree", "--remove", str(place), "--force", "--json").document
    assert (document["changes"], document["left_out"]) == (["mine"], ["pipe"])


@pytest.mark.slow
def test_a_worktree_that_was_removed_comes_back_as_it_was(turntree: Call, shop: Project) -> None:
    place = shop.folder.parent / "trial"
    assert turntree("fork", "main~1", "try", "--files", str(place)).code == 0
    (place / "mine").write_text("by hand")
    (place / "mine").chmod(0o750)
    (place / "empty").mkdir()
    (place / "b.py").unlink()
    before = state(place), folders(place)
    answer = turntree("worktree", "--remove", str(place), "--force")
    assert f"undo with: turntree worktree --restore {place}" in answer.err
    assert not place.exists()
    assert turntree("worktree", "--restore", "trial").code == 0
    assert (state(place), folders(place)) == before
    assert "try" in turntree("worktree", "--list").out
    assert (place / ".turntree/HEAD").read_text() == "try\n"
    again = turntree("worktree", "--restore", str(place))
    assert again.code == 1
    assert "something is at" in again.err
    assert turntree("worktree", "--restore", "nothing").code == 3
    # Restoring is undone as its hint says, as long as nothing has changed since.
    assert turntree("worktree", "--remove", str(place)).code == 0
    back = turntree("worktree", "--restore", str(place))
    assert f"undo with: turntree worktree --remove {place}" in back.err
    (place / "mine").write_text("changed again")
    assert "no turn has pinned" in turntree("worktree", "--remove", str(place)).err
    assert turntree("fsck").code == 0


def test_a_worktree_that_was_copied_back_keeps_its_session(turntree: Call, shop: Project) -> None:
    place = shop.folder.parent / "trial"
    assert turntree("fork", "main~1", "try", "--files", str(place)).code == 0
    shutil.copytree(place, shop.folder.parent / "copy")
    shutil.rmtree(place)
    (shop.folder.parent / "copy").rename(place)
    for words in ((), ("--force",)):
        refused = turntree("worktree", "--remove", str(place), *words)
        assert refused.code == 1
        assert "is not the folder that was created there" in refused.err
        assert "--force" not in refused.err
    (listed,) = turntree("worktree", "--list", "--json").documents
    assert listed["sessions"] == ["try"]
    shutil.rmtree(place)
    assert turntree("worktree", "--remove", str(place)).code == 0


@pytest.mark.slow
def test_a_worktree_that_went_by_itself_is_made_again_as_it_began(
    turntree: Call, shop: Project
) -> None:
    for words in ((), ("--before",)):
        place = shop.folder.parent / f"my trial{''.join(words)}"
        assert turntree("worktree", "main~1", str(place), *words).code == 0
        made = state(place)
        shutil.rmtree(place)
        gone = turntree("worktree", "--remove", str(place), "--json").document
        again = shlex.split(gone["undo"])
        assert again[0] == "turntree"
        assert turntree(*again[1:]).code == 0
        assert state(place) == made


def test_nobody_works_on_a_worktree_that_can_no_longer_come_back(
    turntree: Call, shop: Project
) -> None:
    place = shop.folder.parent / "trial"
    assert turntree("fork", "main~1", "try", "--files", str(place)).code == 0
    (place / "mine").write_text("by hand")
    assert turntree("worktree", "--remove", str(place), "--force").code == 0
    (shop.settings.home / "shadow/states.log").unlink()
    assert turntree("gc", "--json").document["removed"] > 0
    refused = turntree("worktree", "--restore", str(place))
    assert refused.code == 3
    assert "is no longer stored" in refused.err

    async def list_attached() -> list[str]:
        async with open_tree(shop.settings) as tree:
            return [one.place for one, _ in await tree.resources.list_attached("try")]

    assert anyio.run(list_attached) == []


def test_only_worktrees_are_removed(turntree: Call, shop: Project) -> None:
    assert turntree("worktree", "--remove", str(shop.folder)).code == 3
    assert (shop.folder / "b.py").exists()
    assert turntree("worktree", "main", str(shop.folder)).code == 1


def test_a_plan_is_shown_and_a_fork_carries_it_out(turntree: Call, shop: Project) -> None:
    shown = turntree("fork", "main~1", "try", "--plan")
    assert shown.code == 0
    assert "snapshot  work" in shown.out
    assert "3 files" in shown.out
    assert "nothing was done" in shown.err
    assert turntree("session", "show", "try").code == 3
    place = shop.folder.parent / "trial"
    done = turntree("fork", "main~1", "try", "--files", str(place))
    assert done.code == 0
    assert state(place).keys() == {"run.sh", "a.py", "b.py"}
    assert f"cd {place}" in done.err
    os.chdir(place)
    assert turntree("status", "--json").document["head"] == "try"


def test_hint_of_a_fork_plan_carries_it_out(
    turntree: Call, shop: Project, hints: HintRunner
) -> None:
    shown = turntree("fork", "main~1", "try", "--plan")
    hints.follow_in_shell(shown, "turntree fork 'main~1' try --files")
    kept = turntree("fork", "main", "other", "--plan", "--keep", "work")
    hints.follow_in_shell(kept, "turntree fork main other --files --keep work")
    assert {"try", "other"} <= {
        one["label"] for one in turntree("session", "list", "--json").documents
    }
    assert state(shop.folder)


def test_a_resource_can_be_done_without(turntree: Call, shop: Project) -> None:
    document = turntree("fork", "main", "try", "--plan", "--discard", "work", "--json").document
    assert [one["mode"] for one in document["resources"]] == ["discard"]
    kept = turntree("fork", "main", "try", "--plan", "--keep", "work")
    assert "main keeps it; try does without" in kept.out
    assert kept.err.endswith("carry it out with: turntree fork main try --files --keep work\n")
    place = shop.folder.parent / "my trial"
    there = turntree("fork", "main", "try", "--plan", "--files", str(place), "--switch")
    assert there.err.endswith(f"turntree fork main try --files '{place}' --switch\n")
    unknown = turntree("fork", "main", "try", "--plan", "--keep", "nothing")
    assert unknown.code == 3
    assert unknown.err.endswith("next: turntree fork main try --plan\n")
    assert turntree("fork", "main", "try", "--keep", "work").code == 2
    both = turntree("fork", "main", "try", "--plan", "--keep", "work", "--discard", "work")
    assert both.code == 2


def test_where_something_stands_another_folder_is_proposed(turntree: Call, shop: Project) -> None:
    place = shop.folder.parent / "my trial"
    place.mkdir()
    (shop.folder.parent / "my trial-2").write_text("a file")
    refused = turntree("fork", "main~1", "try", "--files", str(place), "--switch")
    assert refused.code == 1
    assert f"next: turntree fork 'main~1' try --files '{place}-3' --switch\n" in refused.err
    refused = turntree("worktree", "main~1", str(place), "--before")
    assert f"next: turntree worktree 'main~1' '{place}-3' --before\n" in refused.err
    assert turntree("session", "list").out.count("try") == 0
    assert list(place.iterdir()) == []


def test_a_folder_with_a_space_is_quoted_in_what_is_proposed(turntree: Call, shop: Project) -> None:
    place = shop.folder.parent / "my trial"
    forked = turntree("fork", "main~1", "try", "--files", str(place))
    assert f"worktree --remove '{place}' && turntree session archive try" in forked.err
    assert f"cd '{place}'" in forked.err
    (place / "mine").write_text("mine")
    refused = turntree("worktree", "--remove", str(place))
    assert f"next: turntree worktree --remove '{place}' --force" in refused.err
    gone = turntree("worktree", "--remove", str(place), "--force")
    assert f"undo with: turntree worktree --restore '{place}'" in gone.err
    back = turntree("worktree", "--restore", str(place))
    assert f"undo with: turntree worktree --remove '{place}'" in back.err
    assert f"next: cd '{place}'" in back.err


def test_a_file_can_be_forked_too(turntree: Call, project: Project) -> None:
    async def pin_file() -> None:
        async with open_tree(project.settings) as tree:
            await tree.sessions.create("main")
            resource = await tree.resources.ensure(
                "file", str(project.folder / "a.py"), session="main"
            )
            placed = await tree.turns.record("main", [user("go")], [assistant("done")])
            taken = tree.resources.keeper_of(resource).snapshot(resource.place)
            now = tree.revisions.world.now
            await tree.resources.pin(placed.turn.id, resource, None, taken, now(), now())

    project.write({"a.py": "one\n"})
    anyio.run(pin_file)
    forked, made = project.folder.parent / "forked.py", project.folder.parent / "made.py"
    done = turntree("fork", "main", "try", "--files", str(forked))
    assert done.code == 0
    assert "cd " not in done.err
    done = turntree("worktree", "main", str(made))
    assert done.code == 0
    assert "cd " not in done.err
    assert forked.read_text() == made.read_text() == "one\n"


def test_who_works_elsewhere_now_is_told_so(turntree: Call, shop: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    turntree("snapshot", str(elsewhere), "-s", "main")
    taken = ("--take", str(shop.folder), "--discard", str(elsewhere))
    assert turntree("fork", "main", "try", "--files", *taken).code == 0
    refused = turntree("rewind", "main~1", "--files")
    assert refused.code == 3
    assert f"have snapshots of {shop.folder}, and main no longer works there" in refused.err
    assert "next: turntree snapshot -s main " in refused.err


def test_what_a_fork_takes_can_be_worked_on_again(turntree: Call, shop: Project) -> None:
    taken = turntree("fork", "main", "try", "--files", "--take", str(shop.folder))
    again = f"turntree snapshot -s main {shop.folder}"
    assert f"main works there again with: {again}" in taken.err
    assert turntree(*again.split()[1:]).code == 0
    assert turntree("rewind", "main~1", "--files", "--dry-run").code == 0


def test_a_fork_goes_on_in_its_own_files(turntree: Call, shop: Project) -> None:
    place = shop.folder.parent / "trial"
    turntree("fork", "main~1", "try", "--files", str(place))
    assert "Second" in turntree("blame", "../trial/b.py:1").out, "before any turn there"
    trial = Project(place, shop.settings)
    trial.turn("Fourth", {"b.py": "new\nmore\n"}, session="try")
    os.chdir(place)
    assert "Fourth" in turntree("blame", "b.py:2").out
    assert "Second" in turntree("blame", "b.py:1").out
    assert turntree("rewind", "try~1", "--files").code == 0
    assert (place / "b.py").read_text() == "new\n"
    assert (shop.folder / "b.py").read_text() == "new\n"
    assert turntree("fork", "try", "again", "--plan", "--json").document["resources"][0][
        "place"
    ] == str(place)
    differ = turntree("diff", "main", "try@{1}", "--files", "--stat")
    assert "b.py" in differ.out


def test_what_nothing_needs_is_removed_and_what_is_pinned_stays(
    turntree: Call, shop: Project
) -> None:
    turntree("rewind", "main~1", "--files")
    young = turntree("gc", "--json").document
    assert (young["removed"], young["dry_run"]) == (0, False)
    assert young["states"] >= 4
    assert turntree("undo").code == 0


def test_states_of_another_ledger_are_not_swept(turntree: Call, shop: Project) -> None:
    note = shop.settings.home / "shadow/ledgers/other.ledger"
    note.write_text("host=elsewhere\n")
    answer = turntree("gc", "--dry-run")
    assert answer.code == 1
    assert "host=elsewhere" in answer.err


def test_nothing_is_left_unfinished(turntree: Call, shop: Project, hints: HintRunner) -> None:
    listed = turntree("plan", "list")
    assert "nothing was left unfinished" in listed.err

    async def fork() -> None:
        async with open_tree(shop.settings) as tree:
            await tree.sessions.fork("main~1", "REV")

    anyio.run(fork)
    hints.follow_in_shell(listed, "turntree rewind REV --files --dry-run")
    turntree("rewind", "main~1", "--files")
    (plan,) = turntree("plan", "list", "--all", "--json").documents
    assert (plan["kind"], plan["outcome"]) == ("restore", "completed")
    assert [step["action"] for step in plan["steps"]] == ["snapshot", "restore", "move_session"]
    assert turntree("plan", "resume").code == 0


def test_a_rewind_without_files_says_that_they_stay(turntree: Call, shop: Project) -> None:
    moved = turntree("rewind", "main~1")
    assert "the files stay as they are; take them back too with: turntree undo main" in moved.err
    assert "the files stay" not in turntree("undo").err
    shop.say("Thanks")
    assert "the files stay" not in turntree("rewind", "main~1").err, "it had changed none"


def test_only_a_turn_that_worked_in_a_worktree_pins_it(
    turntree: Call, shop: Project, tmp_path: Path
) -> None:
    place = tmp_path / "aside"
    assert turntree("worktree", "main", str(place)).code == 0
    (place / "b.py").write_text("newer\n")
    refused = turntree("snapshot", str(place), "-s", "aside")
    assert refused.code == 1
    assert "ended before" in refused.err
    assert len(turntree("files", "main", "--json").document["resources"]) == 1
    shop.say("Change it", session="aside")
    assert turntree("snapshot", str(place), "-s", "aside").code == 0
    (held,) = turntree("files", "aside", "--json").document["resources"]
    assert [(one["path"], one["kind"]) for one in held["changed"]] == [("b.py", "changed")]
    assert turntree("fsck").code == 0


def test_a_worktree_whose_beginning_is_no_longer_kept_is_pinned(
    turntree: Call, shop: Project, tmp_path: Path
) -> None:
    place = tmp_path / "aside"
    assert turntree("worktree", "main", str(place)).code == 0
    shop.say("Change it", session="aside")
    for folder in ("packs", "places"):
        shutil.rmtree(shop.settings.home / "shadow" / folder)
    (place / "b.py").write_text("newer\n")
    assert turntree("snapshot", str(place), "-s", "aside").code == 0
    assert turntree("files", "aside", "b.py").out == "newer\n"


def test_a_fork_of_lost_files_with_choices_says_to_check_them(
    turntree: Call, shop: Project
) -> None:
    shutil.rmtree(shop.settings.home / "shadow/packs")
    answer = turntree("fork", "main~1", "side", "--files", "--snapshot", "work")
    assert answer.code == 3
    assert answer.err.endswith("next: turntree fsck\n")


def test_a_turn_is_continued_elsewhere_with_its_files(
    turntree: Call, shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "elsewhere"
    words = ("handoff", "main~1", "--files", "--into", str(place), "--to", "codex", "--json")
    document = turntree(*words).document
    assert document["worktree"] == document["folder"] == str(place)
    assert document["next"].startswith(f"cd {place} && codex resume")
    assert state(place).keys() == {"run.sh", "a.py", "b.py"}
    assert str(place) in document["undo"]
    nowhere = turntree("handoff", "main", "--into", str(tmp_path / "none"), "--to", "codex")
    assert nowhere.code == 2


@pytest.mark.slow
def test_what_a_dead_process_left_is_shown_and_brought_to_an_end(
    turntree: Call, shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begin_only() -> None:
        async with open_tree(shop.settings) as tree:
            proposed = await tree.plans.propose_restore("main", "main~1")
            begun = plan_started(proposed.plan, tree.revisions.world.now())
            await tree.plans.facts.begin(record(begun))
            away = replace(proposed.plan, id=PlanId(tree.revisions.world.new_id()), host="away")
            now = tree.revisions.world.now()
            await tree.plans.facts.begin(record(plan_started(away, now)))

    before = state(shop.folder)
    anyio.run(begin_only)
    shown = turntree("plan", "list")
    assert "restore  unfinished  0 of 3 steps" in shown.out
    assert "next: turntree plan resume" in shown.err
    assert "1 left in the middle" in turntree("doctor").out
    assert turntree("status", "--json").document["plans"] == 1
    swept = turntree("gc")
    assert swept.code == 1
    assert "next: turntree plan resume" in swept.err
    monkeypatch.setenv("TURNTREE_WORKSPACE", "another one")
    swept = turntree("gc")
    assert swept.code == 1
    assert "1 plan of the workspace tests" in swept.err
    assert "next: TURNTREE_WORKSPACE=tests turntree plan resume" in swept.err
    monkeypatch.setenv("TURNTREE_WORKSPACE", "tests")
    assert "taken back" in turntree("plan", "resume").out
    assert "nothing was left in the middle" in turntree("doctor", "--fix").out
    assert state(shop.folder) == before


def test_a_pinned_file_that_is_damaged_is_found(turntree: Call, shop: Project) -> None:
    assert turntree("fsck").code == 0
    store = ObjectStore(str(shop.settings.home / "shadow"))
    (damaged, *_) = [digest for pack in store.packs().values() for digest, _ in pack.objects()]
    damage_object(store, damaged)
    found = turntree("fsck")
    assert found.code == 1
    assert "I68" in found.out
    assert "from a backup" in found.err
    assert "turntree fsck --repair-derived" in found.err


def test_whoever_may_not_repair_moves_no_file(turntree: Call, shop: Project) -> None:
    store = ObjectStore(str(shop.settings.home / "shadow"))
    (damaged, *_) = [digest for pack in store.packs().values() for digest, _ in pack.objects()]
    damage_object(store, damaged)

    async def repair() -> None:
        async with open_tree(shop.settings) as tree:
            database = tree.checks.database
            guest = make_conninfo(database.conninfo, options="-c role=turntree_app")
            theirs = replace(database, conninfo=guest)
            with pytest.raises(TurntreeError):
                await replace(tree.checks, database=theirs).repair_derived(dry_run=False)

    anyio.run(repair)
    assert not (shop.settings.home / "shadow" / ASIDE).exists()


def test_what_was_kept_against_something_lost_is_read_once_that_is_back(
    turntree: Call, project: Project
) -> None:
    old = "".join(f"line {number}\n" for number in range(2000))
    new = old.replace("line 1000\n", "another line\n")
    project.turn("First", {"a.txt": old})
    project.turn("Second", {"a.txt": new})
    project.turn("Third", {"a.txt": "gone\n"})
    home = project.settings.home
    damage_object(ObjectStore(str(home / "shadow")), hashlib.sha256(old.encode()).digest())
    assert turntree("files", "main~1", "a.txt").code == 3
    assert turntree("fsck", "--repair-derived").code == 1
    project.write({"a.txt": old})
    DirectoryDriver(home).snapshot(str(project.folder))
    assert turntree("files", "main~1", "a.txt").out == new
    assert turntree("fsck").code == 0


def test_a_damaged_file_that_still_stands_in_its_folder_is_kept_anew(
    turntree: Call, shop: Project
) -> None:
    store = ObjectStore(str(shop.settings.home / "shadow"))
    for digest in {one for pack in store.packs().values() for one, _ in pack.objects()}:
        damage_object(store, digest)
    lost = turntree("fsck", "--json").documents[-1]["faults"]
    for words in (["files", "main"], ["blame", "b.py:1"], ["worktree", "main"]):
        answer = turntree(*words)
        assert answer.code == 3
        assert answer.err.endswith("next: turntree fsck\n")
    said = turntree("blame", "b.py")
    assert said.code == 0, "what a turn said of itself is still known"
    assert "was not looked at: turntree fsck" in said.err
    healed = turntree("fsck", "--repair-derived")
    assert healed.code == 1, "what no folder holds any more is lost"
    assert "shadow-tree" in healed.out
    assert "turntree fsck --repair-derived" not in healed.err, "it has just been done"
    assert 0 < turntree("fsck", "--json").documents[-1]["faults"] < lost
    assert turntree("files", "main", "b.py").code == 0
