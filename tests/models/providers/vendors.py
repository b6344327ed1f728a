"""Providers of every vendor whose service is a scripted one on this machine."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from turntree.core.errors import NotFound
from turntree.models.provider import Objects, Provider
from turntree.models.providers.factory import build_provider, no_objects
from turntree.testing.scripted.server import Answer, ScriptedModel

KEYS = {
    "ANTHROPIC_API_KEY": "key-of-anthropic",
    "OPENAI_API_KEY": "key-of-openai",
    "GEMINI_API_KEY": "key-of-google",
    "CF_AIG_TOKEN": "token-of-the-gateway",
}


@dataclass(frozen=True, slots=True)
class Vendor:
    type: str
    model: str
    path: str = ""


ANTHROPIC = Vendor("anthropic", "claude-opus-4-8")
RESPONSES = Vendor("openai", "gpt-5-mini", "/v1")
CHAT = Vendor("openai-chat", "gpt-4o", "/v1")
COMPATIBLE = Vendor("openai-compatible", "smollm2-135m", "/v1")
GOOGLE = Vendor("google", "gemini-2.5-flash")
VENDORS = (ANTHROPIC, RESPONSES, CHAT, COMPATIBLE, GOOGLE)


def key(name: str) -> str:
    try:
        return KEYS[name]
    except KeyError:
        raise NotFound(f"the credential {name} is not there") from None


@asynccontextmanager
async def provider_of(
    vendor: Vendor,
    server: ScriptedModel,
    config: Mapping[str, Any] | None = None,
    objects: Objects = no_objects,
) -> AsyncGenerator[Provider, None]:
    base = {"provider_type": vendor.type, "base_url": server.url + vendor.path}
    provider = build_provider({**base, **(config or {})}, key, objects=objects)
    try:
        yield provider
    finally:
        await provider.aclose()


@asynccontextmanager
async def saying(vendor: Vendor, *answers: Answer) -> AsyncGenerator[Provider, None]:
    with ScriptedModel(answers) as server:
        async with provider_of(vendor, server) as provider:
            yield provider
