"""What a scripted model says, and when: replies, rules, and how the next reply is found.

Knows what a request to a model asks for, whoever's words it was put in. Must never know a wire
format or a socket: the dialects read and write those, and the server carries them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias, cast

from turntree.core.usage import Usage
from turntree.core.value import value

MODEL = "scripted-1"
"""The model that answers when a request names none."""
USAGE = Usage(input=10, output=5)
"""What a reply used, unless it says otherwise."""

# Programs put notes for the model between tags: reminders, the environment, a date. Nobody
# typed those, so they are no prompt.
_NOTE = re.compile(r"\s*<([\w-]+)(?: [^>]*)?>.*</\1(?: [^>]*)?>\s*", re.DOTALL)


@value
class MatchedRule:
    """Stands in the arguments of a call for what a tool has returned since the prompt."""

    pattern: str
    """Its first group is taken from the latest result that it is found in."""


@value
class Call:
    """A tool that a reply asks for."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    """Text is sent as it stands, so that a script can hold what is no JSON at all.

    Anthropic's and Google's formats carry values instead of text: there it has to be JSON.
    """
    id: str | None = None
    """None for an id that no other call of any server has."""
    namespace: str | None = None
    """Where the tool stands, in the one format that keeps tools in namespaces: Responses."""


@value
class Failure:
    """What the server says instead of a reply, in the error format of whoever asked."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    code: str | None = None
    """The vendor's word for it, where its format has a place for one."""


@value
class Break:
    """A stream that ends too early."""

    after: int
    """How many of its events arrive."""
    failure: Failure | None = None
    """What is said in the stream before it ends; None for one that just ends."""
    is_reset: bool = False
    """The connection breaks instead of ending."""


@value
class Reply:
    """What the model says once: thoughts, then words, then calls, and what that used."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    usage: Usage = USAGE
    signature: str | None = None
    """What the thoughts are signed with, where the format has a place for it."""
    breaks: Break | None = None
    pause_s: float = 0.0
    """How long a stream is silent before each of its events."""


Answer: TypeAlias = Reply | Failure


@value
class Rule:
    """Answers for one kind of prompt: the first for the prompt itself, the next after its tools.

    Everything that is set has to hold. The patterns are searched for, so an empty one always
    holds. After the last answer it is given again, unless it asks for tools: a loop that
    never ended would be of no use to a test.
    """

    answers: tuple[Answer, ...]
    prompt: str = ""
    """A pattern for what was said last by whoever is not the model."""
    system: str = ""
    """A pattern for the instructions."""
    offers: str | None = None
    """A tool that the request must offer."""
    name: str | None = None
    """What the log calls a request that this rule answered."""

    def holds(self, asked: "ScriptRequest") -> bool:
        """Say whether a request is of this kind."""
        return (
            re.search(self.prompt, asked.prompt) is not None
            and re.search(self.system, asked.system) is not None
            and (self.offers is None or self.offers in asked.tools)
        )

    def answer(self, step: int) -> Answer | None:
        """Return the answer for a step, or None after the last."""
        if step < len(self.answers):
            return self.answers[step]
        last = self.answers[-1] if self.answers else None
        return None if isinstance(last, Reply) and last.calls else last


@value
class RequestMessage:
    """One piece of what a request holds."""

    by: Literal["user", "model", "tool"]
    text: str
    call: str | None = None
    """For a tool's result, the id of the call."""


def said_by_user(texts: Iterable[str]) -> RequestMessage:
    """Return what is left of a message when the notes between tags are taken out."""
    return RequestMessage(
        "user", "\n".join(text for text in texts if not _NOTE.fullmatch(text)).strip()
    )


@value
class ScriptRequest:
    """What a request asks for, in no vendor's words."""

    model: str
    system: str
    said: tuple[RequestMessage, ...]
    tools: tuple[str, ...]
    streams: bool

    @property
    def prompt(self) -> str:
        """What was said last by whoever is not the model; notes between tags are not in it."""
        place = self._prompt()
        return "" if place is None else self.said[place].text

    @property
    def step(self) -> int:
        """How many replies the model has given since the prompt."""
        speakers = ("user", *(one.by for one in self._since()))
        return sum(now == "model" and last != "model" for last, now in pairwise(speakers))

    @property
    def results(self) -> tuple[RequestMessage, ...]:
        """What tools have returned since the prompt."""
        return tuple(one for one in self._since() if one.by == "tool")

    def _since(self) -> tuple[RequestMessage, ...]:
        place = self._prompt()
        return self.said if place is None else self.said[place + 1 :]

    def _prompt(self) -> int | None:
        places = (place for place, one in enumerate(self.said) if one.by == "user" and one.text)
        return max(places, default=None)


class Script:
    """Finds the answer to each request: by a rule, else the next of those that come in order."""

    def __init__(self, answers: Sequence[Answer] = (), rules: Iterable[Rule] = ()) -> None:
        """Take answers that are given once each, in order, and rules that hold for ever."""
        self._answers = list(answers)
        self._rules = tuple(rules)
        self._given = 0

    def answer(self, asked: ScriptRequest) -> tuple[Answer, str | None]:
        """Return what the first rule that holds says, with its name, else the next in order.

        A script that has nothing to say fails with a status that no client tries again.
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
    """Return an answer with what was found in the place of each ``MatchedRule``."""
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
