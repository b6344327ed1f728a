"""Merge the files of three states, path by path: a base, the present, and a wanted state.

Taking back a turn merges from the state it left to the state it found; applying a turn elsewhere
merges the other way round. A path that only one side changed gets that side's version. Text that
both changed is merged by line. What cannot be merged is a conflict, and the caller chooses. A file
that was renamed by the turn or since is followed.

Pure: the caller supplies the entries, and a function that reads their bytes.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeVar

from turntree.core.ids import Digest, TurnId
from turntree.core.value import value
from turntree.resources.driver import NewContent
from turntree.resources.file_diff import LARGE_BYTES_MAX
from turntree.resources.line_diff import apply_hunks, hunks_of, is_binary, split_lines
from turntree.resources.line_merge import conflicts_of, mark, merge_lines, prefer
from turntree.resources.line_trace import find_likeness
from turntree.resources.resource import FileChange, FileEntry

T = TypeVar("T")
Choice = Literal["keep", "exact", "mark"]
"""What to do about a conflict: leave the present lines, take the wanted ones, or mark both."""
Why = Literal["lines", "content", "removed", "added", "type", "mode", "in_the_way"]
LIKE_FILES_READ_MAX: Final = 40
Read = Callable[[FileEntry], bytes]
"""Returns the bytes of an entry of one of the three states."""


@value
class MergeConflict:
    """A path that cannot be merged without a decision."""

    path: str
    why: Why
    """lines: both sides changed the same lines. removed: one side removed what the other changed.
    added: both sides added it."""
    lines: tuple[tuple[int, int], ...] = ()
    """The stretches in the present file, as first line and number of lines."""
    turns: tuple[TurnId, ...] = ()
    """The turns that made the changes in the way."""
    outside: bool = False
    """Whether some of these were made outside any turn."""


@value
class MergeRequest:
    """What to merge, and what the user chose."""

    changes: Sequence[FileChange]
    """From the base to the wanted state."""
    hunks: Mapping[str, Collection[int]] | None = None
    """For some paths, the hunks to apply, by their place in the file's diff."""
    choices: Mapping[str, Choice] = field(default_factory=dict[str, Choice])
    default: Choice | None = None
    """The choice for all other conflicts."""
    labels: tuple[str, str] = ("now", "wanted")
    """What the markers of a conflict call the two sides."""

    def choice(self, path: str) -> Choice | None:
        """Return what was chosen for a path."""
        chosen: Choice | None = self.choices.get(path)
        return self.default if chosen is None else chosen


@dataclass(slots=True)
class MergeResult:
    """What a merge does to the present state."""

    edits: dict[str, NewContent | None] = field(default_factory=dict[str, NewContent | None])
    """Paths to change, and what each becomes."""
    conflicts: list[MergeConflict] = field(default_factory=list[MergeConflict])
    """All conflicts, those with a choice too."""
    undecided: list[MergeConflict] = field(default_factory=list[MergeConflict])
    """Conflicts without a choice: their paths stay."""
    done: list[str] = field(default_factory=list[str])
    """Paths that already are as wanted."""


