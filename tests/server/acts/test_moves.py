"""Rewind, reset and undo: the plan, the files, the commands, and sessions that moved."""

from tests.server.acts.conftest import Client


def take_two(client: Client) -> tuple[str, str]:
    first = client.project.turn("write a", {"a.txt": "one\n", "keep.txt": "k\n"})
    second = client.project.turn("change a", {"a.txt": "one\ntwo\n", "b.txt": "b\n"})
    return first, second


def head(client: Client, label: str = "main") -> str | None:
    found: str | None = client.session(label)["head"]
    return found


def test_plan_says_what_goes_back_and_what_is_yours(client: Client) -> None:
    first, _ = take_two(client)
    client.project.write({"notes.md": "mine\n"})
    before = head(client)
    plan = client.act("/acts/rewind/plan", session="main", to=first)
    assert {(one["path"], one["change"]) for one in plan["goes_back"]} == {
        ("a.txt", "changed"),
        ("b.txt", "removed"),
    }
    changed = next(one for one in plan["goes_back"] if one["path"] == "a.txt")
    assert (changed["plus"], changed["minus"]) == (0, 1)
    assert [one["path"] for one in plan["stays"]] == ["notes.md"]
    assert plan["conflicts"] == []
    assert plan["untouched"] == 1
    assert plan["turns_left"] == 1
    assert plan["title"] == "write a"
    assert plan["expected_head"] == before
    assert head(client) == before


def test_rewind_with_files_and_its_undo_and_the_undo_of_that(client: Client) -> None:
    first, _ = take_two(client)
    client.project.write({"notes.md": "mine\n"})
    start = head(client)
    done = client.act(
        "/acts/rewind", session="main", to=first, with_files=True, expected_head=start
    )
    assert (client.project.folder / "a.txt").read_text() == "one\n"
    assert not (client.project.folder / "b.txt").exists()
    assert (client.project.folder / "notes.md").read_text() == "mine\n"
    undone = client.undo(done)
    assert (client.project.folder / "a.txt").read_text() == "one\ntwo\n"
    assert head(client) == start
    again = client.undo(undone)
    assert (client.project.folder / "a.txt").read_text() == "one\n"
    client.undo(again)
    client.run(done["command"])
    assert (client.project.folder / "a.txt").read_text() == "one\n"
    client.run(done["undo"]["command"])
    assert (client.project.folder / "b.txt").read_text() == "b\n"
    client.run(undone["undo"]["command"])
    assert (client.project.folder / "a.txt").read_text() == "one\n"
    assert first[:8] in undone["undo"]["command"]


def test_files_changed_by_a_turn_and_by_hand_are_a_choice(client: Client) -> None:
    first, _ = take_two(client)
    client.project.write({"a.txt": "by hand\n"})
    start = head(client)
    ask = {"session": "main", "to": first, "with_files": True, "expected_head": start}
    plan = client.act("/acts/rewind/plan", session="main", to=first)
    assert [one["path"] for one in plan["conflicts"]] == ["a.txt"]
    refused = client.post("/acts/rewind", **ask)
    assert refused.status == 409
    assert refused.body["type"].endswith("files-in-conflict")
    assert [command.split()[-1] for command in refused.body["next"]] == ["--keep", "--exact"]
    assert head(client) == start
    kept = client.act("/acts/rewind", **ask, conflicts="keep")
    assert kept["command"].endswith("--files --keep")
    assert (client.project.folder / "a.txt").read_text() == "by hand\n"
    client.undo(kept)
    exact = client.act("/acts/rewind/plan", session="main", to=first, conflicts="exact")
    assert "a.txt" in [one["path"] for one in exact["goes_back"]]
    done = client.act("/acts/rewind", **ask, conflicts="exact")
    assert (client.project.folder / "a.txt").read_text() == "one\n"
    client.undo(done)
    assert (client.project.folder / "a.txt").read_text() == "by hand\n"


def test_rewind_of_a_session_that_moved_is_refused_with_its_head(client: Client) -> None:
    first, _ = take_two(client)
    seen = head(client)
    now = client.project.say("another writer was faster")
    for with_files in (False, True):
        refused = client.post(
            "/acts/rewind", session="main", to=first, with_files=with_files, expected_head=seen
        )
        assert refused.status == 409
        assert refused.body["type"].endswith("head-moved")
        assert refused.body["head"] == now
    refused = client.post("/acts/undo", session="main", expected_head=seen)
    assert refused.body["head"] == now
    assert (client.project.folder / "b.txt").exists()


def test_rewind_without_files_leaves_them(client: Client) -> None:
    first, _ = take_two(client)
    done = client.act("/acts/rewind", session="main", to=first, expected_head=head(client))
    assert "--files" not in done["command"]
    assert (client.project.folder / "b.txt").exists()
    client.undo(done)
    client.run(done["command"])
    client.run(done["undo"]["command"])


def test_rewind_before_the_first_turn_and_back(client: Client) -> None:
    first, _ = take_two(client)
    start = head(client)
    done = client.act(
        "/acts/rewind", session="main", to=first, before=True, with_files=True, expected_head=start
    )
    assert head(client) is None
    assert not (client.project.folder / "a.txt").exists()
    undone = client.undo(done)
    assert head(client) == start
    client.run(undone["undo"]["command"])
    assert head(client) is None


def test_plan_without_snapshots_says_why(client: Client) -> None:
    client.project.turn("pins", {"x": "x"}, session="other")
    first = client.project.say("one")
    client.project.say("two")
    plan = client.act("/acts/rewind/plan", session="main", to=first)
    assert plan["plan"] is None
    assert "snapshot" in plan["why_no_files"]
    assert plan["goes_back"] == []


def test_rewind_to_a_turn_of_another_thread_is_refused(client: Client) -> None:
    client.project.say("one")
    other = client.project.say("elsewhere", session="other")
    refused = client.post("/acts/rewind", session="main", to=other, expected_head=head(client))
    assert refused.status == 422
    assert "ancestor" in refused.body["detail"]


def test_one_key_moves_once(client: Client) -> None:
    first, _ = take_two(client)
    ask: dict[str, object] = {"session": "main", "to": first, "expected_head": head(client)}
    one, two = client.post_all([("/acts/rewind", ask)] * 2, key="same")
    assert one == two
    assert one.status == 200
