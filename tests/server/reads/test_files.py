"""Files of turns: lists, differences, contents and blame."""

from pathlib import Path

import pytest

from tests.server.reads.conftest import Reader
from tests.server.reads.scenes import say, work
from turntree.api import Tree

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    return project


async def test_files_lists_changes_first(tree: Tree, reader: Reader, folder: Path) -> None:
    (folder / "mine.txt").write_text("mine\n")
    await work(tree, "main", folder, {"a.py": "one\n", "same.py": "s\n"})
    turn = await work(tree, "main", folder, {"a.py": "one\ntwo\n", "b/c.py": "new\n"})
    found = await reader.get("turns", "main", "files")
    assert [(one["path"], one["change"]) for one in found["entries"]] == [
        ("a.py", "changed"), ("b/c.py", "added"), ("mine.txt", None), ("same.py", None),
    ]  # fmt: skip
    assert (found["nearest"], found["folder"]) == (turn, str(folder))
    assert found["entries"][0]["bytes"] == 8


async def test_files_of_turn_without_snapshot_are_the_nearest(
    tree: Tree, reader: Reader, folder: Path
) -> None:
    turn = await work(tree, "main", folder, {"a.py": "one\n"})
    await say(tree, "main", "thanks")
    found = await reader.get("turns", "main", "files")
    assert (found["nearest"], [one["change"] for one in found["entries"]]) == (turn, [None])
    assert (await reader.send("turns", "main", "files", "diff", path="a.py")).status_code == 404


async def test_files_without_any_snapshot_are_empty(tree: Tree, reader: Reader) -> None:
    await say(tree, "main", "hello")
    found = await reader.get("turns", "main", "files")
    assert (found["snapshot"], found["entries"]) == (None, [])


async def test_diff_shows_lines_by_either_path(tree: Tree, reader: Reader, folder: Path) -> None:
    await work(tree, "main", folder, {"a.py": "one\ntwo\n"})
    await work(tree, "main", folder, {"a.py": "one\nthree\n"})
    for path in ("a.py", f"{folder}/a.py"):
        diff = await reader.get("turns", "main", "files", "diff", path=path)
        assert [(line["op"], line["text"]) for line in diff["hunks"][0]["lines"]] == [
            (" ", "one"), ("-", "two"), ("+", "three"),
        ]  # fmt: skip
    assert (diff["old"]["bytes"], diff["new"]["bytes"]) == (8, 10)
    assert not diff["is_binary"]


async def test_content_and_blame_of_a_file(tree: Tree, reader: Reader, folder: Path) -> None:
    first = await work(tree, "main", folder, {"a.py": "one\n"})
    second = await work(tree, "main", folder, {"a.py": "one\ntwo\n"})
    content = await reader.get("turns", "main~1", "files", "content", path="a.py")
    assert (content["text"], content["bytes"], content["is_cut"]) == ("one\n", 4, False)
    blamed = await reader.get("turns", "main", "blame", path="a.py")
    assert [(line["text"], line["turn"]) for line in blamed["lines"]] == [
        ("one", first), ("two", second),
    ]  # fmt: skip
    assert blamed["lines"][1]["title"] == "write a.py"
    assert (await reader.send("turns", "main", "blame", path="gone.py")).status_code == 404


async def test_binary_content_is_not_sent(tree: Tree, reader: Reader, folder: Path) -> None:
    (folder / "logo.png").write_bytes(b"\x89PNG\0\0")
    await work(tree, "main", folder, {"a.py": "one\n"})
    content = await reader.get("turns", "main", "files", "content", path="logo.png")
    assert (content["text"], content["is_binary"], content["bytes"]) == (None, True, 6)


async def test_compare_shows_both_sides_from_where_they_part(
    tree: Tree, reader: Reader, folder: Path
) -> None:
    base = await work(tree, "main", folder, {"a.py": "one\n"})
    await tree.sessions.fork(base, "other")
    await work(tree, "main", folder, {"a.py": "left\n", "l.py": "l\n"})
    await say(tree, "main", "and more")
    (folder / "l.py").unlink()
    await work(tree, "other", folder, {"a.py": "right\n"})
    found = await reader.get("compare", "main...other")
    assert found["base"]["id"] == base
    left, right = found["left"], found["right"]
    assert [side["turns_total"] for side in (left, right)] == [2, 1]
    assert [turn["title"] for turn in left["turns"]] == ["write a.py, l.py", "and more"]
    assert left["tools"] == [{"tool": "Write", "calls": 2}]
    assert (left["tokens"], left["unknown_cost"]) == (4_200, False)
    assert left["cost"] == pytest.approx(0.0069)
    assert (right["cost"], right["label"], right["files_changed"]) == (None, "other", 1)
    assert found["files"] == [
        {"path": "a.py", "left": "changed", "right": "changed"},
        {"path": "l.py", "left": "added", "right": None},
    ]
    diff = await reader.get("compare", "main...other", "diff", path="a.py")
    assert [(line["op"], line["text"]) for line in diff["hunks"][0]["lines"]] == [
        ("-", "left"), ("+", "right"),
    ]  # fmt: skip


async def test_compare_of_unrelated_threads_has_no_base(tree: Tree, reader: Reader) -> None:
    await say(tree, "main", "one")
    await say(tree, "apart", "two")
    found = await reader.get("compare", "main...apart")
    assert (found["base"], found["left"]["turns_total"], found["files"]) == (None, 1, [])
