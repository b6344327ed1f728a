"""What arrives at a vendor's door: bodies, headers, cache points, and the end of a request."""

import json
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from turntree.core.canonical import digest_bytes
from turntree.core.errors import ProviderError
from turntree.core.ids import Digest
from turntree.core.message import (
    Media,
    Message,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
    assistant,
    from_json,
    tool,
    user,
)
from turntree.core.message import to_json as message_to_json
from turntree.core.usage import Usage
from turntree.models.prompt import Prompt, ToolSpec
from turntree.models.provider import ModelReply, Provider, ReplyDelta
from turntree.testing.scripted.server import Call, Reply, Rule, ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}}})
MESSAGE_CALLS_MAX = 200
every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.type)


def prompt(*said: Message) -> Prompt:
    return Prompt(("Be brief.", "Be kind."), said, (LOOK,))


async def whole(provider: Provider, vendor: Vendor, *said: Message, **asked: Any) -> ModelReply:
    found = [one async for one in provider.stream(vendor.model, prompt(*said), asked)]
    assert isinstance(found[-1], ModelReply)
    return found[-1]


def members(value: Any, name: str) -> Iterator[Any]:
    """Yield every member of a name, wherever it stands."""
    if isinstance(value, dict):
        if name in value:
            yield value[name]
        for inner in value.values():
            yield from members(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner, name)


def endless() -> Reply:
    """Return what takes a vendor ten seconds to say."""
    calls = tuple(Call("look", {"at": "x" * 50}) for _ in range(200))
    return Reply("One.", calls=calls, pause_s=0.05)


async def left(server: ScriptedModel) -> None:
    """Wait until the server knows that nobody listens any more."""
    with anyio.fail_after(30):
        while not server.left:  # noqa: ASYNC110 (the server lives in a thread of its own)
            await anyio.sleep(0.02)


@every_vendor
async def test_a_gateways_headers_arrive_with_each_request(vendor: Vendor) -> None:
    config = {"headers": {"cf-aig-authorization": "Bearer ${CF_AIG_TOKEN}", "x-team": "blue"}}
    with ScriptedModel([Reply("Hi."), Reply("Hi.")]) as server:
        async with provider_of(vendor, server, config) as provider:
            await whole(provider, vendor, user("hi"), headers={"cf-aig-cache-ttl": "60"})
            await provider.request(vendor.model, prompt(user("hi")), {})
        first, second = server.exchanges
        token = f"Bearer {KEYS['CF_AIG_TOKEN']}"
        assert first.headers["cf-aig-authorization"] == token
        assert second.headers["cf-aig-authorization"] == token
        assert first.headers["x-team"] == "blue"
        assert first.headers["cf-aig-cache-ttl"] == "60"
        assert "cf-aig-cache-ttl" not in second.headers


