"""Taking back one turn's file changes, and applying them elsewhere, on the command line."""

import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from tests.cli.conftest import Call
from tests.cli.project import Edit, Project
from turntree.api import Tree
from turntree.boot.open import open_tree
from turntree.cli.root import root
from turntree.core.ids import Timestamp
from turntree.core.message import assistant, user
from turntree.resources.driver import TakenSnapshot
from turntree.resources.resource import CallStates, Resource

State = dict[str, tuple[int, bytes]]
CART = "".join(f"line {number}\n" for number in range(1, 21))


def look(folder: Path) -> State:
    """Return everything below a folder, without what belongs to the tools."""
    found: State = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if inside.parts[0] in (".turntree", ".git"):
            continue
        mode = path.lstat().st_mode
        data = b""
        if stat.S_ISLNK(mode):
            data = os.fsencode(path.readlink())
        elif stat.S_ISREG(mode):
            data = path.read_bytes()
        found[inside.as_posix()] = mode, data
    return found


def edited(**lines: str) -> str:
    """Return the cart with some lines replaced: ``_3="three"``."""
    texts = CART.splitlines(keepends=True)
    for name, text in lines.items():
        texts[int(name[1:]) - 1] = f"{text}\n"
    return "".join(texts)


@pytest.fixture
def shop(project: Project) -> Project:
    project.write({".git/HEAD": "ref: refs/heads/main\n", "cart.py": CART, "Makefile": "all:\n"})
    return project


def test_a_middle_turn_is_taken_back_and_later_work_stays(turntree: Call, shop: Project) -> None:
    shop.write({"scripts/a.sh": "a\n", "scripts/b.sh": "b\n"})
    first = shop.turn(
        "Tidy up",
        {"scripts/a.sh": None, "scripts/b.sh": None, "cart.py": edited(_2="two")},
        act=lambda at: (at / "scripts").rmdir(),
        session="claude",
    )
    shop.turn("Add the discount", {"cart.py": edited(_2="two", _18="discount")}, session="codex")
    shop.write({"NOTES.md": "mine\n", "Makefile": "all: test\n"})
    before = look(shop.folder)
    shown = turntree("revert", first, "--dry-run")
    assert shown.code == 0
    assert look(shop.folder) == before
    answer = turntree("revert", first)
    assert answer.code == 0, answer.err
    after = look(shop.folder)
    assert after["cart.py"][1].decode() == edited(_18="discount")
    assert after["scripts/a.sh"][1] == b"a\n"
    assert after["NOTES.md"][1] == b"mine\n"
    assert after["Makefile"][1] == b"all: test\n"
    assert "undo with: turntree undo" in answer.err
    assert turntree("undo").code == 0
    assert look(shop.folder) == before
    assert turntree("redo").code == 0
    assert look(shop.folder) == after
    assert turntree("undo").code == 0
    assert look(shop.folder) == before


def test_links_modes_binaries_and_renames_come_back(turntree: Call, shop: Project) -> None:
    shop.write({"logo.png": b"\0one", "old.py": "".join(f"keep {n}\n" for n in range(9))})
    (shop.folder / "link").symlink_to("cart.py")
    before = look(shop.folder)

    def act(at: Path) -> None:
        (at / "link").unlink()
        (at / "link").symlink_to("Makefile")
        (at / "cart.py").chmod(0o755)
        (at / "old.py").rename(at / "new.py")

    turn = shop.turn("Change all kinds", {"logo.png": b"\0two"}, act=act)
    later = look(shop.folder)
    text = (shop.folder / "new.py").read_text() + "mine\n"
    shop.write({"new.py": text})
    assert turntree("revert", turn).code == 0
    after = look(shop.folder)
    assert after["old.py"][1].decode() == text
    after["old.py"] = before["old.py"]
    assert after == before
    assert turntree("undo").code == 0
    assert look(shop.folder) == {**later, "new.py": (later["new.py"][0], text.encode())}


