"""How many requests a caller may send, and an address whose callers are not known."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

import httpx2
import pytest

from proofs.http_world import TEAM, Team, serving_here
from tests.server.network import API, SOON_S, Client, problem
from turntree.client import Client as PythonClient
from turntree.client.connection import BUSY_S_MAX
from turntree.client.problems import ServerBusy
from turntree.server.access import network_callers
from turntree.server.access.rate_limits import (
    BURST_S,
    RateLimits,
    RequestLimits,
    TokenBuckets,
)
from turntree.server.openapi import describe_api
from turntree.server.problems import Refusal
from turntree.server.routes import NETWORK_ROUTES

pytestmark = pytest.mark.anyio
AT_ONCE = int(BURST_S)
"""Requests that may come at once, at one each second."""


class SetTime:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_bucket_allows_a_burst_and_then_its_rate() -> None:
    time = SetTime()
    buckets = TokenBuckets(2.0, time)
    assert [buckets.take("a") for _ in range(20)] == [0.0] * 20
    assert buckets.take("a") == pytest.approx(0.5)
    assert buckets.take("b") == 0.0
    time.now += 0.5
    assert (buckets.take("a"), buckets.take("a") > 0) == (0.0, True)
    time.now += 3600
    assert [buckets.take("a") for _ in range(20)] == [0.0] * 20
    assert buckets.take("a") > 0


def test_bucket_is_credited_what_was_taken() -> None:
    buckets = TokenBuckets(1.0, SetTime())
    for _ in range(100):
        assert buckets.take("a") == 0.0
        buckets.give_back("a")


def test_slow_rate_allows_one_request() -> None:
    time = SetTime()
    buckets = TokenBuckets(0.01, time)
    assert buckets.take("a") == 0.0
    assert buckets.take("a") == pytest.approx(100.0)


def test_number_of_buckets_is_bounded() -> None:
    buckets = TokenBuckets(1.0, SetTime(), buckets_max=100)
    for number in range(10_000):
        buckets.take(number)
    assert len(buckets) == 100


def test_no_limit_keeps_nothing() -> None:
    limits = RequestLimits(RateLimits(0, 0), SetTime())
    for number in range(1000):
        limits.charge_caller(number)
        limits.charge_stranger("192.0.2.1")
    assert len(limits.callers) == len(limits.strangers) == 0


def test_addresses_of_one_household_share_a_bucket() -> None:
    limits = RequestLimits(RateLimits(1, 1), SetTime())
    for number in range(AT_ONCE):
        limits.charge_stranger(f"2001:db8:1:2::{number:x}")
    with pytest.raises(Refusal) as refused:
        limits.charge_stranger("2001:db8:1:2:ffff::1")
    assert refused.value.headers == {"retry-after": "1"}
    limits.charge_stranger("2001:db8:1:3::1")
    for address in ("192.0.2.1", "::ffff:192.0.2.2"):
        limits.charge_stranger(address)
    assert len(limits.strangers) == 4


def test_every_route_of_a_server_says_that_it_may_refuse() -> None:
    described = describe_api(NETWORK_ROUTES, is_network=True)
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert len(operations) > 50
    assert all("429" in one["responses"] for one in operations)
    assert "Retry-After" in described["components"]["responses"]["TooManyRequests"]["headers"]


@pytest.fixture
def time() -> SetTime:
    """The clock of the limits."""
    return SetTime()


@pytest.fixture
async def slow(
    team: Team, time: SetTime, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Client, None]:
    """A server that takes one request a second of each, and ten at once."""
    monkeypatch.setattr(network_callers, "RequestLimits", partial(RequestLimits, now=time))
    async with (
        serving_here(team, rates=RateLimits(1, 1)) as url,
        httpx2.AsyncClient(base_url=url, timeout=SOON_S) as http,
    ):
        yield Client(http, team)


async def count(client: Client, caller: str, path: str = "/me", times: int = 15) -> int:
    """Return how many of some requests at once were not refused for their number."""
    answers = await asyncio.gather(*(client.get(caller, path) for _ in range(times)))
    return sum(answer.status_code != 429 for answer in answers)


async def test_caller_who_sends_too_much_is_told_when_to_go_on(slow: Client, time: SetTime) -> None:
    assert await count(slow, "member") == AT_ONCE
    answer = await slow.get("member", "/me")
    assert problem(answer) == "too-many-requests"
    assert answer.headers["retry-after"] == "1"
    assert "in 1 s" in answer.json()["next"][0]
    # Another key is another caller, also at the same address.
    assert (await slow.get("owner", "/me")).status_code == 200
    time.now += 1.0
    assert await count(slow, "member") == 1


async def test_stranger_is_refused_and_those_at_work_are_not(slow: Client) -> None:
    assert (await slow.get("member", "/me")).status_code == 200
    # At once, and yet no more of them are looked up than the limit allows.
    assert await count(slow, "garbled", times=40) == AT_ONCE
    login = await slow.http.post(f"{API}/login-sessions", json={"key": "ttk_nothing"})
    assert (problem(login), login.headers["retry-after"]) == ("too-many-requests", "1")
    assert problem(await slow.http.get(f"{API}/me")) == "too-many-requests"
    assert (await slow.get("member", "/me")).status_code == 200
    # Nor is a key that is not known here yet, until the address has quietened.
    assert problem(await slow.get("owner", "/me")) == "too-many-requests"
    assert (await slow.http.get("/healthz")).status_code == 200


async def test_valid_keys_do_not_count_for_their_address(slow: Client) -> None:
    for caller in ("member", "owner", "guest", "admin", "agent on behalf", "narrowed to reading"):
        assert await count(slow, caller, "/me", 3) == 3
    assert await count(slow, "garbled", times=AT_ONCE) == AT_ONCE


async def test_stream_is_one_request(slow: Client) -> None:
    headers = slow.team.headers("member")
    async with slow.http.stream("GET", f"{API}/stream", headers=headers) as stream:
        assert stream.status_code == 200
        for _ in range(3):
            await slow.team.tree.sessions.create(f"new-{_}")
        assert await count(slow, "member", times=AT_ONCE - 1) == AT_ONCE - 1


async def test_python_client_waits_and_goes_on(team: Team) -> None:
    key = team.keys["member"]
    async with (
        serving_here(team, rates=RateLimits(1, 1)) as url,
        PythonClient(f"{url}/w/{TEAM}", key) as client,
        asyncio.TaskGroup() as tasks,
    ):
        asked = [tasks.create_task(client.sessions.get("lobby")) for _ in range(AT_ONCE + 2)]
    assert {one.result().label for one in asked} == {"lobby"}


async def test_python_client_does_not_wait_for_long(team: Team) -> None:
    key = team.keys["member"]
    async with (
        serving_here(team, rates=RateLimits(0.01, 1)) as url,
        PythonClient(f"{url}/w/{TEAM}", key) as client,
    ):
        await client.sessions.get("lobby")
        with pytest.raises(ServerBusy, match="too many requests") as refused:
            await client.sessions.get("lobby")
    assert refused.value.wait_s > BUSY_S_MAX
