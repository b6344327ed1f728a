"""The option ``--metrics ADDRESS``: a listener that Prometheus reads, beside what the process does.

What writes the figures is loaded with the listener: a process without one does without it.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import uvicorn

import turntree
from turntree.cli.common.http_server import HttpServer, try_listen
from turntree.core.errors import InvalidOperation, Unsupported

if TYPE_CHECKING:
    from turntree.db.database import Database

METRICS_HELP: Final = "IP:PORT that Prometheus reads, such as 127.0.0.1:9464; none by default."
CLOSING_S: Final = 1
PORT_MAX: Final = 65535


class MetricsListener:
    """The figures of this process, and the socket where they are told."""

    def __init__(self, listener: socket.socket) -> None:
        """Begin to count."""
        from turntree.telemetry.metrics import ProcessMetrics, RunMetrics

        self._listener = listener
        self.metrics = ProcessMetrics(turntree.__version__)
        self.runs = RunMetrics(self.metrics)
        """Watches the runs of this process."""

    @property
    def url(self) -> str:
        """What Prometheus is told to read."""
        host, port = self._listener.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    @contextlib.asynccontextmanager
    async def telling(
        self, list_databases: "Callable[[], Sequence[tuple[int, Database]]]"
    ) -> AsyncGenerator[None, None]:
        """Answer requests for the figures, and for those of some databases, during the block."""
        from turntree.telemetry.exposition import MetricsPage
        from turntree.telemetry.work import WorkMetrics

        work = WorkMetrics(self.metrics, list_databases)
        is_loopback = ipaddress.ip_address(self._listener.getsockname()[0]).is_loopback
        config = uvicorn.Config(
            MetricsPage(self.metrics, work.refresh, is_loopback=is_loopback),
            log_level="warning", access_log=False, lifespan="off", ws="none",
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=CLOSING_S,
        )  # fmt: skip
        server = HttpServer(config)
        task = asyncio.create_task(server.serve([self._listener]))
        try:
            yield
        finally:
            server.should_exit = True
            await task


@contextlib.contextmanager
def listening_for_metrics(address: str | None) -> Generator[MetricsListener | None, None, None]:
    """Hold an address during the block; port 0 takes a free one. Without an address, hold none.

    Raises:
        InvalidOperation: It is not an address, or not one that this process can listen on.
        Unsupported: What writes the figures is not installed.
    """
    if address is None:
        yield None
        return
    if find_spec("prometheus_client") is None:
        raise Unsupported("figures need prometheus-client: pip install 'turntree[server]'")
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError as error:
        raise InvalidOperation(
            f"{address!r} is not an address: write IP:PORT, such as 127.0.0.1:9464"
        ) from error
    listener = try_listen(host, number) if 0 <= number <= PORT_MAX else None
    if listener is None:
        raise InvalidOperation(f"cannot listen on {address}: it is taken, or not this machine's")
    with listener:
        yield MetricsListener(listener)
