"""What a store of agent turns must do to be compared: five verbs, in its own types.

Knows the unit of work and where a store may live. Must never know a single library.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from psycopg.conninfo import conninfo_to_dict

from proofs.workload import Exchange
from turntree.core.message import ToolResult, ToolUse

TURN_BY_TURN = "turn by turn"
FILL_PATIENTLY_MAX = 100
"""Threads up to this length are always filled turn by turn, whatever it costs."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store may keep its turns: a database of its own, or files in a folder."""

    conninfo: str
    folder: Path

    def url(self, driver: str) -> str:
        """Return the database as SQLAlchemy wants to be told, by its socket."""
        at = conninfo_to_dict(self.conninfo)
        where = f"host={at['host']}&port={at['port']}"
        return f"postgresql+{driver}://{at['user']}@/{at['dbname']}?{where}"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call and its result, as documents and as text."""

    id: str
    tool: str
    args: dict[str, Any]
    output: dict[str, Any]

    @property
    def args_text(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.args)

    @property
    def output_text(self) -> str:
        """The result as JSON."""
        return json.dumps(self.output)


@dataclass(frozen=True, slots=True)
class Said:
    """What a turn of the workload says, for libraries that know no exchange."""

    question: str
    thought: str
    calls: tuple[Call, ...]
    answer: str


def said_in(exchange: Exchange) -> Said:
    """Return the words, calls and results of an exchange."""
    first, results, last = exchange.reply
    outputs = {part.call_id: part.output for part in results.parts if isinstance(part, ToolResult)}
    uses = [part for part in first.parts if isinstance(part, ToolUse)]
    calls = tuple(Call(use.call_id, use.tool, use.args, outputs[use.call_id]) for use in uses)  # type: ignore[arg-type]
    return Said(exchange.query[0].text, first.text, calls, last.text)


class Rival(Protocol):
    """One thread of a store, driven through the store's public interface."""

    distribution: ClassVar[str]
    """What it is installed as."""
    forks_by: ClassVar[str]
    """How a branch at the head comes about."""
    forks_max: ClassVar[int | None]
    """The longest thread whose fork is worth waiting for, or None."""

    cycle: ClassVar[int]
    """After how many appended turns what it writes repeats itself."""

    async def open(self, place: Place) -> None:
        """Create the tables and begin an empty thread."""

    async def fill(self, exchanges: list[Exchange]) -> str:
        """Make the thread this long and say how; later calls find it warm."""

    def prepare(self, exchange: Exchange) -> Any:
        """Return a turn in the library's own types; nobody measures this."""

    async def append(self, prepared: Any) -> None:
        """Add a prepared turn durably."""

    async def load(self) -> int:
        """Read the whole thread into the library's own types; return its length in turns."""

    async def fork(self) -> None:
        """Branch at the head, durably."""

    async def close(self) -> None:
        """Let go of everything."""
