"""The audit: permissions granted, used and denied, and the findings they lead to.

A grant, a use and a denial are events; this module writes and reads their data, and folds many of
them into one report. It judges by the recorded events alone: it must never ask what a principal may
do today.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from turntree.auth.delegation import DelegationChain
from turntree.auth.permissions import (
    EVERYTHING,
    Decision,
    Pattern,
    Permissions,
    Right,
    actions,
    holds,
)
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.event import Event
from turntree.core.ids import Digest, Timestamp, find_long_id
from turntree.core.principal import Principal
from turntree.core.value import value

GRANTED: Final = "permission.granted"
USED: Final = "permission.used"
DENIED: Final = "permission.denied"
KINDS: Final = (GRANTED, USED, DENIED)

_DIGITS: Final = 10
"""No stream has as many events as a number with this many digits."""

UNLIMITED: Final = frozenset((*EVERYTHING.allow, Pattern("action:read")))
"""Grants that are never reported as unused: those that limit nothing, and reading, which leaves no
event."""

FindingKind = Literal["ungranted", "widened", "unreadable", "denied", "unused"]


@value
class AuditGrant:
    """A grant of permissions: by an event, or by the permissions recorded with a turn."""

    session: str | None
    """The label of the session it happened in."""
    at: Timestamp
    who: Principal
    rights: Permissions
    is_widened: bool = False
    """Whether the permissions exceed what the delegation chain leaves of them."""


@value
class PermissionCheck:
    """A check of one permission: it was used, or it was denied."""

    session: str | None
    at: Timestamp
    who: Principal
    right: Right
    allowed: bool
    reason: str


@value
class UnreadableEvent:
    """A permission event whose data is malformed."""

    session: str | None
    at: Timestamp
    why: str


Fact: TypeAlias = AuditGrant | PermissionCheck | UnreadableEvent


@dataclass(frozen=True, slots=True, order=True)
class FactPosition:
    """Where a page of facts ends, so that the next one begins after it."""

    stream: str
    """The session or turn that the fact is about."""
    seq: int
    """The position of its event; ``BEFORE_EVENTS`` for what a turn itself says."""

    def __str__(self) -> str:
        """Return the text that ``parse`` reads."""
        return f"{self.stream}/{self.seq}"

    @classmethod
    def parse(cls, text: str) -> "FactPosition":
        """Return the position that a text denotes.

        Raises:
            InvalidOperation: It is not a position.
        """
        stream, _, seq = text.rpartition("/")
        known = find_long_id(stream)
        digits = seq.removeprefix("-")
        if known is None or not (digits.isascii() and digits.isdigit() and len(digits) < _DIGITS):
            raise InvalidOperation(f"{text!r} is not a position in an audit")
        return cls(known, int(seq))


BEFORE_EVENTS: Final = -1
FIRST_FACT: Final = FactPosition("00000000-0000-0000-0000-000000000000", BEFORE_EVENTS)
"""Before every fact."""


@value
class FactPage:
    """Some facts, and where the next page begins."""

    facts: tuple[Fact, ...]
    next: FactPosition | None
    """Pass it as ``after``; None at the end."""


@value
class AuditRow:
    """How often a principal was granted, used or was denied a permission in a session."""

    session: str | None
    who: str
    right: str
    times: int
    last_at: Timestamp
    reason: str = ""


@value
class AuditFinding:
    """Something a person should look at."""

    kind: FindingKind
    session: str | None
    who: str
    right: str
    sentence: str


@value
class Audit:
    """The report; each list is sorted by session, principal and permission."""

    granted: tuple[AuditRow, ...]
    used: tuple[AuditRow, ...]
    denied: tuple[AuditRow, ...]
    unused: tuple[AuditRow, ...]
    findings: tuple[AuditFinding, ...]


def granted_data(chain: DelegationChain, *, persona: Digest | None = None) -> dict[str, Json]:
    """Return the data of a grant event."""
    said: dict[str, Json] = {
        "by": chain.principal.to_json(),
        "links": chain.to_json(),
        "permissions": chain.rights.to_json(),
        "persona": persona,
    }
    return {name: value for name, value in said.items() if value is not None}


def judged_data(who: Principal, decision: Decision) -> dict[str, Json]:
    """Return the data of a use or denial event."""
    said: dict[str, Json] = {
        "by": who.to_json(),
        "permission": decision.right,
        "reason": decision.reason,
        "pattern": decision.pattern,
    }
    return {name: value for name, value in said.items() if value is not None}


def kind_of(decision: Decision) -> str:
    """Return the event kind of a decision."""
    return USED if decision.allowed else DENIED


def read_fact(event: Event, session: str | None) -> Fact:
    """Return what a grant, use or denial event says."""
    data: Mapping[str, Any] = event.data
    try:
        who = Principal.from_json(data["by"])
        if event.kind == GRANTED:
            chain, rights = (
                DelegationChain.from_json(data["links"]),
                Permissions.from_json(data["permissions"]),
            )
            widened = chain.principal != who or not rights.within(chain.rights)
            return AuditGrant(session, event.at, who, rights, widened)
        return PermissionCheck(
            session, event.at, who, Right(data["permission"]), event.kind == USED, data["reason"]
        )
    except (AttributeError, KeyError, TypeError, InvalidOperation) as error:
        # An audit is asked for when something went wrong: one unreadable event must not hide the
        # others, so it becomes a finding.
        return UnreadableEvent(session, event.at, f"{event.kind} cannot be read: {error}")


def read_share(event: Event, session: str | None) -> Fact:
    """Return what an event says that granted access to a session."""
    data: Mapping[str, Any] = event.data
    try:
        kind, _, id = data["to"].partition(":")
        who = Principal.from_json({"kind": kind, "id": id})
        return AuditGrant(session, event.at, who, Permissions(actions(data["access"])))
    except (AttributeError, KeyError, TypeError, InvalidOperation) as error:
        return UnreadableEvent(session, event.at, f"{event.kind} cannot be read: {error}")


def read_turn(
    session: str | None,
    at: Timestamp,
    who: Principal,
    permissions: Mapping[str, Any],
    tools: Iterable[str],
) -> list[Fact]:
    """Return what a sealed turn says: its recorded permissions and the tools it used."""
    try:
        granted: Fact = AuditGrant(session, at, who, Permissions.from_json(permissions))
    except (TypeError, InvalidOperation) as error:
        granted = UnreadableEvent(session, at, f"the permissions of a turn cannot be read: {error}")
    uses = [
        PermissionCheck(
            session, at, who, Right(f"tool:{tool}"), allowed=True, reason="the turn used it"
        )
        for tool in tools
    ]
    return [granted, *uses]


def concerns(fact: Fact, agent: str) -> bool:
    """Whether an agent acts in a fact, or another principal acts on its behalf."""
    acting: Principal | None = None if isinstance(fact, UnreadableEvent) else fact.who
    while acting is not None:
        if (acting.kind, acting.id) == ("agent", agent):
            return True
        acting = acting.on_behalf_of
    return False


def audit(facts: Iterable[Fact], *, since: Timestamp | None = None) -> Audit:
    """Return the report on facts, which must be in order of time.

    Grants from before ``since`` count, because later uses rely on them; uses and denials from
    before it are left out.
    """
    tallies: dict[_Holder, _Tally] = {}
    strange: list[AuditFinding] = []
    for fact in facts:
        if isinstance(fact, UnreadableEvent):
            if since is None or fact.at >= since:
                strange.append(AuditFinding("unreadable", fact.session, "", "", fact.why))
            continue
        tally = tallies.setdefault((fact.session, _told(fact.who)), _Tally({}, {}, {}, {}, []))
        if isinstance(fact, AuditGrant):
            tally.grant(fact)
        elif since is None or fact.at >= since:
            tally.judge(fact)
    order = sorted(tallies, key=lambda holder: (holder[0] or "", holder[1]))
    folded = [(holder, tallies[holder]) for holder in order]
    return Audit(
        granted=_rows((holder, tally.granted) for holder, tally in folded),
        used=_rows((holder, tally.used) for holder, tally in folded),
        denied=_rows((holder, tally.denied) for holder, tally in folded),
        unused=_rows((holder, tally.unused) for holder, tally in folded),
        findings=(*strange, *(one for holder, tally in folded for one in tally.findings(holder))),
    )


_Holder: TypeAlias = tuple[str | None, str]
"""A session and the principal that acted in it."""


@value
class _Count:
    times: int
    last_at: Timestamp
    reason: str


@dataclass(slots=True)
class _Tally:
    """The counts of one principal in one session."""

    granted: dict[str, _Count]
    used: dict[str, _Count]
    denied: dict[str, _Count]
    ungranted: dict[str, _Count]
    grants: list[Permissions]
    is_widened: bool = False

    def grant(self, fact: AuditGrant) -> None:
        self.grants.append(fact.rights)
        self.is_widened |= fact.is_widened
        for one in fact.rights.allow:
            _count(self.granted, one, fact.at, "")

    def judge(self, fact: PermissionCheck) -> None:
        if not fact.allowed:
            _count(self.denied, fact.right, fact.at, fact.reason)
            return
        _count(self.used, fact.right, fact.at, fact.reason)
        # Facts come in order, so a later grant does not justify an earlier use.
        if not any(rights.permits(fact.right) for rights in self.grants):
            _count(self.ungranted, fact.right, fact.at, fact.reason)

    @property
    def unused(self) -> dict[str, _Count]:
        return {
            one: count
            for one, count in self.granted.items()
            if one not in UNLIMITED
            and not any(holds(Pattern(one), Right(used)) for used in self.used)
        }

    def findings(self, holder: _Holder) -> Iterable[AuditFinding]:
        session, who = holder
        if self.is_widened:
            sentence = f"{who} was granted more than the chain of delegation leaves"
            yield AuditFinding("widened", session, who, "", sentence)
        for one, count in sorted(self.ungranted.items()):
            sentence = f"{who} used {one} {_often(count)} without a grant"
            yield AuditFinding("ungranted", session, who, one, sentence)
        for one, count in sorted(self.denied.items()):
            sentence = f"{who} was denied {one} {_often(count)}: {count.reason}"
            yield AuditFinding("denied", session, who, one, sentence)
        for one in sorted(self.unused):
            sentence = f"{who} was granted {one} and never used it"
            yield AuditFinding("unused", session, who, one, sentence)


def _count(counts: dict[str, _Count], key: str, at: Timestamp, reason: str) -> None:
    before = counts.get(key)
    counts[key] = _Count(1 if before is None else before.times + 1, at, reason)


def _rows(folded: Iterable[tuple[_Holder, Mapping[str, _Count]]]) -> tuple[AuditRow, ...]:
    return tuple(
        AuditRow(session, who, one, count.times, count.last_at, count.reason)
        for (session, who), counts in folded
        for one, count in sorted(counts.items())
    )


def _told(who: Principal) -> str:
    """Return who acts for whom: ``agent:atlas for human:ana``."""
    names: list[str] = []
    acting: Principal | None = who
    while acting is not None:
        names.append(str(acting))
        acting = acting.on_behalf_of
    return " for ".join(names)


def _often(count: _Count) -> str:
    return "once" if count.times == 1 else f"{count.times} times"
