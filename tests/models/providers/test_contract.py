"""The provider contract, kept by every vendor and by the script."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from typing import Any

from tests.models.providers.vendors import (
    ANTHROPIC,
    CHAT,
    COMPATIBLE,
    GOOGLE,
    RESPONSES,
    Vendor,
    saying,
)
from turntree.models.provider import Provider
from turntree.models.providers.factory import build_provider
from turntree.testing.contracts.provider import ProviderContract
from turntree.testing.scripted.server import Answer, Failure


class OfVendor(ProviderContract):
    vendor: Vendor

    def saying(self, *answers: Answer) -> AbstractAsyncContextManager[Provider]:
        return saying(self.vendor, *answers)


class TestAnthropic(OfVendor):
    vendor, model = ANTHROPIC, ANTHROPIC.model


class TestResponses(OfVendor):
    vendor, model = RESPONSES, RESPONSES.model


class TestChat(OfVendor):
    vendor, model = CHAT, CHAT.model


class TestCompatible(OfVendor):
    vendor, model = COMPATIBLE, COMPATIBLE.model


class TestGoogle(OfVendor):
    vendor, model = GOOGLE, GOOGLE.model


class TestScripted(ProviderContract):
    model = "scripted-1"

    def saying(self, *answers: Answer) -> AbstractAsyncContextManager[Provider]:
        return _scripted(*answers)


@asynccontextmanager
async def _scripted(*answers: Answer) -> AsyncGenerator[Provider, None]:
    script: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    for answer in answers:
        if isinstance(answer, Failure):
            failures.append({"kind": "rate_limited", "retry_after_s": 7})
            continue
        calls = [{"tool": call.tool, "args": call.arguments} for call in answer.calls]
        said = {"text": answer.text, "reasoning": answer.reasoning, "tools": calls}
        script.append({**said, "usage": asdict(answer.usage), "failures": failures})
        failures = []
    config: dict[str, Any] = {"provider_type": "scripted", "script": script}
    yield build_provider(config, lambda name: name)
