"""From a config to a provider: types, names of keys, and what is refused."""

import subprocess
import sys

import pytest

from tests.models.providers.vendors import KEYS, key
from turntree.core.canonical import Json
from turntree.core.errors import (
    InvalidOperation,
    NotFound,
    PermissionDenied,
    ProviderError,
    ProviderNotConfigured,
)
from turntree.models.provider import ProviderSetup
from turntree.models.providers.connection import Connection, connect
from turntree.models.providers.factory import build_provider, no_objects, provider_types
from turntree.models.providers.parameters import Api, settings_of

APIS: tuple[Api, ...] = (
    "anthropic",
    "openai-responses",
    "openai-chat",
    "openai-compatible",
    "google",
)


def connected(**config: object) -> Connection:
    members = {"provider_type": "anthropic", **config}
    return connect(ProviderSetup(members, key, no_objects), key_names=("ANTHROPIC_API_KEY",))  # type: ignore[arg-type]


def test_each_type_is_built_under_the_name_that_lists_of_prices_know() -> None:
    names = {
        type: build_provider(
            {"provider_type": type, "base_url": "https://gateway.example.org/v1"}, key
        ).name
        for type in ("anthropic", "openai", "openai-chat", "openai-compatible", "google")
    }
    assert names == {
        "anthropic": "anthropic",
        "openai": "openai",
        "openai-chat": "openai",
        "openai-compatible": "openai-compatible",
        "google": "google",
    }
    assert set(names) < set(provider_types())


def test_a_server_may_be_named_after_whose_models_it_has() -> None:
    config = {
        "provider_type": "openai-compatible",
        "base_url": "https://api.deepseek.example/v1",
        "vendor": "deepseek",
    }
    assert build_provider(config, key).name == "deepseek"


def test_unknown_provider_type_lists_known_types() -> None:
    with pytest.raises(ProviderNotConfigured, match="there are anthropic"):
        build_provider({"provider_type": "abacus"}, key)


def test_a_server_that_is_nowhere_is_refused() -> None:
    with pytest.raises(InvalidOperation, match="base_url"):
        build_provider({"provider_type": "openai-compatible"}, key)


def test_names_are_filled_in_wherever_they_stand() -> None:
    found = connected(
        base_url="https://${CF_AIG_TOKEN}.example.org",
        api_key="${OPENAI_API_KEY}",
        headers={"cf-aig-authorization": "Bearer ${CF_AIG_TOKEN}", "x-team": "blue"},
    )
    assert found.base_url == f"https://{KEYS['CF_AIG_TOKEN']}.example.org"
    assert found.key == KEYS["OPENAI_API_KEY"]
    assert found.headers["cf-aig-authorization"] == f"Bearer {KEYS['CF_AIG_TOKEN']}"
    assert found.headers["x-team"] == "blue"


def test_no_credential_is_shown() -> None:
    found = connected(headers={"cf-aig-authorization": "${CF_AIG_TOKEN}"})
    shown = f"{found!r} {ProviderSetup({}, key, no_objects)!r}"
    assert not any(secret in shown for secret in KEYS.values())
    assert found.hide(f"key {KEYS['ANTHROPIC_API_KEY']}!") == "key •••!"


def test_the_vendors_own_name_is_tried_where_the_config_names_none() -> None:
    assert connected().key == KEYS["ANTHROPIC_API_KEY"]


@pytest.mark.parametrize(
    "config",
    [
        {"api_key": "sk-ant-written-down"},
        {"headers": {"cf-aig-authorization": "Bearer written-down"}},
        {"headers": {"x-api-key": "written-down"}},
    ],
)
def test_a_key_that_is_written_down_is_refused_and_not_repeated(config: dict[str, object]) -> None:
    with pytest.raises(InvalidOperation) as refused:
        connected(**config)
    assert "written-down" not in str(refused.value)


def test_a_key_is_sent_by_https_or_to_this_machine() -> None:
    assert connected(base_url="http://127.0.0.1:8080").key
    with pytest.raises(InvalidOperation, match="https"):
        connected(base_url="http://models.example.org/v1")


@pytest.mark.parametrize(
    "config",
    [{"timeout_s": 0}, {"timeout_s": "soon"}, {"cache": "forever"}, {"headers": {"x": 1}},
     {"headers": "x"}],
)  # fmt: skip
def test_a_config_that_makes_no_sense_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(InvalidOperation):
        connected(**config)


def test_a_key_that_is_missing_or_out_of_reach_is_told_by_its_name() -> None:
    with pytest.raises(NotFound, match="MISSING"):
        connected(api_key="${MISSING}")

    def denied(name: str) -> str:
        raise PermissionDenied(f"the credential {name} is out of reach")

    with pytest.raises(PermissionDenied, match="ANTHROPIC_API_KEY"):
        connect(
            ProviderSetup({"provider_type": "anthropic"}, denied, no_objects),
            key_names=("ANTHROPIC_API_KEY",),
        )


def test_a_gateway_may_hold_the_keys_itself() -> None:
    def only_the_gateways(name: str) -> str:
        if name != "CF_AIG_TOKEN":
            raise NotFound(f"the credential {name} is not there")
        return KEYS[name]

    config: dict[str, Json] = {
        "base_url": "https://gateway.example.org/anthropic",
        "headers": {"cf-aig-authorization": "Bearer ${CF_AIG_TOKEN}"},
    }
    found = connect(
        ProviderSetup(config, only_the_gateways, no_objects), key_names=("ANTHROPIC_API_KEY",)
    )
    assert found.key is None
    with pytest.raises(NotFound, match="ANTHROPIC_API_KEY"):
        connect(ProviderSetup({}, only_the_gateways, no_objects), key_names=("ANTHROPIC_API_KEY",))


@pytest.mark.parametrize("api", APIS)
def test_what_every_vendor_knows_is_passed_on(api: Api) -> None:
    found = settings_of(api, {"temperature": 0.5, "max_tokens": 10, "top_p": None, "model_id": "m"})
    assert (found["temperature"], found["max_tokens"]) == (0.5, 10)
    assert "top_p" not in found


@pytest.mark.parametrize(
    ("api", "name"),
    [("anthropic", "seed"), ("openai-responses", "stop"), ("openai-responses", "seed"),
     ("openai-chat", "top_k")],
)  # fmt: skip
def test_what_a_vendor_has_no_word_for_is_refused_instead_of_dropped(api: Api, name: str) -> None:
    with pytest.raises(ProviderError, match=f"no parameter {name}") as refused:
        settings_of(api, {name: 1})
    assert refused.value.kind == "refused"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("asked", [{"verbosity": "high"}, {"thinking": "endless"}, {"headers": 1}])
def test_what_nobody_knows_is_refused(api: Api, asked: dict[str, object]) -> None:
    with pytest.raises(ProviderError, match="there are headers, max_tokens"):
        settings_of(api, asked)  # type: ignore[arg-type]


def test_nothing_of_a_vendors_is_loaded_before_it_is_asked() -> None:
    code = (
        "import sys\n"
        "from turntree.models.providers.factory import build_provider\n"
        "build_provider({'provider_type': 'scripted'}, str)\n"
        "build_provider({'provider_type': 'anthropic'}, str)\n"
        "heavy = {'pydantic_ai', 'openai', 'anthropic', 'google.genai', 'httpx2'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
