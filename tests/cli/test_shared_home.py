"""One home and one ledger, and several people who use them: nobody's files are nobody's."""

import shutil
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.cli.conftest import Call
from tests.cli.project import Project
from turntree.boot.open import open_tree
from turntree.core.message import assistant, user
from turntree.core.message_context import TouchedFile
from turntree.resources.snapshots.capture import LOGGED, STATES_LOG, log_state
from turntree.resources.snapshots.store import ObjectStore

pytestmark = pytest.mark.slow


@pytest.fixture
def closed(project: Project) -> Project:
    """A private session of ana's has pinned files, long ago."""
    project.write({"a.py": "one\n"})
    project.turn("First", {"a.py": "one\ntwo\n"}, session="secret")
    close(project, "secret")
    age_states(project)
    return project


def age_states(project: Project) -> None:
    """Let every state have been taken long ago."""
    log = project.settings.home / "shadow" / STATES_LOG
    states = [state for _, state in LOGGED.iter_unpack(log.read_bytes())]
    log.write_bytes(b"".join(LOGGED.pack(1, state) for state in states))


def lose_states(project: Project) -> None:
    """Lose everything that is kept."""
    for pack in (project.settings.home / "shadow/packs").iterdir():
        pack.unlink()


def close(project: Project, session: str) -> None:
    """Let nobody else see a session."""

    async def act() -> None:
        async with open_tree(project.settings) as tree:
            await tree.programs.create("session", session, {}, visibility="private")

    anyio.run(act)


