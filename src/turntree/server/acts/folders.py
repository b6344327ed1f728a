"""Folders that the user names in the page."""

from pathlib import Path

from turntree.core.errors import InvalidOperation


def whole_path(folder: str) -> Path:
    """Return a folder that means the same wherever the server runs; ``~`` is the user's home.

    Raises:
        InvalidOperation: The path is relative, or begins with the home of an unknown user.
    """
    try:
        path = Path(folder.strip()).expanduser()
    except RuntimeError as error:
        raise InvalidOperation(f"there is no such home folder: {folder!r}") from error
    if not path.is_absolute():
        raise InvalidOperation(f"name the whole path of the folder: {folder!r} is relative")
    return path
