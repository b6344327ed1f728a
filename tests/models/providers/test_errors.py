"""Why a vendor gave no answer, by kind; and that nothing is tried twice."""

import time
from email.utils import formatdate

import pytest
from pydantic_ai.exceptions import ModelHTTPError, ModelRateLimitError

from tests.models.providers.vendors import (
    ANTHROPIC,
    CHAT,
    COMPATIBLE,
    GOOGLE,
    KEYS,
    RESPONSES,
    VENDORS,
    Vendor,
    provider_of,
)
from turntree.core.errors import ProviderError
from turntree.core.message import user
from turntree.models.prompt import Prompt
from turntree.models.provider import Provider
from turntree.models.providers.connection import HIDDEN
from turntree.models.providers.errors import failure_of
from turntree.testing.scripted.server import Answer, Break, Failure, Reply, ScriptedModel

pytestmark = pytest.mark.anyio

PROMPT = Prompt((), (user("hi"),))
TOO_LONG = {
    ANTHROPIC: Failure(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    RESPONSES: Failure(400, "Your input exceeds the window.", code="context_length_exceeded"),
    CHAT: Failure(400, "This model's maximum context length is 128000 tokens."),
    COMPATIBLE: Failure(400, "too long", code="context_length_exceeded"),
    GOOGLE: Failure(400, "The input token count (9) exceeds the maximum number of tokens (8)."),
}
BY_STATUS = {
    400: "refused",
    401: "denied",
    402: "denied",
    403: "denied",
    404: "refused",
    408: "timeout",
    413: "refused",
    422: "refused",
    429: "rate_limited",
    500: "overloaded",
    502: "overloaded",
    503: "overloaded",
    504: "overloaded",
    529: "overloaded",
}
every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.type)


async def failure(provider: Provider, vendor: Vendor, *, streams: bool = True) -> ProviderError:
    with pytest.raises(ProviderError) as failed:
        await (_hear(provider, vendor) if streams else provider.request(vendor.model, PROMPT, {}))
    return failed.value


async def _hear(provider: Provider, vendor: Vendor) -> None:
    async for _ in provider.stream(vendor.model, PROMPT, {}):
        pass


@pytest.mark.slow
@every_vendor
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
async def test_a_status_says_of_which_kind_it_is(vendor: Vendor, streams: bool) -> None:  # noqa: FBT001 (a parameter of the test)
    failures = [Failure(status, "no") for status in BY_STATUS]
    with ScriptedModel(failures) as server:
        async with provider_of(vendor, server) as provider:
            found = {
                status: (await failure(provider, vendor, streams=streams)).kind
                for status in BY_STATUS
            }
        # A payload that is too large is a context that is too long, to those vendors that say so.
        if found[413] == "too_long":
            found[413] = "refused"
        assert found == BY_STATUS
        assert len(server.exchanges) == len(BY_STATUS), "nothing was tried twice"


@every_vendor
async def test_a_context_that_is_too_long_is_told_from_other_refusals(vendor: Vendor) -> None:
    with ScriptedModel([TOO_LONG[vendor]]) as server:
        async with provider_of(vendor, server) as provider:
            assert (await failure(provider, vendor)).kind == "too_long"


@every_vendor
async def test_when_to_ask_again_is_heard_in_each_spelling(vendor: Vendor) -> None:
    date = formatdate(time.time() + 90, usegmt=True)
    answers = [
        Failure(429, "slow down", {"Retry-After": "7"}),
        Failure(429, "slow down", {"Retry-After": date}),
        Failure(429, "slow down", {"retry-after-ms": "1500"}),
        Failure(503, "come back", {"Retry-After": "3"}),
        Failure(429, "slow down"),
    ]
    with ScriptedModel(answers) as server:
        async with provider_of(vendor, server) as provider:
            found = [(await failure(provider, vendor)).retry_after_s for _ in answers]
    assert found[0] == 7
    assert found[1] is not None
    assert 60 < found[1] <= 90
    assert found[2:] == [1.5, 3, None]


@every_vendor
@pytest.mark.parametrize("is_reset", [False, True], ids=["ended", "reset"])
@pytest.mark.parametrize("after", [0, 1])
async def test_partial_reply_is_an_error(vendor: Vendor, after: int, is_reset: bool) -> None:  # noqa: FBT001 (a parameter of the test)
    said = Reply("Some words and some more.", breaks=Break(after, is_reset=is_reset))
    with ScriptedModel([said]) as server:
        async with provider_of(vendor, server) as provider:
            assert (await failure(provider, vendor)).kind == "broken"


@pytest.mark.parametrize("vendor", [ANTHROPIC, RESPONSES, CHAT], ids=lambda vendor: vendor.type)
async def test_an_error_inside_a_stream_is_one_too(vendor: Vendor) -> None:
    late: Answer = Reply("Some words.", breaks=Break(2, Failure(529, "overloaded")))
    with ScriptedModel([late]) as server:
        async with provider_of(vendor, server) as provider:
            assert (await failure(provider, vendor)).kind == "overloaded"


@every_vendor
async def test_a_vendor_that_says_nothing_times_out(vendor: Vendor) -> None:
    with ScriptedModel([Reply("At last.", pause_s=3)]) as server:
        async with provider_of(vendor, server, {"timeout_s": 0.3}) as provider:
            assert (await failure(provider, vendor)).kind == "timeout"


@every_vendor
async def test_unreachable_provider_is_broken(vendor: Vendor) -> None:
    with ScriptedModel() as server:
        gone = server
    async with provider_of(vendor, gone) as provider:
        assert (await failure(provider, vendor)).kind == "broken"
        with pytest.raises(ProviderError):
            await provider.list_models()


@every_vendor
async def test_a_key_that_a_vendor_repeats_is_not_repeated_here(vendor: Vendor) -> None:
    keys = " ".join(KEYS.values())
    config = {"api_key": "${OPENAI_API_KEY}"}
    with ScriptedModel([Failure(401, f"there is no key {keys}")]) as server:
        async with provider_of(vendor, server, config) as provider:
            failed = await failure(provider, vendor)
            assert KEYS["OPENAI_API_KEY"] not in str(failed)
            assert HIDDEN in str(failed)
            assert not any(key in repr(provider) for key in KEYS.values())


async def test_google_says_in_the_body_when_to_ask_again() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]
    body = {"error": {"code": 429, "message": "quota", "details": details}}
    error = ModelHTTPError.for_category(
        ModelRateLimitError, status_code=429, model_name="gemini", body=body
    )
    assert failure_of(error, "google", str).retry_after_s == 34.5


async def test_a_body_of_digits_is_searched_once_and_is_no_number() -> None:
    digits = "1" * 100_000
    refused = ModelHTTPError(400, "m", {"error": {"message": f"prompt is too long: {digits}"}})
    begun = time.process_time()
    failed = failure_of(refused, "mine", lambda text: text)
    assert time.process_time() - begun < 5  # Minutes, if each digit begins a search.
    assert (failed.kind, failed.sent_tokens, failed.limit_tokens) == ("too_long", None, None)
