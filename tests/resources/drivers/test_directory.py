"""What a directory's snapshots hold, and that they come back."""

import os
import shutil
import subprocess
import traceback
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.resources.snapshots.file_trees import Drawn, holdings, large, write
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ref import ExtRef
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.testing.driver_fixtures import describe_folder

pytestmark = pytest.mark.slow


@pytest.fixture
def keeper(tmp_path: Path) -> DirectoryDriver:
    return DirectoryDriver(tmp_path / "home")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def scratch() -> Generator[Path, None, None]:
    with TemporaryDirectory(prefix="turntree-trees-") as folder:
        yield Path(folder)


@settings(max_examples=40)
@given(first=holdings, second=holdings)
def test_every_state_comes_back(
    scratch: Path, first: dict[bytes, Drawn], second: dict[bytes, Drawn]
) -> None:
    keeper, place = DirectoryDriver(scratch / "home"), scratch / "work"
    states = []
    for holding in (first, second):
        write(place, holding)
        states.append((keeper.snapshot(str(place)).external, describe_folder(place)))
    (old, was), (new, now) = states
    changes = keeper.compare(old, new)
    assert was is not None
    assert now is not None
    assert {os.fsencode(change.path) for change in changes} == {
        path for path in {*was, *now} if was.get(path) != now.get(path)
    }
    for external, described in (states[0], states[1]):
        keeper.restore(external, str(place))
        assert describe_folder(place) == described
        assert keeper.snapshot(str(place)).external == external
    fork = scratch / "fork"
    keeper.fork(old, str(fork))
    assert describe_folder(fork) == was
    keeper.discard(str(fork))


@settings(max_examples=40)
@given(first=holdings, second=holdings, chosen=st.randoms(use_true_random=False))
def test_only_the_paths_that_are_named_come_back(
    scratch: Path, first: dict[bytes, Drawn], second: dict[bytes, Drawn], chosen: Random
) -> None:
    keeper, place = DirectoryDriver(scratch / "home"), scratch / "some"
    write(place, first)
    old, was = keeper.snapshot(str(place)).external, describe_folder(place)
    write(place, second)
    new, before = keeper.snapshot(str(place)).external, describe_folder(place)
    paths = [change.path for change in keeper.compare(old, new)]
    only = {path for path in paths if chosen.random() < 0.5}
    try:
        keeper.restore(old, str(place), only=only)
    except InvalidOperation:
        assert describe_folder(place) == before
        return
    now = describe_folder(place)
    assert was is not None
    assert before is not None
    assert now is not None
    named = {os.fsencode(path) for path in only}
    needed = {path[:at] for path in named for at, sign in enumerate(path) if sign == ord("/")}
    for path in {*was, *before, *now}:
        if path in named and path in was:
            assert now[path] == was[path]
        elif path in named:
            # A folder that others still use stays.
            assert path not in now or now[path][0] == "directory"
        elif path in needed and path not in before:
            assert now.get(path) in (None, was.get(path))
        else:
            assert now.get(path) == before.get(path)


def test_a_change_in_the_same_instant_is_seen(keeper: DirectoryDriver, place: Path) -> None:
    file = place / "clock"
    for number in range(100):
        # The same size, the same inode, and mostly the same time as far as the system tells.
        with file.open("r+b" if number else "wb") as writing:
            writing.write(b"%08d" % number)
        state = keeper.snapshot(str(place)).external
        assert keeper.read(state, "clock") == b"%08d" % number


def test_what_git_ignores_is_left_out_unless_it_is_wanted(
    keeper: DirectoryDriver, place: Path
) -> None:
    for path, text in {
        ".gitignore": "build/\n*.log\n!keep.log\n.env\n*.local.*\ndata/\n",
        ".turntreeignore": "huge.bin\n",
        ".turntreekeep": "data/wanted/\nbuild/report.txt\n",
        "build/out.o": "o",
        "build/report.txt": "r",
        "build/deep/out.o": "o",
        "data/wanted/model.bin": "m",
        "data/wanted/notes/n": "n",
        "data/rest.bin": "x",
        "a.log": "l",
        "keep.log": "k",
        ".env": "SECRET=1",
        "settings.local.json": "{}",
        "huge.bin": "h",
        "src/main.py": "p",
        "src/.gitignore": "*.tmp\n",
        "src/x.tmp": "t",
    }.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, encoding="utf-8")
    for _ in range(2):
        state = keeper.snapshot(str(place)).external
        assert [
            entry.path for entry in keeper.list_entries(state) if entry.kind == "file"
        ] == [
            ".env", ".gitignore", ".turntreeignore", ".turntreekeep", "build/report.txt",
            "data/wanted/model.bin", "data/wanted/notes/n", "keep.log", "settings.local.json",
            "src/.gitignore", "src/main.py",
        ]  # fmt: skip