@every_vendor
async def test_nothing_of_the_environment_arrives_that_no_config_names(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_CUSTOM_HEADERS", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "x-mine: hidden\nAuthorization: Bearer hidden")
    for name in (
        "ANTHROPIC_AUTH_TOKEN", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID",
    ):  # fmt: skip
        monkeypatch.setenv(name, "hidden")
    with ScriptedModel([Reply("Hi."), Reply("Hi.")]) as server:
        async with provider_of(vendor, server) as provider:
            await whole(provider, vendor, user("hi"))
            await provider.request(vendor.model, prompt(user("hi")), {})
        assert len(server.exchanges) == 2
        assert "hidden" not in repr([dict(one.headers) for one in server.exchanges])


@pytest.mark.parametrize("vendor", [ANTHROPIC, RESPONSES, CHAT], ids=lambda vendor: vendor.type)
async def test_sending_a_long_thread_takes_little_work_for_each_message(vendor: Vendor) -> None:
    # OpenAI's own client takes 860 calls for a message of a chat, 2,600 for one of a response.
    with ScriptedModel([Reply("Hi.")] * 3) as server:
        async with provider_of(vendor, server) as provider:
            await whole(provider, vendor, user("warm up"))
            few, many = [await _count_calls(provider, vendor, steps) for steps in (10, 110)]
    assert (many - few) / 200 < MESSAGE_CALLS_MAX


@every_vendor
async def test_leaving_a_stream_ends_the_request(vendor: Vendor) -> None:
    with ScriptedModel([endless()]) as server:
        async with provider_of(vendor, server) as provider:
            answer = provider.stream(vendor.model, prompt(user("count")), {})
            assert isinstance(await anext(answer), ReplyDelta)
            await answer.aclose()
            await left(server)


@every_vendor
async def test_canceling_the_task_that_listens_ends_the_request(vendor: Vendor) -> None:
    with ScriptedModel([endless()]) as server:
        async with provider_of(vendor, server) as provider:
            async with anyio.create_task_group() as tasks:

                async def listen() -> None:
                    async for _ in provider.stream(vendor.model, prompt(user("count")), {}):
                        tasks.cancel_scope.cancel()

                tasks.start_soon(listen)
            await left(server)


async def test_anthropic_is_given_its_signed_thoughts_back() -> None:
    with ScriptedModel(_thinks("sig-1")) as server:
        async with provider_of(ANTHROPIC, server) as provider:
            await _two_steps(provider, ANTHROPIC)
        thought, *_ = server.requests[1]["messages"][1]["content"]
        assert thought == {"type": "thinking", "thinking": "Where is it?", "signature": "sig-1"}


async def test_openai_is_given_its_sealed_thoughts_back_and_keeps_nothing() -> None:
    with ScriptedModel(_thinks("sealed-1")) as server:
        async with provider_of(RESPONSES, server) as provider:
            await _two_steps(provider, RESPONSES)
        (item,) = [one for one in server.requests[1]["input"] if one.get("type") == "reasoning"]
        assert item["encrypted_content"] == "sealed-1"
        assert item["id"].startswith("rs_")
        assert server.requests[1]["store"] is False


async def test_google_is_given_its_signature_back_with_the_call_it_signs() -> None:
    with ScriptedModel(_thinks("c2lnbmVk")) as server:
        async with provider_of(GOOGLE, server) as provider:
            await _two_steps(provider, GOOGLE)
        assert list(members(server.requests[1], "thoughtSignature")) == ["c2lnbmVk"]


@every_vendor
async def test_another_model_goes_on_without_the_thoughts_of_the_first(vendor: Vendor) -> None:
    for first in (ANTHROPIC, RESPONSES, CHAT, GOOGLE):
        if first == vendor:
            continue
        with ScriptedModel(_thinks("c2VjcmV0")) as server:
            async with (
                provider_of(first, server) as before,
                provider_of(vendor, server) as after,
            ):
                answer = await whole(before, first, user("find it"))
                result = ToolResult(str(answer.message.tool_uses[0].call_id), "ok", "here")
                said = (user("find it"), answer.message, tool(result))
                found = await whole(after, vendor, *said)
            assert found.message.text == "There."
            assert "c2VjcmV0" not in json.dumps(server.requests[1])
            assert "Where is it?" not in json.dumps(server.requests[1])
            assert "here" in json.dumps(server.requests[1])


async def test_anthropics_cache_is_told_to_keep_tools_instructions_query_and_end() -> None:
    with ScriptedModel(_thinks("sig")) as server:
        async with provider_of(ANTHROPIC, server) as provider:
            await _two_steps(provider, ANTHROPIC)
        body = server.requests[1]
        point = {"type": "ephemeral", "ttl": "5m"}
        assert body["tools"][-1]["cache_control"] == point
        assert body["system"][-1]["cache_control"] == point
        query, answer, results = body["messages"]
        assert query["content"][-1]["cache_control"] == point
        assert not list(members(answer, "cache_control"))
        assert results["content"][-1]["cache_control"] == point
        assert len(list(members(body, "cache_control"))) == 4


async def test_cache_can_be_disabled() -> None:
    with ScriptedModel([Reply("Hi.")]) as server:
        async with provider_of(ANTHROPIC, server, {"cache": False}) as provider:
            await whole(provider, ANTHROPIC, user("hi"))
        assert not list(members(server.requests[0], "cache_control"))


async def test_what_came_from_a_cache_is_not_counted_as_fresh() -> None:
    used = Usage(input=40, output=20, cached_input=500, cache_write=100)
    with ScriptedModel([Reply("Hi.", usage=used), Reply("Hi.", usage=used)]) as server:
        async with provider_of(ANTHROPIC, server) as provider:
            assert (await whole(provider, ANTHROPIC, user("hi"))).usage == used
            answer = await provider.request(ANTHROPIC.model, prompt(user("hi")), {})
            assert answer.usage == used


async def test_parameters_arrive_in_the_vendors_words() -> None:
    asked = {"temperature": 0.2, "max_tokens": 99, "top_p": 0.9, "stop": ["END"]}
    expected = {
        COMPATIBLE: {"temperature": 0.2, "max_tokens": 99, "top_p": 0.9, "stop": ["END"]},
        CHAT: {"temperature": 0.2, "max_completion_tokens": 99, "top_p": 0.9, "stop": ["END"]},
    }
    for vendor, members_expected in expected.items():
        with ScriptedModel([Reply("Hi.")]) as server:
            async with provider_of(vendor, server) as provider:
                await whole(provider, vendor, user("hi"), **asked)
            assert members_expected.items() <= server.requests[0].items()
    with ScriptedModel([Reply("Hi.")]) as server:
        async with provider_of(GOOGLE, server) as provider:
            await whole(provider, GOOGLE, user("hi"), seed=7, top_k=3, **asked)
        config = server.requests[0]["generationConfig"]
        assert (config["seed"], config["topK"], config["stopSequences"]) == (7, 3, ["END"])


@pytest.mark.parametrize(
    ("vendor", "member", "value"),
    [
        (RESPONSES, "reasoning", {"effort": "high"}),
        (COMPATIBLE, "reasoning_effort", "high"),
        (ANTHROPIC, "thinking", {"type": "adaptive"}),
    ],
    ids=lambda value: value.type if isinstance(value, Vendor) else None,
)
async def test_how_long_to_think_is_said_as_each_vendor_says_it(
    vendor: Vendor, member: str, value: object
) -> None:
    with ScriptedModel([Reply("Hi.")]) as server:
        async with provider_of(vendor, server) as provider:
            await whole(provider, vendor, user("hi"), thinking="high", max_tokens=64_000)
        assert server.requests[0][member] == value


@pytest.mark.parametrize(
    ("vendor", "asked"),
    [
        (ANTHROPIC, {"temperature": 0.2}),
        (RESPONSES, {"top_p": 0.9}),
        (CHAT, {"thinking": "high"}),
    ],
    ids=lambda value: value.type if isinstance(value, Vendor) else None,
)
async def test_what_a_model_does_not_take_is_refused_instead_of_dropped(
    vendor: Vendor, asked: dict[str, Any]
) -> None:
    with ScriptedModel([Reply("Hi.")]) as server:
        async with provider_of(vendor, server) as provider:
            with pytest.raises(ProviderError, match=vendor.model) as refused:
                await provider.request(vendor.model, prompt(user("hi")), asked)
            assert refused.value.kind == "refused"
            assert not server.exchanges


async def test_an_image_arrives_by_its_bytes() -> None:
    data = b"\x89PNG\r\n\x1a\n"
    kept: dict[Digest, bytes] = {digest_bytes(data): data}

    async def objects(digest: Digest) -> bytes:
        return kept[digest]

    image = Media("image", "image/png", object=digest_bytes(data))
    for vendor in VENDORS:
        with ScriptedModel([Reply("A picture.")]) as server:
            async with provider_of(vendor, server, objects=objects) as provider:
                await whole(provider, vendor, Message("user", (Text("what is this?"), image)))
            assert "iVBORw0KGgo" in json.dumps(server.requests[0])


@every_vendor
@settings(max_examples=8)
@given(data=st.data())
def test_equal_prompts_are_equal_requests_and_a_fork_begins_alike(
    vendor: Vendor, data: st.DataObject
) -> None:
    thread = data.draw(threads())
    more = data.draw(st.lists(st.text("abc ", min_size=1).filter(str.strip), max_size=2))
    stored = [from_json(json.loads(json.dumps(_turned(message_to_json(one))))) for one in thread]
    fork = [*stored, *(user(text) for text in more)]

    async def ask() -> list[Any]:
        with ScriptedModel(rules=[Rule((Reply("So."),))]) as server:
            async with provider_of(vendor, server, {"cache": False}) as provider:
                for said in (thread, stored, fork):
                    messages = tuple(one for one in said if isinstance(one, Message))
                    await provider.request(vendor.model, prompt(*messages), {})
            return server.requests

    first, second, forked = anyio.run(ask)
    assert json.dumps(first) == json.dumps(second)
    name = next(name for name in ("messages", "input", "contents") if name in first)
    assert list(_flat(forked[name]))[: len(list(_flat(first[name])))] == list(_flat(first[name]))


@st.composite
def threads(draw: st.DrawFn) -> list[Message]:
    """Draw a thread as a session leaves it: queries, answers, calls with their results."""
    words = st.text("abcé ", min_size=1).filter(str.strip)
    arguments = st.dictionaries(st.text("abz", min_size=1), st.integers() | words, max_size=4)
    arguments = arguments.filter(lambda drawn: all(abs(n) < 2**53 for n in drawn.values()
                                                   if isinstance(n, int)))  # fmt: skip
    thread: list[Message] = []
    for number in range(draw(st.integers(1, 3))):
        thread.append(user(draw(words)))
        if draw(st.booleans()):
            uses = [ToolUse(f"c{number}-{n}", "look", draw(arguments)) for n in range(2)]
            thread.append(assistant(Reasoning("hm", "signed"), draw(words), *uses))
            thread.append(tool(*(ToolResult(use.call_id, "ok", draw(arguments)) for use in uses)))
        thread.append(assistant(draw(words)))
    thread.append(user(draw(words)))
    return thread


async def _count_calls(provider: Provider, vendor: Vendor, steps: int) -> int:
    """Return how many Python functions are called to send a prompt with steps of two messages."""
    said = [user("go")]
    for number in range(steps):
        said.append(assistant(Text("Look."), ToolUse(f"c{number}", "look", {"at": "sea"})))
        said.append(tool(ToolResult(f"c{number}", "ok", "blue")))
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        del frame, argument
        calls += event == "call"

    sys.setprofile(count)
    try:
        await whole(provider, vendor, *said)
    finally:
        sys.setprofile(None)
    return calls


def _thinks(signature: str) -> list[Reply]:
    calls = (Call("look", {"at": "a"}),)
    first = Reply("Let me look.", calls, reasoning="Where is it?", signature=signature)
    return [first, Reply("There.")]


async def _two_steps(provider: Provider, vendor: Vendor) -> None:
    """Have a model think and call a tool, keep what it said as a store would, and go on."""
    answer = await whole(provider, vendor, user("find it"))
    kept = from_json(json.loads(json.dumps(message_to_json(answer.message))))
    assert isinstance(kept, Message)
    result = ToolResult(str(kept.tool_uses[0].call_id), "ok", {"found": "here"})
    last = await whole(provider, vendor, user("find it"), kept, tool(result))
    assert last.message.text == "There."


def _turned(value: Any) -> Any:
    """Return a value with the members of every document in another order."""
    if isinstance(value, dict):
        return {name: _turned(value[name]) for name in sorted(value, reverse=True)}
    if isinstance(value, list | tuple):
        return [_turned(one) for one in value]
    return value


def _flat(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what a model reads, piece by piece: two messages of one role are read as one."""
    for message in messages:
        content = message.get("content", message.get("parts", message))
        yield str(message.get("role"))
        for piece in content if isinstance(content, list) else [content]:
            yield json.dumps(piece)