def test_a_file_that_was_renamed_since_is_followed(turntree: Call, shop: Project) -> None:
    turn = shop.turn("Edit", {"cart.py": edited(_2="two")})
    shop.turn("Rename", {"cart.py": None, "basket.py": edited(_2="two")})
    assert turntree("revert", turn).code == 0
    assert (shop.folder / "basket.py").read_text() == CART
    assert not (shop.folder / "cart.py").exists()


def test_single_files_are_taken_back(turntree: Call, shop: Project) -> None:
    turn = shop.turn("Two", {"cart.py": edited(_2="two"), "Makefile": "none:\n", "lib/x.py": "x\n"})
    assert turntree("revert", turn, "--", "Makefile").code == 0
    assert (shop.folder / "Makefile").read_text() == "all:\n"
    assert (shop.folder / "cart.py").read_text() == edited(_2="two")
    assert turntree("revert", turn, "--", "lib").code == 0
    assert not (shop.folder / "lib").exists()
    refused = turntree("revert", turn, "--", "NOTES.md")
    assert refused.code == 3
    assert "did not change NOTES.md" in refused.err


def test_single_hunks_are_taken_back(turntree: Call, shop: Project) -> None:
    turn = shop.turn("Two places", {"cart.py": edited(_2="two", _18="late")})
    shop.write({"cart.py": edited(_2="two", _10="mine", _18="late")})
    ended = CliRunner().invoke(root, ["revert", turn, "-p", "--yes"], input="n\ny\n")
    assert ended.exit_code == 0, ended.stderr
    assert (shop.folder / "cart.py").read_text() == edited(_2="two", _10="mine")


def test_a_conflict_names_the_turn_and_is_a_choice(turntree: Call, shop: Project) -> None:
    turn = shop.turn("Edit", {"cart.py": edited(_2="two", _18="late")})
    later = shop.turn("Again", {"cart.py": edited(_2="zwei", _18="late")}, session="codex")
    shop.write({"NOTES.md": "mine\n"})
    before = look(shop.folder)
    refused = turntree("revert", turn)
    assert refused.code == 1
    assert "cart.py:2" in refused.err
    assert later[:8] in refused.err
    assert refused.err.rstrip().endswith("--keep")
    assert look(shop.folder) == before
    for option, line in (("--keep", "zwei"), ("--exact", "line 2")):
        assert turntree("revert", turn, option).code == 0
        assert (shop.folder / "cart.py").read_text() == edited(_2=line)
        assert turntree("undo").code == 0
        assert look(shop.folder) == before
    assert turntree("revert", turn, "--mark").code == 0
    marked = (shop.folder / "cart.py").read_text()
    assert f"<<<<<<< now\nzwei\n=======\nline 2\n>>>>>>> before {turn[:8]}\n" in marked
    (conflict,) = turntree("revert", turn, "--dry-run", "--json").document["places"][0]["conflicts"]
    assert conflict["why"] == "lines"


def test_a_file_that_was_added_and_edited_since_is_a_conflict(
    turntree: Call, shop: Project
) -> None:
    turn = shop.turn("Add", {"new.py": "agent\n"})
    shop.write({"new.py": "agent\nmine\n"})
    refused = turntree("revert", turn)
    assert refused.code == 1
    (where,) = [line for line in refused.err.splitlines() if "new.py" in line]
    # Its own line is still there, but the turn is not in its own way.
    assert where.endswith(": outside any turn")
    assert (shop.folder / "new.py").read_text() == "agent\nmine\n"
    assert turntree("revert", turn, "--exact").code == 0
    assert not (shop.folder / "new.py").exists()
    assert turntree("undo").code == 0
    assert (shop.folder / "new.py").read_text() == "agent\nmine\n"


