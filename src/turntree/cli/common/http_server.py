"""What the commands that serve HTTP share: the socket, and a server that leaves signals alone."""

import contextlib
import socket
from collections.abc import Generator

import uvicorn


class HttpServer(uvicorn.Server):
    """A server that leaves signals to the command, which has a ledger to close."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


def try_listen(address: str, port: int) -> socket.socket | None:
    """Return a socket that listens, or None if the address is not ours or the port is taken."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    # A server that was just stopped leaves its port waiting for a minute.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen()
    except OSError:
        listener.close()
        return None
    return listener
