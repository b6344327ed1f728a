"""The schema number: tells which of two releases has the newer SQL.

``NUMBER`` is raised with each change to a file in ``migrations/`` or ``functions/``; ``DIGEST`` is
the digest of those files when it was last raised. ``python -m tests.schema_number`` sets both, and
a test fails if the files have changed since. A database stores the number of the functions and
policies it has installed, so that an older release does not replace them with its own.
"""

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from typing import Final

from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.db.sql import load_files

NUMBER: Final = 110
DIGEST: Final = "6cae1ffe45e3a3f6010683167e5218e37ef12b5e328f90538eee28660395cb26"

PACKAGE: Final = "turntree"
_MARK: Final = "functions"
"""First word of the database row that names the installed functions."""


@value
class Schema:
    """The SQL of a release: its number and its digest."""

    number: int
    digest: str

    @property
    def mark(self) -> str:
        """The row that records in a database that this schema is installed by this version."""
        return f"{_MARK} {self.number} {self.digest} {version(PACKAGE)}"


def this_schema() -> Schema:
    """Return the schema of the release that is running."""
    return Schema(NUMBER, digest_files()[:16])


def find_schema(names: Iterable[str]) -> tuple[Schema, str] | None:
    """Return the schema that the migrations table names, and the version that installed it."""
    for name in names:
        match name.split(" "):
            case [word, number, digest, brought_by] if word == _MARK:
                return Schema(int(number), digest), brought_by
            case [word, digest] if word == _MARK:
                # Written before schemas had numbers.
                return Schema(0, digest), "0.1.0"
            case _:
                pass
    return None


def is_schema_mark(name: str) -> bool:
    """Return whether a row of the migrations table names the installed functions."""
    return name.split(" ", maxsplit=1)[0] == _MARK


def digest_files() -> str:
    """Return the digest of all migrations and functions of this package."""
    digest = hashlib.sha256()
    for folder in ("migrations", "functions"):
        for name, text in load_files(folder):
            digest.update(f"{folder}/{name} {len(text)}\n{text}".encode())
    return digest.hexdigest()


def require_no_newer(ours: Schema, in_force: Schema, brought_by: str) -> None:
    """Refuse a database whose schema is newer than ours, or differs under the same number.

    Two schemas with one number exist only in development, where the SQL was changed and the number
    was not. Neither is known to be the newer one, so neither replaces the other.

    Raises:
        InvalidOperation: We must not replace the schema of the database.
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