def test_an_undo_keeps_what_was_changed_since(turntree: Call, shop: Project) -> None:
    turn = shop.turn("Edit", {"cart.py": edited(_2="two")})
    assert turntree("revert", turn).code == 0
    shop.write({"cart.py": edited(_18="mine")})
    assert turntree("undo").code == 0
    assert (shop.folder / "cart.py").read_text() == edited(_2="two", _18="mine")
    assert turntree("redo").code == 0
    assert (shop.folder / "cart.py").read_text() == edited(_18="mine")
    nothing = turntree("redo")
    assert nothing.code == 1
    assert "nothing to redo" in nothing.err


def test_without_a_turn_the_last_turns_of_all_agents_are_listed(
    turntree: Call, shop: Project
) -> None:
    first = shop.turn("Tidy up", {"Makefile": None}, session="claude")
    shop.turn("Only talk", session="claude")
    second = shop.turn("Add", {"cart.py": edited(_2="two")}, session="codex")
    answer = turntree("revert")
    assert answer.code == 0
    assert [line.split()[0] for line in answer.lines] == ["1", "2"]
    assert second[:8] in answer.lines[0]
    assert answer.lines[0].endswith("M cart.py")
    assert answer.lines[1].endswith("D Makefile")
    assert turntree("revert", first).code == 0
    documents = turntree("revert", "--json").documents
    assert [one["reverted"] for one in documents] == [False, True]


def test_an_undo_after_a_later_move_of_the_session_undoes_that_move(
    turntree: Call, shop: Project
) -> None:
    turn = shop.turn("Edit", {"cart.py": edited(_2="two")})
    shop.turn("Talk")
    assert turntree("revert", turn).code == 0
    assert turntree("rewind", "main~1").code == 0
    assert turntree("undo").code == 0
    assert (shop.folder / "cart.py").read_text() == CART
    assert turntree("log", "--json").documents[0]["title"] == "Talk"


def test_a_turn_without_snapshots_is_refused(turntree: Call, shop: Project) -> None:
    shop.turn("Edit", {"cart.py": edited(_2="two")})
    turn = shop.say("Only words")
    refused = turntree("revert", str(turn))
    assert refused.code == 3
    assert "next:" in refused.err


@dataclass(slots=True)
class Overlap:
    """Two turns that run at the same time, and the states around their calls."""

    project: Project
    tree: Tree
    resource: Resource
    calls: dict[str, list[CallStates]] = field(default_factory=dict[str, list[CallStates]])

    def call(self, session: str, files: Mapping[str, Edit]) -> None:
        """Change files as a tool of a session does."""
        began, before = self.now(), self.take()
        self.project.write(files)
        after = self.take().external
        states = CallStates(began, self.now(), before.external, after)
        self.calls.setdefault(session, []).append(states)

    def take(self) -> TakenSnapshot:
        return self.tree.resources.keeper_of(self.resource).snapshot(self.resource.place)

    def now(self) -> Timestamp:
        # Calls that end and begin in the same millisecond overlap.
        time.sleep(0.002)
        return self.tree.revisions.world.now()


def work_at_once(shop: Project, *, observed: bool) -> str:
    """Take two turns at once, with an edit by hand in between; return the digest of the first."""

    async def work() -> str:
        async with open_tree(shop.settings) as tree:
            resource = await tree.resources.ensure_directory(str(shop.folder))
            overlap = Overlap(shop, tree, resource)
            began, before = overlap.now(), overlap.take()
            overlap.call("left", {"left.txt": "left\n", "cart.py": edited(_2="left")})
            shop.write({"mine.txt": "mine\n"})
            overlap.call("right", {"right.txt": "r\n", "cart.py": edited(_2="left", _18="right")})
            overlap.call("left", {"cart.py": edited(_2="left", _9="left", _18="right")})
            after, ended = overlap.take(), overlap.now()
            digests: list[str] = []
            for session in ("left", "right"):
                await tree.sessions.get_or_create(session)
                placed = await tree.turns.record(session, [user(session)], [assistant("done")])
                calls = overlap.calls[session] if observed else []
                await tree.resources.pin(
                    placed.turn.id, resource, before, after, began, ended, calls=calls
                )
                digests.append(placed.turn.digest.removeprefix("sha256:"))
            return digests[0]

    return anyio.run(work)


