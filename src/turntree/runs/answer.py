"""Answers: what a turn replied, or why it has no reply."""

from collections.abc import Mapping
from typing import Any

from turntree.core.errors import Hint, ProviderNotConfigured, TurnFailed
from turntree.core.message import Message
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.core.value import value


@value
class Answer:
    """The answer to a message, and the turn that it is part of."""

    turn: ThreadTurn
    """The query, the tool calls and the reply; large parts are read back into it."""

    @property
    def text(self) -> str:
        """The text of the last reply, without reasoning and tool calls."""
        replies = [
            message
            for message in self.turn.turn.reply
            if isinstance(message, Message) and message.role == "assistant"
        ]
        return replies[-1].text if replies else ""

    def __str__(self) -> str:
        return self.text


def read_failure(data: Mapping[str, Any]) -> tuple[str, Hint | None]:
    """Return the reason in the data of an event ``run.failed``, and what to do about it."""
    reason, error = str(data.get("reason", "")), str(data.get("error") or "")
    return (f"{reason}: {error}" if error else reason), Hint.from_json(data.get("hint"))


def check_outcome(turn: Turn, why: str, hint: Hint | None) -> None:
    """Raise unless a turn completed.

    Raises:
        ProviderNotConfigured: No model was configured.
        TurnFailed: The turn failed or was interrupted.
    """
    outcome = turn.header.outcome
    if outcome == "completed":
        return
    kind, _, rest = why.partition(": ")
    if kind == "no_model":
        raise ProviderNotConfigured(f"no provider wired: {rest or 'no model is chosen'}", hint=hint)
    message = f"the turn is {outcome}" + (f": {why}" if why else "")
    raise TurnFailed(message, turn.id, hint=hint)
