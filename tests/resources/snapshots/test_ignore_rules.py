"""What is left out is what git would leave out, and git says so itself."""

import os
import subprocess
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turntree.resources.snapshots.git_index import read_index
from turntree.resources.snapshots.ignore_rules import IgnoreDecision, IgnoreRules, rules_above

PIECES = [
    "a",
    "b",
    "c",
    "ab",
    "*",
    "?",
    "**",
    "[ab]",
    "[!a]",
    "[a-c]*",
    "a*",
    "*b",
    "\\a",
    ".",
    " ",
]
FOLDERS = ["a", "b", "ab"]
NAMES = ["a", "b", "c", "ab", "abc", ".", ".a", "a b", " ", "*", "b.c"]

words = st.lists(st.sampled_from(PIECES), min_size=1, max_size=2).map("".join)
patterns = st.builds(
    lambda negated, rooted, pieces, folder: negated + rooted + "/".join(pieces) + folder,
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(words, min_size=1, max_size=3),
    st.sampled_from(["", "", "/"]),
)


@pytest.fixture(scope="module")
def repository() -> Generator[Path, None, None]:
    with TemporaryDirectory(prefix="turntree-rules-") as name:
        folder = Path(name).resolve()
        subprocess.run(["git", "init", "-q", name], check=True)
        for one in FOLDERS:
            for two in FOLDERS:
                (folder / one / two).mkdir(parents=True)
        for parent in (folder, *folder.glob("*"), *folder.glob("*/*")):
            if ".git" not in parent.parts and parent.is_dir():
                for file in NAMES:
                    path = parent / file
                    if file not in {".", ".."} and not path.exists():
                        path.write_text("", encoding="utf-8")
        yield folder


@pytest.mark.slow
@settings(max_examples=150)
@given(top=st.lists(patterns, max_size=5), inner=st.lists(patterns, max_size=3))
@example(top=["a/**"], inner=[])
@example(top=["**/b"], inner=["!b"])
@example(top=[], inner=["a", "!/**"])
@example(top=["a**/b"], inner=["a", "!/a**"])
@example(top=["a/**/b", "!a/b/"], inner=[])
@example(top=["# a", "\\#", "a ", "b\\ "], inner=[])
@example(top=["/a", "!/a/b"], inner=["/b/c", "[[:alpha:]]"])
def test_git_agrees(repository: Path, top: list[str], inner: list[str]) -> None:
    (repository / ".gitignore").write_text("\n".join(top) + "\n", encoding="utf-8")
    (repository / "a" / ".gitignore").write_text("\n".join(inner) + "\n", encoding="utf-8")
    told = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=repository,
        check=True,
        capture_output=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/nonexistent"},
    )
    theirs = {path for path in told.stdout.split(b"\0") if path}
    assert kept(os.fsencode(repository)) == theirs


def test_a_place_inside_of_a_repository_obeys_its_rules(repository: Path) -> None:
    (repository / ".gitignore").write_text("/a/b/c\n", encoding="utf-8")
    (repository / "a" / ".gitignore").write_text("abc\n", encoding="utf-8")
    rules = rules_above(os.fsencode(repository / "a" / "b"))
    inside = os.fsencode(repository / "a" / "b") + b"/"
    left_out = [
        name
        for name in ("a", "b", "c", "abc")
        if rules.judge(inside + name.encode(), name.encode(), folder=False)
        is IgnoreDecision.IGNORED
    ]
    assert left_out == ["c", "abc"]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_what_is_tracked_is_read_from_git(tmp_path: Path, version: int) -> None:
    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True).stdout

    git("init", "-q")
    for number in range(50):
        path = tmp_path / f"{number % 5}" / ("long " * (number % 9)) / f"file {number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    git("add", "-A")
    (tmp_path / "later").write_text("x", encoding="utf-8")
    # An entry that will follow has flags of its own, which makes the index one of version 3.
    git("add", "-N", "later") if version == 3 else git("add", "later")
    if version == 4:
        git("update-index", "--index-version", "4")
    names = read_index((tmp_path / ".git" / "index").read_bytes(), 20)
    assert names == git("ls-files", "-z").split(b"\0")[:-1]


def kept(place: bytes) -> set[bytes]:
    """Return the files below a folder that the rules do not leave out."""
    found: set[bytes] = set()
    waiting = [(place, IgnoreRules())]
    while waiting:
        folder, rules = waiting.pop()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        names = tuple(entry.name for entry in entries)
        inside = rules.inside(folder, names, top=folder == place)
        for entry in entries:
            path = folder + b"/" + entry.name
            folder_too = entry.is_dir(follow_symlinks=False)
            if entry.name == b".git" or inside.judge(path, entry.name, folder=folder_too) not in {
                IgnoreDecision.KEPT,
                IgnoreDecision.WANTED,
            }:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append((path, inside))
            else:
                found.add(path[len(place) + 1 :])
    return found
