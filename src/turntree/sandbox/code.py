"""Code that somebody wrote: one JSON document in, one out; and commands, which end with a code.

A program reads a document from its standard input and writes one to its standard output, in any
language that is known here. A command works in a folder. What either may use meanwhile is limited.
This module must never know how anything is run.
"""

from typing import Final, Literal, get_args

from turntree.core.errors import InvalidOperation
from turntree.core.value import value

Language = Literal["python", "javascript", "typescript"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
SOURCE_BYTES_MAX: Final = 262_144
INPUT_BYTES_MAX: Final = 1_048_576


@value
class Code:
    """A program and the language it is written in."""

    language: Language
    source: str

    def __post_init__(self) -> None:
        """Refuse what cannot be run.

        Raises:
            InvalidOperation: Another language, no program, or one that is too long.
        """
        if self.language not in LANGUAGES:
            raise InvalidOperation(
                f"{self.language!r} is no language here; there are {', '.join(LANGUAGES)}"
            )
        if not self.source.strip():
            raise InvalidOperation("a program without a line does nothing")
        if len(self.source.encode(errors="surrogatepass")) > SOURCE_BYTES_MAX:
            raise InvalidOperation(f"a program has at most {SOURCE_BYTES_MAX} bytes")


@value
class CodeLimits:
    """What a program may use. It has no disk and no network to begin with."""

    wall_s: float = 5.0
    cpu_s: int = 2
    memory_bytes: int = 268_435_456
    output_bytes: int = 1_048_576

    def __post_init__(self) -> None:
        """Refuse limits that are none.

        Raises:
            InvalidOperation: One of them is not above zero.
        """
        if min(self.wall_s, self.cpu_s, self.memory_bytes, self.output_bytes) <= 0:
            raise InvalidOperation("every limit is above zero")


@value
class CommandLimits:
    """What a command and everything it starts may use together. It has no network to begin with."""

    wall_s: float = 60.0
    cpu_s: int = 60
    """Of each process."""
    memory_bytes: int = 1_073_741_824
    processes: int = 64
    output_bytes: int = 1_048_576
    """Kept of each stream; the rest is heard and forgotten."""

    def __post_init__(self) -> None:
        """Refuse limits that are none.

        Raises:
            InvalidOperation: One of them is not above zero.
        """
        least = min(self.wall_s, self.cpu_s, self.memory_bytes, self.processes, self.output_bytes)
        if least <= 0:
            raise InvalidOperation("every limit is above zero")


@value
class CommandResult:
    """How a command ended and what it said."""

    rc: int
    stdout: str
    stderr: str
    duration_ms: int
    why: str | None = None
    """Why it was ended, if it did not end by itself."""
