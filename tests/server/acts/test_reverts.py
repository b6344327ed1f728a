"""Revert of one turn: the plan, the files, later changes that stay, conflicts, undo and redo."""

from tests.server.acts.conftest import Client


def take_three(client: Client) -> tuple[str, str, str]:
    first = client.project.turn("write a", {"a.txt": "one\n\n\n\n\ntwo\n", "keep.txt": "k\n"})
    second = client.project.turn("change a", {"a.txt": "ONE\n\n\n\n\ntwo\n", "b.txt": "b\n"})
    third = client.project.turn("go on", {"a.txt": "ONE\n\n\n\n\nTWO\n", "c.txt": "c\n"})
    return first, second, third


def contents(client: Client) -> dict[str, str]:
    folder = client.project.folder
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_plan_says_what_goes_back_and_what_later_turns_changed(client: Client) -> None:
    _, second, _ = take_three(client)
    client.project.write({"notes.md": "mine\n"})
    before = contents(client)
    plan = client.act("/acts/revert/plan", at=second)
    assert [(one["path"], one["change"], one["merged"]) for one in plan["goes_back"]] == [
        ("a.txt", "changed", True),
        ("b.txt", "removed", False),
    ]
    assert sorted(one["path"] for one in plan["stays"]) == ["c.txt", "notes.md"]
    assert plan["files"] == ["a.txt", "b.txt"]
    assert plan["conflicts"] == []
    assert plan["why_nothing"] is None
    assert plan["folder"] == str(client.project.folder)
    assert contents(client) == before


def test_revert_keeps_what_came_later_and_undo_and_redo_are_exact(client: Client) -> None:
    _, second, _ = take_three(client)
    client.project.write({"notes.md": "mine\n"})
    start = contents(client)
    plan = client.act("/acts/revert/plan", at=second)
    done = client.act("/acts/revert", at=second, expected_changes=plan["expected_changes"])
    reverted = contents(client)
    assert reverted == {
        "a.txt": "one\n\n\n\n\nTWO\n",
        "keep.txt": "k\n",
        "c.txt": "c\n",
        "notes.md": "mine\n",
    }
    assert "2 files" in done["done"]
    undone = client.undo(done)
    assert contents(client) == start
    again = client.undo(undone)
    assert contents(client) == reverted
    client.undo(again)
    assert contents(client) == start
    client.run(plan["command"])
    assert contents(client) == reverted
    client.run(done["undo"]["command"])
    assert contents(client) == start
    client.run(undone["undo"]["command"])
    assert contents(client) == reverted


def test_revert_of_chosen_files_leaves_the_others(client: Client) -> None:
    _, second, _ = take_three(client)
    plan = client.act("/acts/revert/plan", at=second, files=["b.txt"])
    assert [one["path"] for one in plan["goes_back"]] == ["b.txt"]
    start = contents(client)
    expected = plan["expected_changes"]
    done = client.act("/acts/revert", at=second, files=["b.txt"], expected_changes=expected)
    assert contents(client) == {name: text for name, text in start.items() if name != "b.txt"}
    client.undo(done)
    client.run(done["command"])
    assert contents(client) == {name: text for name, text in start.items() if name != "b.txt"}


def test_lines_changed_since_are_a_choice(client: Client) -> None:
    _, second, _ = take_three(client)
    client.project.write({"a.txt": "mine\n\n\n\n\nTWO\n"})
    plan = client.act("/acts/revert/plan", at=second)
    (conflict,) = plan["conflicts"]
    assert (conflict["path"], conflict["why"]) == ("a.txt", "lines")
    assert conflict["outside"]
    assert not conflict["decided"]
    start = contents(client)
    expected = plan["expected_changes"]
    refused = client.post("/acts/revert", at=second, expected_changes=expected)
    assert refused.status == 409
    assert refused.body["type"].endswith("files-in-conflict")
    assert [command.split()[-1] for command in refused.body["next"]] == [
        "--keep", "--exact", "--mark",
    ]  # fmt: skip
    assert contents(client) == start
    wanted = {"keep": "mine\n\n\n\n\nTWO\n", "exact": "one\n\n\n\n\nTWO\n"}
    for choice, text in wanted.items():
        plan = client.act("/acts/revert/plan", at=second, conflicts=choice)
        assert plan["conflicts"][0]["decided"]
        done = client.act(
            "/acts/revert", at=second, conflicts=choice, expected_changes=plan["expected_changes"]
        )
        assert contents(client)["a.txt"] == text
        client.undo(done)
        assert contents(client) == start
    plan = client.act("/acts/revert/plan", at=second, conflicts="mark")
    client.act(
        "/acts/revert", at=second, conflicts="mark", expected_changes=plan["expected_changes"]
    )
    assert "<<<<<<<" in contents(client)["a.txt"]


