"""Values: programs and commands to run in a sandbox, and their limits.

A program reads one JSON document from standard input and writes one to standard output, in one of
the supported languages. A command works in a folder and ends with an exit code. This module must
never know how anything is run.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, get_args

from turntree.core.errors import InvalidOperation
from turntree.core.value import value

Language = Literal["python", "javascript", "typescript"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
# Every version of a program is stored.
SOURCE_BYTES_MAX: Final = 262_144
INPUT_BYTES_MAX: Final = 1_048_576


@value
class Code:
    """A program and the language it is written in."""

    language: Language
    source: str

    def __post_init__(self) -> None:
        """Validate the program.

        Raises:
            InvalidOperation: The language is unknown, or the source is empty or too long.
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
    """Limits of a program, which has neither disk nor network."""

    wall_s: float = 5.0
    cpu_s: int = 2
    memory_bytes: int = 268_435_456
    output_bytes: int = 1_048_576

    def __post_init__(self) -> None:
        """Validate the limits.

        Raises:
            InvalidOperation: A limit is not above zero.
        """
        if min(self.wall_s, self.cpu_s, self.memory_bytes, self.output_bytes) <= 0:
            raise InvalidOperation("every limit is above zero")


@value
class CommandLimits:
    """Limits of a command and all its child processes together; it has no network."""

    wall_s: float = 60.0
    cpu_s: int = 60
    """Per process."""
    memory_bytes: int = 1_073_741_824
    processes: int = 64
    output_bytes: int = 1_048_576
    """Kept of each stream: its beginning and its end. What lies between is read and discarded."""

    def __post_init__(self) -> None:
        """Validate the limits.

        Raises:
            InvalidOperation: A limit is not above zero.
        """
        least = min(self.wall_s, self.cpu_s, self.memory_bytes, self.processes, self.output_bytes)
        if least <= 0:
            raise InvalidOperation("every limit is above zero")


@value
class CommandView:
    """What a command has besides the system's programs and its folder."""

    reads: tuple[str, ...] = ()
    """Other folders that it may read, by their absolute paths, which are the same inside."""
    writes: tuple[str, ...] = ()
    """Other folders that it may change."""
    network: bool = False
    """Whether it shares the machine's network; without, it has none."""
    guarded: tuple[str, ...] = ()
    """Names that it may read and not change, if they exist directly in its folder or in another
    one that it may change."""
    working: str = "."
    """Where it starts, below its folder."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@value
class CommandResult:
    """The exit code and output of a command."""

    rc: int
    stdout: str
    stderr: str
    duration_ms: int
    why: str | None = None
    """Why it was killed, if it did not end by itself."""
