"""Parses times as people write them. The current time is an argument; no clock is read.

A time without a zone is UTC, like all times that Turntree prints.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from turntree.core.ids import Timestamp
from turntree.core.pattern import pattern

EXAMPLES: Final = "`yesterday`, `3 days ago` or `2026-11-15 09:30`"
_AGO: Final = pattern(
    r"(?P<n>\d+|an?|last)[ .]*(?P<unit>second|minute|hour|day|week|month|year)s?(?:[ .]*ago)?"
)
_SHORT: Final = pattern(r"(?P<n>\d+)[ .]*(?P<unit>mo|[smhdwy])(?:[ .]*ago)?")
_MONTH: Final = pattern(r"\d{4}-\d\d")
_LENGTHS: Final = {
    "second": timedelta(seconds=1), "minute": timedelta(minutes=1), "hour": timedelta(hours=1),
    "day": timedelta(days=1), "week": timedelta(weeks=1), "month": timedelta(days=30),
    "year": timedelta(days=365),
}  # fmt: skip
_UNITS: Final = {
    "s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year",
}  # fmt: skip


def find_moment(words: str, now: Timestamp) -> Timestamp | None:
    """Return the time that words describe, or None if they describe none.

    ``now``, ``yesterday``, ``3 days ago``, ``last week``, ``2h``, ``2026-11``, ``2026-11-15 09:30``
    """
    text = words.strip().lower().replace("_", " ")
    try:
        moment = _find_relative(text, datetime.fromisoformat(now)) or _read(text.upper())
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return Timestamp(moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z")


def _read(text: str) -> datetime:
    moment = datetime.fromisoformat(f"{text}-01" if _MONTH.fullmatch(text) else text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _find_relative(text: str, present: datetime) -> datetime | None:
    if text in ("now", "today"):
        return present
    if text == "yesterday":
        return present - timedelta(days=1)
    if ago := _AGO.fullmatch(text):
        return present - (int(ago["n"]) if ago["n"].isdigit() else 1) * _LENGTHS[ago["unit"]]
    if short := _SHORT.fullmatch(text):
        return present - int(short["n"]) * _LENGTHS[_UNITS[short["unit"]]]
    return None
