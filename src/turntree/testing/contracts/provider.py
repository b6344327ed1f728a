"""The contract of providers: what every service that runs models must do.

Subclass ``ProviderContract`` in a test module and give it a service that replies as told. Needs
pytest and its anyio plugin, which Turntree itself does not: install them separately.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from turntree.core.errors import ProviderError
from turntree.core.message import (
    Message,
    Reasoning,
    ToolResult,
    ToolStatus,
    ToolUse,
    tool,
    user,
)
from turntree.core.usage import Usage
from turntree.models.prompt import Prompt, ToolSpec
from turntree.models.provider import ModelReply, Provider, ReplyDelta
from turntree.testing.scripted.script import Answer as Scripted
from turntree.testing.scripted.script import Call, Failure, Reply

LOOK = ToolSpec(
    "look",
    "Look at something.",
    {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)

STATUSES: tuple[ToolStatus, ...] = ("ok", "error", "timeout", "canceled", "interrupted")


class ProviderContract(ABC):
    """Subclass it, and pytest tests the provider."""

    pytestmark = pytest.mark.anyio

    model: str
    """The model to ask."""

    @abstractmethod
    def saying(self, *answers: Scripted) -> AbstractAsyncContextManager[Provider]:
        """Return a provider whose service gives these replies, one after the other."""

    async def test_the_pieces_of_an_answer_are_the_answer(self) -> None:
        async with self.saying(Reply("One and two and three.")) as provider:
            *pieces, last = await self._hear(provider, user("count"))
            assert isinstance(last, ModelReply)
            assert _text(pieces, "text") == last.message.text == "One and two and three."
            assert len(pieces) > 1, "a streamed reply comes in pieces"
            assert last.finish_reason == "stop"

    async def test_asked_for_the_whole_it_says_the_same(self) -> None:
        async with self.saying(Reply("Done."), Reply("Done.")) as provider:
            *_, streamed = await self._hear(provider, user("do"))
            whole = await provider.request(self.model, _prompt(user("do")), {})
            assert isinstance(streamed, ModelReply)
            assert streamed.message.parts == whole.message.parts
            assert whole.model == streamed.model == self.model

    async def test_what_it_thought_is_no_part_of_what_it_said(self) -> None:
        async with self.saying(Reply("Yes.", reasoning="They mean it.")) as provider:
            *pieces, last = await self._hear(provider, user("really?"))
            assert isinstance(last, ModelReply)
            assert last.message.text == "Yes."
            thoughts = [part for part in last.message.parts if isinstance(part, Reasoning)]
            assert [thought.text for thought in thoughts] == ["They mean it."]
            assert _text(pieces, "reasoning") == "They mean it."

    async def test_tools_that_are_asked_for_together_are_told_apart(self) -> None:
        calls = Call("look", {"at": "a"}), Call("look", {"at": "b", "n": [1, {"x": None}]})
        async with self.saying(Reply("Let me look.", calls=calls)) as provider:
            *pieces, last = await self._hear(provider, user("look at both"))
            assert isinstance(last, ModelReply)
            uses = [use for use in last.message.tool_uses if isinstance(use, ToolUse)]
            assert [(use.tool, use.args) for use in uses] == [
                ("look", {"at": "a"}),
                ("look", {"at": "b", "n": [1, {"x": None}]}),
            ]
            assert len({use.call_id for use in uses}) == 2  # noqa: PLR2004 (as many as were made)
            heard = [one for one in pieces if isinstance(one, ReplyDelta) and one.kind == "tool"]
            begun = [one.call_id for one in heard if not one.text]
            assert begun == [use.call_id for use in uses]
            assert last.finish_reason == "tool_call"

    async def test_a_conversation_goes_on_after_tools_whatever_they_answered(self) -> None:
        calls = tuple(Call("look", {"at": str(n)}) for n in range(5))
        asked = Reply("Let me look.", calls=calls, reasoning="Where?")
        async with self.saying(asked, Reply("I see.")) as provider:
            *_, first = await self._hear(provider, user("look"))
            assert isinstance(first, ModelReply)
            results = [
                ToolResult(str(use.call_id), status, {"seen": [1]} if status == "ok" else "no")
                for use, status in zip(first.message.tool_uses, STATUSES, strict=True)
            ]
            *_, second = await self._hear(provider, user("look"), first.message, tool(*results))
            assert isinstance(second, ModelReply)
            assert second.message.text == "I see."

    async def test_every_token_is_counted_once(self) -> None:
        used = Usage(input=40, output=20, cached_input=500, reasoning=7)
        async with self.saying(Reply("So much.", usage=used)) as provider:
            *_, last = await self._hear(provider, user("how much?"))
            assert isinstance(last, ModelReply)
            assert last.usage == used

    async def test_it_says_why_it_does_not_answer_and_when_to_ask_again(self) -> None:
        late = Failure(429, "slow down", {"Retry-After": "7"})
        async with self.saying(late, Reply("Now.")) as provider:
            with pytest.raises(ProviderError) as failed:
                await self._hear(provider, user("now?"))
            assert (failed.value.kind, failed.value.retry_after_s) == ("rate_limited", 7.0)
            *_, last = await self._hear(provider, user("now?"))
            assert isinstance(last, ModelReply)
            assert last.message.text == "Now."

    async def test_whoever_has_heard_enough_may_leave(self) -> None:
        async with self.saying(Reply("One and two and three."), Reply("Fine.")) as provider:
            answer = provider.stream(self.model, _prompt(user("count")), {})
            assert isinstance(await anext(answer), ReplyDelta)
            await answer.aclose()
            *_, last = await self._hear(provider, user("count again"))
            assert isinstance(last, ModelReply)

    async def test_it_names_its_models(self) -> None:
        async with self.saying() as provider:
            assert await provider.list_models()
            assert provider.name

    async def _hear(self, provider: Provider, *said: Message) -> list[ReplyDelta | ModelReply]:
        return [one async for one in provider.stream(self.model, _prompt(*said), {})]


def _prompt(*said: Message) -> Prompt:
    return Prompt(("Be brief.",), said, (LOOK,))


def _text(pieces: Sequence[ReplyDelta | ModelReply], kind: str) -> str:
    heard = [one for one in pieces if isinstance(one, ReplyDelta)]
    return "".join(one.text for one in heard if one.kind == kind)
