"""What a policy decides about a call, and how its answer is read.

Pure. An answer that cannot be read is not a decision: the caller denies.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast, get_args

from turntree.core.canonical import Json, canonical
from turntree.core.errors import InvalidOperation, NotCanonical
from turntree.core.ids import Digest
from turntree.core.value import value

Verdict = Literal["allow", "deny", "ask", "rewrite"]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
REASON_CHARS_MAX: Final = 1000
ASKED_MAX: Final = 32
_HUMAN: Final = re.compile(r"human:[^\s\x00-\x1f\x7f]{1,200}")
_MEMBERS: Final = frozenset({"decision", "reason", "args", "ask"})


@value
class PolicyDecision:
    """A verdict about one call."""

    verdict: Verdict
    reason: str = ""
    policy: Digest | None = None
    """Digest of the policy that decided; None if no policy was asked."""
    args: Json = None
    """The arguments to use instead, of a rewrite."""
    ask: tuple[str, ...] = ()
    """Who may answer, of a question: principals as texts; none for the default."""
    line: int | None = None
    """The line of the policy that decided, or at which it failed, if known."""
    has_failed: bool = False
    """Whether the policy gave no decision of its own, which denies."""

    def to_json(self) -> dict[str, Any]:
        """Return the decision as a document."""
        document: dict[str, Any] = {"decision": self.verdict, "reason": self.reason}
        document |= {"policy": self.policy} if self.policy else {}
        document |= {"args": self.args} if self.verdict == "rewrite" else {}
        document |= {"ask": [*self.ask]} if self.ask else {}
        return document | ({"line": self.line} if self.line is not None else {})


def read_decision(document: object, *, policy: Digest | None = None) -> PolicyDecision:
    """Return the decision that a policy answered with: a verdict, or an object with more.

    Raises:
        InvalidOperation: It is neither, or one of its members does not fit.
    """
    if isinstance(document, str):
        document = {"decision": document}
    if not isinstance(document, Mapping):
        raise InvalidOperation(f"{_shown(document)} is not a decision")
    members = cast("Mapping[str, Any]", document)
    if strange := [str(name) for name in members if name not in _MEMBERS]:
        raise InvalidOperation(f"{strange[0][:60]!r} is not a member of a decision")
    verdict: Verdict | None = next(
        (one for one in VERDICTS if one == members.get("decision")), None
    )
    if verdict is None:
        raise InvalidOperation(f"{_shown(members.get('decision'))} is not a decision")
    reason = members.get("reason", "")
    if not isinstance(reason, str):
        raise InvalidOperation(f"the reason {_shown(reason)} is not a text")
    if (verdict == "rewrite") is not ("args" in members):
        raise InvalidOperation("a rewrite needs args, and no other decision may have them")
    try:
        canonical(members.get("args"))
    except NotCanonical as error:
        raise InvalidOperation(f"the args of a rewrite: {error}") from error
    return PolicyDecision(
        verdict,
        reason[:REASON_CHARS_MAX],
        policy,
        members.get("args"),
        _read_answerers(members.get("ask", ()), verdict),
    )


def _read_answerers(given: object, verdict: Verdict) -> tuple[str, ...]:
    if not isinstance(given, list | tuple):
        raise InvalidOperation(f"{_shown(given)} is not a list of people to ask")
    if given and verdict != "ask":
        raise InvalidOperation(f"only the decision 'ask' names people, not {verdict!r}")
    people = cast("Sequence[object]", given)
    # Agents, schedules and webhooks never approve, even if a policy names them.
    if wrong := [one for one in people if not (isinstance(one, str) and _HUMAN.fullmatch(one))]:
        raise InvalidOperation(f"{_shown(wrong[0])} is not a person to ask, such as human:ana")
    if len(people) > ASKED_MAX:
        raise InvalidOperation(f"a decision asks at most {ASKED_MAX} people")
    return tuple(one for one in people if isinstance(one, str))


def _shown(strange: object) -> str:
    return repr(strange)[:60]