def test_what_a_closed_session_pinned_is_not_swept(
    turntree: Call, closed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNTREE_USER", "bob")
    swept = turntree("gc", "--json")
    assert swept.document["removed"] == 0
    assert swept.document["states"] == 2
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert turntree("files", "secret", "a.py").out == "one\ntwo\n"
    assert turntree("fsck").code == 0


def test_what_a_closed_session_lost_is_found_by_whoever_checks(
    turntree: Call, closed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_states(closed)
    monkeypatch.setenv("TURNTREE_USER", "bob")
    found = turntree("fsck")
    assert found.code == 1
    assert "I68" in found.out


@pytest.fixture
def both(project: Project) -> Project:
    """An open turn and a closed one worked in one folder at the same time."""

    async def act() -> None:
        async with open_tree(project.settings) as tree:
            for session in ("main", "secret"):
                await tree.sessions.create(session)
            resource = await tree.resources.ensure_directory(str(project.folder), "main")
            keeper, now = tree.resources.keeper_of(resource), tree.revisions.world.now
            for name in ("first", "second"):
                began, before = now(), keeper.snapshot(resource.place)
                if name == "second":
                    project.write({"a.py": "two\n", "mine.py": "m\n", "theirs.py": "t\n"})
                after, ended = keeper.snapshot(resource.place), now()
                for session, path in (("main", "mine.py"), ("secret", "theirs.py")):
                    files = [TouchedFile("written", path).to_json()] if name == "second" else []
                    reply = replace(assistant("done"), context={"files": list(files)})
                    words = [user(f"{name} of {session}")]
                    placed = await tree.turns.record(session, words, [reply])
                    await tree.resources.pin(placed.turn.id, resource, before, after, began, ended)

    project.write({"a.py": "one\n"})
    anyio.run(act)
    close(project, "secret")
    return project


def test_a_rewind_takes_nothing_back_that_a_closed_turn_did(
    turntree: Call, both: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNTREE_USER", "bob")
    refused = turntree("rewind", "main", "main~1", "--files")
    assert refused.code == 1
    assert "a.py" in refused.err
    done = turntree("rewind", "main", "main~1", "--files", "--keep", "--json")
    assert done.code == 0
    assert "secret" not in done.out
    found = {path.name for path in both.folder.glob("*.py")}
    assert found == {"a.py", "theirs.py"}
    assert (both.folder / "a.py").read_text() == "two\n"


def test_blame_neither_names_a_closed_turn_nor_another_in_its_place(
    turntree: Call, both: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert turntree("blame", "theirs.py:1", "--json").document["by"] == "turn"
    monkeypatch.setenv("TURNTREE_USER", "bob")
    theirs = turntree("blame", "theirs.py:1", "--json").document
    assert (theirs["by"], theirs["turns"]) == ("outside", [])
    mine = turntree("blame", "mine.py:1", "--json").document
    assert [turn["title"] for turn in mine["turns"]] == ["second of main"]
    mixed = turntree("blame", "a.py:1", "--json").document
    assert mixed["by"] == "mixed"
    assert [turn["title"] for turn in mixed["turns"]] == ["second of main"]
    assert "secret" not in turntree("blame", "a.py:1").out
    (use,) = turntree("blame", "a.py", "--json").documents
    assert (use["title"], use["known_by"], use["certain"]) == ("second of main", "pin", False)
    assert "perhaps changed (pinned)" in turntree("blame", "a.py").out


def test_files_says_which_changes_may_be_anothers(
    turntree: Call, both: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = turntree("files", "main").out
    assert "changed while it was at work" in shown
    assert "at the same time perhaps changed by" in shown
    assert "second of secret: a.py" in shown
    assert "second of secret: theirs.py" in shown
    (place,) = turntree("files", "main", "--json").document["resources"]
    doubts = {one["path"]: one["certain"] for one in place["doubts"]}
    assert doubts == {"a.py": False, "theirs.py": True}
    monkeypatch.setenv("TURNTREE_USER", "bob")
    shown = turntree("files", "main").out
    assert "by a turn that is hidden from you: a.py" in shown
    assert "secret" not in shown


def test_what_another_home_of_the_machine_keeps_is_no_fault(
    turntree: Call, closed: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "second"))
    found = turntree("fsck")
    assert found.code == 0
    assert "2 pinned here, never kept in this home" in found.out
    assert turntree("gc").code == 0
    monkeypatch.setenv("TURNTREE_HOME", str(closed.settings.home))
    assert turntree("fsck").out.startswith("sound")


@pytest.mark.parametrize("is_swept", [False, True])
def test_what_this_home_kept_and_lost_is_a_fault(
    turntree: Call, closed: Project, *, is_swept: bool
) -> None:
    if is_swept:
        assert turntree("gc").code == 0
    lose_states(closed)
    assert turntree("fsck").code == 1
    refused = turntree("gc")
    assert refused.code == 1
    assert "nothing is removed" in refused.err
    assert "turntree fsck" in refused.err


def test_a_home_that_lost_its_whole_store_is_at_fault_for_good(
    turntree: Call, closed: Project
) -> None:
    home = closed.settings.home
    shutil.rmtree(home / "shadow")
    assert turntree("fsck").code == 1
    closed.turn("Second", {"b.py": "new\n"})
    again = turntree("fsck")
    assert again.code == 1, "what is kept from now on does not make up for it"
    assert "restore the folder `shadow`" in again.err
    assert turntree("gc").code == 1
    (home / "shadow.began").unlink()
    closed.turn("Third", {"b.py": "newer\n"})
    assert turntree("fsck").code == 0, "the owner has given it up"


def test_a_young_state_that_is_lost_is_let_go_in_time(turntree: Call, project: Project) -> None:
    project.write({"a.py": "one\n"})
    project.say("First")
    assert turntree("snapshot", str(project.folder)).code == 0
    age_states(project)
    store = ObjectStore(str(project.settings.home / "shadow"))
    log_state(store, bytes(32))
    refused = turntree("gc")
    assert refused.code == 1
    assert "0" * 64 in refused.err
    assert "no turn needs it" in refused.err
    assert "fsck" not in refused.err
    age_states(project)
    assert turntree("gc").code == 0


def test_a_dry_run_proposes_what_it_looked_at(turntree: Call, project: Project) -> None:
    project.write({"a.py": "one\n"})
    project.turn("First", {"a.py": "two\n"})
    project.write({"a.py": "three\n"})
    turntree("rewind", "main", "--files", "--exact")
    age_states(project)
    assert "carry it out with: turntree gc\n" in turntree("gc", "--dry-run").err
    shown = turntree("gc", "--dry-run", "--older", "2")
    assert "carry it out with: turntree gc --older 2\n" in shown.err
