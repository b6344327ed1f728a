"""Whose request a proxy passes on, and what a client that forges a header gains: nothing."""

from collections.abc import AsyncGenerator
from functools import partial

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.http_world import Team, serving_here
from tests.server.network import API, SOON_S, Client
from tests.server.test_rate_limits import AT_ONCE, SetTime
from turntree.core.errors import InvalidOperation
from turntree.server.access import network_callers
from turntree.server.access.proxies import TrustedProxies, read_proxies
from turntree.server.access.rate_limits import RateLimits, RequestLimits

PROXIES = read_proxies("10.0.0.5, 10.1.0.0/16,fd00::/8")
NEAR, FAR, V6 = "10.0.0.5", "10.1.2.3", "fd00::1"
CLIENT, OTHER = "192.0.2.7", "198.51.100.9"


@pytest.mark.parametrize(
    ("peer", "header", "client"),
    [
        (NEAR, CLIENT, CLIENT),
        (NEAR, f"{OTHER}, {CLIENT}", CLIENT),
        (NEAR, f"{CLIENT}, {FAR}", CLIENT),
        (NEAR, f"{OTHER},{CLIENT},{V6} , {FAR}", CLIENT),
        (NEAR, f"{CLIENT}:4711", CLIENT),
        (NEAR, "2001:db8::7", "2001:db8::7"),
        (NEAR, "[2001:db8::7]:4711", "2001:db8::7"),
        (NEAR, "[2001:db8::7]", "2001:db8::7"),
        (NEAR, f"::ffff:{CLIENT}", CLIENT),
        (f"::ffff:{NEAR}", CLIENT, CLIENT),
        (V6, CLIENT, CLIENT),
        # All are proxies: the farthest of them is the client.
        (NEAR, f"{V6}, {FAR}", V6),
        # What is no address ends the chain at the proxy that passed it on.
        (NEAR, "unknown", NEAR),
        (NEAR, "", NEAR),
        (NEAR, f"{CLIENT}, unknown, {FAR}", FAR),
        (NEAR, f"{CLIENT}, 300.1.1.1", NEAR),
        (NEAR, f"{CLIENT}\x00", NEAR),
        # Nobody else is believed.
        (OTHER, CLIENT, OTHER),
        ("10.0.0.6", CLIENT, "10.0.0.6"),
        ("", CLIENT, ""),
        ("a socket", CLIENT, "a socket"),
    ],
)
def test_client_is_the_nearest_address_that_is_no_proxy(
    peer: str, header: str, client: str
) -> None:
    assert PROXIES.find_client(peer, [header]) == client


@pytest.mark.parametrize(
    ("header", "client"),
    [
        (f"for={CLIENT}", CLIENT),
        (f'For="{CLIENT}:80";proto=https;by={NEAR}', CLIENT),
        ('for="[2001:db8::7]:4711"', "2001:db8::7"),
        (f"for={OTHER}, proto=https; for={CLIENT} , for={FAR}", CLIENT),
        (f"for={CLIENT};for={OTHER}", NEAR),
        ("for=_hidden", NEAR),
        ("proto=https", NEAR),
        # A quote that a client opens does not swallow what the proxy adds.
        (f'for="{OTHER}, for={CLIENT}', CLIENT),
        (f'for="{OTHER};x=", for="{CLIENT}"', CLIENT),
    ],
)
def test_forwarded_names_the_client(header: str, client: str) -> None:
    assert PROXIES.find_client(NEAR, (), [header]) == client


def test_lines_of_a_header_are_one_list() -> None:
    # haproxy adds a line of its own behind the one that the client sent.
    assert PROXIES.find_client(NEAR, [OTHER, CLIENT]) == CLIENT
    assert PROXIES.find_client(NEAR, (), [f"for={OTHER}", f"for={CLIENT}"]) == CLIENT


def test_headers_that_differ_count_as_none() -> None:
    assert PROXIES.find_client(NEAR, [CLIENT], [f"for={OTHER}"]) == NEAR
    assert PROXIES.find_client(NEAR, [CLIENT], ["for=unknown"]) == NEAR
    assert PROXIES.find_client(NEAR, [f"{OTHER}, {CLIENT}"], [f"for={CLIENT}"]) == CLIENT


