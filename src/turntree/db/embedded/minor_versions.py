"""Tells whether the embedded PostgreSQL is outdated, by the releases known to this version."""

from datetime import date
from typing import Final

LATEST_KNOWN: Final = {18: (4, date(2026, 5, 14))}
"""The newest minor version known of each major version in the wheel, and its release date."""
AGE_MAX_DAYS: Final = 120
"""PostgreSQL releases fixes every quarter, so after this long there is a newer one."""


def find_lag(version: str, today: date) -> str | None:
    """Return how a version such as ``18.4`` is outdated; None if it is not, or is unknown."""
    major, _, minor = version.partition(".")
    if not (major.isdigit() and minor.isdigit()) or int(major) not in LATEST_KNOWN:
        return None
    newest, released = LATEST_KNOWN[int(major)]
    if int(minor) < newest:
        return f"{major}.{newest} came on {released}"
    age = (today - released).days
    if int(minor) == newest and age > AGE_MAX_DAYS:
        return f"it came {age} days ago, and PostgreSQL releases fixes every quarter"
    return None
