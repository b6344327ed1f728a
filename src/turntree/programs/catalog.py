"""Values of a list of programs: its filter, and references and versions as it shows them."""

from turntree.core.ids import Digest, Timestamp
from turntree.core.program import Program
from turntree.core.value import value


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
