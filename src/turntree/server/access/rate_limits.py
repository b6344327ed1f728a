"""Limits how many requests one caller sends, and one address from which callers are not known.

Each has a token bucket: requests at a steady rate, and ten seconds' worth of them at once. A caller
is a key, a token or a login session, wherever its requests come from. By their address count those
that log in or are refused, because who sent them is not known: an IPv4 address, or the first 64
bits of an IPv6 one, which is what one household has.

A request with a credential that is not remembered is charged to its address before the credential
is looked up, and credited once it is valid. So guesses cost no more of the database than the limit,
at any number at a time. A credential that is remembered never depends on its address: a
stranger behind the same proxy cannot keep those out who are at work.

A stream is one request. What is answered without looking anything up (the page, its files, health,
a path without a route) is not counted: to refuse it would cost as much. The buckets are in
memory: each process has its own, and a restart fills them.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from http import HTTPStatus
from typing import Final

from turntree.core.value import value
from turntree.server.access.login_tries import network_of
from turntree.server.problems import Refusal

CALLER_RATE: Final = 50.0
"""Requests per second of one caller; a page that is opened sends some twenty."""
STRANGER_RATE: Final = 10.0
"""Requests per second from one address whose sender is not known."""
BURST_S: Final = 10.0
"""How many seconds' worth of requests may come at once."""
BUCKETS_MAX: Final = 20_000
"""Buckets of either kind. A stranger with many addresses pushes out those of strangers alone."""


@value
class RateLimits:
    """Requests per second; 0 for any number."""

    caller: float = CALLER_RATE
    stranger: float = STRANGER_RATE


class TokenBuckets:
    """One bucket for each key, of which those are kept that were used last."""

    def __init__(
        self,
        rate: float,
        now: Callable[[], float] = time.monotonic,
        *,
        buckets_max: int = BUCKETS_MAX,
    ) -> None:
        """Fill them at a rate; 0 for no limit."""
        self._interval_s = 1 / rate if rate else 0.0
        self._burst_s = max(BURST_S, self._interval_s)
        self._now = now
        self._buckets_max = buckets_max
        # When each will be full again. One that is full is as good as none.
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of buckets that are kept."""
        return len(self._full_at)

    def take(self, key: Hashable) -> float:
        """Take a token, and return 0; or return in how many seconds there will be one."""
        if not self._interval_s:
            return 0.0
        now = self._now()
        full_at = max(now, self._full_at.get(key, now)) + self._interval_s
        # Rounding must not take one more away from a bucket that was just filled.
        if (wait_s := full_at - now - self._burst_s) > self._interval_s / 1000:
            return wait_s
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        while len(self._full_at) > self._buckets_max:
            self._full_at.popitem(last=False)
        return 0.0

    def give_back(self, key: Hashable) -> None:
        """Put back a token that was taken."""
        if key in self._full_at:
            self._full_at[key] -= self._interval_s


class RequestLimits:
    """The limits of one server process."""

    def __init__(
        self, rates: RateLimits | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with full buckets; without rates, with those of a server by default."""
        rates = rates or RateLimits()
        self.callers = TokenBuckets(rates.caller, now)
        self.strangers = TokenBuckets(rates.stranger, now)

    def charge_caller(self, credential: Hashable) -> None:
        """Count a request of a caller.

        Raises:
            Refusal: There were too many.
        """
        if wait_s := self.callers.take(credential):
            raise _too_many("this caller", wait_s)

    def charge_stranger(self, address: str) -> None:
        """Count a request of which it is not known who sends it.

        Raises:
            Refusal: There were too many from its address.
        """
        if wait_s := self.strangers.take(network_of(address)):
            raise _too_many("callers at this address who are not known", wait_s)

    def credit_stranger(self, address: str) -> None:
        """Take back a count: its sender is known now."""
        self.strangers.give_back(network_of(address))


def _too_many(sender: str, wait_s: float) -> Refusal:
    seconds = max(1, math.ceil(wait_s))
    return Refusal(
        HTTPStatus.TOO_MANY_REQUESTS, "too-many-requests", f"too many requests of {sender}",
        f"send it again in {seconds} s, and fewer at a time from then on",
        headers={"retry-after": str(seconds)},
    )  # fmt: skip