def test_two_agents_at_once_are_told_apart_by_the_states_around_their_calls(
    turntree: Call, shop: Project
) -> None:
    turn = work_at_once(shop, observed=True)
    before = look(shop.folder)
    document = turntree("revert", turn, "--json").document
    assert (shop.folder / "cart.py").read_text() == edited(_18="right")
    assert not (shop.folder / "left.txt").exists()
    assert (shop.folder / "right.txt").exists()
    assert (shop.folder / "mine.txt").exists()
    assert document["places"][0]["unclear"] == ["mine.txt"]
    assert turntree("undo").code == 0
    assert look(shop.folder) == before


def test_what_cannot_be_told_apart_stays_and_is_listed(turntree: Call, shop: Project) -> None:
    turn = work_at_once(shop, observed=False)
    before = look(shop.folder)
    answer = turntree("revert", turn)
    assert answer.code == 0
    assert "4 paths of several turns that ran at the same time" in answer.out
    assert look(shop.folder) == before


def test_a_turn_is_applied_elsewhere(
    turntree: Call, shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = shop.turn("Edit", {"cart.py": edited(_2="two"), "new.py": "new\n"})
    away = tmp_path / "away"
    away.mkdir()
    (away / "cart.py").write_text(edited(_18="mine"))
    monkeypatch.chdir(away)
    before = look(away)
    answer = turntree("pick", turn)
    assert answer.code == 0, answer.err
    assert (away / "cart.py").read_text() == edited(_2="two", _18="mine")
    assert (away / "new.py").read_text() == "new\n"
    assert turntree("undo").code == 0
    assert look(away) == before
    assert turntree("redo").code == 0
    assert (away / "new.py").exists()


def test_all_turns_of_a_worktree_are_applied(turntree: Call, shop: Project, tmp_path: Path) -> None:
    shop.turn("Begin", {"cart.py": edited(_1="one")})
    assert turntree("worktree", "main", str(tmp_path / "away")).code == 0
    other = Project(tmp_path / "away", shop.settings)
    other.turn("Second", {"cart.py": edited(_1="one", _5="five")}, session="away")
    other.turn("Third", {"cart.py": edited(_1="one", _5="five", _9="nine")}, session="away")
    shop.write({"cart.py": edited(_1="one", _18="mine")})
    answer = turntree("pick", "away")
    assert answer.code == 0, answer.err
    text = (shop.folder / "cart.py").read_text()
    assert text == edited(_1="one", _5="five", _9="nine", _18="mine")


def test_a_turn_that_was_recorded_late_says_what_may_be_missing(
    turntree: Call, shop: Project
) -> None:
    shop.turn("Begin", {"cart.py": CART})
    shop.write({"cart.py": edited(_2="two")})
    turn = shop.turn("Fast", {"cart.py": edited(_2="two", _18="late")}, late_ms=1400)
    said = "the folder was first recorded 1.4 s after the turn began"
    preview = turntree("revert", turn, "--dry-run")
    assert f"{said}; earlier changes of this turn may be missing" in preview.out
    (place,) = turntree("revert", turn, "--dry-run", "--json").document["places"]
    assert place["late_ms"] == 1400
    assert said in turntree("show", turn).out
    assert turntree("show", turn, "--json").document["late_ms"] == 1400
    blamed = turntree("blame", "cart.py:2")
    assert f"1.4 s after {turn[:8]} began; what it wrote before that" in blamed.err
    shop.turn("Slow", {"cart.py": edited(_2="two", _18="later")})
    assert "late" not in turntree("show", "HEAD").out.split("Slow")[0]
