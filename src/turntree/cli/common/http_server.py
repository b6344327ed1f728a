"""What the commands that serve HTTP share: the socket, and a server that leaves signals alone."""

import contextlib
import socket
from collections.abc import Generator
from importlib import import_module
from importlib.util import find_spec

import uvicorn


class HttpServer(uvicorn.Server):
    """A server that bounds requests, and leaves signals to the command, which closes a ledger."""

    def __init__(self, config: uvicorn.Config) -> None:
        """Take the configuration of a server that does not run yet."""
        super().__init__(config)
        if find_spec("httptools") is None:
            config.http = "h11"
        else:
            module = import_module("turntree.cli.common.http_protocol")
            config.http = module.BoundedHttp

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


def try_listen(address: str, port: int) -> socket.socket | None:
    """Return a socket that listens, or None if the address is not ours or the port is taken."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Only where the protocol is named does asyncio send the end of an answer at once; else the body
    # waits until the browser has acknowledged the head, which it puts off for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # A server that was just stopped leaves its port waiting for a minute.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen()
    except OSError:
        listener.close()
        return None
    return listener
