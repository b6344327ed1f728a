"""Approvals: what a person is asked before a tool call is made, and what they may answer.

A request binds one call: its arguments by their digest, the policy that asked, the people who may
answer and the time until which they may. The answer allows exactly these arguments, once.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from turntree.core.canonical import Json
from turntree.core.errors import Ambiguous, Hint, InvalidOperation, NotFound
from turntree.core.ids import (
    Digest,
    RunId,
    SessionId,
    Timestamp,
    derived_id,
    instant,
    unix_ms,
)
from turntree.core.pattern import pattern
from turntree.core.principal import Principal
from turntree.core.value import value

ApprovalKind = Literal["call", "question", "foreign_call"]
"""A call of a run, a question of a tool in the middle of one, or a call of another coding agent."""
ApprovalState = Literal[
    "pending", "approved", "edited", "rejected", "answered", "expired", "canceled", "used"
]
Decided = Literal["approved", "edited", "rejected", "answered"]
EXPIRES_S: Final = 7 * 24 * 60 * 60
"""How long a request waits, unless a setting says otherwise."""
EXPIRES_MIN_S: Final = 60
EXPIRES_MAX_S: Final = 365 * 24 * 60 * 60
NOTE_CHARS_MAX: Final = 2_000
ID_TAIL_CHARS: Final = 8
"""The characters of an id that are shown: its end, because ids of one moment begin alike."""
_OPEN: Final[frozenset[ApprovalState]] = frozenset({"pending", "approved", "edited", "answered"})
_DURATION: Final = pattern(r"(\d{1,6})([mhdw])")
_UNIT_S: Final = {"m": 60, "h": 60 * 60, "d": 24 * 60 * 60, "w": 7 * 24 * 60 * 60}


@value
class Approval:
    """A request to a person, and their answer."""

    id: str
    kind: ApprovalKind
    state: ApprovalState
    tool: str
    origin: str
    """Which agent asks: ``turntree``, ``claude-code`` or ``codex``."""
    args: Mapping[str, Json] | None
    """None once the call is part of a sealed turn, which has them, or was erased."""
    args_digest: Digest
    reason: str
    requested_by: str
    answerers: tuple[str, ...]
    """The people who may answer, with those to whom it was escalated."""
    created_at: Timestamp
    expires_at: Timestamp
    run: RunId | None = None
    session: SessionId | None = None
    label: str | None = None
    """The label of the session."""
    call_id: str | None = None
    folder: str | None = None
    """Where another coding agent works."""
    policy: Digest | None = None
    line: int | None = None
    """The line of the policy that decided."""
    question: Mapping[str, Json] | None = None
    decided_by: str | None = None
    decided_at: Timestamp | None = None
    note: str | None = None
    answer: Json = None
    """The edited arguments, or the answer to a question."""
    allowed_digest: Digest | None = None
    """The digest of the arguments that may run."""
    used_at: Timestamp | None = None

    def verdict_at(self, now: Timestamp) -> ApprovalState:
        """Return what holds now: what was not used until it expired allows nothing."""
        return "expired" if self.state in _OPEN and self.expires_at <= now else self.state

    @property
    def ending(self) -> str:
        """Why the request does not wait any more, as a sentence."""
        short = self.id[-ID_TAIL_CHARS:]
        if self.decided_by is not None and self.decided_by.startswith("human:"):
            state = "approved" if self.state == "used" else self.state
            return (
                f"{short} was answered already: {state} by {self.decided_by} at {self.decided_at}"
            )
        return f"{short} was canceled" if self.state == "canceled" else f"{short} has expired"

    @property
    def allowed_args(self) -> Mapping[str, Json] | None:
        """The arguments that may run; None while nothing is allowed."""
        if self.state == "edited":
            return self.answer if isinstance(self.answer, Mapping) else None
        return self.args if self.state == "approved" else None

    def may_be_answered_by(self, principal: Principal) -> bool:
        """Return whether a principal may answer: a person who is asked and acts directly."""
        is_person = principal.kind == "human" and principal.on_behalf_of is None
        return is_person and str(principal) in self.answerers


@value
class ForeignCall:
    """A call that another coding agent wants to make."""

    origin: str
    tool: str
    args: Mapping[str, Json]
    key: str
    """The same key names the same request, for as long as it waits or is allowed and unused."""
    call_id: str | None = None
    session: SessionId | None = None
    folder: str | None = None
    policy: Digest | None = None
    line: int | None = None
    reason: str = ""
    answerers: tuple[str, ...] = ()
    """Named by the policy; otherwise the person whose agent it is."""
    id: str | None = None
    """The id of the request, where it was made without the ledger; the same id is one request."""
    at: Timestamp | None = None
    """When the agent asked; None for now."""


def approval_id(run: str, call_id: str, at: Timestamp) -> str:
    """Return the id of the request about a call of a run."""
    return derived_id(unix_ms(at), "approval", run, call_id)


def expiry_after(at: Timestamp, expires_s: int) -> Timestamp:
    """Return when a request that is made at a time expires."""
    return instant(unix_ms(at) + expires_s * 1000)


def read_duration(text: str) -> int:
    """Return the seconds of ``30m``, ``12h``, ``7d`` or ``2w``.

    Raises:
        InvalidOperation: It is not a duration, or too short or too long.
    """
    found = _DURATION.fullmatch(text)
    seconds = 0 if found is None else int(found[1]) * _UNIT_S[found[2]]
    if not EXPIRES_MIN_S <= seconds <= EXPIRES_MAX_S:
        raise InvalidOperation(f"{text[:40]!r} is not a duration: write 12h, 7d or 2w, up to 365d")
    return seconds


def find_request(
    given: str | None, waiting: Sequence[Approval], over: Sequence[Approval] = ()
) -> Approval:
    """Return the request that the beginning or the end of an id names; None names the only one.

    ``over`` are requests that do not wait any more: the error says what became of the one that is
    named.

    Raises:
        NotFound: No request that waits has such an id.
        InvalidOperation: The request was decided, has expired or was canceled.
        Ambiguous: Several could be meant.
    """
    match [one for one in waiting if given is None or _is_named(one, given)]:
        case [only]:
            return only
        case []:
            for one in over:
                if given is not None and _is_named(one, given):
                    raise InvalidOperation(one.ending, hint=Hint("approval.list"))
            what = "nothing waits" if given is None else f"no request {given[:80]!r} waits"
            raise NotFound(f"{what} to be decided", hint=Hint("approval.list"))
        case named:
            raise Ambiguous(f"{len(named)} requests wait: name one", hint=Hint("approval.list"))


def _is_named(one: Approval, given: str) -> bool:
    # Ids of one moment begin alike, so their ends name them too.
    return bool(given) and (one.id.startswith(given) or one.id.endswith(given))
