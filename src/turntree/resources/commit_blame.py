"""Compare the files of a commit with the states of the folders that turns worked in.

A folder may be the top of the repository, lie below it or above it, or be another work tree of it,
which may be gone by now. Knows drivers and commits. It does not know turns.
"""

from collections.abc import Mapping, Sequence

from turntree.core.errors import DataMissing, NotFound
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.resources.commits import CommitFiles
from turntree.resources.driver import HasFiles
from turntree.resources.file_diff import LARGE_BYTES_MAX
from turntree.resources.file_history import StateChange
from turntree.resources.files import Report
from turntree.resources.line_diff import is_binary, split_lines
from turntree.resources.line_origins import LineOrigin, LineOrigins
from turntree.resources.resource import FileEntry, Resource


@value
class RepositoryPart:
    """A folder with a history, and how its paths are related to those of a repository."""

    resource: Resource
    above: str = ""
    """Where the repository is in the folder: empty, or ending in a slash."""
    below: str = ""
    """Where the folder is in the repository: empty, or ending in a slash."""

    def to_inside(self, path: str) -> str:
        """Return a path of the repository as one of the folder."""
        if path.startswith(self.below):
            return self.above + path[len(self.below) :]
        # Not in the folder, but its lines may come from there. No path in a state starts like that.
        return f"/{path}"

    def find_outside(self, path: str) -> str | None:
        """Return a path of the folder as one of the repository, or None if it is not in it."""
        if path.startswith("/"):
            return path[1:]
        return self.below + path[len(self.above) :] if path.startswith(self.above) else None


def find_part(
    resource: Resource, folders: Sequence[str], files: CommitFiles
) -> RepositoryPart | None:
    """Return how a folder is related to a repository that is checked out in some folders."""
    place = resource.place.rstrip("/")
    if place in folders:
        return RepositoryPart(resource)
    for folder in folders:
        if folder.startswith(f"{place}/"):
            return RepositoryPart(resource, above=f"{folder[len(place) + 1 :]}/")
    for folder in folders:
        if place.startswith(f"{folder}/"):
            below = f"{place[len(folder) + 1 :]}/"
            # An agent's work tree that was removed lies below the repository and is not part of it.
            return RepositoryPart(resource, below=below if files.has_folder(below) else "")
    return None


def trace_files(
    keeper: HasFiles,
    steps: Sequence[StateChange],
    part: RepositoryPart,
    texts: Mapping[str, Sequence[bytes]],
    files: CommitFiles,
    report: Report,
) -> list[list[LineOrigin | None]]:
    """Return, for each file of a commit, which state wrote each of its lines."""
    origins = LineOrigins()
    for place in range(1, len(steps)):
        report(place, len(steps))
        _advance(origins, keeper, steps[place - 1].state, steps[place].state, place)
    inside = {part.to_inside(path): text for path, text in texts.items()}
    for path in inside:
        if not origins.knows(path) and (text := _read(keeper, steps[-1].state, path)) is not None:
            origins.begin(path, text)

    def read(path: str) -> list[bytes]:
        outside = part.find_outside(path)
        return _lines((files.find(outside) if outside is not None else None) or b"")

    return list(origins.trace(inside, read).values())


def _advance(origins: LineOrigins, keeper: HasFiles, old: ExtRef, new: ExtRef, place: int) -> None:
    changes = dict[str, list[bytes] | None]()
    for change in keeper.compare(old, new):
        was, now = _file(change.old), _file(change.new)
        if was is None and now is None:
            continue
        if was is not None and not origins.is_current(was.path):
            origins.begin(was.path, _read(keeper, old, was.path) or [])
        changes[change.path] = None if now is None else _read(keeper, new, now.path)
    origins.advance(place, changes)


def _file(entry: FileEntry | None) -> FileEntry | None:
    is_text = entry is not None and entry.kind == "file" and entry.size <= LARGE_BYTES_MAX
    return entry if is_text else None


def _read(keeper: HasFiles, state: ExtRef, path: str) -> list[bytes] | None:
    try:
        return _lines(keeper.read(state, path))
    except DataMissing:
        raise  # The file existed. Treating lost data as absence would blame the wrong turn.
    except NotFound:
        return None


def _lines(content: bytes) -> list[bytes]:
    return [] if is_binary(content) or len(content) > LARGE_BYTES_MAX else split_lines(content)
