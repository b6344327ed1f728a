"""Deliveries: messages that leave the ledger, and the rules of when they do.

A delivery has notices of a person, or one event that a webhook of theirs asks for.

A notice that is read soon leaves by no channel. Those that are not are collected into one message,
at most one in each interval of the person, and none in their quiet hours.
"""

from collections.abc import Sequence
from typing import Final, Literal

from turntree.core.ids import Timestamp, instant, unix_ms
from turntree.core.value import value
from turntree.notifications.notice import Notice
from turntree.notifications.preferences import NoticePreferences

DELAY_S: Final = 120
"""A notice that is read within this time leaves by no channel."""
NOTICES_MAX: Final = 100
"""The notices of one message; more wait for the next one."""
ATTEMPT_MAX_S: Final = 30.0
CLAIM_S: Final = 120
"""How long an attempt belongs to a worker: longer than one lasts, by any worker's clock."""
RETRY_FIRST_S: Final = 60
RETRY_MAX_S: Final = 60 * 60
"""The time to the next attempt doubles, up to this."""
REJECTIONS_MAX: Final = 3
"""An address that was rejected so often in one delivery is given up."""
GIVE_UP_S: Final = 3 * 24 * 60 * 60
"""A delivery that is refused or lost for so long is given up."""
PROBE_S: Final = 24 * 60 * 60
"""An address that was given up is tried again after this time, with what came meanwhile."""
ERROR_CHARS_MAX: Final = 500

AttemptResult = Literal["delivered", "refused", "rejected", "lost"]
"""Accepted; not now; never; or there was no answer, so that it may have been accepted."""


@value
class DeliveryAttempt:
    """How an attempt to send ended."""

    result: AttemptResult
    error: str = ""


@value
class Delivery:
    """A message with notices or an event, which has to leave."""

    id: str
    """It stays the same with each attempt, as the Message-ID of the mail does."""
    person: str
    channel: str
    address: str
    created_at: Timestamp
    rejections: int
    preferences: NoticePreferences
    """Those of the person as they are now; an event leaves without any."""
    is_event: bool = False


@value
class Claim:
    """The right to try a delivery, and what it has."""

    attempt: int
    """Its number; the first is 1."""
    notices: tuple[Notice, ...]
    event: str | None = None
    """The body of the event, for a delivery of one."""


@value
class PastDelivery:
    """How the newest delivery of a channel to a person ended."""

    ended_at: Timestamp
    failed: bool
    address: str


@value
class WaitingPerson:
    """A person with unread notices that a channel has not had."""

    person: str
    preferences: NoticePreferences
    oldest_at: Timestamp
    last: PastDelivery | None = None


@value
class FailedDelivery:
    """A channel whose newest message to a person was given up."""

    channel: str
    address: str
    error: str
    at: Timestamp


def is_due(waiting: WaitingPerson, now: Timestamp) -> bool:
    """Return whether a message with the notices of a person leaves now."""
    if waiting.preferences.address is None or is_held(waiting.preferences, now):
        return False
    return waiting.oldest_at <= newest_due(now) and ended_before(waiting, now)


def is_held(preferences: NoticePreferences, now: Timestamp) -> bool:
    """Return whether a person is left alone now."""
    return preferences.quiet is not None and preferences.quiet.hold(now)


def newest_due(now: Timestamp) -> Timestamp:
    """Return until when a notice must have come to leave now."""
    return _later(now, -DELAY_S)


def quiet_since(waiting: WaitingPerson, now: Timestamp) -> Timestamp:
    """Return since when no delivery to a person may have ended, for another one to begin."""
    last = waiting.last
    is_given_up = last is not None and last.failed and last.address == waiting.preferences.address
    return _later(now, -(PROBE_S if is_given_up else waiting.preferences.interval_s))


def ended_before(waiting: WaitingPerson, now: Timestamp) -> bool:
    """Return whether the last delivery to a person ended long enough ago."""
    return waiting.last is None or waiting.last.ended_at <= quiet_since(waiting, now)


def next_attempt(
    delivery: Delivery, number: int, attempt: DeliveryAttempt, now: Timestamp
) -> Timestamp | None:
    """Return when a delivery is tried again after an attempt; None if it is given up."""
    if attempt.result == "rejected" and delivery.rejections + 1 >= REJECTIONS_MAX:
        return None
    if unix_ms(now) - unix_ms(delivery.created_at) >= GIVE_UP_S * 1000:
        return None
    # Far beyond the longest pause the power would only make the number large.
    return _later(now, min(RETRY_FIRST_S * 2 ** min(number - 1, 10), RETRY_MAX_S))


def claimed_until(now: Timestamp) -> Timestamp:
    """Return until when an attempt that begins now belongs to its worker."""
    return _later(now, CLAIM_S)


def count_by_kind(notices: Sequence[Notice]) -> str:
    """Return how many notices there are of each kind, in words."""
    kinds = dict.fromkeys(one.kind for one in notices)
    counts = {kind: sum(one.kind == kind for one in notices) for kind in kinds}
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items())


def _later(moment: Timestamp, seconds: float) -> Timestamp:
    return instant(unix_ms(moment) + round(seconds * 1000))
