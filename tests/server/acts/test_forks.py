"""Forks and worktrees: the plan, the folders, the commands, and their removal."""

from pathlib import Path

import pytest

from tests.server.acts.conftest import Client
from turntree.system.head_file import read_head


def test_fork_takes_a_free_name_and_is_undone_by_the_archive(client: Client) -> None:
    turn = client.project.say("one")
    plan = client.act("/acts/fork/plan", at=turn)
    assert plan["label"] == "main-2"
    assert plan["places"] == []
    assert plan["why_no_files"]
    done = client.act("/acts/fork", at=turn)
    assert done["session"] == "main-2"
    assert client.session("main-2")["head"] == turn
    client.undo(done)
    assert client.session("main-2")["status"] == "archived"
    client.run(client.act("/acts/fork/plan", at=turn, label="by-hand")["command"])
    assert client.session("by-hand")["head"] == turn


def test_fork_with_a_name_that_is_taken_is_refused(client: Client) -> None:
    turn = client.project.say("one")
    refused = client.post("/acts/fork", at=turn, label="main")
    assert refused.status == 409
    assert "main" in refused.body["detail"]


def test_fork_of_a_session_that_moved_is_refused_with_its_head(client: Client) -> None:
    seen = client.project.say("one")
    now = client.project.say("two")
    refused = client.post("/acts/fork", at="main", expected_head=seen)
    assert (refused.status, refused.body["head"]) == (409, now)
    assert client.post("/acts/fork", at=seen, expected_head=seen).status == 200


def test_fork_with_files_makes_a_folder_and_its_undo_removes_it(client: Client) -> None:
    first = client.project.turn("write", {"a.txt": "one\n"})
    client.project.turn("change", {"a.txt": "two\n"})
    plan = client.act("/acts/fork/plan", at=first, with_files=True)
    (place,) = plan["places"]
    assert (place["files"], place["bytes"]) == (1, 4)
    done = client.act("/acts/fork", at=first, label="copy", with_files=True)
    folder = Path(done["folder"])
    assert str(folder) == place["place"]
    assert (folder / "a.txt").read_text() == "one\n"
    assert read_head(folder) == "copy"
    client.undo(done)
    assert not folder.exists()
    assert client.session("copy")["status"] == "archived"
    client.run(done["command"].replace(" copy ", " copy-by-hand "))
    assert (folder / "a.txt").read_text() == "one\n"
    client.run(done["undo"]["command"].replace(" copy", " copy-by-hand"))
    assert not folder.exists()


def test_fork_into_a_folder_that_exists_names_a_free_one(client: Client) -> None:
    turn = client.project.turn("write", {"a.txt": "one\n"})
    taken = str(client.project.folder)
    plan = client.act("/acts/fork/plan", at=turn, with_files=True, folder=taken)
    assert f"{taken}-2 is free" in plan["why_no_files"]
    refused = client.post("/acts/fork", at=turn, label="x", with_files=True, folder=taken)
    assert refused.status == 409
    relative = client.post("/acts/fork", at=turn, label="x", with_files=True, folder="here")
    assert relative.status == 422
    assert "relative" in relative.body["detail"]


@pytest.mark.parametrize("typed", ["h", "~no-such-user/x", "/"])
def test_folder_that_is_half_typed_is_explained_by_the_plans(client: Client, typed: str) -> None:
    turn = client.project.turn("write", {"a.txt": "one\n"})
    for act in ("fork", "worktree"):
        plan = client.act(f"/acts/{act}/plan", at=turn, folder=typed)
        assert plan["places"] == []
        assert plan["why_no_files"]


def test_worktree_and_its_removal(client: Client, tmp_path: Path) -> None:
    turn = client.project.turn("write", {"a.txt": "one\n"})
    wanted = str(tmp_path / "it's here")
    plan = client.act("/acts/worktree/plan", at=turn, folder=wanted)
    assert plan["places"][0]["place"] == wanted
    done = client.act("/acts/worktree", at=turn, folder=wanted)
    assert (Path(wanted) / "a.txt").read_text() == "one\n"
    undone = client.undo(done)
    assert not Path(wanted).exists()
    client.run(undone["undo"]["command"])
    assert (Path(wanted) / "a.txt").read_text() == "one\n"
    client.run(done["undo"]["command"])
    client.run(done["command"])
    assert (Path(wanted) / "a.txt").read_text() == "one\n"


def test_folder_with_unsaved_changes_is_not_removed(client: Client) -> None:
    turn = client.project.turn("write", {"a.txt": "one\n"})
    done = client.act("/acts/worktree", at=turn)
    (Path(done["folder"]) / "new.txt").write_text("mine")
    undo = done["undo"]
    refused = client.post(undo["path"], **undo["body"])
    assert refused.status == 409
    assert (Path(done["folder"]) / "new.txt").exists()


def test_folder_that_is_no_worktree_is_never_removed(client: Client) -> None:
    client.project.turn("write", {"a.txt": "one\n"})
    folder = str(client.project.folder)
    refused = client.post("/acts/worktree/remove", session="main", folders=[folder])
    assert refused.status in (404, 422)
    assert client.project.folder.is_dir()
