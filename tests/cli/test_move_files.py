"""Going back with files, on the command line: shown first, undone, and no more than was asked."""

import os
import stat
from pathlib import Path

import anyio
import pytest

from tests.cli.conftest import Call
from tests.cli.project import Project
from turntree.boot import open_tree
from turntree.domain.event import record
from turntree.domain.plan import plan_started


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
    assert turntree("session", "replay", "main", "main~1", "--dry-run").code == 2


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
    assert answer.err.endswith("next: turntree hook install claude-code\n")


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


def test_a_resource_can_be_done_without(turntree: Call, shop: Project) -> None:
    document = turntree("fork", "main", "try", "--plan", "--discard", "work", "--json").document
    assert [one["mode"] for one in document["resources"]] == ["discard"]
    kept = turntree("fork", "main", "try", "--plan", "--keep", "work")
    assert "main keeps it; try does without" in kept.out
    unknown = turntree("fork", "main", "try", "--plan", "--keep", "nothing")
    assert unknown.code == 3
    assert unknown.err.endswith("next: turntree fork main try --plan\n")
    assert turntree("fork", "main", "try", "--keep", "work").code == 2
    both = turntree("fork", "main", "try", "--plan", "--keep", "work", "--discard", "work")
    assert both.code == 2


def test_a_fork_goes_on_in_its_own_files(turntree: Call, shop: Project) -> None:
    place = shop.folder.parent / "trial"
    turntree("fork", "main~1", "try", "--files", str(place))
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


def test_nothing_is_left_unfinished(turntree: Call, shop: Project) -> None:
    assert "nothing was left unfinished" in turntree("plans").err
    turntree("rewind", "main~1", "--files")
    (plan,) = turntree("plans", "--all", "--json").documents
    assert (plan["kind"], plan["outcome"]) == ("restore", "done")
    assert [step["do"] for step in plan["steps"]] == ["snapshot", "restore", "move_session"]
    assert turntree("plans", "--reconcile").code == 0


def test_a_turn_is_continued_elsewhere_with_its_files(
    turntree: Call, shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "elsewhere"
    words = ("checkout", "main~1", "--files", "--into", str(place), "--in", "codex", "--json")
    document = turntree(*words).document
    assert document["worktree"] == document["folder"] == str(place)
    assert document["next"].startswith(f"cd {place} && codex resume")
    assert state(place).keys() == {"run.sh", "a.py", "b.py"}
    assert str(place) in document["undo"]
    nowhere = turntree("checkout", "main", "--into", str(tmp_path / "none"), "--as", "codex")
    assert nowhere.code == 2


def test_what_a_dead_process_left_is_shown_and_brought_to_an_end(
    turntree: Call, shop: Project
) -> None:
    async def begin_only() -> None:
        async with open_tree(shop.settings) as tree:
            proposed = await tree.plans.propose_restore("main", "main~1")
            begun = plan_started(proposed.plan, tree.revisions.world.now())
            await tree.plans.facts.begin(record(begun))

    before = state(shop.folder)
    anyio.run(begin_only)
    shown = turntree("plans")
    assert "restore  unfinished  0 of 3 steps" in shown.out
    assert "next: turntree plans --reconcile" in shown.err
    assert "1 left in the middle" in turntree("doctor").out
    assert "taken back" in turntree("plans", "--reconcile").out
    assert "nothing was left in the middle" in turntree("doctor", "--fix").out
    assert state(shop.folder) == before
