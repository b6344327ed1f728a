"""The schema number: which of two releases has the newer rules.

``NUMBER`` is raised with every change to a file in ``migrations/`` or ``functions/``, ``DIGEST`` is
what those files hashed to when it was raised last. ``python -m tests.schema_number`` sets both, and
a test fails when the files have changed since. A database notes the number whose functions and
policies are in force, so that no older release puts its own in their place.
"""

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from typing import Final

from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.db.sql import load_files

NUMBER: Final = 18
DIGEST: Final = "0c84b6e38e5c202aaad91f6a675705b206e6c2f2362af92bed9c05bbb6e5aa4e"

PACKAGE: Final = "turntree"
_MARK: Final = "functions"
"""How the line in the database begins that says whose functions are in force."""


@value
class Schema:
    """The SQL of a release: its number and its digest."""

    number: int
    digest: str

    @property
    def mark(self) -> str:
        """The name under which a database notes that this is in force, by which version."""
        return f"{_MARK} {self.number} {self.digest} {version(PACKAGE)}"


def this_schema() -> Schema:
    """Return the schema of the release that is running."""
    return Schema(NUMBER, digest_files()[:16])


def find_schema(names: Iterable[str]) -> tuple[Schema, str] | None:
    """Return the schema that a table of migrations names and the version that brought it."""
    for name in names:
        match name.split(" "):
            case [word, number, digest, brought_by] if word == _MARK:
                return Schema(int(number), digest), brought_by
            case [word, digest] if word == _MARK:
                # From before there were numbers.
                return Schema(0, digest), "0.1.0"
            case _:
                pass
    return None


def is_schema_mark(name: str) -> bool:
    """Return whether a line of the table of migrations says whose functions are in force."""
    return name.split(" ", maxsplit=1)[0] == _MARK


def digest_files() -> str:
    """Return the digest of every migration and function of this package."""
    found = hashlib.sha256()
    for folder in ("migrations", "functions"):
        for name, text in load_files(folder):
            found.update(f"{folder}/{name} {len(text)}\n{text}".encode())
    return found.hexdigest()


def require_no_newer(ours: Schema, in_force: Schema, brought_by: str) -> None:
    """Refuse to work on a database whose rules are newer, or of another text with the same number.

    Two texts under one number exist in development alone, where SQL was changed and the number was
    not. Neither is known to be the newer, so neither replaces the other.

    Raises:
        InvalidOperation: The rules of the database are not ours to replace.
    """
    if in_force.number > ours.number:
        raise InvalidOperation(
            f"this database has schema {in_force.number}, brought by {PACKAGE} {brought_by}, and"
            f" this is {PACKAGE} {version(PACKAGE)} with schema {ours.number}: upgrade {PACKAGE} to"
            f" {brought_by} or newer (pip install --upgrade {PACKAGE})"
        )
    if in_force.number == ours.number and in_force.digest != ours.digest:
        raise InvalidOperation(
            f"this database has schema {in_force.number} with other functions than this copy of"
            f" {PACKAGE}, whose SQL was changed: raise its number (python -m tests.schema_number),"
            f" or use the release {brought_by}"
        )
