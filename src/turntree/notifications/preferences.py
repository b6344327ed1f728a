"""How a person wants to hear of notices: the channel, the address, and when to be left alone.

Knows how these are written in the person's config. Must never know how a channel sends.
"""

import re
from collections.abc import Mapping
from datetime import datetime, time
from typing import Final, cast
from zoneinfo import ZoneInfo

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp
from turntree.core.value import value

INBOX: Final = "inbox"
EMAIL: Final = "email"
WEBHOOK: Final = "webhook"
TERMINAL: Final = "terminal"
COMMAND: Final = "command"
CHANNELS: Final[Mapping[str, str]] = {
    INBOX: "the inbox alone",
    TERMINAL: "the inbox, and the terminal of this person's worker",
    COMMAND: "the inbox, and a command that this person's worker runs",
    EMAIL: "the inbox, and mail to the address of this person",
    WEBHOOK: "the inbox, and a webhook of this person",
    "none": "nothing, not even the inbox",
}
"""What a person may choose."""
ADDRESS_MEMBERS: Final[Mapping[str, str]] = {EMAIL: "email", WEBHOOK: "webhook"}
"""The channels by which notices leave, with the member of the preferences that has the address."""
LOCAL: Final = frozenset({TERMINAL, COMMAND})
"""The channels of a person's own machine, which has the address."""
INTERVAL_DEFAULT_S: Final = 15 * 60
INTERVAL_MIN_S: Final = 60
INTERVAL_MAX_S: Final = 7 * 24 * 60 * 60
ADDRESS_CHARS_MAX: Final = 254

_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}")
_WEBHOOK: Final = re.compile(r"wh-[0-9a-f]{16}")
_HOURS: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_INTERVAL: Final = re.compile(r"(\d{1,6})([mhd])")
_UNIT_S: Final = {"m": 60, "h": 60 * 60, "d": 24 * 60 * 60}


@value
class QuietHours:
    """Hours of each day in which nothing leaves, by the clocks of a place."""

    start: time
    end: time
    """Before the start, if they last over midnight."""
    zone: str

    def hold(self, now: Timestamp) -> bool:
        """Return whether it is one of these hours."""
        there = datetime.fromisoformat(now).astimezone(ZoneInfo(self.zone)).time()
        if self.start < self.end:
            return self.start <= there < self.end
        return there >= self.start or there < self.end


@value
class NoticePreferences:
    """The preferences of a person."""

    channel: str = INBOX
    address: str | None = None
    """Where the channel sends; None for one that sends nowhere, or without an address."""
    quiet: QuietHours | None = None
    interval_s: int = INTERVAL_DEFAULT_S
    """The shortest time between two messages of the channel."""


def read_preferences(config: Mapping[str, Json]) -> NoticePreferences:
    """Return the preferences that a config has, which was checked when it was stored."""
    channel = str(config.get("notification_channel") or INBOX)
    member = ADDRESS_MEMBERS.get(channel)
    address = None if member is None else config.get(member)
    if channel in LOCAL:
        address = "here"
    hours, interval = config.get("quiet_hours"), config.get("digest_interval")
    quiet = None
    if hours is not None:
        start, end = read_hours(str(hours))
        quiet = QuietHours(start, end, str(config.get("time_zone") or "UTC"))
    return NoticePreferences(
        channel,
        None if address is None else str(address),
        quiet,
        INTERVAL_DEFAULT_S if interval is None else read_interval(str(interval)),
    )


def check_channel(text: str) -> str:
    """Return the name of a channel.

    Raises:
        InvalidOperation: There is none of this name.
    """
    if text not in CHANNELS:
        raise InvalidOperation(f"there is no channel {text[:80]!r}: {', '.join(CHANNELS)}")
    return text


def check_address(text: str) -> str:
    """Return an e-mail address.

    Raises:
        InvalidOperation: It is not one that mail can be sent to as it is written.
    """
    if len(text) > ADDRESS_CHARS_MAX or not _ADDRESS.fullmatch(text):
        raise InvalidOperation(f"{text[:80]!r} is not an e-mail address")
    return text


def check_webhook(text: str) -> str:
    """Return the id of a webhook.

    Raises:
        InvalidOperation: It is not one.
    """
    if _WEBHOOK.fullmatch(text) is None:
        raise InvalidOperation(f"{text[:80]!r} is not the id of a webhook: wh-…")
    return text


def check_hours(text: str) -> str:
    """Return quiet hours as they are stored.

    Raises:
        InvalidOperation: They are not two different times of day.
    """
    read_hours(text)
    return text


def read_hours(text: str) -> tuple[time, time]:
    """Return when quiet hours start and end.

    Raises:
        InvalidOperation: They are not two different times of day.
    """
    found = _HOURS.fullmatch(text)
    if found is None:
        raise InvalidOperation(f"{text[:80]!r} are not quiet hours: write 22:00-07:00")
    start, end = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
    if start == end:
        raise InvalidOperation(f"quiet hours that start and end at {found[1]}:{found[2]} never end")
    return start, end


def check_zone(text: str) -> str:
    """Return the name of a time zone.

    Raises:
        InvalidOperation: This machine knows none of this name.
    """
    try:
        ZoneInfo(text)
    except (ValueError, OSError, KeyError) as error:
        raise InvalidOperation(
            f"{text[:80]!r} is not a time zone: write Europe/Berlin, or UTC"
        ) from error
    return text


def check_interval(text: str) -> str:
    """Return an interval as it is stored.

    Raises:
        InvalidOperation: It is not a length of time, or too short or too long.
    """
    read_interval(text)
    return text


def read_interval(text: str) -> int:
    """Return the seconds of an interval.

    Raises:
        InvalidOperation: It is not a length of time, or too short or too long.
    """
    found = _INTERVAL.fullmatch(text)
    seconds = 0 if found is None else int(found[1]) * _UNIT_S[cast("str", found[2])]
    if not INTERVAL_MIN_S <= seconds <= INTERVAL_MAX_S:
        raise InvalidOperation(f"{text[:80]!r} is not an interval: write 15m, 1h or 1d, up to 7d")
    return seconds
