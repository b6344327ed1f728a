"""The provider that answers from a script in its config."""

from typing import Any

import anyio
import pytest

from turntree.core.errors import InvalidOperation, ProviderError
from turntree.core.message import Message, ToolResult, assistant, tool, user
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, Provider, ReplyDelta
from turntree.models.providers.factory import build_provider

pytestmark = pytest.mark.anyio


def scripted(**config: Any) -> Provider:
    return build_provider({"provider_type": "scripted", **config}, str)


async def hear(provider: Provider, *said: Message) -> tuple[list[str], ModelReply]:
    found = [one async for one in provider.stream("scripted-1", Prompt((), said), {})]
    assert isinstance(found[-1], ModelReply)
    return [one.text for one in found if isinstance(one, ReplyDelta)], found[-1]


async def test_without_a_script_it_says_again_what_was_said() -> None:
    words, answer = await hear(scripted(), user("one two"), assistant("x"), user("three  four\n"))
    assert words == ["three  ", "four\n"]
    assert answer.message == assistant("three  four\n")
    assert answer.finish_reason == "stop"


async def test_the_place_in_the_script_follows_from_the_thread() -> None:
    script = [{"text": "first"}, {"text": "second"}]
    for provider in (scripted(script=script), scripted(script=script)):
        _, second = await hear(provider, user("a"), assistant("first"), user("b"))
        _, first = await hear(provider, user("a"))
        assert (first.message.text, second.message.text) == ("first", "second")


async def test_a_rule_answers_its_kind_of_query_step_by_step() -> None:
    looks = {"text": "Let me look.", "tools": [{"tool": "look", "args": {"at": "a"}}]}
    provider = scripted(rules=[{"when": "find", "replies": [looks, {"text": "Here."}]}])
    _, first = await hear(provider, user("hi"), assistant("hi"), user("find it"))
    (use,) = first.message.tool_uses
    assert use.call_id == "call-1-0"
    said = (user("hi"), assistant("hi"), user("find it"), first.message)
    _, second = await hear(provider, *said, tool(ToolResult("call-1-0", "ok", "")))
    assert second.message.text == "Here."
    _, other = await hear(provider, user("hello"))
    assert other.message.text == "hello"


async def test_a_request_fails_as_often_as_the_script_says() -> None:
    failures = [
        {"kind": "rate_limited", "retry_after_s": 2.5},
        {"kind": "broken", "after_words": 2},
    ]
    provider = scripted(script=[{"text": "one two three", "failures": failures}])
    with pytest.raises(ProviderError) as failed:
        await hear(provider, user("count"))
    assert (failed.value.kind, failed.value.retry_after_s) == ("rate_limited", 2.5)
    words: list[str] = []
    with pytest.raises(ProviderError) as failed:  # noqa: PT012 (what was heard before counts)
        async for one in provider.stream("scripted-1", Prompt((), (user("count"),)), {}):
            assert isinstance(one, ReplyDelta)
            words.append(one.text)
    assert (failed.value.kind, words) == ("broken", ["one ", "two "])
    _, answer = await hear(provider, user("count"))
    assert answer.message.text == "one two three"


async def test_it_takes_as_long_as_it_is_told_to() -> None:
    provider = scripted(script=[{"text": "so", "delay_s": 60}])
    with anyio.move_on_after(0.05) as waited:
        await hear(provider, user("quick"))
    assert waited.cancelled_caught


async def test_a_model_that_the_script_does_not_name_is_refused() -> None:
    with pytest.raises(ProviderError) as failed:
        await scripted().request("gpt-5", Prompt((), (user("hi"),)), {})
    assert failed.value.kind == "refused"


@pytest.mark.parametrize(
    "config",
    [
        {"script": [{"txt": "typo"}]},
        {"script": [{"failures": [{"kind": "bored"}]}]},
        {"rules": [{"when": "(", "replies": []}]},
    ],
)
async def test_what_is_no_script_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidOperation):
        scripted(**config)
