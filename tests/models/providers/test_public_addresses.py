"""A provider that another person wrote reaches public addresses alone."""

from collections.abc import Sequence
from ipaddress import ip_address

import httpx2
import pytest

from tests.models.providers.vendors import COMPATIBLE, VENDORS, Vendor, key
from turntree.core.errors import NotFound, ProviderError
from turntree.core.message import user
from turntree.models.prompt import Prompt
from turntree.models.providers.errors import MESSAGE_CHARS_MAX
from turntree.models.providers.factory import build_provider
from turntree.system.public_addresses import (
    NotPublicError,
    PublicTransport,
    is_public,
)
from turntree.testing.scripted.server import Failure, Reply, ScriptedModel

pytestmark = pytest.mark.anyio

PROMPT = Prompt((), (user("hi"),))
INTERNAL = [
    "127.0.0.1", "127.9.9.9", "0.1.2.3", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.100.100.200", "168.63.129.16", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1",
    "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1",
]  # fmt: skip


@pytest.mark.parametrize("address", INTERNAL)
def test_what_only_a_machine_or_its_network_reaches_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"])
def test_what_anyone_reaches_is_public(address: str) -> None:
    assert is_public(ip_address(address))


def no_key(name: str) -> str:
    raise NotFound(f"the credential {name} is not there")


class Seen(httpx2.AsyncBaseTransport):
    """Keeps what it is to send."""

    def __init__(self) -> None:
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(200, text="ok")


async def test_a_name_is_resolved_once_and_the_judged_address_is_asked() -> None:
    answers = [["93.184.216.34"], ["127.0.0.1"], ["93.184.216.34", "10.0.0.1"]]

    async def changing(host: str, port: int) -> Sequence[str]:
        assert (host, port) == ("llm.example.org", 8443)
        return answers.pop(0)

    seen = Seen()
    async with httpx2.AsyncClient(transport=PublicTransport(seen, changing)) as client:
        address = "https://llm.example.org:8443/v1"
        assert (await client.get(address)).text == "ok"
        (sent,) = seen.requests
        assert (str(sent.url), sent.headers["host"], sent.extensions["sni_hostname"]) == (
            "https://93.184.216.34:8443/v1", "llm.example.org:8443", "llm.example.org",
        )  # fmt: skip
        # The name means another address now, and one of two is enough.
        for _ in range(2):
            with pytest.raises(NotPublicError) as refused:
                await client.get(address)
            assert refused.value.hint.arguments == {"host": "@llm.example.org:8443"}
    assert len(seen.requests) == 1


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.type)
async def test_no_vendors_client_asks_this_machine_for_another_person(vendor: Vendor) -> None:
    with ScriptedModel([Reply("INTERNAL")] * 9) as server:
        for host in ("127.0.0.1", "localhost", "2130706433"):
            url = server.url.replace("127.0.0.1", host) + vendor.path
            config = {"provider_type": vendor.type, "base_url": url}
            provider = build_provider(config, no_key, is_public_only=True)
            with pytest.raises(ProviderError, match="is not a public address") as failed:
                await provider.request(vendor.model, PROMPT, {})
            assert failed.value.kind == "denied"
            assert "INTERNAL" not in str(failed.value)
            with pytest.raises(ProviderError, match="is not a public address"):
                await provider.list_models()
            await provider.aclose()
        assert server.exchanges == []


async def test_the_body_of_an_error_is_cut_and_holds_nothing_to_obey() -> None:
    page = "\x1b]52;c;aGk=\x07secret-instance-token " + "x" * 5000
    with ScriptedModel([Failure(400, page)]) as server:
        config = {"provider_type": "openai-compatible", "base_url": server.url + COMPATIBLE.path}
        provider = build_provider(config, key)
        with pytest.raises(ProviderError) as failed:
            await provider.request(COMPATIBLE.model, PROMPT, {})
        await provider.aclose()
    assert len(str(failed.value)) <= MESSAGE_CHARS_MAX
    assert str(failed.value).isprintable()


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.type)
async def test_no_redirect_is_followed(vendor: Vendor) -> None:
    with ScriptedModel([Reply("INTERNAL")]) as internal:
        there = Failure(307, "go there", {"Location": internal.url + "/v1/chat/completions"})
        with ScriptedModel([there, there]) as server:
            config = {"provider_type": vendor.type, "base_url": server.url + vendor.path}
            provider = build_provider(config, key)
            with pytest.raises(ProviderError):
                await provider.request(vendor.model, PROMPT, {})
            await provider.aclose()
        assert internal.exchanges == []