def test_revert_after_the_files_changed_is_refused(client: Client) -> None:
    _, second, _ = take_three(client)
    plan = client.act("/acts/revert/plan", at=second)
    client.project.write({"a.txt": "ONE\n\n\n\n\nTHREE\n"})
    start = contents(client)
    refused = client.post("/acts/revert", at=second, expected_changes=plan["expected_changes"])
    assert refused.status == 409
    assert refused.body["type"].endswith("conflict")
    assert contents(client) == start


def test_a_change_elsewhere_does_not_refuse_a_revert(client: Client) -> None:
    _, second, _ = take_three(client)
    plan = client.act("/acts/revert/plan", at=second)
    client.project.write({"log.txt": "another program writes here\n"})
    client.act("/acts/revert", at=second, expected_changes=plan["expected_changes"])
    assert "b.txt" not in contents(client)
    assert "log.txt" in contents(client)


def test_undo_of_a_revert_that_is_not_the_last_is_refused(client: Client) -> None:
    _, second, third = take_three(client)
    plan = client.act("/acts/revert/plan", at=second)
    first_done = client.act("/acts/revert", at=second, expected_changes=plan["expected_changes"])
    plan = client.act("/acts/revert/plan", at=third)
    client.act("/acts/revert", at=third, expected_changes=plan["expected_changes"])
    start = contents(client)
    refused = client.post(first_done["undo"]["path"], **first_done["undo"]["body"])
    assert refused.status == 409
    assert contents(client) == start


def test_undo_meets_lines_changed_since_as_a_choice(client: Client) -> None:
    _, second, _ = take_three(client)
    plan = client.act("/acts/revert/plan", at=second)
    done = client.act("/acts/revert", at=second, expected_changes=plan["expected_changes"])
    client.project.write({"a.txt": "mine\n\n\n\n\nTWO\n"})
    refused = client.post(done["undo"]["path"], **done["undo"]["body"])
    assert refused.status == 409
    assert refused.body["type"].endswith("files-in-conflict")
    client.act(done["undo"]["path"], **done["undo"]["body"], conflicts="keep")
    assert contents(client)["a.txt"] == "mine\n\n\n\n\nTWO\n"
    assert contents(client)["b.txt"] == "b\n"


def test_a_turn_without_snapshots_says_why_nothing_goes_back(client: Client) -> None:
    said = client.project.say("no files here")
    plan = client.act("/acts/revert/plan", at=said)
    assert plan["why_nothing"] == "No snapshot shows the files before and after this turn."
    assert client.post("/acts/revert", at=said, expected_changes="").status == 404


def test_a_turn_that_changed_no_files_says_so(client: Client) -> None:
    turn = client.project.turn("only look")
    assert client.act("/acts/revert/plan", at=turn)["why_nothing"] == "This turn changed no files."


def test_a_turn_that_was_taken_back_says_so(client: Client) -> None:
    _, second, _ = take_three(client)
    plan = client.act("/acts/revert/plan", at=second)
    client.act("/acts/revert", at=second, expected_changes=plan["expected_changes"])
    plan = client.act("/acts/revert/plan", at=second)
    assert plan["goes_back"] == []
    assert plan["why_nothing"] == "Every file is as it was before this turn already."


def test_a_second_click_reverts_once(client: Client) -> None:
    _, second, _ = take_three(client)
    plan = client.act("/acts/revert/plan", at=second)
    body: dict[str, object] = {"at": second, "expected_changes": plan["expected_changes"]}
    replies = client.post_all([("/acts/revert", body), ("/acts/revert", body)], key="click")
    assert [one.status for one in replies] == [200, 200]
    assert replies[0].body == replies[1].body


def test_hostile_names_are_quoted_in_the_command(client: Client) -> None:
    name = "-rf $(touch owned) '\u202eexe.txt"
    turn = client.project.turn("write it", {name: "x\n", "plain.txt": "p\n"})
    plan = client.act("/acts/revert/plan", at=turn, files=[name])
    assert [one["path"] for one in plan["goes_back"]] == [name]
    client.run(plan["command"])
    assert contents(client) == {"plain.txt": "p\n"}
