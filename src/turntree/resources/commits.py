"""Read a git repository: its folders, its commits, and the lines that a branch adds.

Runs the program git, which has to be installed. Must never change a repository.
"""

import os.path
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Final

from turntree.core.errors import Hint, InvalidOperation, NotFound
from turntree.core.value import value
from turntree.resources.file_diff import LARGE_BYTES_MAX
from turntree.resources.line_diff import is_binary, match_lines, split_lines

DEFAULT_BRANCHES: Final = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Where a branch probably began; the first one that exists counts."""
_FILE_MODES: Final = (b"100644", b"100755")
_DESCRIBE: Final = Hint("branch.describe")


@value
class CommitRange:
    """The commits of a branch."""

    name: str
    """As it was asked for, or what was chosen: ``main..HEAD``."""
    base: str
    """The commit that the branch began at."""
    head: str
    commits: int


@value
class AddedLines:
    """The lines of a file that a branch added or changed."""

    path: str
    """From the top of the repository, with slashes."""
    numbers: frozenset[int]
    """From 1, without blank lines; none if the file is not read line by line."""
    is_text: bool = True


class CommitFiles:
    """The files of a commit, each read when it is asked for."""

    def __init__(
        self, ids: Mapping[str, bytes], read: Callable[[Collection[bytes]], dict[bytes, bytes]]
    ) -> None:
        """Know the ids of all files by their paths."""
        self._ids, self._read = ids, read
        self._known = dict[str, bytes | None]()

    def has_folder(self, path: str) -> bool:
        """Return whether any file is in a folder, whose path ends in a slash."""
        return any(name.startswith(path) for name in self._ids)

    def find(self, path: str) -> bytes | None:
        """Return a file, or None if the commit does not have it."""
        if path not in self._known:
            id = self._ids.get(path)
            self._known[path] = None if id is None else self._read([id]).get(id)
        return self._known[path]


class Repository:
    """A git repository, seen from one of its folders."""

    def __init__(self, folder: str) -> None:
        """Find the repository around a folder.

        Raises:
            NotFound: There is none, or git is not installed.
        """
        self._folder = folder
        try:
            self.top = _text(self._run("rev-parse", "--show-toplevel"))
        except InvalidOperation as error:
            is_none = "not a git repository" in str(error)
            why = f"{folder} is not in a git repository" if is_none else f"{folder}: {error}"
            raise NotFound(why) from error

    @cached_property
    def folders(self) -> list[str]:
        """The folders that the repository is checked out in, this one first."""
        told = self._run("worktree", "list", "--porcelain").splitlines()
        named = [_text(line[9:]) for line in told if line.startswith(b"worktree ")]
        return list(dict.fromkeys([self.top, *named]))

    def get_commit(self, name: str) -> str:
        """Return the id of a commit.

        Raises:
            NotFound: There is no such commit.
        """
        found = self._find_commit(name)
        if found is None:
            raise NotFound(f"there is no commit {name!r} in {self.top}")
        return found

    def get_range(self, name: str | None = None) -> CommitRange:
        """Return the commits that a name means: ``BASE..HEAD``, or ``BASE`` up to HEAD.

        As for a pull request, the base is the commit that both have in common. Without a name it is
        the branch that others begin at.

        Raises:
            NotFound: A commit does not exist, or there is no branch to begin at.
            InvalidOperation: There are no commits in between.
        """
        if name is None:
            base = next((one for one in DEFAULT_BRANCHES if self._find_commit(one)), None)
            if base is None:
                raise NotFound("there is no branch main or master to begin at", hint=_DESCRIBE)
            name = f"{base}..HEAD"
        left, dots, right = name.replace("...", "..").partition("..")
        base, head = left or "HEAD", right or "HEAD"
        if dots and not left:
            raise NotFound(f"{name!r} does not say where the branch began", hint=_DESCRIBE)
        first, last = self.get_commit(base), self.get_commit(head)
        # Two histories may have no commit in common: then everything differs from the base.
        with suppress(InvalidOperation):
            first = _text(self._run("merge-base", first, last))
        count = int(self._run("rev-list", "--count", f"{first}..{last}"))
        if not count:
            raise InvalidOperation(f"{base}..{head} has no commits", hint=_DESCRIBE)
        return CommitRange(f"{base}..{head}", first, last, count)

    def list_added(self, commits: CommitRange) -> list[AddedLines]:
        """Return the files that a branch changed, and the lines that it added to each."""
        told = self._run(
            "diff-tree", "-r", "-z", "--raw", "-M", "--no-abbrev", "--no-commit-id",
            commits.base, commits.head,
        )  # fmt: skip
        fields = iter(told.split(b"\0")[:-1])
        pairs = list[tuple[str, bytes, bytes]]()
        for line in fields:
            _, mode, old, new, status = line.split()
            path = next(fields)
            if status[:1] in (b"R", b"C"):
                path = next(fields)
            if mode in _FILE_MODES and old != new:
                pairs.append((_path(path), old, new))
        blobs = self._read_blobs({id for _, old, new in pairs for id in (old, new)})
        return [_added(path, blobs.get(old, b""), blobs.get(new)) for path, old, new in pairs]

    def get_files(self, commit: str) -> "CommitFiles":
        """Return the files of a commit.

        Raises:
            NotFound: There is no such commit.
        """
        ids = dict[str, bytes]()
        listed = self._run("ls-tree", "-r", "-z", "--full-tree", self.get_commit(commit))
        for entry in listed.split(b"\0")[:-1]:
            about, _, name = entry.partition(b"\t")
            mode, _, id = about.split()
            if mode in _FILE_MODES:
                ids[_path(name)] = id
        return CommitFiles(ids, self._read_blobs)

    def _find_commit(self, name: str) -> str | None:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        try:
            return _text(self._run(*words))
        except InvalidOperation:
            return None

    def _read_blobs(self, ids: Collection[bytes]) -> dict[bytes, bytes]:
        # One process for all of them: a process for each takes a second for 500 files.
        told = self._run("cat-file", "--batch", sent=b"".join(id + b"\n" for id in sorted(ids)))
        return dict(_list_blobs(told))

    def _run(self, *words: str, sent: bytes = b"") -> bytes:
        # A repository may name programs that git would start; none of these commands starts them.
        command = ["git", "--no-optional-locks", "-C", self._folder, *words]
        try:
            return subprocess.run(command, input=sent, capture_output=True, check=True).stdout
        except FileNotFoundError as error:
            raise NotFound("git is not installed, which reads commits") from error
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip().splitlines()
            why = said[0] if said else f"git {words[0]} ended with {error.returncode}"
            raise InvalidOperation(why) from error


def find_file(path: str) -> tuple[Repository, str]:
    """Return the repository of a file, which may be gone, and the file's path in it.

    Raises:
        NotFound: It is not in a repository, or git is not installed.
    """
    above, name = os.path.split(path)
    above = folder = os.path.realpath(above)
    while not os.path.isdir(folder):  # noqa: PTH112
        folder = os.path.dirname(folder)  # noqa: PTH120
    repository = Repository(folder)
    inside = os.path.relpath(os.path.join(above, name), repository.top)  # noqa: PTH118
    return repository, inside.replace(os.sep, "/")


def _added(path: str, old: bytes, new: bytes | None) -> AddedLines:
    # Of a partial clone, git does not have every file.
    if new is None or is_binary(new) or len(new) > LARGE_BYTES_MAX:
        return AddedLines(path, frozenset(), is_text=False)
    lines = split_lines(new)
    before = [] if is_binary(old) or len(old) > LARGE_BYTES_MAX else split_lines(old)
    stayed = {
        place
        for same in match_lines(before, lines)
        for place in range(same.new, same.new + same.length)
    }
    # A blank line does not tell who wrote it.
    added = (place for place, line in enumerate(lines) if place not in stayed and line.strip())
    return AddedLines(path, frozenset(place + 1 for place in added))


def _list_blobs(told: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(told):
        end = told.index(b"\n", at)
        id, *about = told[at:end].split()
        at = end + 1
        if about == [b"missing"]:
            continue
        at += int(about[1]) + 1
        yield id, told[end + 1 : at - 1]


def _text(told: bytes) -> str:
    return _path(told.removesuffix(b"\n"))


def _path(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
