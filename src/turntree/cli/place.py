"""The folder ``.turntree``: which session is the current one, for everybody who works here.

Knows one folder and one small file in it. Must never know whether such a session exists.
"""

from pathlib import Path
from typing import Final

from turntree.domain.errors import Refused

FOLDER: Final = ".turntree"
HEAD_CHARS_MAX: Final = 1000


def find_place(start: Path) -> Path | None:
    """Return the nearest ``.turntree`` folder, looking upwards."""
    return next(
        (at / FOLDER for at in (start, *start.parents) if (at / FOLDER).is_dir()),
        None,
    )


def read_head(start: Path) -> str | None:
    """Return the session that is current here, or None if none was chosen."""
    place = find_place(start)
    if place is None:
        return None
    try:
        said = (place / "HEAD").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{place / 'HEAD'} cannot be read: {error.strerror}") from error
    return said[:HEAD_CHARS_MAX].strip() or None


def write_head(start: Path, label: str) -> Path:
    """Make a session the current one here, and return the folder that says so.

    Raises:
        Refused: The folder cannot be written.
    """
    return _write(find_place(start) or start / FOLDER, label)


def write_own_head(place: Path, label: str) -> None:
    """Make a session the current one in a folder of its own, whatever is chosen above it.

    Nobody stands in a file, so nothing is current there.

    Raises:
        Refused: The folder cannot be written.
    """
    if place.is_dir():
        _write(place / FOLDER, label)


def _write(place: Path, label: str) -> Path:
    try:
        if not place.is_dir():
            place.mkdir()
            # Where I am is nobody else's business: it is not committed with the project.
            (place / ".gitignore").write_text("*\n", encoding="utf-8")
        fresh = place / "HEAD.new"
        fresh.write_text(f"{label}\n", encoding="utf-8")
        fresh.replace(place / "HEAD")
    except OSError as error:
        raise Refused(f"{place} cannot be written: {error.strerror}") from error
    return place
