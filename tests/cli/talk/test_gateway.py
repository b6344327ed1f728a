"""One gateway in front of several vendors, on the command line."""

import json

import pytest

from tests.cli.conftest import Call
from turntree.testing.scripted.server import Reply, Rule, ScriptedModel

GATEWAY = ("provider", "create", "cf-gateway", "--type", "cloudflare-ai-gateway")
NAMES = ("CLOUDFLARE_ACCOUNT_ID", "CLOUDFLARE_GATEWAY_ID", "CF_AIG_TOKEN", "ANTHROPIC_API_KEY",
         "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")  # fmt: skip


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def create_models(turntree: Call) -> None:
    for name, backend in (("claude", "claude-opus-4-8"), ("gemini-flash", "gemini-2.5-flash")):
        words = ("model", "create", name, "--backend", backend, "--provider", "cf-gateway")
        assert turntree(*words).code == 0


@pytest.mark.slow
def test_one_session_asks_two_vendors_through_one_gateway(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CF_AIG_TOKEN", "token-of-the-gateway")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-anthropic")
    with ScriptedModel(rules=[Rule((Reply("Hello."),))]) as server:
        made = turntree(*GATEWAY, "--base-url", f"{server.url}/v1/account/gateway",
                        "--set", "headers/cf-aig-authorization=Bearer ${CF_AIG_TOKEN}")  # fmt: skip
        host = server.url.removeprefix("http://")
        assert f"allowed from now on: CF_AIG_TOKEN to {host} and ANTHROPIC_API_KEY" in made.err
        create_models(turntree)
        turntree("session", "create", "main", "--model", "claude")
        assert turntree("send", "main", "Hello").out.startswith("Hello.")
        asked = turntree("send", "main", "What does gemini think?", "--model", "gemini-flash")
        assert asked.out.startswith("Hello.")
    first, second = server.exchanges
    assert first.path.startswith("/v1/account/gateway/anthropic/")
    assert second.path.startswith("/v1/account/gateway/google-ai-studio/")
    for exchange in server.exchanges:
        assert exchange.headers["cf-aig-authorization"] == "Bearer token-of-the-gateway"
    assert "authorization" in first.headers or "x-api-key" in first.headers
    assert not {"authorization", "x-api-key", "x-goog-api-key"} & set(second.headers)
    said = [json.loads(line) for line in turntree("log", "main", "--json").out.splitlines()]
    assert [one["provider"] for one in said] == ["google", "anthropic"]


def test_a_variable_that_is_missing_is_named_before_anything_is_sent(turntree: Call) -> None:
    assert turntree(*GATEWAY).err.count("unknown provider type") == 0
    create_models(turntree)
    refused = turntree("model", "invoke", "claude", "--message", "Hello")
    assert refused.code != 0
    assert "export CLOUDFLARE_ACCOUNT_ID=" in refused.err


def test_a_key_goes_to_anothers_gateway_only_if_its_user_allowed_that(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    turntree(*GATEWAY)
    create_models(turntree)
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", "account-of-bob")
    monkeypatch.setenv("TURNTREE_USER", "bob")
    refused = turntree("model", "invoke", "claude", "--message", "Hello")
    assert refused.code != 0
    assert "written by human:ana" in refused.err
    allowed = "secret_hosts CLOUDFLARE_ACCOUNT_ID@type:cloudflare-ai-gateway"
    assert f"turntree config add {allowed}" in refused.err


def test_creating_a_gateway_settles_which_vendors_keys_it_gets(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CF_AIG_TOKEN", "its-own")
    assert "allowed" not in turntree(*GATEWAY).err
    monkeypatch.setenv("OPENAI_API_KEY", "hers")
    made = turntree("provider", "create", "two", "--type", "cloudflare-ai-gateway")
    assert "allowed from now on: OPENAI_API_KEY to type:cloudflare-ai-gateway" in made.err
