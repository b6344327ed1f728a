"""``--metrics``, typed: what Prometheus reads of a server and of a worker."""

import asyncio
import socket
import subprocess
import sys

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from proofs.http_world import serving_apart
from tests.cli.conftest import Call
from tests.cli.setup.planted import (
    LABEL,
    PATH,
    PLANTED,
    WORKSPACE,
    first_key,
    send,
)
from tests.cli.setup.test_shards import running
from turntree.boot.open import Settings
from turntree.cli.common import metrics_listener

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(400)]
SOON_S = 180.0
ONCE = ["--metrics", "127.0.0.1:0"]


async def read_figures(url: str, path: str = "/metrics") -> tuple[str, dict[str, float]]:
    """Return the figures as text, and by their name with their labels."""
    async with httpx2.AsyncClient(timeout=SOON_S) as http:
        answer = await http.get(url.removesuffix("/metrics") + path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    figures: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(f"{name}={text}" for name, text in sorted(sample.labels.items()))
            figures[f"{sample.name}{{{labels}}}"] = sample.value
    return answer.text, figures


async def test_figures_of_a_server_count_what_happens_and_name_none_of_it(
    planted: Settings,
) -> None:
    api = f"/w/{WORKSPACE}/api/v1"
    async with (
        asyncio.timeout(SOON_S),
        serving_apart(planted, *ONCE) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as http,
    ):
        caller = await first_key(http, served)
        run = await send(http, caller)
        async with http.stream("GET", f"{api}/runs/{run}/events", headers=caller) as stream:
            assert '"outcome":"completed"' in (await stream.aread()).decode()
        async with http.stream("GET", f"{api}/stream", headers=caller) as stream:
            lines = stream.aiter_lines()
            while not (await anext(lines)).startswith("data"):
                pass
            _, during = await read_figures(served.told["metrics"])
        assert (await http.get(f"{api}/{PATH}", headers=caller)).status_code == 404
        assert (await http.get(f"/{PATH}")).status_code == 404
        assert (await http.put(f"{api}/me", headers=caller)).status_code == 405
        assert (await http.get(f"{api}/sessions/{LABEL}")).status_code == 401
        assert (await http.get(f"{api}/sessions/{LABEL}", headers=caller)).status_code == 200
        # Not where clients are, and not under a name that a browser was told is this machine's.
        assert (await http.get("/metrics")).status_code == 404
        rebound = httpx2.get(served.told["metrics"], headers={"host": f"{PATH}.example"})
        assert rebound.status_code == 421
        text, figures = await read_figures(served.told["metrics"])
    assert [word for word in (*PLANTED, run, caller["authorization"]) if word in text] == []
    requests = {
        name.removeprefix("turntree_http_requests_total"): count
        for name, count in figures.items()
        if name.startswith("turntree_http_requests_total")
    }
    assert requests == {
        "{method=POST,route=/first-key,status=200}": 1,
        "{method=POST,route=/runs,status=200}": 1,
        "{method=GET,route=/runs/{run}/events,status=200}": 1,
        "{method=GET,route=/stream,status=200}": 1,
        # The one below the API, the one beside it, and what is told elsewhere.
        "{method=GET,route=elsewhere,status=404}": 3,
        "{method=PUT,route=elsewhere,status=405}": 1,
        "{method=GET,route=/sessions/{session},status=401}": 1,
        "{method=GET,route=/sessions/{session},status=200}": 1,
    }
    for name, least in {
        "turntree_http_request_duration_seconds_count{method=POST,route=/runs}": 1,
        "turntree_http_problems_total{problem=not-authenticated}": 1,
        "turntree_worker_runs_total{outcome=completed}": 1,
        "turntree_model_calls_total{outcome=ok,provider=scripted}": 1,
        "turntree_model_tokens_total{kind=output,provider=scripted}": 1,
        "turntree_database_up{shard=1}": 1,
        "turntree_database_connections_idle{shard=1}": 1,
        "turntree_database_connections_max{shard=1}": 10,
        "process_resident_memory_bytes{}": 1,
    }.items():
        assert figures[name] >= least, (name, figures.get(name))
    assert during["turntree_streams_open{kind=workspace}"] == 1
    assert figures["turntree_streams_open{kind=run}"] == 0
    assert figures["turntree_messages_waiting{shard=1}"] == 0


async def test_worker_tells_of_its_runs_and_a_server_of_what_waits(planted: Settings) -> None:
    async with (
        asyncio.timeout(2 * SOON_S),
        serving_apart(planted, "--no-worker", *ONCE) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as http,
    ):
        caller = await first_key(http, served)
        run = await send(http, caller)
        _, before = await read_figures(served.told["metrics"])
        with running("worker", *ONCE) as told:
            path = f"/w/{WORKSPACE}/api/v1/runs/{run}"
            async with http.stream("GET", f"{path}/events", headers=caller) as stream:
                assert '"outcome":"completed"' in (await stream.aread()).decode()
            text, after = await read_figures(str(told["metrics"]))
    assert before["turntree_messages_waiting{shard=1}"] == 1
    assert before["turntree_oldest_message_seconds{shard=1}"] > 0
    assert "turntree_worker_runs_total{outcome=completed}" not in before
    assert after["turntree_worker_runs_total{outcome=completed}"] == 1
    assert after["turntree_messages_waiting{shard=1}"] == 0
    assert [word for word in PLANTED if word in text] == []


def test_process_without_figures_loads_nothing_that_writes_them(bare: Call) -> None:
    code = (
        "import sys; import turntree.cli.setup.serve, turntree.cli.talk.worker;"
        "assert not [m for m in sys.modules if 'prometheus' in m or 'opentelemetry.sdk' in m]"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("address", ["9464", "localhost:9464", "127.0.0.1", "127.0.0.1:99999"])
def test_address_that_is_none_is_refused(bare: Call, address: str) -> None:
    answer = bare("serve", "--port", "0", "--metrics", address)
    assert answer.code == 1
    assert "listen on" in answer.err or "IP:PORT" in answer.err


def test_figures_without_their_library_say_what_to_install(
    bare: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_listener, "find_spec", lambda _: None)
    answer = bare("serve", "--port", "0", "--metrics", "127.0.0.1:0")
    assert (answer.code, "turntree[server]" in answer.err) == (1, True)


def test_port_that_is_taken_is_refused(bare: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = bare("serve", "--port", "0", "--metrics", f"127.0.0.1:{port}")
    assert (answer.code, str(port) in answer.err) == (1, True)
