"""Tells whose request a trusted proxy passes on.

Behind a proxy every request comes from the proxy's address, and who sends it is in a header.
Clients can send the same header, so it counts only as far as it was written by a proxy that is
trusted: from its end, which the nearest proxy wrote, to the first address that is not one of
theirs. What stands before that is the client's own word.

A proxy writes ``X-Forwarded-For`` or ``Forwarded``, and passes the other one on as the client sent
it. Which one it writes is not known here. So where both are sent and tell of different clients,
neither counts, and the request is the proxy's own, as without the headers: a client that adds one
shares a limit with those who do the same, and with no other.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from turntree.core.errors import InvalidOperation
from turntree.core.value import value

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_NODE: Final = re.compile(r"\[(?P<v6>[0-9A-Fa-f:.]+)\](?::\d+)?|(?P<v4>[0-9.]+)(?::\d+)?")
"""An address with or without a port. A bare IPv6 address, which proxies write too, has none."""


@value
class TrustedProxies:
    """The addresses of proxies whose word counts; by default none."""

    networks: tuple[_Network, ...] = ()

    def find_client(
        self, peer: str, forwarded_for: Sequence[str] = (), forwarded: Sequence[str] = ()
    ) -> str:
        """Return the address of the client of a request: that of its sender, or of whom it names.

        The sequences are the values of the headers ``X-Forwarded-For`` and ``Forwarded``, in the
        order in which they were sent.
        """
        sender = _read_address(peer)
        if sender is None or not self._is_trusted(sender):
            return peer
        told = {
            self._walk(sender, nodes)
            for nodes, values in (
                (_list_forwarded_for(forwarded_for), forwarded_for),
                (_list_forwarded(forwarded), forwarded),
            )
            if values
        }
        return str(told.pop()) if len(told) == 1 else peer

    def _walk(self, sender: _Address, nodes: Iterable[str]) -> _Address:
        """Return the nearest address that is not a proxy's, or the last one that is known."""
        client = sender
        for node in nodes:
            found = _read_node(node)
            # A proxy that does not say from whom it has the request answers for it.
            if found is None:
                return client
            client = found
            if not self._is_trusted(client):
                return client
        return client

    def _is_trusted(self, address: _Address) -> bool:
        return any(
            address in network for network in self.networks if network.version == address.version
        )


def read_proxies(text: str) -> TrustedProxies:
    """Parse ``ADDRESS,NETWORK,…``, such as ``10.0.0.5,fd00::/8``.

    Raises:
        InvalidOperation: One of them is not an address or a network, or it is every address.
    """
    return TrustedProxies(
        tuple(_read_network(part.strip()) for part in text.split(",") if part.strip())
    )


def _read_network(text: str) -> _Network:
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise InvalidOperation(
            f"{text!r} is not the address of a proxy, nor a network: write 10.0.0.5 or 10.0.0.0/8"
        ) from None
    if network.prefixlen == 0:
        raise InvalidOperation(f"{text} is every address: any client could name any other one")
    return network


def _list_forwarded_for(values: Sequence[str]) -> Iterator[str]:
    """Yield the nodes of ``X-Forwarded-For``, the nearest first."""
    for line in reversed(values):
        yield from (node.strip() for node in reversed(line.split(",")))


def _list_forwarded(values: Sequence[str]) -> Iterator[str]:
    """Yield the nodes of ``Forwarded``, the nearest first; an empty one where it names none.

    Quotes do not protect a comma here. No address has one, and a client that opens a quote and does
    not close it would otherwise swallow what the proxy adds.
    """
    for line in reversed(values):
        for element in reversed(line.split(",")):
            pairs = (pair.partition("=") for pair in element.split(";"))
            named = [text.strip() for name, _, text in pairs if name.strip().lower() == "for"]
            yield named[0].removeprefix('"').removesuffix('"') if len(named) == 1 else ""


def _read_node(text: str) -> _Address | None:
    if (bare := _read_address(text)) is not None:
        return bare
    found = _NODE.fullmatch(text)
    return None if found is None else _read_address(found["v6"] or found["v4"])


def _read_address(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
