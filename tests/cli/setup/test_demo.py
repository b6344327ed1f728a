"""The sample data: where it is shown, and that nothing of it is left."""

import json
import os
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.cli.conftest import Call, forging
from tests.cli.project import Project


@pytest.fixture
def visitor(turntree: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """The command line of a person who has set nothing."""
    monkeypatch.delenv("TURNTREE_WORKSPACE")
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    return turntree


def count_rows(workspace: str) -> int:
    """Return how many rows of all tables belong to a workspace, whatever is visible."""
    with psycopg.connect(forging()) as connection:
        tables = connection.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
            " WHERE a.attname = 'workspace_id' AND c.relnamespace = 'turntree'::regnamespace"
            " AND c.relkind IN ('r', 'p')"
        ).fetchall()
        return sum(
            connection.execute(
                sql.SQL(
                    "SELECT count(*) FROM turntree.{} x JOIN turntree.workspaces w"
                    " ON w.id = x.workspace_id WHERE w.name = %s"
                ).format(sql.Identifier(table)),
                (workspace,),
            ).fetchall()[0][0]
            for (table,) in tables
        )


def test_demo_in_an_empty_folder_is_shown_there(visitor: Call) -> None:
    answer = visitor("demo")
    assert answer.out == "planted 289 turns of sample data in 38 sessions (demo/...)\n"
    assert "HEAD is demo/fix-login now\nnext: turntree log --graph\n" in answer.err
    assert "(HEAD -> demo/fix-login, #to-review)" in visitor("log", "--graph").lines[0]
    home = visitor()
    assert home.err.startswith("this folder shows sample data; remove it with: turntree demo --rem")
    assert [line[3:].split()[0] for line in home.lines][:3] == [
        "demo/fix-login", "demo/middleware", "demo/opus",
    ]  # fmt: skip
    assert "nothing has to change" in visitor("rewind", "HEAD~1", "--files", "--dry-run").out
    assert visitor("fork", "HEAD~2", "try-again").code == 0
    Path("below").mkdir()
    os.chdir("below")
    assert visitor("show", "HEAD").code == 0


def test_demo_has_files_that_go_back_with_their_turns(visitor: Call, tmp_path: Path) -> None:
    visitor("demo")
    code = tmp_path / "home/demo/shop/src/discount.py"
    assert "round(" in code.read_text()
    shown = visitor("diff", "--files", "demo/shop/discount", "demo/shop/discount-other-way").out
    assert "ROUND_HALF_UP" in shown
    blamed = visitor("blame", "--at", "demo/shop/discount", "src/discount.py").out
    assert "def discounted" in blamed
    visitor("demo", "--remove")
    assert not code.exists()


def test_demo_beside_files_never_takes_their_head(visitor: Call) -> None:
    Path("notes.txt").write_text("mine\n")
    Path("shop").mkdir()
    answer = visitor("demo")
    assert "this folder is not empty, so the sample data is shown in turntree-demo" in answer.err
    assert "next: cd turntree-demo\n      turntree log --graph\n" in answer.err
    assert not Path(".turntree").exists()
    assert visitor("status", "--json").document["head"] is None
    os.chdir("shop")
    assert visitor("status", "--json").document["turns"] == 0
    os.chdir("../turntree-demo")
    assert visitor("status", "--json").document["head"] == "demo/fix-login"
    assert visitor("log", "--json").documents[0]["sessions"] == ["demo/fix-login"]


def test_demo_remove_leaves_nothing_behind(visitor: Call, tmp_path: Path) -> None:
    Path("notes.txt").write_text("mine\n")
    visitor("session", "create", "main")
    visitor("demo")
    for words in (("search", "redirect"), ("stats",), ("session", "list")):
        assert "demo" not in visitor(*words).out, words
    os.chdir("turntree-demo")
    visitor("fork", "HEAD~2", "try-again")
    visitor("rewind", "HEAD~1")
    os.chdir("..")
    assert count_rows("turntree-demo") > 100
    mine = count_rows("default")
    answer = visitor("demo", "--remove")
    assert (answer.code, answer.out) == (0, "the sample data is deleted\n")
    assert answer.err == "undo with: turntree demo\n"
    assert count_rows("turntree-demo") == 0
    assert count_rows("default") == mine
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["notes.txt"]
    assert not (tmp_path / "home/demo-folders").exists()
    assert visitor("search", "redirect").out == ""
    assert [one["label"] for one in visitor("session", "list", "--json").documents] == ["main"]
    assert visitor("demo", "--remove").out == "there is no sample data\n"
    permanent = pytest.raises(psycopg.DatabaseError, match="facts are permanent")
    with psycopg.connect(forging()) as connection, permanent:
        connection.execute("DELETE FROM turntree.events")
    assert visitor("demo", "--json").document["turns"] == 289


