"""A provider that replies from a script in its config, or echoes the query.

It needs no network and no package: it is for tests, demos and documentation. Between requests it
keeps only a count of each. The position in the script follows from the prompt, so a run that
continues in another process, and a fork, get the same replies.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turntree.core.canonical import Json, as_text, digest
from turntree.core.errors import Failure, InvalidOperation, ProviderError
from turntree.core.message import Message, Part, Reasoning, Text, ToolUse, assistant
from turntree.core.message import to_json as message_to_json
from turntree.core.usage import Usage
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, ProviderSetup, ReplyDelta

NAME: Final = "scripted"
MODEL: Final = "scripted-1"
_WORDS: Final = re.compile(r"\s*\S+\s*|\s+")


class _ConfigModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptedCall(_ConfigModel):
    """A tool call of a reply."""

    tool: str = Field(min_length=1)
    args: dict[str, Any] | str = Field(default_factory=dict[str, Any])
    """A text is sent unchanged, so that a script can contain invalid JSON."""
    call_id: str | None = None


class ScriptedFailure(_ConfigModel):
    """A request that fails."""

    kind: Failure
    retry_after_s: float | None = None
    after_words: int = Field(default=0, ge=0)
    """How much of the reply is streamed before the failure."""


class ScriptedReply(_ConfigModel):
    """One reply of the model. The first requests for it may fail."""

    text: str = ""
    reasoning: str = ""
    tools: tuple[ScriptedCall, ...] = ()
    failures: tuple[ScriptedFailure, ...] = ()
    delay_s: float = Field(default=0, ge=0)
    """Delay before the first word."""
    usage: dict[str, int] | None = None
    """Token usage; by default, words are counted."""


class ScriptedRule(_ConfigModel):
    """Replies to one kind of query: the first to the query itself, the next after its tools."""

    when: str
    """A regular expression searched for in the last query."""
    replies: tuple[ScriptedReply, ...]


class ScriptConfig(_ConfigModel):
    """A script. After its end, and where it has no reply, the query is echoed."""

    script: tuple[ScriptedReply, ...] = ()
    """Used one after the other along a thread."""
    rules: tuple[ScriptedRule, ...] = ()
    """Tried before ``script``."""
    models: tuple[str, ...] = (MODEL,)
    word_delay_s: float = Field(default=0, ge=0)
    prompt_chars_max: int | None = Field(default=None, ge=1)
    """Length of the messages above which a prompt is refused as too long."""

    def reply_to(self, messages: Sequence[Message]) -> ScriptedReply:
        """Return the reply to these messages."""
        queries = [index for index, message in enumerate(messages) if message.role == "user"]
        query = queries[-1] if queries else 0
        text = messages[query].text if messages else ""
        for rule in self.rules:
            if re.search(rule.when, text):
                return _nth(rule.replies, _answers(messages[query:])) or ScriptedReply(text=text)
        return _nth(self.script, _answers(messages)) or ScriptedReply(text=text)


def build_scripted(setup: ProviderSetup) -> "ScriptedProvider":
    """Return a provider of type ``scripted``.

    Raises:
        InvalidOperation: The config is not a script.
    """
    members = {
        name: value for name, value in setup.config.items() if name in ScriptConfig.model_fields
    }
    try:
        script = ScriptConfig.model_validate(members)
        for rule in script.rules:
            re.compile(rule.when)
    except (ValidationError, re.error) as error:
        raise InvalidOperation(f"not a script: {error}") from error
    return ScriptedProvider(script)


class ScriptedProvider:
    """A scripted provider. Implements ``Provider``.

    A test may derive its own from it, with other replies or with something that happens between
    two pieces of a reply.
    """

    def __init__(self, script: ScriptConfig) -> None:
        """Take a script."""
        self._script = script
        self._requests: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The provider's name."""
        return NAME

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Yield the reply word by word, and the complete reply last.

        Raises:
            ProviderError: The script says so, or has no such model.
        """
        del settings  # A script accepts any settings.
        reply, fails = self._reply(model, prompt)
        await anyio.sleep(reply.delay_s)
        index = _answers(prompt.messages)
        for count, delta in enumerate(self._deltas(reply, index)):
            if fails is not None and count >= fails.after_words:
                break
            await self.pause(delta)
            yield delta
        if fails is not None:
            raise _failure(fails)
        yield _answer(model, prompt, reply, index)

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        """Return the complete reply.

        Raises:
            ProviderError: The script says so, or has no such model.
        """
        del settings
        reply, fails = self._reply(model, prompt)
        await anyio.sleep(reply.delay_s)
        if fails is not None:
            raise _failure(fails)
        return _answer(model, prompt, reply, _answers(prompt.messages))

    def reply_to(self, messages: Sequence[Message]) -> ScriptedReply:
        """Return the reply to these messages."""
        return self._script.reply_to(messages)

    def split(self, text: str) -> list[str]:
        """Return a text in the pieces in which it is streamed."""
        return _WORDS.findall(text)

    async def pause(self, delta: ReplyDelta) -> None:
        """Wait before a piece is sent."""
        del delta
        await anyio.sleep(self._script.word_delay_s)

    async def list_models(self) -> list[str]:
        """Return the models that the script names."""
        return sorted(self._script.models)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

    def _deltas(self, reply: ScriptedReply, index: int) -> list[ReplyDelta]:
        deltas = [ReplyDelta("reasoning", piece) for piece in self.split(reply.reasoning)]
        deltas += [ReplyDelta("text", piece) for piece in self.split(reply.text)]
        for use in _uses(reply, index):
            text = as_text(use.args)
            deltas.append(ReplyDelta("tool", "", use.tool, use.call_id))
            deltas.append(ReplyDelta("tool", text, use.tool, use.call_id))
        return deltas

    def _reply(self, model: str, prompt: Prompt) -> tuple[ScriptedReply, ScriptedFailure | None]:
        if model not in self._script.models:
            known = ", ".join(sorted(self._script.models))
            raise ProviderError(f"{NAME}: there is no model {model}, only {known}", "refused")
        limit = self._script.prompt_chars_max
        if limit is not None and sum(len(message.text) for message in prompt.messages) > limit:
            raise ProviderError(f"{NAME}: the prompt has more than {limit} characters", "too_long")
        reply = self.reply_to(prompt.messages)
        prompt_digest = digest([message_to_json(message) for message in prompt.messages])
        count = self._requests.get(prompt_digest, 0)
        self._requests[prompt_digest] = count + 1
        return reply, reply.failures[count] if count < len(reply.failures) else None


def _answers(messages: Sequence[Message]) -> int:
    """Return the number of replies that the model has given."""
    return sum(message.role == "assistant" for message in messages)


def _nth(replies: Sequence[ScriptedReply], index: int) -> ScriptedReply | None:
    return replies[index] if index < len(replies) else None


def _failure(fails: ScriptedFailure) -> ProviderError:
    message = f"{NAME}: the script says that this request fails"
    return ProviderError(message, fails.kind, retry_after_s=fails.retry_after_s)


def _uses(reply: ScriptedReply, index: int) -> list[ToolUse]:
    return [
        ToolUse(call.call_id or f"call-{index}-{number}", call.tool, call.args)
        for number, call in enumerate(reply.tools)
    ]


def _answer(model: str, prompt: Prompt, reply: ScriptedReply, place: int) -> ModelReply:
    parts: list[Part] = []
    if reply.reasoning:
        parts.append(Reasoning(reply.reasoning))
    uses = _uses(reply, place)
    if reply.text or not uses:
        parts.append(Text(reply.text))
    reason = "tool_call" if uses else "stop"
    return ModelReply(assistant(*parts, *uses), _usage(prompt, reply), model, reason)


def _usage(prompt: Prompt, reply: ScriptedReply) -> Usage:
    if reply.usage is not None:
        return Usage(**reply.usage)
    said = [*prompt.system, *(message.text for message in prompt.messages)]
    thought = len(reply.reasoning.split())
    return Usage(
        input=sum(len(text.split()) for text in said),
        output=len(reply.text.split()) + thought + len(reply.tools),
        reasoning=thought,
    )
