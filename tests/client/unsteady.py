"""A connection to a server that is lost at chosen moments: a proxy on loopback."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(slots=True)
class UnsteadyProxy:
    """Passes bytes on, and cuts some connections."""

    host: str
    port: int
    cuts: list[int] = field(default_factory=list[int])
    """For each of the next connections, how many bytes of the answer reach the client."""
    connections: int = 0
    at: str = ""
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        left = self.cuts.pop(0) if self.cuts else None
        up, down = await asyncio.open_connection(self.host, self.port)
        # The server answers to its own address and port only.
        names = (urlsplit(self.at).netloc.encode(), f"{self.host}:{self.port}".encode())
        ways = [
            asyncio.create_task(copy(reader, down, names=names)),
            asyncio.create_task(copy(up, writer, left=left)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, down):
                end.transport.abort()
            await asyncio.wait(ways)


async def copy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    names: tuple[bytes, bytes] = (b"", b""),
    left: int | None = None,
) -> None:
    """Pass on what arrives: with another name of the server, or only so many bytes of it."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            if names[0]:
                data = data.replace(*names)
            if left is not None:
                data, left = data[:left], left - len(data[:left])
            writer.write(data)
            await writer.drain()
            if left == 0:
                # What was written is on its way before the connection is cut.
                await asyncio.sleep(0)
                return


@contextlib.asynccontextmanager
async def unsteady(url: str) -> AsyncGenerator[UnsteadyProxy, None]:
    """Yield a proxy in front of a server."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = UnsteadyProxy(parts.hostname, parts.port)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.at = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        for task in proxy.tasks:
            task.cancel()
        if proxy.tasks:
            await asyncio.wait(proxy.tasks)
