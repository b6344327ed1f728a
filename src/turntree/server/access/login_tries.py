"""Limits how often passwords are tried, without a way to lock another person out.

What is counted depends on what was sent, and never on whether a name exists:

- a browser in which the person has logged in before counts its own tries only;
- all others count by their address and the name, and by their address alone.

So a stranger can use up the tries of their own address, and those of a proxy behind which they
cannot be told from others, and the person still gets in from a browser that is known.
"""

import hashlib
import hmac
import ipaddress
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from turntree.core.value import value

AT_ONCE_MAX: Final = 16
"""Passwords of unknown browsers that are verified or wait; more are refused."""
CODES_AT_ONCE_MAX: Final = 64
"""Answers of identity providers that are redeemed. They wait for another machine, and no password
waits behind them: with a provider that hangs, a stranger could otherwise keep all people out."""
COUNTS_MAX: Final = 10_000
_NONCE_BYTES: Final = 16


@value
class TryLimit:
    """How many tries there are at once, and how soon another one."""

    burst: int
    interval_s: float


BY_NAME: Final = TryLimit(5, 30.0)
BY_ADDRESS: Final = TryLimit(30, 2.0)
CODES: Final = TryLimit(200, 0.5)
"""Behind a proxy, a whole team may come from one address; a code cannot be guessed anyway."""


class TooManyTries(Exception):
    """A password that is not even looked at."""

    def __init__(self, wait_s: float) -> None:
        """Take the seconds after which another try counts."""
        super().__init__(f"try again in {wait_s:.0f} s")
        self.wait_s = wait_s


class LoginTries:
    """The tries of one server. In memory: a restart forgets them."""

    def __init__(self, secret: bytes, now: Callable[[], float]) -> None:
        """Take the secret that marks browsers, and the clock."""
        self._secret = secret
        self._now = now
        self._at_once: Counter[bool] = Counter()
        # When a count is used up to its burst no more: the time at which its last try is forgiven.
        self._until: OrderedDict[str, float] = OrderedDict()

    @contextmanager
    def redeeming(self, address: str) -> Generator[None, None, None]:
        """Count an answer of an identity provider.

        Raises:
            TooManyTries: There were too many from the address, or too many are going on.
        """
        counts = [(f"code\0{network_of(address)}", CODES)]
        with self._counting(counts, is_code=True, at_once_max=CODES_AT_ONCE_MAX):
            yield

    @contextmanager
    def trying(
        self, address: str, workspace: str, name: str, browser: str | None
    ) -> Generator[None, None, None]:
        """Count a try while it lasts.

        Raises:
            TooManyTries: There were too many, or too many are going on.
        """
        person = _person(workspace, name)
        known = None if browser is None else self._open(browser, person)
        counts = (
            [(f"browser\0{known}", BY_NAME)]
            if known is not None
            else [
                (f"name\0{network_of(address)}\0{person}", BY_NAME),
                (f"address\0{network_of(address)}", BY_ADDRESS),
            ]
        )
        at_once_max = AT_ONCE_MAX if known is None else None
        with self._counting(counts, is_code=False, at_once_max=at_once_max):
            yield

    @contextmanager
    def _counting(
        self, counts: Sequence[tuple[str, TryLimit]], *, is_code: bool, at_once_max: int | None
    ) -> Generator[None, None, None]:
        wait_s = max(self._wait(key, limit) for key, limit in counts)
        is_crowded = at_once_max is not None and self._at_once[is_code] >= at_once_max
        if wait_s > 0 or is_crowded:
            raise TooManyTries(max(wait_s, 1.0))
        for key, limit in counts:
            self._until[key] = max(self._now(), self._until.pop(key, 0.0)) + limit.interval_s
        while len(self._until) > COUNTS_MAX:
            self._until.popitem(last=False)
        self._at_once[is_code] += 1
        try:
            yield
        finally:
            self._at_once[is_code] -= 1

    def mark(self, workspace: str, name: str) -> str:
        """Return what a browser keeps in which a person has logged in."""
        nonce = secrets.token_hex(_NONCE_BYTES)
        return f"{nonce}.{self._seal(nonce, _person(workspace, name))}"

    def _wait(self, key: str, limit: TryLimit) -> float:
        """Return in how many seconds another try counts."""
        ahead = self._until.get(key, 0.0) - self._now()
        return ahead - (limit.burst - 1) * limit.interval_s

    def _open(self, browser: str, person: str) -> str | None:
        nonce, _, seal = browser.partition(".")
        is_ours = hmac.compare_digest(seal.encode(), self._seal(nonce, person).encode())
        return nonce if is_ours else None

    def _seal(self, nonce: str, person: str) -> str:
        said = f"turntree.browser\0{nonce}\0{person}".encode()
        return hmac.digest(self._secret, said, hashlib.sha256).hex()


def _person(workspace: str, name: str) -> str:
    # A digest, because a name may be as long as a body.
    person = f"{workspace}\0{name.strip().removeprefix('human:')}"
    return hashlib.sha256(person.encode(errors="surrogatepass")).hexdigest()


def network_of(address: str) -> str:
    """Return what one household has: an IPv4 address, or the first 64 bits of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address
