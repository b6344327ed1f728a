"""What ``revert`` plays and what has to come of it: a history, its parts, and the oracle.

Knows files as a dictionary. Must never know Turntree, nor an agent: the oracle replays a history
and leaves a part of it out.
"""

import os
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proofs.rewind import look

Files = dict[str, tuple[int, bytes]]
"""By path the permissions, and the bytes; a link's are where it leads, with permissions 0."""
Deed = Callable[[Files], None]
LINES = 24
IGNORED = "build/out.o"


def line(number: int, text: str, path: str = "cart.py") -> Deed:
    """Return what replaces a line of a file, under the name that the file has by then."""

    def change(files: Files) -> None:
        mode, data = files[path]
        lines = data.split(b"\n")
        lines[number - 1] = text.encode()
        files[path] = mode, b"\n".join(lines)

    return change


def put(path: str, data: bytes, mode: int = 0o644) -> Deed:
    """Return what writes a file."""

    def change(files: Files) -> None:
        files[path] = mode, data

    return change


def drop(*paths: str) -> Deed:
    """Return what removes files."""

    def change(files: Files) -> None:
        for path in paths:
            del files[path]

    return change


def permit(path: str, mode: int) -> Deed:
    """Return what changes a file's permissions."""

    def change(files: Files) -> None:
        files[path] = mode, files[path][1]

    return change


def name(old: str, new: str) -> Deed:
    """Return what renames a file."""

    def change(files: Files) -> None:
        files[new] = files.pop(old)

    return change


def grow(path: str, text: bytes, other: str | None = None) -> Deed:
    """Return what appends to a file, or to its other name if a rename was left out."""

    def change(files: Files) -> None:
        there = path if path in files or other is None else other
        files[there] = files[there][0], files[there][1] + text

    return change


@dataclass(frozen=True, slots=True)
class Event:
    """A part of the history: a turn or a person's edit, and its deeds by name."""

    by: str
    """The word of the turn's prompt, or ``person``."""
    deeds: Mapping[str, Sequence[Deed]]


