"""A server behind a haproxy: each client behind it counts for itself, whatever header it sends."""

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest

from proofs.http_world import serving_apart
from proofs.nodes_world import find_program, free_ports
from tests.cli.setup.planted import WORKSPACE, first_key
from turntree.boot.open import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(400)]
SOON_S = 120.0
RATE, AT_ONCE = "0.2", 2
"""One request in five seconds, and two at once."""
HAPROXY: Final = """
defaults
  mode http
  option forwardfor
  timeout connect 5s
  timeout client 1m
  timeout server 1m
frontend team
  bind 127.0.0.1:{port}
  default_backend servers
backend servers
  server one 127.0.0.1:{server}
"""


@asynccontextmanager
async def a_proxy(config: Path, server: int) -> AsyncGenerator[int, None]:
    """Run haproxy in front of a server, and yield its port."""
    (port,) = free_ports(1)
    text = HAPROXY.format(port=port, server=server)
    await asyncio.to_thread(config.write_text, text, encoding="ascii")
    process = await asyncio.create_subprocess_exec(
        find_program("haproxy"), "-db", "-q", "-f", str(config)
    )
    try:
        async with asyncio.timeout(SOON_S):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    assert process.returncode is None
                    await asyncio.sleep(0.05)
                    continue
                writer.close()
                break
        yield port
    finally:
        process.kill()
        await process.wait()


@pytest.mark.skipif(shutil.which("haproxy", path="/usr/sbin:/usr/bin") is None, reason="no haproxy")
async def test_clients_behind_haproxy_count_by_their_own_addresses(
    planted: Settings, tmp_path: Path
) -> None:
    (public,) = free_ports(1)
    limits = {"TURNTREE_STRANGER_RATE_LIMIT": RATE, "TURNTREE_TRUSTED_PROXIES": "127.0.0.1"}
    name = ("--name", f"127.0.0.1:{public}")
    async with serving_apart(planted, "--no-worker", *name, **limits) as served:
        async with httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as http:
            key = await first_key(http, served)
        async with a_proxy(tmp_path / "haproxy.cfg", served.told["port"]) as port:

            async def ask(sender: str, times: int, **more: str) -> list[int]:
                """Return the statuses of requests through haproxy from an address of loopback."""
                headers = {name.replace("_", "-"): text for name, text in more.items()}
                headers["host"] = f"127.0.0.1:{public}"
                async with httpx2.AsyncClient(
                    transport=httpx2.AsyncHTTPTransport(local_address=sender), timeout=SOON_S
                ) as http:
                    url = f"http://127.0.0.1:{port}/w/{WORKSPACE}/api/v1/me"
                    return [
                        (await http.get(url, headers=headers)).status_code for _ in range(times)
                    ]

            assert await ask("127.0.0.2", AT_ONCE + 3) == [401] * AT_ONCE + [429] * 3
            # What the client writes itself changes nothing.
            assert await ask("127.0.0.2", 1, x_forwarded_for="192.0.2.1") == [429]
            assert await ask("127.0.0.2", 1, x_forwarded_for="127.0.0.3, 127.0.0.1") == [429]
            assert await ask("127.0.0.3", 1) == [401]
            # A key that this server has not seen is looked up: its address is not the flooder's.
            assert await ask("127.0.0.4", 1, authorization=key["authorization"]) == [200]
            # With a header that haproxy does not write, a client shares the limit of the proxy.
            forged = [
                await ask("127.0.0.2", 1, forwarded=f"for=192.0.2.{number}") for number in range(4)
            ]
            assert forged.count([401]) <= AT_ONCE
            assert await ask("127.0.0.3", 1) == [401]
