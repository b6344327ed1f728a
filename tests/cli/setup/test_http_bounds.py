"""Peers that send a head without end, or none: a real socket, and the server of the commands."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from turntree.cli.common import http_protocol
from turntree.cli.common.http_protocol import HEAD_BYTES_MAX
from turntree.cli.common.http_server import HttpServer

pytestmark = pytest.mark.anyio
SOON_S = 10.0
ASK = b"GET / HTTP/1.1\r\nhost: here\r\n"


@contextlib.asynccontextmanager
async def connected() -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """Yield a connection to a server that answers everything with "hello"."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        PlainTextResponse("hello"), log_level="critical", lifespan="off", ws="none"
    )
    server = HttpServer(config)
    task = asyncio.create_task(server.serve([listener]))
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        server.should_exit = True
        await task


async def send_until_refused(writer: asyncio.StreamWriter, piece: bytes, most: int) -> int:
    """Send a piece again and again, and return how many bytes were taken."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < most and not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
            sent += len(piece)
    return sent


@pytest.mark.parametrize("start", [ASK + b"x-long: ", b"GET /"])
async def test_head_without_end_is_refused(start: bytes) -> None:
    async with connected() as (reader, writer):
        writer.write(start)
        most = 64 * 1024 * 1024
        async with asyncio.timeout(SOON_S):
            assert await send_until_refused(writer, b"a" * 4096, most) < most
            with contextlib.suppress(ConnectionError):
                assert (await reader.read()).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("start", [b"", ASK])
async def test_head_that_does_not_end_in_time_is_refused(
    start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_S_MAX", 0.2)
    async with connected() as (reader, writer):
        writer.write(start)
        async with asyncio.timeout(SOON_S):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ") if start else answer == b""


async def test_long_head_and_slow_pause_between_requests_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_S_MAX", 0.5)
    async with connected() as (reader, writer):
        async with asyncio.timeout(SOON_S):
            for _ in range(3):
                writer.write(ASK + b"x-long: " + b"a" * (HEAD_BYTES_MAX // 2) + b"\r\n\r\n")
                assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")
                await asyncio.sleep(0.6)
