"""Summary of imported transcripts: their size before, and what the ledger stores of them.

Pure arithmetic over what importers recorded. Nothing is estimated: a figure that cannot be computed
is None.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from turntree.core.ids import Timestamp, instant, is_instant, unix_ms
from turntree.core.value import value

SOON_DAYS: Final = 7
_DAY_MS: Final = 24 * 60 * 60 * 1000


@value
class ImportedCounts:
    """What the ledger contains of imported transcripts."""

    sessions: int
    turns: int
    tokens: Mapping[str, int]
    """Tokens of distinct model calls, by the tool they were imported from."""
    newest: str | None
    """The session whose head was sealed last."""


@value
class DiskUsage:
    """Bytes on the server's disk, including indexes."""

    raw: int
    """Raw records, packed."""
    search: int
    """Search indexes."""
    rest: int
    """Turns, sessions, events."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.raw + self.search + self.rest


@value
class ImportedTranscript:
    """What the import of one transcript recorded."""

    origin: str
    report: Mapping[str, Any]
    deleted_on: Timestamp | None
    """When its tool may delete it; None if that is unknown, or already done."""


@value
class ImportSummary:
    """Figures for all imported transcripts."""

    transcripts: int
    sessions: int
    turns: int
    bytes_before: int
    bytes_after: DiskUsage
    tokens: int
    tokens_repeated: Mapping[str, int]
    """Tokens that a plain sum over the records would count more than once, by tool.

    Tools for which that is unknown are not included.
    """
    sessions_repaired: int
    calls_repaired: int
    sessions_deleted_soon: int
    next_deleted_on: Timestamp | None
    newest: str | None


def take_tally(
    held: ImportedCounts,
    bytes_before: int,
    sizes: DiskUsage,
    brought: Iterable[ImportedTranscript],
    now: Timestamp,
) -> ImportSummary:
    """Return the figures for imported transcripts."""
    all_ = list(brought)
    soon = instant(unix_ms(now) + SOON_DAYS * _DAY_MS)
    repaired = [number for one in all_ if (number := _number(one, "repaired"))]
    due = sorted(one.deleted_on for one in all_ if one.deleted_on and one.deleted_on <= soon)
    return ImportSummary(
        transcripts=len(all_),
        sessions=held.sessions,
        turns=held.turns,
        bytes_before=bytes_before,
        bytes_after=sizes,
        tokens=sum(held.tokens.values()),
        tokens_repeated=_repeated(held.tokens, all_),
        sessions_repaired=len(repaired),
        calls_repaired=sum(repaired),
        sessions_deleted_soon=len(due),
        next_deleted_on=due[0] if due else None,
        newest=held.newest,
    )


def deletion_of(heads: Mapping[str, Any]) -> Timestamp | None:
    """Return when the first session of a transcript may be deleted, according to its details."""
    details = (cast("dict[str, Any]", one) for one in heads.values() if isinstance(one, dict))
    dates = (one.get("deleted_on") for one in details)
    days = [Timestamp(day) for day in dates if isinstance(day, str) and is_instant(day)]
    return min(days, default=None)


def _repeated(counted: Mapping[str, int], brought: Iterable[ImportedTranscript]) -> dict[str, int]:
    recorded: dict[str, int] = {}
    for one in brought:
        if number := _number(one, "tokens"):
            recorded[one.origin] = recorded.get(one.origin, 0) + number
    # Turns that two importer versions made may count more than the records say: then it is unknown.
    more = {origin: number - counted.get(origin, 0) for origin, number in recorded.items()}
    return {origin: number for origin, number in sorted(more.items()) if number >= 0}


def _number(one: ImportedTranscript, name: str) -> int:
    found = one.report.get(name, 0)
    return found if isinstance(found, int) else 0