def test_what_is_ignored_and_yet_tracked_is_kept(keeper: DirectoryDriver, place: Path) -> None:
    _git(place, "init", "-q")
    (place / ".gitignore").write_text("build/\n*.log\n", encoding="utf-8")
    (place / "build" / "deep").mkdir(parents=True)
    for path in ("a.log", "b.log", "build/one", "build/two", "build/deep/three"):
        (place / path).write_text("x", encoding="utf-8")
    first = keeper.snapshot(str(place))
    assert first.files == 1
    _git(place, "add", "-f", "a.log", "build/two")
    second = keeper.snapshot(str(place)).external
    assert [e.path for e in keeper.list_entries(second) if e.kind == "file"] == [
        ".gitignore", "a.log", "build/two",
    ]  # fmt: skip
    _git(place, "rm", "-q", "--cached", "a.log", "build/two")
    assert keeper.snapshot(str(place)).external == first.external


def test_other_rules_choose_anew_in_folders_that_did_not_change(
    keeper: DirectoryDriver, place: Path
) -> None:
    (place / "deep" / "er").mkdir(parents=True)
    (place / "deep" / "er" / "a.log").write_text("a", encoding="utf-8")
    (place / ".gitignore").write_text("*.tmp\n", encoding="utf-8")
    first = keeper.snapshot(str(place))
    (place / ".gitignore").write_text("*.log\n", encoding="utf-8")
    second = keeper.snapshot(str(place))
    assert (first.files, second.files) == (2, 1)


def test_restoring_never_touches_what_is_left_out(keeper: DirectoryDriver, place: Path) -> None:
    (place / ".gitignore").write_text("*.log\n", encoding="utf-8")
    state = keeper.snapshot(str(place)).external
    (place / "made" / "later").mkdir(parents=True)
    (place / "made" / "later" / "run.log").write_text("mine", encoding="utf-8")
    (place / "made" / "a").write_text("a", encoding="utf-8")
    keeper.restore(state, str(place))
    assert (place / "made" / "later" / "run.log").read_text(encoding="utf-8") == "mine"
    assert not (place / "made" / "a").exists()


def test_a_folder_with_something_that_is_left_out_is_not_replaced_by_a_file(
    keeper: DirectoryDriver, place: Path
) -> None:
    (place / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (place / "x").write_text("a file", encoding="utf-8")
    state = keeper.snapshot(str(place)).external
    (place / "x").unlink()
    (place / "x").mkdir()
    (place / "x" / "run.log").write_text("mine", encoding="utf-8")
    (place / "y").write_text("y", encoding="utf-8")
    before = describe_folder(place)
    with pytest.raises(
        InvalidOperation, match=r"x was not a folder then, and now holds x/run\.log"
    ):
        keeper.restore(state, str(place))
    assert describe_folder(place) == before


def test_nothing_is_written_through_a_link(
    keeper: DirectoryDriver, place: Path, tmp_path: Path
) -> None:
    (place / "sub").mkdir()
    (place / "sub" / "file").write_text("inside", encoding="utf-8")
    state = keeper.snapshot(str(place)).external
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(place / "sub")
    (place / "sub").symlink_to(outside)
    with pytest.raises(InvalidOperation, match="in the way"):
        keeper.restore(state, str(place), only={"sub/file"})
    assert list(outside.iterdir()) == []
    keeper.restore(state, str(place))
    assert (place / "sub" / "file").read_text(encoding="utf-8") == "inside"
    assert list(outside.iterdir()) == []


def test_a_repository_of_ones_own_is_not_touched(keeper: DirectoryDriver, place: Path) -> None:
    for folder in (place, place / "vendor" / "nested"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "file").write_text("one", encoding="utf-8")
        _git(folder, "init", "-q")
        _git(folder, "add", "file")
    (place / "worktree").mkdir()
    (place / "worktree" / ".git").write_text("gitdir: elsewhere\n", encoding="utf-8")
    repositories = [
        path for path in sorted(place.rglob("*")) if ".git" in path.parts and path.is_file()
    ]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in repositories}
    state = keeper.snapshot(str(place)).external
    assert [e.path for e in keeper.list_entries(state) if e.kind == "file"] == [
        "file",
        "vendor/nested/file",
    ]
    for folder in (place, place / "vendor" / "nested"):
        (folder / "file").write_text("two", encoding="utf-8")
    keeper.restore(state, str(place))
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    assert (place / "vendor" / "nested" / "file").read_text(encoding="utf-8") == "one"


def test_a_place_that_was_removed_comes_back(keeper: DirectoryDriver, place: Path) -> None:
    (place / "file").write_text("x", encoding="utf-8")
    state = keeper.snapshot(str(place)).external
    described = describe_folder(place)
    shutil.rmtree(place)
    keeper.restore(state, str(place))
    assert describe_folder(place) == described


