"""The registry: programs with their versions, references and grants."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import Digest, ProgramId, Timestamp
from turntree.core.program import Program, ProgramVersion, Right
from turntree.core.value import value
from turntree.programs.changes import Change


@value
class ProgramFilter:
    """Which programs a list is asked for; None leaves a question open."""

    kind: str | None = None
    state: str | None = None
    tags: tuple[str, ...] = ()
    """All of them."""


@value
class ProgramReference:
    """The newest config of one program names another."""

    program: Program
    """The one at the other end."""
    member: str


@value
class VersionRow:
    """One version, without its config."""

    number: int
    digest: Digest
    at: Timestamp
    by: str


class Programs(Protocol):
    """Everything that has an address. Nothing is ever taken out."""

    async def commit(self, changes: Sequence[Change], *, by: str, at: Timestamp) -> None:
        """Let changes become true together, each with its event.

        Raises:
            Conflict: A name is taken, or a program changed since it was read.
            NotFound: There is no such program, or none that this principal may see.
            PermissionDenied: It is not for this principal to do.
        """
        ...

    async def find(self, name: str, *, by: str) -> Program | None:
        """Return a program by its name or its id, if the principal may see it."""
        ...

    async def list_reachable(
        self, names: Sequence[str], members: Sequence[str], *, by: str
    ) -> list[Program]:
        """Return programs by name or id, and what they lead to through members of their configs."""
        ...

    async def list_page(
        self, wanted: ProgramFilter, *, by: str, after: str = "", limit: int = 500
    ) -> list[Program]:
        """Return programs that the principal may see, in order of their names."""
        ...

    async def get_version(self, program: ProgramId, number: int) -> ProgramVersion:
        """Return a config as it was.

        Raises:
            NotFound: There is no such version.
        """
        ...

    async def list_versions(self, program: ProgramId) -> list[VersionRow]:
        """Return every version, the newest first."""
        ...

    async def list_uses(self, program: ProgramId, *, by: str) -> list[ProgramReference]:
        """Return the programs whose newest config names this one."""
        ...

    async def list_used(self, program: ProgramId, *, by: str) -> list[ProgramReference]:
        """Return the programs that this one's newest config names."""
        ...

    async def list_private(self, kind: str, *, by: str) -> list[ProgramId]:
        """Return the private programs of a kind that the principal may see, in no order."""
        ...

    async def list_grants(self, program: ProgramId) -> list[tuple[str, Right]]:
        """Return who may do what besides the owner."""
        ...
