"""The program registry: programs with their versions, references and grants."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import Digest, ProgramId, Timestamp
from turntree.core.program import Program, ProgramVersion, Right
from turntree.core.value import value
from turntree.programs.changes import Change


@value
class ProgramFilter:
    """A filter of programs; None matches all."""

    kind: str | None = None
    state: str | None = None
    tags: tuple[str, ...] = ()
    """A program must have all of them."""


@value
class ProgramReference:
    """A reference from the newest config of one program to another."""

    program: Program
    """The program at the other end."""
    member: str


@value
class VersionRow:
    """One version, without its config."""

    number: int
    digest: Digest
    at: Timestamp
    by: str


class Programs(Protocol):
    """All programs. Nothing is ever deleted."""

    async def commit(self, changes: Sequence[Change], *, by: str, at: Timestamp) -> None:
        """Commit changes together, each with its event.

        Raises:
            Conflict: A name is taken, or a program changed since it was read.
            NotFound: There is no such program, or none that this principal may see.
            PermissionDenied: This principal may not.
        """
        ...

    async def find(self, name: str, *, by: str) -> Program | None:
        """Return a program by its name or its id, if the principal may see it."""
        ...

    async def list_reachable(
        self, names: Sequence[str], members: Sequence[str], *, by: str
    ) -> list[Program]:
        """Return programs by name or id, with those reachable through members of their configs."""
        ...

    async def list_page(
        self, wanted: ProgramFilter, *, by: str, after: str = "", limit: int = 500
    ) -> list[Program]:
        """Return programs that the principal may see, in order of their names."""
        ...

    async def get_version(self, program: ProgramId, number: int) -> ProgramVersion:
        """Return a version of a config.

        Raises:
            NotFound: There is no such version.
        """
        ...

    async def list_versions(self, program: ProgramId) -> list[VersionRow]:
        """Return every version, newest first."""
        ...

    async def list_uses(self, program: ProgramId, *, by: str) -> list[ProgramReference]:
        """Return the programs whose newest config refers to this one."""
        ...

    async def list_used(self, program: ProgramId, *, by: str) -> list[ProgramReference]:
        """Return the programs that this one's newest config refers to."""
        ...

    async def list_private(self, kind: str, *, by: str) -> list[ProgramId]:
        """Return the private programs of a kind that the principal may see, unordered."""
        ...

    async def list_grants(self, program: ProgramId) -> list[tuple[str, Right]]:
        """Return the access of principals other than the owner."""
        ...
