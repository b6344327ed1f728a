"""The script of a scripted model: replies, rules, and how the next reply is found.

Knows the contents of a request, independent of its vendor. Must never know a wire format or a
socket: the dialects parse and write those, and the server transports them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias, cast

from turntree.core.usage import Usage
from turntree.core.value import value

MODEL = "scripted-1"
"""The default model."""
USAGE = Usage(input=10, output=5)
"""The default usage of a reply."""

# Clients put notes for the model between tags: reminders, the environment, a date. The user
# did not type them, so they are not part of the prompt.
_NOTE = re.compile(r"\s*<([\w-]+)(?: [^>]*)?>.*</\1(?: [^>]*)?>\s*", re.DOTALL)


@value
class MatchedRule:
    """A placeholder in the arguments of a call for text that a tool returned since the prompt."""

    pattern: str
    """Its first group, in the latest result that matches, is the value."""


@value
class Call:
    """A tool call of a reply."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    """Text is sent as it stands, so that a script can hold what is no JSON at all.

    Anthropic's and Google's formats carry values instead of text: there it has to be JSON.
    """
    id: str | None = None
    """None for a globally unique id."""
    namespace: str | None = None
    """The tool's namespace, in the one format that has them: Responses."""


@value
class Failure:
    """An error instead of a reply, in the format of the request's vendor."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    code: str | None = None
    """The vendor's error code, if its format has one."""


@value
class Break:
    """A stream that ends too early."""

    after: int
    """Number of events that arrive."""
    failure: Failure | None = None
    """The error sent before the end; None for a stream that just ends."""
    is_reset: bool = False
    """Whether the connection breaks instead of closing."""


@value
class Reply:
    """One reply of the model: reasoning, then text, then calls, and the usage."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    usage: Usage = USAGE
    signature: str | None = None
    """Signature of the reasoning, if the format has one."""
    breaks: Break | None = None
    pause_s: float = 0.0
    """Delay before each event of a stream."""


Answer: TypeAlias = Reply | Failure


@value
class Rule:
    """Replies to one kind of prompt: the first to the prompt itself, the next after its tools.

    Every condition that is set must match. Patterns are searched for, so an empty one always
    matches. The last reply is repeated, unless it calls tools: an endless loop would be of no use
    to a test.
    """

    answers: tuple[Answer, ...]
    prompt: str = ""
    """A pattern for the last message that is not the model's."""
    system: str = ""
    """A pattern for the instructions."""
    offers: str | None = None
    """A tool that the request must offer."""
    name: str | None = None
    """The name of this rule in the log."""

    def holds(self, asked: "ScriptRequest") -> bool:
        """Whether the rule applies to a request."""
        return (
            re.search(self.prompt, asked.prompt) is not None
            and re.search(self.system, asked.system) is not None
            and (self.offers is None or self.offers in asked.tools)
        )

    def answer(self, step: int) -> Answer | None:
        """Return the reply for a step, or None after the last."""
        if step < len(self.answers):
            return self.answers[step]
        last = self.answers[-1] if self.answers else None
        return None if isinstance(last, Reply) and last.calls else last


@value
class RequestMessage:
    """One message of a request."""

    by: Literal["user", "model", "tool"]
    text: str
    call: str | None = None
    """The id of the call, for a tool result."""


def said_by_user(texts: Iterable[str]) -> RequestMessage:
    """Return a message without the notes between tags."""
    return RequestMessage(
        "user", "\n".join(text for text in texts if not _NOTE.fullmatch(text)).strip()
    )


@value
class ScriptRequest:
    """A request, independent of its vendor."""

    model: str
    system: str
    said: tuple[RequestMessage, ...]
    tools: tuple[str, ...]
    streams: bool

    @property
    def prompt(self) -> str:
        """The last message that is not the model's, without notes between tags."""
        place = self._prompt()
        return "" if place is None else self.said[place].text

    @property
    def step(self) -> int:
        """The number of replies since the prompt."""
        speakers = ("user", *(one.by for one in self._since()))
        return sum(now == "model" and last != "model" for last, now in pairwise(speakers))

    @property
    def results(self) -> tuple[RequestMessage, ...]:
        """The tool results since the prompt."""
        return tuple(one for one in self._since() if one.by == "tool")

    def _since(self) -> tuple[RequestMessage, ...]:
        place = self._prompt()
        return self.said if place is None else self.said[place + 1 :]

    def _prompt(self) -> int | None:
        places = (place for place, one in enumerate(self.said) if one.by == "user" and one.text)
        return max(places, default=None)


class Script:
    """Finds the reply to each request: by a rule, else the next in order."""

    def __init__(self, answers: Sequence[Answer] = (), rules: Iterable[Rule] = ()) -> None:
        """Take replies that are given once each, in order, and rules that always apply."""
        self._answers = list(answers)
        self._rules = tuple(rules)
        self._given = 0

    def answer(self, asked: ScriptRequest) -> tuple[Answer, str | None]:
        """Return the reply of the first matching rule, with its name, else the next in order.

        Without a reply it fails with a status that no client retries.
        """
        for rule in self._rules:
            if rule.holds(asked):
                answer = rule.answer(asked.step)
                ended = Failure(400, f"the rule for {rule.prompt!r} has no more answers")
                return _filled(answer, asked) if answer else ended, rule.name
        if self._given < len(self._answers):
            self._given += 1
            return _filled(self._answers[self._given - 1], asked), None
        if self._answers:
            return Failure(400, f"the script ended after {self._given} answers"), None
        return Failure(400, f"nothing is scripted for {asked.prompt[-200:]!r}"), None


def _filled(answer: Answer, asked: ScriptRequest) -> Answer:
    """Return a reply with every ``MatchedRule`` replaced by what it matched."""
    if isinstance(answer, Failure):
        return answer
    try:
        calls = tuple(
            replace(call, arguments=_found(call.arguments, asked)) for call in answer.calls
        )
    except LookupError as error:
        return Failure(400, str(error))
    return replace(answer, calls=calls)


def _found(value: Any, asked: ScriptRequest) -> Any:
    if isinstance(value, MatchedRule):
        for result in reversed(asked.results):
            if match := re.search(value.pattern, result.text):
                return match[1]
        raise LookupError(f"no tool has returned {value.pattern!r}")
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {name: _found(one, asked) for name, one in members.items()}
    if isinstance(value, list | tuple):
        return [_found(one, asked) for one in cast("Sequence[Any]", value)]
    return value