def test_demo_remove_asks_for_turns_of_yours(visitor: Call, project: Project) -> None:
    visitor("demo")
    sample = replace(project.settings, workspace="turntree-demo")
    replace(project, settings=sample).say("Mine", session="demo/opus")
    refused = visitor("demo", "--remove")
    assert refused.code == 1
    assert "1 session with turns of yours would be deleted with the sample data" in refused.err
    assert "next: turntree demo --remove --yes" in refused.err
    assert visitor("status", "--json").document["turns"] == 290
    assert visitor("demo", "--remove", "--yes").out == "the sample data is deleted\n"


def test_own_history_is_not_imported_into_the_sample_data(
    visitor: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    visitor("demo")
    # The first search adds rows of its own, and a hint of the import is one.
    visitor("search", "redirect")
    before = count_rows("turntree-demo")
    talk = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    (tmp_path / "talk.json").write_text(json.dumps({"messages": talk}))
    assert visitor("import", str(tmp_path / "talk.json")).code == 0
    assert count_rows("turntree-demo") == before
    assert count_rows("default") > 0


def test_handoff_of_sample_data_is_your_history_only_once_it_is_continued(
    visitor: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    visitor("demo")
    made = visitor("handoff", "HEAD", "--to", "claude-code", "--json").document
    os.chdir(tmp_path)
    visitor("import", "--from", "claude-code")
    assert visitor("log", "--all", "--json").documents == []
    (file,) = map(Path, made["files"])
    records = [json.loads(line) for line in file.read_text().splitlines()]
    *_, answered = [record for record in records if "uuid" in record]
    asked = {
        **answered,
        "type": "user",
        "uuid": "11111111-2222-4333-8444-555555555555",
        "parentUuid": answered["uuid"],
        "message": {"role": "user", "content": "And now for real."},
    }
    file.write_text(file.read_text() + json.dumps(asked) + "\n")
    visitor("import", "--from", "claude-code")
    titles = [turn["title"] for turn in visitor("log", "--all", "--json").documents]
    assert titles[0] == "And now for real."
    assert len(titles) > 1, "what it continues came with it"


def test_the_demo_is_planted_once(visitor: Call) -> None:
    first, second = visitor("demo", "--json").document, visitor("demo", "--json").document
    assert (first["turns"], second["turns"]) == (289, 0)
    assert first["sessions"] == second["sessions"]
    assert all(label.startswith("demo/") for label in first["sessions"])


def test_a_second_demo_leaves_alone_what_was_changed_since(visitor: Call) -> None:
    visitor("demo")
    visitor("tag", "--delete", "HEAD", "to-review")
    visitor("rewind", "HEAD~1")
    before = visitor("log", "--json").out
    visitor("demo")
    assert visitor("log", "--json").out == before
    assert "to-review" not in visitor("tag").out


def test_the_demo_never_touches_a_session_of_yours(
    visitor: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor("session", "create", "demo/opus")
    assert visitor("demo").code == 0
    monkeypatch.setenv("TURNTREE_WORKSPACE", "default")
    assert visitor("status", "--json").document["turns"] == 0
    assert "but TURNTREE_WORKSPACE is set" in visitor("demo").err
    monkeypatch.setenv("TURNTREE_WORKSPACE", "turntree-demo")
    visitor("demo", "--remove")
    visitor("session", "create", "demo/opus")
    answer = visitor("demo")
    assert answer.code == 1
    assert "is not sample data" in answer.err
    assert "turntree session rename demo/opus" in answer.err
