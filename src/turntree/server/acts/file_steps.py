"""Files in the plans of acts: one step for each path, and a few of them by name."""

from collections.abc import Sequence
from typing import Final

from turntree.resources.file_diff import FileDiff
from turntree.resources.resource import FileChange
from turntree.wire.acts import FileStep

PATHS_NAMED_MAX: Final = 5


def steps_of_diff(place: str, diff: FileDiff) -> list[FileStep]:
    """Return what happens to the paths of a compared file; a rename removes one and adds one."""
    match diff.kind:
        case "renamed":
            assert diff.old is not None, "what is renamed had a path"
            return [
                FileStep(diff.old.path, place, "removed"), FileStep(diff.path, place, "added"),
            ]  # fmt: skip
        case "added" | "removed":
            return [FileStep(diff.path, place, diff.kind, diff.added, diff.removed)]
        case _:
            return [FileStep(diff.path, place, "changed", diff.added, diff.removed)]


def step_of_change(place: str, change: FileChange) -> FileStep:
    """Return the step of a path that was not compared by line."""
    kind = change.kind if change.kind in ("added", "removed") else "changed"
    return FileStep(change.path, place, kind)


def name_paths(paths: Sequence[str]) -> str:
    """Return the first paths of a list, and how many more there are."""
    more = len(paths) - PATHS_NAMED_MAX
    return ", ".join(paths[:PATHS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def count_files(count: int) -> str:
    """Return a number of files in words."""
    return f"{count} {'file' if count == 1 else 'files'}"
