"""Limits requests to public addresses, where another person chose the address.

The config of a provider and the URL of a webhook could otherwise make a worker send requests to
services that only its own machine or network reaches (SSRF): a local server, a router, a cloud's
metadata service. A name is resolved once per request, all its addresses are checked, and the
connection goes to a checked address: a name that resolves differently a moment later (DNS
rebinding) gains nothing.
"""

import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

import anyio
import httpx2

from turntree.core.errors import Hint

_NAT64: Final = ip_network("64:ff9b::/96")
_METADATA: Final = frozenset({IPv4Address("168.63.129.16")})
"""Public by its range, but served by the machine's own cloud host."""


class NotPublicError(Exception):
    """An address that another person chose is not public."""

    def __init__(self, message: str, hint: Hint) -> None:
        """Take the message, and how to allow the address."""
        super().__init__(message)
        self.hint = hint


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host name, as strings."""


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host name, as this machine resolves it.

    Raises:
        OSError: It has none.
    """
    entries = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]).partition("%")[0] for entry in entries]


class PublicTransport(httpx2.AsyncBaseTransport):
    """Sends requests to public addresses, and refuses others before anything is sent."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        resolve: Resolve = resolve,
        *,
        because: str = "",
        permitted: Collection[str] = (),
    ) -> None:
        """Take the transport for allowed requests.

        ``because`` ends the sentence that refuses a request; ``permitted`` are hosts that may have
        any address, as ``HOST`` or ``HOST:PORT``.
        """
        self._inner = inner
        self._resolve = resolve
        self._because = because
        self._permitted = permitted

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the checked address, under the requested host name.

        Raises:
            NotPublicError: An address is not public.
        """
        address = await self._judge(request.url)
        judged = httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            # The Host header and the certificate are those of the name.
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        return await self._inner.handle_async_request(judged)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()

    async def _judge(self, url: httpx2.URL) -> str:
        try:
            addresses = await self._resolve(url.host, url.port or 0)
        except OSError as error:
            raise httpx2.ConnectError(f"{url.host} has no address") from error
        is_permitted = is_permitted_host(url.host, url.netloc.decode(), self._permitted)
        if not addresses or not (is_permitted or all(map(_is_elsewhere, addresses))):
            raise NotPublicError(
                f"{url.host} is not a public address{self._because}",
                Hint("config.allow_host", {"host": f"@{url.netloc.decode()}"}),
            )
        return addresses[0]


def is_permitted_host(host: str, netloc: str, permitted: Collection[str]) -> bool:
    """Return whether a host may have any address; a name with a port permits that port alone."""
    return host in permitted or netloc in permitted


def _is_elsewhere(address: str) -> bool:
    """Return whether an address is public, and not one of this machine."""
    found = ip_address(address)
    return is_public(found) and not _is_own(found)


def _is_own(address: IPv4Address | IPv6Address) -> bool:
    # Only an address of its own can be bound by a machine.
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trying:
            trying.bind((str(address), 0))
    except OSError:
        return False
    return True


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is reachable from any machine."""
    if isinstance(address, IPv6Address):
        within = _embedded(address)
        if within is not None:
            return is_public(within)
    return address.is_global and not address.is_multicast and address not in _METADATA


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address embeds."""
    assert isinstance(_NAT64, IPv6Network), "it is written as one"
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour
