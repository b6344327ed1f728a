"""Bugs planted one at a time in a copy of the tree, and the tests that must notice them.

A mutant names a file, a snippet that stands in it exactly once, what is put in its place, and the
test that must fail then. ``proofs/mutants.toml`` lists them. Knows files, copies and pytest. Must
never know what a bug means.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from proofs.drills import outcomes

ROOT: Final = Path(__file__).parent.parent.parent
LIST: Final = ROOT / "proofs/mutants.toml"
SUBJECTS: Final = (
    "locks",
    "fences",
    "policies",
    "digests",
    "redaction",
    "paths",
    "fsync",
    "permissions",
    "records",
    "board",
)
COPIED: Final = ("src", "tests", "proofs", "examples", "docs")
RUN_MAX_S: Final = 600
"""A bug may well make a test wait for ever."""
FAREWELL_MAX_S: Final = 30

Seen = Literal["passed", "failed", "skipped", "broken", "missing"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug, and the test that must find it."""

    name: str
    subject: str
    file: str
    old: str
    new: str
    test: str
    quick: bool = False


def load_mutants() -> list[Mutant]:
    """Return every mutant of the list."""
    return [Mutant(**row) for row in tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]]


def load_own_mutants() -> dict[str, list[str]]:
    """Return the names of the mutants that each proof must find by itself."""
    table: dict[str, list[str]] = tomllib.loads(LIST.read_text(encoding="utf-8"))["proofs"]
    return table


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the tree, in which a bug may be planted."""

    folder: Path

    @contextmanager
    def planted(self, mutant: Mutant) -> Generator[None]:
        """Have a bug in the copy for a while.

        Raises:
            LookupError: The snippet does not stand in its file exactly once.
        """
        path = self.folder / mutant.file
        text, before = path.read_text(encoding="utf-8"), path.stat()
        if text.count(mutant.old) != 1:
            raise LookupError(f"{mutant.name}: its snippet stands {text.count(mutant.old)} times")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            # What was compiled from it is valid again.
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def test(self, tests: Iterable[str], *options: str) -> dict[str, Seen]:
        """Run tests in the copy and return how each ended."""
        wanted = list(tests)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "outcomes"
            file.touch()
            words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", outcomes.__name__]
            self._run([*words, *options, *wanted], file)
            return read_outcomes(file, wanted)

    def environment(self) -> dict[str, str]:
        """Return the environment in which the copy's own code is what is imported."""
        path = os.pathsep.join(map(str, (self.folder, self.folder / "src")))
        return {**os.environ, "PYTHONPATH": path}

    def _run(self, words: Sequence[str], file: Path) -> None:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env={**self.environment(), outcomes.FILE: str(file)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(RUN_MAX_S)
        except subprocess.TimeoutExpired:
            # What it has written down so far counts.
            return
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program that may still run; it is asked first, for it has a server to stop."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(FAREWELL_MAX_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def lend_copy() -> Generator[Copy]:
    """Lend a copy of the tree; it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="turntree-mutant-"))
    folder.chmod(0o755)
    try:
        for file in [*ROOT.glob("*.py"), *ROOT.glob("*.toml"), *ROOT.glob("*.md")]:
            shutil.copy2(file, folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, symlinks=True)
        yield Copy(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_outcomes(file: Path, tests: Iterable[str]) -> dict[str, Seen]:
    """Return how each test ended in a run that ``outcomes`` recorded."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {test: seen_of(test, lines) for test in tests}


def seen_of(test: str, lines: Sequence[dict[str, str]]) -> Seen:
    """Return how a test ended, with all of its parameters."""
    own = [one for one in lines if one["test"] == test or one["test"].startswith(f"{test}[")]
    if not own:
        # A file or a folder stands for every test below it.
        own = [one for one in lines if one["test"].startswith((f"{test}::", f"{test}/"))]
    if any(one["outcome"] == "failed" and one["when"] == "call" for one in own):
        return "failed"
    if any(one["outcome"] == "failed" for one in own):
        return "broken"
    if any(one["outcome"] == "skipped" for one in own):
        return "skipped"
    return "passed" if own else "missing"
