"""How old the embedded PostgreSQL is. Knows the releases this version was made with, no others."""

from datetime import date
from typing import Final

LATEST_KNOWN: Final = {18: (4, date(2026, 5, 14))}
"""Of each major version that the wheel brings, the newest minor one known here and when it came."""
AGE_MAX_DAYS: Final = 120
"""PostgreSQL releases fixes every quarter, so after this long there is a newer one."""


def find_lag(version: str, today: date) -> str | None:
    """Return in which way a version such as ``18.4`` is behind; None if it is not, or not known."""
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
