"""Model calls: their token usage, each token counted once, and the vendors of their models.

Vendors disagree on whether input includes cached input. Here it never does: ``input`` is what was
read uncached, ``cached_input`` came from the provider's cache, ``cache_write`` was written to it.
The five never overlap, except that reasoning is part of output.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from turntree.core.canonical import Json
from turntree.core.event import Event, SealedEvent, record
from turntree.core.turn import Turn
from turntree.core.value import value

_FAMILIES: Final = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("chatgpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("codex", "openai"),
    ("gemini", "google"),
    ("gemma", "google"),
    ("mistral", "mistral"),
    ("codestral", "mistral"),
    ("magistral", "mistral"),
    ("grok", "xai"),
    ("deepseek", "deepseek"),
    ("qwen", "alibaba"),
    ("llama", "meta"),
    ("command", "cohere"),
)
"""Prefixes of model names, and their vendors."""


@value
class Usage:
    """Tokens of one model call, or of several added up."""

    input: int = 0
    output: int = 0
    cached_input: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """All input and output tokens; reasoning is part of output."""
        return self.input + self.cached_input + self.cache_write + self.output

    @property
    def context(self) -> int:
        """Size of the context that the call read."""
        return self.input + self.cached_input + self.cache_write

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached_input + other.cached_input,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
        )


@value
class ModelCall:
    """One request to a model and its usage."""

    model: str
    usage: Usage
    provider: str | None = None
    call_id: str | None = None
    """The provider's own id for the call; two records of one call share it."""


def to_json(call: ModelCall) -> dict[str, Any]:
    """Return the document of a call, as the run's events carry it."""
    usage = call.usage
    numbers = {
        "input": usage.input,
        "output": usage.output,
        "cached_input": usage.cached_input,
        "cache_write": usage.cache_write,
        "reasoning": usage.reasoning,
    }
    document: dict[str, Any] = {
        "model": call.model,
        "usage": {name: number for name, number in numbers.items() if number},
    }
    if call.provider is not None:
        document["provider"] = call.provider
    if call.call_id is not None:
        document["call_id"] = call.call_id
    return document


def from_json(document: Mapping[str, Any]) -> ModelCall:
    """Return the call that a document describes."""
    return ModelCall(
        document["model"],
        # A later release may record more than this one knows.
        Usage(
            **{name: n for name, n in document["usage"].items() if name in Usage.__annotations__}
        ),
        document.get("provider"),
        document.get("call_id"),
    )


def recorded(turn: Turn, calls: Sequence[ModelCall]) -> list[SealedEvent]:
    """Return the events to store with a turn that was recorded elsewhere: none if it used no model.

    A run of ours records an event for each step. A turn that another agent loop took, or that was
    imported, has only this one. It has its own digest, because usage is not part of the turn's.
    """
    if not calls:
        return []
    data: dict[str, Json] = {"calls": [to_json(call) for call in calls], "turn": turn.digest}
    return [record(Event(turn.id, 0, "turn.recorded", turn.header.sealed_at, data))]


def family_of(model_id: str) -> str | None:
    """Return the vendor of a model, by the prefix of its name; None if it is unknown.

    A name may follow its vendor's, as in ``anthropic/claude-sonnet-4-5``.
    """
    name = model_id.lower().rsplit("/", maxsplit=1)[-1]
    return next((family for start, family in _FAMILIES if name.startswith(start)), None)
