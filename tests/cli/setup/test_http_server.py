"""The socket on which the commands serve HTTP."""

import asyncio
import socket

import pytest

from turntree.cli.common.http_server import try_listen


@pytest.mark.anyio
async def test_small_pieces_of_an_answer_are_sent_at_once() -> None:
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    class Asked(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            found: socket.socket = transport.get_extra_info("socket")
            accepted.set_result(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    listener = try_listen("127.0.0.1", 0)
    assert listener is not None
    server = await asyncio.get_running_loop().create_server(Asked, sock=listener)
    async with server:
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await asyncio.wait_for(accepted, 10)
        writer.close()


def test_port_that_is_taken_is_told_apart() -> None:
    listener = try_listen("127.0.0.1", 0)
    assert listener is not None
    with listener:
        assert try_listen("127.0.0.1", listener.getsockname()[1]) is None