def test_no_header_is_a_request_of_the_proxy() -> None:
    assert PROXIES.find_client(NEAR) == NEAR


def test_without_proxies_only_the_sender_counts() -> None:
    assert TrustedProxies().find_client("127.0.0.1", [CLIENT], [f"for={CLIENT}"]) == "127.0.0.1"


@given(forged=st.lists(st.text(max_size=60), max_size=4), peer=st.sampled_from([NEAR, OTHER]))
def test_nothing_that_a_client_sends_changes_who_it_is(forged: list[str], peer: str) -> None:
    client = CLIENT if peer == NEAR else peer
    # In lines of its own or in the same one; the proxy adds the end.
    assert PROXIES.find_client(peer, [*forged, CLIENT]) == client
    assert PROXIES.find_client(peer, [",".join([*forged, CLIENT])]) == client
    assert PROXIES.find_client(peer, (), [*forged, f"for={CLIENT}"]) == client
    assert PROXIES.find_client(peer, (), [",".join([*forged, f"for={CLIENT}"])]) == client
    # The header that the proxy passes on unread can only lose the client its own limit.
    assert PROXIES.find_client(peer, [CLIENT], forged) in {client, peer}
    assert PROXIES.find_client(peer, forged, [f"for={CLIENT}"]) in {client, peer}


@pytest.mark.parametrize("text", ["proxy.example.net", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.1;x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidOperation, match="not the address of a proxy"):
        read_proxies(f"10.0.0.5,{text}")


@pytest.mark.parametrize("text", ["0.0.0.0/0", "::/0"])
def test_every_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidOperation, match="every address"):
        read_proxies(text)


@pytest.fixture
async def behind(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Client, str], None]:
    """A server that trusts a proxy on loopback, and where it is; ten requests of each client."""
    monkeypatch.setattr(network_callers, "RequestLimits", partial(RequestLimits, now=SetTime()))
    proxies = read_proxies("127.0.0.1")
    async with (
        serving_here(team, rates=RateLimits(1, 1), proxies=proxies) as url,
        httpx2.AsyncClient(base_url=url, timeout=SOON_S) as http,
    ):
        yield Client(http, team), url


async def send_as(http: httpx2.AsyncClient, times: int, **headers: str) -> int:
    """Return how many of some requests of a stranger were not refused for their number."""
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    answers = [await http.get(f"{API}/me", headers=sent) for _ in range(times)]
    return sum(answer.status_code != 429 for answer in answers)


@pytest.mark.anyio
async def test_clients_of_a_proxy_have_limits_of_their_own(behind: tuple[Client, str]) -> None:
    client, _ = behind
    http = client.http
    assert await send_as(http, AT_ONCE + 5, x_forwarded_for=CLIENT) == AT_ONCE
    # In front of what the proxy says, a client may write what it likes.
    assert await send_as(http, 3, x_forwarded_for=f"{OTHER}, {CLIENT}") == 0
    assert await send_as(http, 3, forwarded=f"for={OTHER}, for={CLIENT}") == 0
    assert await send_as(http, 3, x_forwarded_for=OTHER) == 3
    keyed = {**client.team.headers("member"), "x-forwarded-for": OTHER}
    assert (await http.get(f"{API}/me", headers=keyed)).status_code == 200
    login = await http.post(
        f"{API}/login-sessions", json={"key": "ttk_no"}, headers={"x-forwarded-for": CLIENT}
    )
    assert login.status_code == 429


@pytest.mark.anyio
async def test_sender_that_is_not_trusted_is_not_believed(behind: tuple[Client, str]) -> None:
    _, url = behind
    transport = httpx2.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx2.AsyncClient(base_url=url, timeout=SOON_S, transport=transport) as http:
        taken = [
            await send_as(http, 1, x_forwarded_for=f"203.0.113.{number}") for number in range(15)
        ]
    assert sum(taken) == AT_ONCE
