"""Tags, labels and the archive."""

import pytest

from tests.server.acts.conftest import Client


@pytest.mark.parametrize("name", ["good", "two words", "-x", "\x1b[201~ls", "it's $(id)", "日本"])
def test_tag_of_any_characters_its_undo_and_its_commands(client: Client, name: str) -> None:
    turn = client.project.say("one")
    done = client.act("/acts/tag", at=turn, name=name)
    undone = client.undo(done)
    assert undone["undo"] is not None
    client.run(done["command"])
    as_before = client.act("/acts/tag", at=turn, name=name)
    assert as_before["undo"] is None
    client.run(done["undo"]["command"])
    assert client.act("/acts/untag", at=turn, name=name)["undo"] is None


def test_empty_tag_is_refused(client: Client) -> None:
    turn = client.project.say("one")
    assert client.post("/acts/tag", at=turn, name="  ").status == 422


def test_rename_and_back(client: Client) -> None:
    client.project.say("one")
    done = client.act("/acts/rename", session="main", label="login")
    assert client.session("login")["label"] == "login"
    assert client.undo(done)["session"] == "main"
    client.run(done["command"])
    client.run(done["undo"]["command"])
    assert client.session("login")["label"] == "main"


def test_archive_and_restore(client: Client) -> None:
    client.project.say("one")
    done = client.act("/acts/archive", session="main")
    assert client.session("main")["status"] == "archived"
    client.undo(done)
    assert client.session("main")["status"] == "active"
    client.run(done["command"])
    client.run(done["undo"]["command"])
    assert client.session("main")["status"] == "active"


def test_archive_of_a_session_that_moved_is_refused_with_its_head(client: Client) -> None:
    seen = client.project.say("one")
    now = client.project.say("two")
    refused = client.post("/acts/archive", session="main", expected_head=seen)
    assert (refused.status, refused.body["head"]) == (409, now)


def test_unknown_session_is_not_found(client: Client) -> None:
    client.project.say("one")
    assert client.post("/acts/archive", session="nowhere").status == 404
