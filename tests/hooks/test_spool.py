"""What an agent's hook leaves, and how it is found again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from turntree.cli.hook_process import entry as hook_entry
from turntree.cli.hook_process.daemon import LOCK, find_place, take_left
from turntree.hooks.launcher import command, write_launcher
from turntree.hooks.spool import PENDING_MAX_S, Spool, SpooledEvent
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.snapshots.scan import TICK_NS

TIMEOUT_S = 30


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def spool(home: Path) -> Iterator[Spool]:
    """A spool whose attendant goes with the test."""
    spool = Spool(home / hook_entry.SPOOL)
    yield spool
    end_attendant(spool)


def end_attendant(spool: Spool) -> None:
    told = spool.folder / LOCK
    if told.exists() and (pid := told.read_text(encoding="utf-8")):
        os.kill(int(pid), signal.SIGKILL)


def tell(home: Path, kind: str, told: dict[str, Any] | bytes, **environment: str) -> None:
    """Call the entry as a tool's hook does, and hold it to saying nothing."""
    words = [sys.executable, "-I", hook_entry.__file__, "--home", str(home), "codex", kind]
    said = told if isinstance(told, bytes) else json.dumps(told).encode()
    env = {"PATH": os.defpath, "HOME": str(home.parent / "person"), **environment}
    done = subprocess.run(words, input=said, capture_output=True, env=env, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def wait_for(spool: Spool, count: int) -> list[SpooledEvent]:
    """Return what is in the spool as soon as so many sightings are there, with their states."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        found = spool.read()
        is_done = not spool.list_said() and not any(one.is_pending for one in found)
        if len(found) >= count and is_done:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{count} sightings did not come; {spool.last_error()}")


def test_a_hook_leaves_a_mark_and_the_state_of_the_workspace(home: Path, spool: Spool) -> None:
    work = home.parent / "work"
    (work / ".git").mkdir(parents=True)
    (work / "deep").mkdir()
    (work / "note.txt").write_text("hello", encoding="utf-8")
    told = {"session_id": "s1", "cwd": str(work / "deep"), "transcript_path": "/t.jsonl"}
    tell(home, "begin", {**told, "prompt": "a secret"})
    (found,) = wait_for(spool, 1)
    sighting = found.sighting
    assert (sighting.stream.tool, sighting.stream.session, sighting.stream.agent) == (
        "codex",
        "s1",
        None,
    )
    assert (sighting.kind, sighting.place, sighting.transcript) == ("begin", str(work), "/t.jsonl")
    assert found.taken is not None
    assert found.taken.files == 1
    files = (path for path in spool.folder.iterdir() if path.is_file())
    assert "secret" not in "".join(path.read_text(encoding="utf-8") for path in files)
    spool.remove([sighting])
    assert spool.list_paths() == []


def test_marks_of_one_place_come_in_order(home: Path, spool: Spool) -> None:
    work = home.parent / "work"
    work.mkdir()
    for number in range(3):
        (work / "note.txt").write_text(str(number), encoding="utf-8")
        tell(home, "begin", {"session_id": f"s{number}", "cwd": str(work)})
        wait_for(spool, number + 1)
    found = spool.read()
    assert [one.sighting.stream.session for one in found] == ["s0", "s1", "s2"]
    assert len({one.taken.external.id for one in found if one.taken}) == 3


def test_the_launcher_says_the_same_without_starting_anything(home: Path, spool: Spool) -> None:
    work = home.parent / "a work"
    work.mkdir()
    write_launcher(home, Path(sys.executable), Path(hook_entry.__file__))
    said = json.dumps({"session_id": "s1", "transcript_path": "/t", "prompt": "x" * 100_000})
    env = {"PATH": os.defpath, "HOME": str(home.parent / "person")}
    for number in range(3):
        # The first one finds no attendant.
        words = ["sh", "-c", command(home, "codex", "begin")]
        done = subprocess.run(
            words, input=said.encode(), capture_output=True, env=env, cwd=work, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        found = wait_for(spool, number + 1)
    assert [one.sighting.place for one in found] == [str(work)] * 3
    assert [one.sighting.stream.session for one in found] == ["s1"] * 3
    assert ["sh-" in one.sighting.id for one in found] == [False, True, True]


@contextmanager
def slow_snapshots(home: Path) -> Iterator[None]:
    """Keep every snapshot from being taken for as long as the block lasts."""
    with DirectoryDriver(home).store.lock("store", exclusive=True):
        yield


def start_of_turn(home: Path, work: Path) -> None:
    """Begin a turn, as an agent does that writes its first file as soon as its hook returns."""
    write_launcher(home, Path(sys.executable), Path(hook_entry.__file__))
    env = {"PATH": os.defpath, "HOME": str(home.parent / "person")}
    words = ["sh", "-c", command(home, "codex", "begin")]
    said = json.dumps({"session_id": "s1"}).encode()
    subprocess.run(words, input=said, env=env, cwd=work, check=True)


def test_the_first_hook_of_all_returns_after_the_snapshot_or_says_that_it_did_not(
    home: Path, spool: Spool
) -> None:
    work = home.parent / "work"
    work.mkdir()
    start_of_turn(home, work)
    (work / "first.txt").write_text("by a fast agent", encoding="utf-8")
    (found,) = wait_for(spool, 1)
    assert found.taken is not None
    # On a machine that needs more than two seconds for it, the turn has to be marked.
    assert found.taken.files == 0 or found.sighting.late_ms is not None


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_beginning_whose_snapshot_came_after_the_first_change_is_marked(
    home: Path, spool: Spool, *, is_warm: bool
) -> None:
    work = home.parent / "work"
    work.mkdir()
    if is_warm:
        start_of_turn(home, work)
        spool.remove([one.sighting for one in wait_for(spool, 1)])
    with slow_snapshots(home):
        start_of_turn(home, work)
        (work / "first.txt").write_text("by a fast agent", encoding="utf-8")
    (found,) = wait_for(spool, 1)
    assert found.taken is not None
    assert found.taken.files == 1, "the file was there before the folder was recorded"
    assert found.sighting.is_late
    assert found.sighting.late_ms is not None
    assert found.sighting.late_ms > 0
    spool.remove([found.sighting])
    assert not list(spool.folder.glob("*.late"))


def test_a_late_snapshot_before_any_change_leaves_nothing_to_say(home: Path, spool: Spool) -> None:
    work = home.parent / "work"
    work.mkdir()
    (work / "old.txt").write_text("from before", encoding="utf-8")
    old = time.time() - 60
    for path in (work / "old.txt", work):
        os.utime(path, (old, old))
    # The time of a file's entry cannot be set, so it has to pass.
    while time.time_ns() - work.stat().st_ctime_ns < 2 * TICK_NS:
        pass
    start_of_turn(home, work)
    spool.remove([one.sighting for one in wait_for(spool, 1)])
    with slow_snapshots(home):
        start_of_turn(home, work)
    (found,) = wait_for(spool, 1)
    assert (found.sighting.is_late, found.sighting.late_ms) == (True, None)


def test_what_an_attendant_left_undone_is_done_by_whoever_comes_next(
    home: Path, spool: Spool
) -> None:
    work = home.parent / "work"
    work.mkdir()
    tell(home, "begin", {"session_id": "s0", "cwd": str(work)})
    wait_for(spool, 1)
    end_attendant(spool)
    head = "\0".join(("codex", "end", "", str(work)))
    said = json.dumps({"session_id": "s1"})
    (spool.folder / "00000000000000000002-1.raw").write_text(f"{head}\n{said}", encoding="utf-8")
    until = time.monotonic() + TIMEOUT_S
    while spool.list_said() and time.monotonic() < until:
        take_left(spool)
    assert [one.sighting.stream.session for one in spool.read()] == ["s0", "s1"]
    tell(home, "begin", {"session_id": "s2", "cwd": str(work)})
    assert len(wait_for(spool, 3)) == 3, "a new attendant has come"


def test_whoever_switches_hooks_off_leaves_nothing(home: Path, spool: Spool) -> None:
    tell(home, "begin", {"session_id": "s", "cwd": "/"}, TURNTREE_HOOKS="off")
    assert not home.exists()


def test_what_goes_wrong_is_told_in_a_file(home: Path, spool: Spool) -> None:
    tell(home, "begin", b"this is no JSON")
    until = time.monotonic() + TIMEOUT_S
    while spool.last_error() is None and time.monotonic() < until:
        time.sleep(0.02)
    assert "JSONDecodeError" in (spool.last_error() or "")
    assert spool.read() == []


def test_a_state_that_nobody_finished_keeping_is_missed_and_not_waited_for(spool: Spool) -> None:
    spool.folder.mkdir(parents=True)
    told = {
        "version": 1, "tool": "codex", "kind": "end", "at_ms": 1, "session": "s", "agent": None,
        "transcript": None, "place": "/work", "pid": os.getpid(),
    }  # fmt: skip
    path = spool.folder / "1-1.event"
    path.write_text(json.dumps(told), encoding="utf-8")
    assert [one.is_pending for one in spool.read()] == [True]
    old = time.time() - PENDING_MAX_S - 1
    os.utime(path, (old, old))
    (found,) = spool.read()
    assert (found.is_pending, found.taken) == (False, None)
    assert found.error is not None


def test_what_is_no_mark_is_put_aside(spool: Spool) -> None:
    spool.folder.mkdir(parents=True)
    (spool.folder / "1-1.event").write_text('{"version": 9}', encoding="utf-8")
    assert spool.read() == []
    assert spool.list_paths() == []
    assert "set aside" in (spool.last_error() or "")


def test_only_one_reads_at_a_time(spool: Spool) -> None:
    with spool.reading() as first, spool.reading() as second:
        assert (first, second) == (True, False)
    with spool.reading() as again:
        assert again


def test_nobodys_home_is_ever_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person, home = tmp_path / "ana", tmp_path / "ana/.local/turntree"
    monkeypatch.setenv("HOME", str(person))
    for folder in ("repo/.git", "repo/src", "loose", ".git", ".local/turntree"):
        (person / folder).mkdir(parents=True)

    def place(folder: str) -> str | None:
        return find_place(str(person / folder), str(home))

    assert place("repo/src") == str(person / "repo")
    assert place("loose") == str(person / "loose"), "a repository of dotfiles is no workspace"
    assert place(".") is None
    assert place("..") is None
    assert place(".local") is None
    assert find_place("/", str(home)) is None


def test_what_was_overcome_counts_no_more_and_what_came_meanwhile_does(spool: Spool) -> None:
    spool.complain("drain: the database does not answer")
    time.sleep(0.002)
    began = spool.now()
    assert "does not answer" in (spool.last_error() or "")
    spool.overcome(began)
    assert spool.last_error() is None
    spool.complain("hook: the disk is full")
    spool.overcome(began)
    assert "the disk is full" in (spool.last_error() or ""), "it was said while the spool was read"


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("claude-code", {"session_id": "s1", "transcript_path": "/t", "cwd": "/srv/shop"}),
        ("copilot", {"sessionId": "s1", "transcriptPath": "/t", "cwd": "/srv/shop"}),
        (
            "cursor",
            {"conversation_id": "s1", "transcript_path": "/t", "workspace_roots": ["/srv/shop"]},
        ),
        # Of a call it names the folder that the model chose.
        (
            "codex",
            {"session_id": "s1", "transcript_path": "/t", "cwd": "/usr", "tool_name": "Bash"},
        ),
    ],
)
def test_each_tool_names_its_session_folder_and_transcript_in_its_own_words(
    tmp_path: Path, tool: str, said: dict[str, object]
) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    is_call = "tool_name" in said
    head = f"{tool}\0{'call' if is_call else 'begin'}\0\0{'/srv/shop' if is_call else '/elsewhere'}"
    (folder / "1.raw").write_text(f"{head}\n{json.dumps(said)}", encoding="utf-8")
    take_left(Spool(folder))
    (one,) = Spool(folder).read()
    assert one.sighting.stream == (tool, "s1", None)
    assert (one.sighting.place, one.sighting.transcript) == ("/srv/shop", "/t")