@value
class Merger:
    """Merges into one present state."""

    request: MergeRequest
    present: Mapping[str, FileEntry]
    """The entries of the present state at the paths that matter, and at all new ones."""
    appeared: Sequence[FileEntry]
    """Files that the present state has and the base does not."""
    read: Read

    def merge(self) -> MergeResult:
        """Return what to change, and what is left to decide."""
        result = MergeResult()
        renames = self._find_renames()
        targets = {new.path for new in renames.values()}
        for change in self.request.changes:
            if change.path in renames:
                self._follow_turn(change, renames[change.path], result)
            elif change.path not in targets:
                self._merge_path(change, result)
        self._spare_what_is_in_the_way(result)
        return result

    def _merge_path(self, change: FileChange, result: MergeResult) -> None:
        base, wanted = change.old, change.new
        present = self.present.get(change.path)
        # A file that is gone may have been renamed since; then its new name gets the changes.
        if present is None and base is not None and base.kind == "file":
            moved = _find_like(base, self.appeared, self.read)
            if moved is not None:
                self._settle(moved.path, base, moved, wanted, result)
                return
        self._settle(change.path, base, present, wanted, result)

    def _follow_turn(self, gone: FileChange, new: FileChange, result: MergeResult) -> None:
        """Merge a file that has one name in the base and another in the wanted state."""
        present = self.present.get(gone.path)
        assert present is not None, "only what was changed since is followed"
        if self._with_hunks(gone.old, new.new) is None:
            return
        moved = MergeResult()
        self._settle(
            new.path, gone.old, replace(present, path=new.path), new.new, moved, held=present
        )
        result.conflicts += moved.conflicts
        result.undecided += moved.undecided
        if not moved.undecided:
            stays = NewContent(replace(present, path=new.path))
            result.edits |= {gone.path: None, new.path: moved.edits.get(new.path, stays)}

    def _settle(
        self,
        path: str,
        base: FileEntry | None,
        present: FileEntry | None,
        wanted: FileEntry | None,
        result: MergeResult,
        *,
        held: FileEntry | None = None,
    ) -> None:
        """Decide about one path; ``held`` is the entry to read the present bytes from."""
        asked = self._with_hunks(base, wanted)
        if asked is None:
            return
        new, data = asked
        if _same(present, new):
            result.done.append(path)
        elif _same(present, base):
            result.edits[path] = None if new is None else NewContent(_at(new, path), data)
        elif not _same(base, new):
            self._merge_both(path, base, present, (new, data), held or present, result)

    def _merge_both(
        self,
        path: str,
        base: FileEntry | None,
        present: FileEntry | None,
        asked: tuple[FileEntry | None, bytes | None],
        held: FileEntry | None,
        result: MergeResult,
    ) -> None:
        wanted, data = asked
        if base is None or present is None or wanted is None:
            why: Why = "added" if base is None else "removed"
            self._choose_side(MergeConflict(path, why), wanted, data, result)
        elif not base.kind == present.kind == wanted.kind:
            self._choose_side(MergeConflict(path, "type"), wanted, data, result)
        elif base.kind == "file":
            assert held is not None, "what is present can be read"
            self._merge_files(path, base, (present, held), wanted, data, result)
        elif base.kind == "directory":
            self._choose_side(MergeConflict(path, "mode"), wanted, data, result)
        else:
            self._choose_side(MergeConflict(path, "content"), wanted, data, result)

    def _merge_files(
        self,
        path: str,
        base: FileEntry,
        here: tuple[FileEntry, FileEntry],
        wanted: FileEntry,
        data: bytes | None,
        result: MergeResult,
    ) -> None:
        present, held = here
        mode = _merge_value(base.mode, present.mode, wanted.mode)
        if mode is None:
            self._choose_side(MergeConflict(path, "mode"), wanted, data, result)
            return
        digest = _merge_value(base.digest, present.digest, wanted.digest)
        if digest is not None:
            side, content = (present, None) if digest == present.digest else (wanted, data)
            entry = replace(side, path=path, mode=mode)
            result.edits[path] = NewContent(entry, content)
            return
        texts = self._read_texts(base, held, wanted, data)
        if texts is None:
            self._choose_side(MergeConflict(path, "content"), wanted, data, result)
            return
        chunks = merge_lines(*(split_lines(text) for text in texts))
        if stretches := conflicts_of(chunks):
            found = MergeConflict(
                path, "lines", tuple((one.start, len(one.present)) for one in stretches)
            )
            result.conflicts.append(found)
            choice = self.request.choice(path)
            if choice is None:
                result.undecided.append(found)
                return
            if choice == "mark":
                merged = mark(chunks, *self.request.labels)
            else:
                merged = prefer(chunks, "present" if choice == "keep" else "wanted")
        else:
            merged = prefer(chunks, "present")
        entry = _with_content(replace(present, path=path, mode=mode), merged)
        if not _same(entry, present):
            result.edits[path] = NewContent(entry, merged)

    def _choose_side(
        self,
        found: MergeConflict,
        wanted: FileEntry | None,
        data: bytes | None,
        result: MergeResult,
    ) -> None:
        """Record a conflict about a whole path; only one of its sides can be taken."""
        result.conflicts.append(found)
        choice = self.request.choice(found.path)
        if choice is None:
            result.undecided.append(found)
        elif choice == "exact":
            new = None if wanted is None else NewContent(_at(wanted, found.path), data)
            result.edits[found.path] = new

    def _with_hunks(
        self, base: FileEntry | None, wanted: FileEntry | None
    ) -> tuple[FileEntry | None, bytes | None] | None:
        """Return the wanted entry with only the chosen hunks; None if none was chosen."""
        chosen = self.request.hunks
        named = wanted or base
        if chosen is None or named is None:
            return wanted, None
        numbers = chosen.get(named.path)
        if not numbers:
            return None
        sides = [side for side in (base, wanted) if side is not None]
        if any(side.kind != "file" or side.size > LARGE_BYTES_MAX for side in sides):
            return wanted, None
        texts = [split_lines(b"" if side is None else self.read(side)) for side in (base, wanted)]
        hunks = hunks_of(*texts)
        # All of them, or a change that has no lines, such as a mode: the entry as it is wanted.
        if len(set(numbers)) >= len(hunks):
            return wanted, None
        picked = [hunk for number, hunk in enumerate(hunks) if number in numbers]
        data = b"".join(apply_hunks(texts[0], picked))
        return _with_content(named, data), data

    def _read_texts(
        self, base: FileEntry, present: FileEntry, wanted: FileEntry, data: bytes | None
    ) -> tuple[bytes, bytes, bytes] | None:
        """Return the three texts; None if one of them is not text, or too large to merge."""
        if any(side.size > LARGE_BYTES_MAX for side in (base, present, wanted)):
            return None
        texts = self.read(base), self.read(present), self.read(wanted) if data is None else data
        return None if any(map(is_binary, texts)) else texts

    def _find_renames(self) -> dict[str, FileChange]:
        """Return where files go that the wanted state has elsewhere, if they were changed since.

        Others need not be followed: removing one path and adding the other is the same.
        """
        added = [
            one for one in self.request.changes
            if one.old is None and one.new is not None and one.path not in self.present
        ]  # fmt: skip
        renames: dict[str, FileChange] = {}
        for change in self.request.changes:
            old, present = change.old, self.present.get(change.path)
            if old is None or change.new is not None or old.kind != "file":
                continue
            if present is None or present.kind != "file" or present.digest == old.digest:
                continue
            taken = {new.path for new in renames.values()}
            free = {one.path: one for one in added if one.path not in taken}
            files = [one.new for one in free.values() if one.new is not None]
            like = _find_like(old, files, self.read)
            if like is not None:
                renames[change.path] = free[like.path]
        return renames

    def _spare_what_is_in_the_way(self, result: MergeResult) -> None:
        """Turn edits below a present file that stays into conflicts."""
        for path, new in list(result.edits.items()):
            if new is None:
                continue
            for above in above_of(path):
                there = self.present.get(above)
                is_file = there is not None and there.kind != "directory"
                if is_file and above not in result.edits:
                    del result.edits[path]
                    found = MergeConflict(path, "in_the_way")
                    result.conflicts.append(found)
                    result.undecided.append(found)
                    break


