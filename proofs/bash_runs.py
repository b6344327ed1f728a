"""What bash itself runs for a line, to compare with what ``policy.shell`` read in it.

Every program of the line is a stub that writes down its arguments and its folder, so nothing of the
line does anything, apart from the files that its redirects create in a folder of its own.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from turntree.policy.shell import ShellCommand

STUBS = (
    "awk", "cat", "chmod", "cp", "curl", "cut", "date", "diff", "echo", "false", "git", "grep",
    "head", "ls", "make", "mkdir", "mv", "npm", "printf", "pwd", "python3", "rm", "sed", "sort",
    "sudo", "tail", "tar", "tee", "test", "touch", "true", "wc",
)  # fmt: skip
REAL = ["bash", "env", "find", "nice", "nohup", "sh", "stdbuf", "timeout", "xargs", "setsid"]
FOLDERS = ("sub/deep", "sub dir", "other", "a", "b")
TIMEOUT_S = 5
ENDLESS = re.compile(r"\b(while (true|ls)|select)\b|^bash$|&$| & |/bin/|^sudo -|coproc")
"""Lines that bash does not end, that end before their last command, or that leave the stubs."""


def make_place(folder: Path) -> Path:
    """Make a folder to work in, and the stubs beside it."""
    programs, work = folder / "programs", folder / "work"
    programs.mkdir(parents=True)
    for name in FOLDERS:
        (work / name).mkdir(parents=True)
    (folder / "home").mkdir()
    for name in STUBS:
        status = 1 if name == "false" else 0
        # One write: programs of a pipe run at the same time.
        script = (
            f'#!/bin/sh\nend="\n"\nprintf "%s\\0" "$PWD" "$0" "$@" "$end" >>"$RAN"\nexit {status}\n'
        )
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    for name in REAL:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    # What bash does itself is a program here too, so that it is written down.
    (folder / "rc").write_text("enable -n echo pwd printf test true false\n")
    return work


def run_line(line: str, work: Path) -> list[tuple[list[str], str]]:
    """Return the commands that bash ran for a line: their words, and their folders."""
    place, ran = work.parent, work.parent / "ran"
    ran.write_bytes(b"")
    environment = {
        "PATH": str(place / "programs"), "HOME": str(place / "home"), "RAN": str(ran),
        "BASH_ENV": str(place / "rc"), "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    subprocess.run(
        ["/bin/bash", "-c", line], cwd=work, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    found: list[tuple[list[str], str]] = []
    for record in ran.read_bytes().decode().split("\0\n\0")[:-1]:
        folder, program, *words = record.split("\0")
        found.append(([os.path.basename(program), *words], folder))  # noqa: PTH119
    return found


def find_unforeseen(
    commands: Sequence[ShellCommand], ran: Sequence[tuple[list[str], str]]
) -> list[str]:
    """Return what bash ran and the reader did not foresee."""
    return [
        f"{words} in {folder}"
        for words, folder in ran
        if not any(_foresees(command, words, folder) for command in commands)
    ]


def _foresees(command: ShellCommand, words: Sequence[str], folder: str) -> bool:
    if command.folders is not None and folder not in command.folders:
        return False
    # What only the shell knows may become any number of words.
    pattern = "".join(
        r"(?:[^\x00]*\x00)*" if word is None else re.escape(word) + r"\x00"
        for word in command.words
    )
    given = "\0".join([*words, ""])
    named = [command.words[0] or "", *words[1:]] if command.words else words
    return any(re.fullmatch(pattern, text) is not None for text in (given, "\0".join([*named, ""])))


if __name__ == "__main__":
    print(run_line(sys.argv[1], make_place(Path(sys.argv[2]))))
