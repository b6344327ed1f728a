"""Requests that reach public addresses alone, for providers whose config another person wrote.

An author who chooses the address could otherwise have a worker ask what only its own machine or its
own network reaches: a server on this machine, a router, the metadata of a cloud. A name is resolved
once for each request, every address that it has is judged, and the connection goes to one that was
judged: a name that means another address a moment later gains nothing.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

import anyio
import httpx2

_NAT64: Final = ip_network("64:ff9b::/96")
_METADATA: Final = frozenset({IPv4Address("168.63.129.16")})
"""Public by its number, and answered by the machine's own host."""


class NotPublicError(Exception):
    """The address of a provider that another person wrote is not public."""


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses that a name has, as texts."""


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as this machine knows them.

    Raises:
        OSError: It has none.
    """
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(place[4][0]).partition("%")[0] for place in found]


class PublicTransport(httpx2.AsyncBaseTransport):
    """Sends requests to public addresses, and refuses all others before anything is sent."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, resolve: Resolve = resolve) -> None:
        """Take what sends the requests that are let through."""
        self._inner = inner
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the address that was judged, under the name that was asked for.

        Raises:
            NotPublicError: An address is not public.
        """
        address = await self._judge(request.url)
        judged = httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            # The Host header is the name's, and so is the certificate.
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
            found = await self._resolve(url.host, url.port or 0)
        except OSError as error:
            raise httpx2.ConnectError(f"{url.host} has no address") from error
        if not found or not all(is_public(ip_address(one)) for one in found):
            raise NotPublicError(
                f"{url.host} is not a public address, and another person wrote this provider's "
                f"config: `turntree config add secret_hosts @{url.netloc.decode()}` allows it"
            )
        return found[0]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Say whether anyone reaches an address, whichever machine they ask from."""
    if isinstance(address, IPv6Address):
        within = _embedded(address)
        if within is not None:
            return is_public(within)
    return address.is_global and not address.is_multicast and address not in _METADATA


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the older address that a newer one leads to."""
    assert isinstance(_NAT64, IPv6Network), "it is written as one"
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour
