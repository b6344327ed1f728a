"""Reads a run's model calls from its journal.

The messages of a sealed run are in its turn, and its events hold their digests. This module joins
the two, so that a run can be inspected or replayed without calling a model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from turntree.core.canonical import Json, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.event import Event
from turntree.core.ids import Digest
from turntree.core.message import ErasedMessage, Message, line_of
from turntree.core.run import RunEvent
from turntree.core.turn import Turn
from turntree.core.usage import ModelCall
from turntree.core.usage import from_json as call_from_json
from turntree.core.value import value

_REPLIES: Final = ("model_call.finished", "tool_call.finished", "route.chosen")


@value
class RecordedCall:
    """One request to a model, and its outcome."""

    number: int
    request: Mapping[str, Json]
    reply: tuple[Message | ErasedMessage, ...]
    """The reply of the turn before this call."""
    response: Event | None
    """None if the call never finished."""
    is_refused: bool = False
    """Whether the provider refused the prompt as too long, and a shorter one followed."""

    @property
    def call(self) -> ModelCall | None:
        """Token usage as the provider reported it."""
        if self.response is None or "call" not in self.response.data:
            return None
        document = self.response.data["call"]
        assert isinstance(document, Mapping), "a call is a document"
        return call_from_json(document)

    @property
    def recipe(self) -> str:
        """How the prompt was assembled; the first recipe was not recorded."""
        return str(self.request.get("prompt_recipe", "prompt/1"))

    @property
    def input(self) -> Digest | None:
        """The digest of the prompt, if it was recorded."""
        digest = self.request.get("prompt")
        return None if digest is None else Digest(str(digest))


def list_taped_calls(facts: Sequence[RunEvent], turn: Turn) -> list[RecordedCall]:
    """Return the model calls of a sealed run; empty for an imported turn."""
    calls: list[RecordedCall] = []
    first: Mapping[str, Json] = {}
    replied = 0
    for index, fact in enumerate(facts):
        event = fact.event
        if event.kind == "model_call.started":
            # Only the first request records what all of them share.
            first = first or event.data
            request = {**first, **event.data}
            response = next(_after(facts[index + 1 :]), None)
            if "refused" in event.data and calls:
                calls[-1] = replace(calls[-1], is_refused=True)
            calls.append(RecordedCall(len(calls) + 1, request, turn.reply[:replied], response))
        elif event.kind in _REPLIES:
            replied += 1
    return calls


def _after(facts: Sequence[RunEvent]) -> Iterator[Event]:
    """Yield the reply to a request, if it came before the next request."""
    for fact in facts:
        if fact.event.kind == "model_call.started":
            return
        if fact.event.kind == "model_call.finished":
            yield fact.event


def with_words(facts: Sequence[RunEvent], turn: Turn) -> list[RunEvent]:
    """Return the events of a sealed run with their messages restored.

    Raises:
        InvalidOperation: A message has been erased, or was never in the turn.
    """
    messages = {
        digest_bytes(line_of(message)): message
        for message in turn.messages
        if isinstance(message, Message)
    }
    return [RunEvent(fact.event, _find(fact, messages)) for fact in facts]


def _find(fact: RunEvent, messages: Mapping[Digest, Message]) -> Message | None:
    digest = fact.event.data.get("message")
    if fact.message is not None or digest is None:
        return fact.message
    message = messages.get(Digest(str(digest)))
    if message is None:
        raise InvalidOperation(f"the message of event {fact.event.seq} ({fact.event.kind}) is gone")
    return message