def test_a_log_that_grew_costs_its_tail(keeper: DirectoryDriver, place: Path) -> None:
    log = place / "log"
    log.write_bytes(large(2))
    keeper.snapshot(str(place))
    with log.open("ab") as file:
        file.write(b"one more line\n")
    taken = keeper.snapshot(str(place))
    assert 0 < taken.stored < 3000
    assert keeper.read(taken.external, "log") == log.read_bytes()


def test_a_line_that_changed_costs_about_a_line(keeper: DirectoryDriver, place: Path) -> None:
    lines = [
        f"line {number} of a file that a person wrote: {hash(number)}\n" for number in range(3000)
    ]
    file = place / "text"
    file.write_text("".join(lines), encoding="utf-8")
    keeper.snapshot(str(place))
    lines[1500] = "another line\n"
    file.write_text("".join(lines), encoding="utf-8")
    taken = keeper.snapshot(str(place))
    assert 0 < taken.stored < 600
    assert keeper.read(taken.external, "text") == file.read_bytes()


def test_a_home_inside_of_a_place_is_left_out(tmp_path: Path) -> None:
    place = tmp_path / "everything"
    place.mkdir()
    keeper = DirectoryDriver(place / "home")
    (place / "file").write_text("x", encoding="utf-8")
    keeper.snapshot(str(place))
    state = keeper.snapshot(str(place)).external
    assert [entry.path for entry in keeper.list_entries(state)] == ["file"]


def test_pipes_and_sockets_are_left_out(keeper: DirectoryDriver, place: Path) -> None:
    os.mkfifo(place / "pipe")
    assert keeper.snapshot(str(place)).files == 0


def test_what_shuts_out_its_own_owner_comes_back() -> None:
    with TemporaryDirectory(prefix="turntree-modes-") as name:
        os.chmod(name, 0o777)  # noqa: PTH101, S103 - somebody else works in it
        _as_somebody(lambda: _restore_shut_folders(Path(name)))


def _restore_shut_folders(root: Path) -> None:
    keeper, place = DirectoryDriver(root / "home"), root / "work"
    for folder, mode in (("reading", 0o555), ("shut", 0o311), ("open", 0o755)):
        (place / folder / "in").mkdir(parents=True)
        (place / folder / "in" / "file").write_text("one", encoding="utf-8")
        (place / folder / "file").write_text("one", encoding="utf-8")
        (place / folder / "file").chmod(0o444)
        (place / folder).chmod(mode | 0o400)
    state, described = keeper.snapshot(str(place)).external, describe_folder(place)
    for folder in ("reading", "shut", "open"):
        (place / folder).chmod(0o755)
        (place / folder / "file").unlink()
        (place / folder / "in" / "file").write_text("two", encoding="utf-8")
        (place / folder / "later").write_text("two", encoding="utf-8")
        (place / folder).chmod(0o500)
    now = keeper.snapshot(str(place)).external
    keeper.restore(state, str(place))
    assert describe_folder(place) == described
    keeper.restore(now, str(place), only={"reading/later", "shut/in/file"})
    assert (place / "reading" / "later").read_text(encoding="utf-8") == "two"
    assert (place / "reading").stat().st_mode & 0o7777 == 0o555
    fork = root / "fork"
    keeper.fork(state, str(fork))
    assert describe_folder(fork) == described
    keeper.discard(str(fork))
    assert not fork.exists()


def _as_somebody(work: Callable[[], None]) -> None:
    """Do some work in a process that is nobody special."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # The child never returns.
        pid = os.fork()
    if not pid:
        ended = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            work()
            ended = 0
        finally:
            if ended:
                traceback.print_exc()
            os._exit(ended)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_very_deep_folders_are_kept(keeper: DirectoryDriver, place: Path) -> None:
    deep = place.joinpath(*(["d"] * 400))
    os.makedirs(deep)  # noqa: PTH103 - pathlib recurses
    (deep / "file").write_text("deep", encoding="utf-8")
    state = keeper.snapshot(str(place)).external
    (deep / "file").write_text("changed", encoding="utf-8")
    assert len(keeper.restore(state, str(place))) == 1
    assert (deep / "file").read_text(encoding="utf-8") == "deep"


def test_a_state_of_something_else_is_not_found(keeper: DirectoryDriver, place: Path) -> None:
    for wrong in (
        ExtRef("shadow-file", "sha256:" + "0" * 64),
        ExtRef("shadow-tree", "sha256:xyz"),
        ExtRef("shadow-tree", "no digest"),
    ):
        with pytest.raises(NotFound):
            keeper.compare(None, wrong)


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