TEXT = b"".join(b"line %d\n" % number for number in range(1, LINES + 1))
BEGINNING: Files = {
    "cart.py": (0o644, TEXT),
    "scripts/a.sh": (0o755, b"echo a\n"),
    "scripts/b.sh": (0o644, b"echo b\n"),
    "old.py": (0o644, b"".join(b"old %d\n" % number for number in range(12))),
    "logo.bin": (0o644, b"\0\1\2one"),
    "link": (0, b"cart.py"),
    "run.sh": (0o644, b"echo run\n"),
    "loose.txt": (0o644, b"untracked\n"),
    ".gitignore": (0o644, b"build/\n"),
    IGNORED: (0o644, b"built\n"),
}
UNTRACKED = ("loose.txt",)
HISTORY = (
    Event("TOOL", {
        "first hunk": [line(3, "three, by a tool")],
        "second hunk": [line(19, "nineteen, by a tool")],
        "added": [put("added.txt", b"by a tool\n")],
    }),
    Event("person", {"all": [line(11, "eleven, by hand"), put("mine.txt", b"mine\n")]}),
    Event("SHELL", {
        "scripts": [drop("scripts/a.sh", "scripts/b.sh")],
        "rename": [name("old.py", "moved.py")],
        "cart.py": [line(7, "seven, by sed")],
        "logo.bin": [put("logo.bin", b"\0\1\2two!")],
        "link": [put("link", b"run.sh", 0)],
        "run.sh": [permit("run.sh", 0o755)],
        "loose.txt": [put("loose.txt", b"untracked, changed\n")],
    }),
    Event("person", {"all": [grow("moved.py", b"by hand\n", "old.py")]}),
    Event("DELEGATE", {"all": [put("counted.txt", b"by a subagent\n")]}),
    Event("LAST", {"all": [line(15, "fifteen, by sed")]}),
    Event("person", {"all": [line(23, "twenty-three, by hand")]}),
)  # fmt: skip
SHELL = (
    "rm -r scripts && mv old.py moved.py && sed -i '7s/.*/seven, by sed/' cart.py && "
    "printf '\\000\\001\\002two!' > logo.bin && ln -sfn run.sh link && chmod 755 run.sh && "
    "printf 'untracked, changed\\n' > loose.txt && printf 'rebuilt\\n' > build/out.o"
)
LAST = "sed -i '15s/.*/fifteen, by sed/' cart.py"
COUNT = "printf 'by a subagent\\n' > counted.txt"
STOPPED = "sed -i '21s/.*/twenty-one, by sed/' cart.py && printf 'away\\n' > away.txt"
AWAY = Event("AWAY", {"all": [line(21, "twenty-one, by sed"), put("away.txt", b"away\n")]})
"""A turn that is taken while PostgreSQL is stopped."""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to take back: the turn, how it is named, and which deeds that leaves out."""

    what: str
    turn: str
    words: tuple[str, ...] = ()
    answers: str = ""
    without: tuple[str, ...] | None = None
    """The names of deeds; None means all of the turn."""

    def leaves_out(self, event: Event, deed: str) -> bool:
        """Whether a deed is part of what is taken back."""
        return event.by == self.turn and (self.without is None or deed in self.without)


CASES = (
    Case("a middle turn", "SHELL"),
    Case("a hunk", "TOOL", ("-p",), "n\nn\ny\n", ("second hunk",)),
    Case("a folder", "SHELL", ("--", "scripts"), without=("scripts",)),
    Case("the first turn", "TOOL"),
    Case("the last turn", "LAST"),
    Case("a turn with a subagent", "DELEGATE"),
    Case("a binary file", "SHELL", ("--", "logo.bin"), without=("logo.bin",)),
    Case("a link and a mode", "SHELL", ("--", "link", "run.sh"), without=("link", "run.sh")),
    Case("an untracked file", "SHELL", ("--", "loose.txt"), without=("loose.txt",)),
    Case("a renamed file", "SHELL", ("--", "old.py", "moved.py"), without=("rename",)),
)
QUICK: Final = 4
LONG: Final = ("DELEGATE", "LAST")
"""Turns that a quick run leaves out, with their cases."""


def story(*, quick: bool) -> Sequence[Event]:
    """Return the history to play."""
    return [event for event in HISTORY if not quick or event.by not in LONG]


def list_cases(*, quick: bool) -> Sequence[Case]:
    """Return what is taken back."""
    return [case for case in CASES[:QUICK] if case.turn not in LONG] if quick else CASES


def replay(history: Sequence[Event], case: Case | None = None) -> Files:
    """Return the files after the history, without what a case takes back."""
    files = dict(BEGINNING)
    files[IGNORED] = 0o644, b"rebuilt\n"
    for event in history:
        for key, deeds in event.deeds.items():
            if case is not None and case.leaves_out(event, key):
                continue
            for deed in deeds:
                deed(files)
    return files


def begin_repository(work: Path) -> None:
    """Make a repository with a past, and what git does not know."""
    write(work, BEGINNING)
    git = ["git", "-C", str(work), "-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", ".", *(f":!{path}" for path in UNTRACKED)], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "begin"], check=True)


def write(work: Path, files: Files) -> None:
    """Make the files of a folder what a dictionary says."""
    for name, (mode, data) in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if mode == 0:
            path.unlink(missing_ok=True)
            path.symlink_to(os.fsdecode(data))
        else:
            path.write_bytes(data)
            path.chmod(mode)


def read(work: Path) -> Files:
    """Return the files of a folder; folders count only by what they hold."""
    return {
        path: (0 if stat.S_ISLNK(mode) else stat.S_IMODE(mode), data)
        for path, (mode, data) in look(work).items()
        if not stat.S_ISDIR(mode)
    }


def count_lost(files: Files, present: Files) -> int:
    """Return how many of the person's edits are in no file any more."""
    now, before = (b"\n".join(data for _, data in one.values()) for one in (files, present))
    said = (b"eleven, by hand", b"mine\n", b"by hand\n", b"twenty-three, by hand")
    return sum(text in before and text not in now for text in said)


def play(work: Path, history: Sequence[Event], say: Callable[[str, str], str]) -> str:
    """Play a history, and return the session: the agent's turns, and the person's edits between.

    ``say`` is given the session, which is empty at first, and the prompt; it returns the session.
    """
    session = ""
    for event in history:
        if event.by == "person":
            edit(work, event)
        else:
            session = say(session, f"{event.by} now.")
    return session


def edit(work: Path, event: Event) -> None:
    """Do what the person does."""
    files = read(work)
    for deed in event.deeds["all"]:
        deed(files)
    write(work, files)