def above_of(path: str) -> list[str]:
    """Return the folders above a path, outermost first."""
    names = path.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names))]


def _find_like(old: FileEntry, others: Sequence[FileEntry], read: Read) -> FileEntry | None:
    """Return the file that another one became: equal bytes, or else similar text."""
    files = [one for one in others if one.kind == "file" and one.size]
    if not old.size:
        return None
    equal = next((one for one in files if one.digest == old.digest), None)
    if equal is not None or old.size > LARGE_BYTES_MAX:
        return equal
    few = [one for one in files if one.size <= LARGE_BYTES_MAX][:LIKE_FILES_READ_MAX]
    text = read(old)
    texts = [read(one) for one in few]
    if is_binary(text):
        return None
    place = find_likeness(split_lines(text), [split_lines(one) for one in texts])
    return None if place is None else few[place]


def _merge_value(base: T, present: T, wanted: T) -> T | None:
    """Return the value that one side changed; None if both changed it, differently."""
    if present in (base, wanted):
        return wanted
    return present if wanted == base else None


def _same(one: FileEntry | None, other: FileEntry | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.kind, one.mode, one.digest) == (other.kind, other.mode, other.digest)


def _at(entry: FileEntry, path: str) -> FileEntry:
    return replace(entry, path=path)


def _with_content(entry: FileEntry, data: bytes) -> FileEntry:
    digest = Digest(f"sha256:{hashlib.sha256(data).hexdigest()}")
    return replace(entry, size=len(data), digest=digest)
