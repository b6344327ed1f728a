"""One gateway in front of several vendors: paths, headers, and which keys go along."""

from collections.abc import Callable

import pytest

from tests.models.providers.vendors import KEYS, key
from turntree.core.canonical import Json
from turntree.core.errors import (
    Hint,
    InvalidOperation,
    NotFound,
    PermissionDenied,
    ProviderError,
)
from turntree.core.message import user
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, ProviderSetup
from turntree.models.providers.factory import build_provider, no_objects, vendor_key_names
from turntree.models.providers.gateway import GATEWAY_TYPE, configure_vendor
from turntree.testing.scripted.server import Failure, Reply, ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
PROMPT = Prompt((), (user("hi"),))
KEY_HEADERS = {"x-api-key", "authorization", "x-goog-api-key"}
PLACES = {"CLOUDFLARE_ACCOUNT_ID": "account-1", "CLOUDFLARE_GATEWAY_ID": "gateway-1"}


def place(name: str) -> str:
    return PLACES[name] if name in PLACES else key(name)


def address(credentials: Callable[[str], str] = place, **config: Json) -> str:
    setup = ProviderSetup({"provider_type": GATEWAY_TYPE, **config}, credentials, no_objects)
    return str(configure_vendor(setup, "google").config["base_url"])


@pytest.mark.parametrize(
    ("model", "path", "own", "vendor"),
    [
        ("claude-opus-4-8", "anthropic/v1/messages", None, "anthropic"),
        ("gpt-5-mini", "openai/responses", None, "openai"),
        ("gemini-2.5-flash", "google-ai-studio/v1", None, "google"),
        ("anthropic/experiment", "anthropic/v1/messages", "experiment", "anthropic"),
        ("google-ai-studio/tuned", "google-ai-studio/v1", "tuned", "google"),
    ],
)
async def test_a_models_name_chooses_its_vendor(
    model: str, path: str, own: str | None, vendor: str
) -> None:
    with ScriptedModel([Reply("Hi."), Reply("Hi.")]) as server:
        config = {"provider_type": GATEWAY_TYPE, "base_url": f"{server.url}/v1/account/gateway"}
        provider = build_provider(config, key)
        pieces = [piece async for piece in provider.stream(model, PROMPT, {})]
        again = await provider.request(model, PROMPT, {})
        await provider.aclose()
    first, second = server.exchanges
    assert first.path.startswith(f"/v1/account/gateway/{path}")
    assert (first.model, second.model) == (own or model, own or model)
    assert first.headers["cf-aig-authorization"] == f"Bearer {KEYS['CF_AIG_TOKEN']}"
    assert KEY_HEADERS & set(first.headers)
    assert isinstance(pieces[-1], ModelReply)
    assert (pieces[-1].provider, again.provider, provider.name) == (vendor, vendor, GATEWAY_TYPE)


@pytest.mark.parametrize("model", ["claude-opus-4-8", "gpt-5-mini", "gemini-2.5-flash"])
async def test_a_gateway_that_stores_the_keys_is_sent_none(model: str) -> None:
    def only_the_token(name: str) -> str:
        if name != "CF_AIG_TOKEN":
            raise NotFound(f"the credential {name} is not there")
        return KEYS[name]

    with ScriptedModel([Reply("Hi.")]) as server:
        provider = build_provider(
            {"provider_type": GATEWAY_TYPE, "base_url": server.url}, only_the_token
        )
        await provider.request(model, PROMPT, {})
        await provider.aclose()
    headers = server.exchanges[0].headers
    assert headers["cf-aig-authorization"]
    assert not KEY_HEADERS & set(headers)


def test_the_address_consists_of_the_account_and_the_gateway() -> None:
    at = "https://gateway.ai.cloudflare.com/v1"
    by_name = "${CLOUDFLARE_ACCOUNT_ID}/${CLOUDFLARE_GATEWAY_ID}"
    assert address() == f"{at}/{by_name}/google-ai-studio"
    assert address(account_id="a1", gateway_id="${MINE}") == f"{at}/a1/${{MINE}}/google-ai-studio"
    assert (
        address(base_url="https://own.example.org/") == "https://own.example.org/google-ai-studio"
    )
    for wrong in ("a/../b", "", "a?b", "${A}/b"):
        with pytest.raises(InvalidOperation, match="account_id"):
            address(account_id=wrong)


def test_an_account_that_no_variable_names_is_missing_by_name() -> None:
    with pytest.raises(NotFound, match="CLOUDFLARE_ACCOUNT_ID"):
        build_provider({"provider_type": GATEWAY_TYPE}, key)


async def test_a_model_of_an_unknown_vendor_is_refused() -> None:
    provider = build_provider({"provider_type": GATEWAY_TYPE}, place)
    for model in ("smollm2-135m", "nobody/gpt-5"):
        with pytest.raises(ProviderError, match="one of anthropic, openai, google") as refused:
            await provider.request(model, PROMPT, {})
        assert refused.value.kind == "refused"
    assert repr(provider) == f"<provider {GATEWAY_TYPE}: anthropic, openai, google>"
    await provider.aclose()


async def test_a_key_that_was_not_allowed_is_named_when_access_is_denied() -> None:
    hint = Hint("config.allow_host", {"host": "ANTHROPIC_API_KEY@type:cloudflare-ai-gateway"})

    def denied(name: str) -> str:
        raise PermissionDenied(f"{name} is not allowed", hint=hint)

    with ScriptedModel([Failure(401, "missing x-api-key")]) as server:
        provider = build_provider({"provider_type": GATEWAY_TYPE, "base_url": server.url}, denied)
        with pytest.raises(ProviderError, match="ANTHROPIC_API_KEY is not allowed") as refused:
            await provider.request("claude-opus-4-8", PROMPT, {})
        await provider.aclose()
    assert (refused.value.kind, refused.value.hint) == ("denied", hint)


async def test_the_models_of_all_vendors_are_listed() -> None:
    with ScriptedModel() as server:
        provider = build_provider({"provider_type": GATEWAY_TYPE, "base_url": server.url}, key)
        assert len(await provider.list_models()) == 3
        await provider.aclose()
    assert [one.path.split("/")[1] for one in server.exchanges] == [
        "anthropic", "openai", "google-ai-studio",
    ]  # fmt: skip


def test_every_vendors_key_may_go_to_a_gateway() -> None:
    names = vendor_key_names({"provider_type": GATEWAY_TYPE})
    assert names == ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
